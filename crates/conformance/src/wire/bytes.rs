//! The smallest builder of packets that lets a case write exactly the bytes it means, right or wrong.

/// A growing run of bytes with the data types of the specification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bytes(Vec<u8>);

impl Bytes {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    /// A Two Byte Integer.
    pub(crate) fn two(mut self, value: u16) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// A Four Byte Integer.
    pub(crate) fn four(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// A Variable Byte Integer of the fewest bytes.
    pub(crate) fn variable(mut self, value: usize) -> Self {
        self.0.extend_from_slice(&variable(value));
        self
    }

    /// A UTF-8 Encoded String: its length in two bytes, then its bytes.
    pub(crate) fn text(self, value: &str) -> Self {
        self.binary(value.as_bytes())
    }

    /// Binary Data: its length in two bytes, then its bytes. Also the way to write an ill-formed string.
    pub(crate) fn binary(self, value: &[u8]) -> Self {
        self.two(value.len() as u16).raw(value)
    }

    /// Bytes as they are.
    pub(crate) fn raw(mut self, value: &[u8]) -> Self {
        self.0.extend_from_slice(value);
        self
    }

    /// These bytes as the body of a packet: the first byte and the Remaining Length go in front.
    pub(crate) fn packet(self, first_byte: u8) -> Vec<u8> {
        let mut packet = vec![first_byte];
        packet.extend_from_slice(&variable(self.0.len()));
        packet.extend_from_slice(&self.0);
        packet
    }

    /// These bytes after their length as a Variable Byte Integer, as properties are written.
    pub(crate) fn with_variable_length(self) -> Vec<u8> {
        let mut run = variable(self.0.len());
        run.extend_from_slice(&self.0);
        run
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.0
    }
}

/// A Variable Byte Integer of the fewest bytes.
pub(crate) fn variable(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_byte_integers_match_the_table_of_the_specification() {
        assert_eq!(variable(0), [0x00]);
        assert_eq!(variable(127), [0x7f]);
        assert_eq!(variable(128), [0x80, 0x01]);
        assert_eq!(variable(16_383), [0xff, 0x7f]);
        assert_eq!(variable(16_384), [0x80, 0x80, 0x01]);
        assert_eq!(variable(268_435_455), [0xff, 0xff, 0xff, 0x7f]);
    }

    #[test]
    fn a_packet_carries_its_remaining_length() {
        let packet = Bytes::new().two(10).text("a/b").packet(0x82);
        assert_eq!(packet, [0x82, 7, 0, 10, 0, 3, b'a', b'/', b'b']);
    }
}
