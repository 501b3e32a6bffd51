//! The Reason Codes in the payload of SUBACK and UNSUBACK packets.

use crate::ReasonCode;

/// One Reason Code for each Topic Filter of the packet that is answered, in the same order
/// ([MQTT-3.9.3-1], [MQTT-3.11.3-1]). Decoded packets keep the bytes.
#[derive(Clone, Copy)]
pub struct ReasonCodes<'a>(Source<'a>);

#[derive(Clone, Copy)]
enum Source<'a> {
    /// Bytes that were checked one by one.
    Bytes(&'a [u8]),
    Codes(&'a [ReasonCode]),
}

impl<'a> ReasonCodes<'a> {
    /// No code.
    pub const EMPTY: Self = Self(Source::Codes(&[]));

    /// Codes to be sent.
    pub const fn new(codes: &'a [ReasonCode]) -> Self {
        Self(Source::Codes(codes))
    }

    pub(crate) const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self(Source::Bytes(bytes))
    }

    /// How many codes there are.
    pub const fn len(&self) -> usize {
        match self.0 {
            Source::Bytes(bytes) => bytes.len(),
            Source::Codes(codes) => codes.len(),
        }
    }

    /// Whether there is no code.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The codes, in their order.
    pub fn iter(&self) -> ReasonCodesIter<'a> {
        ReasonCodesIter(match self.0 {
            Source::Bytes(bytes) => IterSource::Bytes(bytes.iter()),
            Source::Codes(codes) => IterSource::Codes(codes.iter()),
        })
    }
}

impl Default for ReasonCodes<'_> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for ReasonCodes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for ReasonCodes<'_> {}

impl std::fmt::Debug for ReasonCodes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &ReasonCodes<'a> {
    type Item = ReasonCode;
    type IntoIter = ReasonCodesIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The iterator over [`ReasonCodes`].
#[derive(Clone, Debug)]
pub struct ReasonCodesIter<'a>(IterSource<'a>);

#[derive(Clone, Debug)]
enum IterSource<'a> {
    Bytes(std::slice::Iter<'a, u8>),
    Codes(std::slice::Iter<'a, ReasonCode>),
}

impl Iterator for ReasonCodesIter<'_> {
    type Item = ReasonCode;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterSource::Bytes(bytes) => ReasonCode::from_byte(*bytes.next()?),
            IterSource::Codes(codes) => codes.next().copied(),
        }
    }
}
