//! Reading what the broker sent. Every irregularity is a failure of the broker, so the errors are sentences that name
//! the statement.

/// The fault of a packet, with the broken statement if there is one.
pub(crate) type Fault = String;

/// A cursor over the body of a received packet.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `length` bytes.
    pub(crate) fn take(&mut self, length: usize, what: &str) -> Result<&'a [u8], Fault> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            let left = self.rest.len();
            return Err(format!("the packet ends within {what}: {length} bytes needed, {left} left"));
        };
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self, what: &str) -> Result<u8, Fault> {
        Ok(self.take(1, what)?.iter().fold(0, |_, byte| *byte))
    }

    pub(crate) fn two(&mut self, what: &str) -> Result<u16, Fault> {
        let bytes = self.take(2, what)?;
        Ok(bytes.iter().fold(0, |value, byte| (value << 8) | u16::from(*byte)))
    }

    pub(crate) fn four(&mut self, what: &str) -> Result<u32, Fault> {
        let bytes = self.take(4, what)?;
        Ok(bytes.iter().fold(0, |value, byte| (value << 8) | u32::from(*byte)))
    }

    /// A Variable Byte Integer, which has to use the fewest bytes [MQTT-1.5.5-1].
    pub(crate) fn variable(&mut self, what: &str) -> Result<usize, Fault> {
        match read_variable(self.rest)? {
            Some((value, length)) => {
                self.take(length, what)?;
                Ok(value)
            }
            None => Err(format!("the packet ends within {what}")),
        }
    }

    pub(crate) fn binary(&mut self, what: &str) -> Result<&'a [u8], Fault> {
        let length = self.two(what)?;
        self.take(usize::from(length), what)
    }

    /// A UTF-8 Encoded String: well-formed and without U+0000 [MQTT-1.5.4-1], [MQTT-1.5.4-2].
    pub(crate) fn text(&mut self, what: &str) -> Result<String, Fault> {
        let bytes = self.binary(what)?;
        let text = std::str::from_utf8(bytes)
            .map_err(|error| format!("MQTT-1.5.4-1: {what} is not well-formed UTF-8: {error}"))?;
        if text.contains('\0') {
            return Err(format!("MQTT-1.5.4-2: {what} contains U+0000"));
        }
        Ok(text.to_owned())
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Fails when bytes are left over.
    pub(crate) fn finish(&self, what: &str) -> Result<(), Fault> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(format!("{} bytes after the end of {what}", self.rest.len()))
    }
}

/// Reads a Variable Byte Integer: its value and how many bytes it took, or nothing when more bytes are needed.
pub(crate) fn read_variable(bytes: &[u8]) -> Result<Option<(usize, usize)>, Fault> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            if *byte == 0 && index > 0 {
                return Err("MQTT-1.5.5-1: a variable byte integer uses more bytes than needed".to_owned());
            }
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() >= 4 {
        return Err("a variable byte integer of more than four bytes".to_owned());
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_byte_integers_are_read_strictly() {
        assert_eq!(read_variable(&[0x80]), Ok(None));
        assert_eq!(read_variable(&[0x80, 0x01, 9]), Ok(Some((128, 2))));
        assert!(read_variable(&[0x80, 0x00]).is_err());
        assert!(read_variable(&[0xff, 0xff, 0xff, 0xff]).is_err());
    }

    #[test]
    fn strings_are_checked() {
        assert_eq!(Reader::new(&[0, 2, b'a', b'b']).text("it"), Ok("ab".to_owned()));
        assert!(Reader::new(&[0, 1, 0]).text("it").is_err());
        assert!(Reader::new(&[0, 1, 0xff]).text("it").is_err());
        assert!(Reader::new(&[0, 3, b'a']).text("it").is_err());
    }
}
