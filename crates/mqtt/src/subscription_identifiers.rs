//! The Subscription Identifiers of a PUBLISH packet.

use crate::PropertyId;
use crate::property::RawProperties;

/// The greatest Subscription Identifier; the smallest is 1.
pub const MAX_SUBSCRIPTION_IDENTIFIER: u32 = crate::varint::MAX_VARINT;

/// The identifiers of the subscriptions that a PUBLISH packet was sent for ([MQTT-3.3.4-3]), in the order of
/// the packet. Decoded packets keep the bytes and read the identifiers when asked.
#[derive(Clone, Copy)]
pub struct SubscriptionIdentifiers<'a>(Source<'a>);

#[derive(Clone, Copy)]
enum Source<'a> {
    /// A block of properties of any kind, which has been checked.
    Block(&'a [u8]),
    Numbers(&'a [u32]),
}

impl<'a> SubscriptionIdentifiers<'a> {
    /// No identifier.
    pub const EMPTY: Self = Self(Source::Numbers(&[]));

    /// Identifiers to be sent, each 1 to [`MAX_SUBSCRIPTION_IDENTIFIER`].
    pub const fn new(numbers: &'a [u32]) -> Self {
        Self(Source::Numbers(numbers))
    }

    pub(crate) const fn from_block(block: &'a [u8]) -> Self {
        Self(Source::Block(block))
    }

    /// The identifiers, in their order.
    pub fn iter(&self) -> SubscriptionIdentifiersIter<'a> {
        SubscriptionIdentifiersIter(match self.0 {
            Source::Block(block) => IterSource::Block(RawProperties::new(block)),
            Source::Numbers(numbers) => IterSource::Numbers(numbers.iter()),
        })
    }

    /// Whether there is no identifier.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl Default for SubscriptionIdentifiers<'_> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for SubscriptionIdentifiers<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for SubscriptionIdentifiers<'_> {}

impl std::fmt::Debug for SubscriptionIdentifiers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &SubscriptionIdentifiers<'a> {
    type Item = u32;
    type IntoIter = SubscriptionIdentifiersIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The iterator over [`SubscriptionIdentifiers`].
#[derive(Clone, Debug)]
pub struct SubscriptionIdentifiersIter<'a>(IterSource<'a>);

#[derive(Clone, Debug)]
enum IterSource<'a> {
    Block(RawProperties<'a>),
    Numbers(std::slice::Iter<'a, u32>),
}

impl Iterator for SubscriptionIdentifiersIter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterSource::Numbers(numbers) => numbers.next().copied(),
            IterSource::Block(properties) => {
                let mut property = properties.find(|property| property.id == PropertyId::SubscriptionIdentifier)?;
                property.value.varint("subscription identifier").ok()
            }
        }
    }
}
