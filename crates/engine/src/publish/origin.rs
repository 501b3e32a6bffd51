//! The text of a message's origin, for pipelines of the hub.

use crate::topics::origin::HEAD;

/// Writes origins. Origins of one millisecond differ in number and client id only, so their other parts are kept as text.
#[derive(Debug)]
pub(crate) struct OriginWriter {
    /// The origin and the time of the kept parts.
    of: (u64, u64),
    /// The begin of the property up to the number, without its length.
    head: Vec<u8>,
    /// The time between two blanks.
    time: Vec<u8>,
}

impl Default for OriginWriter {
    fn default() -> Self {
        let mut writer = Self { of: (0, 0), head: Vec::new(), time: Vec::new() };
        writer.keep((0, 0));
        writer
    }
}

/// The index of the length of the property's value.
const LEN_AT: usize = HEAD.len();

impl OriginWriter {
    /// Appends the property with origin, number and time (Unix milliseconds), or nothing when the client id is too long for it.
    pub(crate) fn append(&mut self, (origin, number, unix): (u64, u64, u64), client_id: &str, out: &mut Vec<u8>) {
        if self.of != (origin, unix) {
            self.keep((origin, unix));
        }
        let begin = out.len();
        out.extend_from_slice(&self.head);
        put_decimal(number, out);
        out.extend_from_slice(&self.time);
        out.extend_from_slice(client_id.as_bytes());
        let (len_at, behind_len) = (begin + LEN_AT, begin + LEN_AT + 2);
        match (u16::try_from(out.len() - behind_len), out.get_mut(len_at..behind_len)) {
            (Ok(len), Some(place)) => place.copy_from_slice(&len.to_be_bytes()),
            _ => out.truncate(begin),
        }
    }

    /// Writes the parts that the next messages share.
    fn keep(&mut self, (origin, unix): (u64, u64)) {
        self.of = (origin, unix);
        self.head = format!("{}\0\0{origin:016x}-", String::from_utf8_lossy(HEAD)).into_bytes();
        self.time = format!(" {unix} ").into_bytes();
    }
}

/// Decimal digits, without zeros in front.
fn put_decimal(mut number: u64, out: &mut Vec<u8>) {
    // As many as the largest number has.
    let mut digits = [b'0'; 20];
    let mut begin = digits.len() - 1;
    for (place, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        begin = place;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[begin..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_property_has_id_time_and_client_id() {
        let mut writer = OriginWriter::default();
        let time = 1_700_000_000_123;
        for numbers in
            [(0, 0, 0), (0xFEDC_BA98_7654_3210, 10, time), (7, 11, time), (7, 12, time), (u64::MAX, u64::MAX, u64::MAX)]
        {
            let (origin, number, unix) = numbers;
            let mut out = b"before".to_vec();
            writer.append(numbers, "pump 7", &mut out);
            let value = format!("{origin:016x}-{number} {unix} pump 7");
            let len = (value.len() as u16).to_be_bytes();
            assert_eq!(out, [&b"before"[..], HEAD, &len, value.as_bytes()].concat());
        }
        let mut out = b"before".to_vec();
        writer.append((1, 1, 1), &"x".repeat(65_535), &mut out);
        assert_eq!(out, b"before");
    }
}
