//! Values of DER [X.690], as far as certificates need them: tag, length, content.

/// A run of values.
#[derive(Clone, Copy, Debug)]
pub struct Der<'a>(&'a [u8]);

/// The tag of an integer.
pub const INTEGER: u8 = 0x02;
/// The tag of a bit string.
pub const BIT_STRING: u8 = 0x03;
/// The tag of a string of bytes.
pub const OCTET_STRING: u8 = 0x04;
/// The tag of an object identifier.
pub const OID: u8 = 0x06;
/// The tag of a sequence.
pub const SEQUENCE: u8 = 0x30;
/// The tag of a set.
pub const SET: u8 = 0x31;

impl<'a> Der<'a> {
    /// The values of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether no byte is left.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The tag of the next value.
    pub fn peek(self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The next value: its tag and its content. `None` at the end, and for invalid DER.
    #[expect(clippy::should_implement_trait, reason = "an iterator would not stay `Copy`")]
    pub fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest): (usize, _) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            // The input is shorter than 64 MiB: four bytes of length are enough.
            let count = usize::from(first & 0x7f);
            let (bytes, rest) = rest.split_at_checked(count).filter(|_| (1..=4).contains(&count))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// The content of the next value if it has this tag.
    pub fn value(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let (found, content) = ahead.next()?;
        (found == tag).then(|| {
            *self = ahead;
            content
        })
    }

    /// The values inside the next one, which has this tag.
    pub fn enter(&mut self, tag: u8) -> Option<Self> {
        self.value(tag).map(Der)
    }

    /// The next value if it has this tag, with tag and length, and its content.
    pub fn encoded(&mut self, tag: u8) -> Option<(&'a [u8], &'a [u8])> {
        let before = self.0;
        let content = self.value(tag)?;
        Some((&before[..before.len() - self.0.len()], content))
    }

    /// The bytes of the next value if it is a bit string of whole bytes.
    pub fn bits(&mut self) -> Option<&'a [u8]> {
        self.value(BIT_STRING)?.strip_prefix(&[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_each_other() {
        let mut der = Der::new(b"\x02\x01\x05\x30\x03\x04\x01\xff");
        assert_eq!(der.peek(), Some(INTEGER));
        assert_eq!(der.value(SEQUENCE), None);
        assert_eq!(der.value(INTEGER), Some(&b"\x05"[..]));
        let mut inner = der.enter(SEQUENCE).unwrap_or(Der::new(b""));
        assert_eq!(inner.next(), Some((OCTET_STRING, &b"\xff"[..])));
        assert_eq!((inner.next(), der.next()), (None, None));
    }

    #[test]
    fn an_encoded_value_has_its_tag_and_length() {
        let mut der = Der::new(b"\x30\x00\x03\x02\x00\x07");
        assert_eq!(der.encoded(SEQUENCE), Some((&b"\x30\x00"[..], &b""[..])));
        assert_eq!(der.encoded(SEQUENCE), None);
        assert_eq!((der.bits(), der.is_empty()), (Some(&b"\x07"[..]), true));
        assert_eq!(Der::new(b"\x03\x02\x01\x07").bits(), None, "seven bits");
    }

    #[test]
    fn long_lengths_and_truncated_values() {
        let long = [&b"\x04\x81\x80"[..], &[7; 128]].concat();
        assert_eq!(Der::new(&long).next(), Some((OCTET_STRING, &[7; 128][..])));
        for length in 0..long.len() {
            assert_eq!(Der::new(&long[..length]).next(), None);
        }
        assert_eq!(Der::new(b"\x04\x80").next(), None, "no end is no DER");
        assert_eq!(Der::new(b"\x04\x85\0\0\0\0\x01x").next(), None);
    }
}
