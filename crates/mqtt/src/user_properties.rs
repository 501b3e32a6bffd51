//! User Properties, which a packet may carry more than once.

use crate::PropertyId;
use crate::property::RawProperties;

/// User Properties: pairs of a name and a value, in the order in which they were sent ([MQTT-3.3.2-18]).
/// Names may repeat. Decoded packets keep the bytes and read the pairs when asked.
#[derive(Clone, Copy)]
pub struct UserProperties<'a>(Source<'a>);

#[derive(Clone, Copy)]
enum Source<'a> {
    /// A block of properties of any kind, which has been checked.
    Block(&'a [u8]),
    Pairs(&'a [(&'a str, &'a str)]),
}

impl<'a> UserProperties<'a> {
    /// No pair.
    pub const EMPTY: Self = Self(Source::Pairs(&[]));

    /// Pairs to be sent. Each string may be up to 65,535 bytes long and must not hold U+0000.
    pub const fn new(pairs: &'a [(&'a str, &'a str)]) -> Self {
        Self(Source::Pairs(pairs))
    }

    pub(crate) const fn from_block(block: &'a [u8]) -> Self {
        Self(Source::Block(block))
    }

    /// The pairs, in their order.
    pub fn iter(&self) -> UserPropertiesIter<'a> {
        UserPropertiesIter(match self.0 {
            Source::Block(block) => IterSource::Block(RawProperties::new(block)),
            Source::Pairs(pairs) => IterSource::Pairs(pairs.iter()),
        })
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl Default for UserProperties<'_> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for UserProperties<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for UserProperties<'_> {}

impl std::fmt::Debug for UserProperties<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &UserProperties<'a> {
    type Item = (&'a str, &'a str);
    type IntoIter = UserPropertiesIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The iterator over [`UserProperties`].
#[derive(Clone, Debug)]
pub struct UserPropertiesIter<'a>(IterSource<'a>);

#[derive(Clone, Debug)]
enum IterSource<'a> {
    Block(RawProperties<'a>),
    Pairs(std::slice::Iter<'a, (&'a str, &'a str)>),
}

impl<'a> Iterator for UserPropertiesIter<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterSource::Pairs(pairs) => pairs.next().copied(),
            IterSource::Block(properties) => {
                let mut property = properties.find(|property| property.id == PropertyId::UserProperty)?;
                let name = property.value.string("user property name").ok()?;
                let value = property.value.string("user property value").ok()?;
                Some((name, value))
            }
        }
    }
}
