//! The text of a message's origin, for pipelines of the hub: `ID TIME CLIENT`, where the client id may have blanks. A known
//! host follows the time, `ID TIME@HOST CLIENT`, and a known user name with its bytes follows that:
//! `ID TIME@HOST/BYTES USER CLIENT`. The host may be empty.

use crate::topics::origin::HEAD;
use std::fmt::Display;

/// Writes origins. Origins of one millisecond differ in number and client id only, so their other parts are kept as text.
#[derive(Debug)]
pub(crate) struct OriginWriter {
    /// The origin and the time of the kept parts.
    of: (u64, u64),
    /// The begin of the property up to the number, without its length.
    head: Vec<u8>,
    /// A blank and the time.
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
    /// Appends the property with origin, number and time (Unix milliseconds). `publisher` is a text of [`at_host`], or
    /// empty; it is left out where it is too long. Appends nothing when the client id is too long.
    pub(crate) fn append(&mut self, numbers: (u64, u64, u64), (publisher, client_id): (&str, &str), out: &mut Vec<u8>) {
        if !self.append_whole(numbers, (publisher, client_id), out) {
            self.append_whole(numbers, ("", client_id), out);
        }
    }

    fn append_whole(
        &mut self,
        (origin, number, unix): (u64, u64, u64),
        (publisher, client_id): (&str, &str),
        out: &mut Vec<u8>,
    ) -> bool {
        if self.of != (origin, unix) {
            self.keep((origin, unix));
        }
        let begin = out.len();
        out.extend_from_slice(&self.head);
        put_decimal(number, out);
        out.extend_from_slice(&self.time);
        out.extend_from_slice(publisher.as_bytes());
        out.push(b' ');
        out.extend_from_slice(client_id.as_bytes());
        let (len_at, behind_len) = (begin + LEN_AT, begin + LEN_AT + 2);
        let place = u16::try_from(out.len() - behind_len).ok().zip(out.get_mut(len_at..behind_len));
        match place {
            Some((len, place)) => place.copy_from_slice(&len.to_be_bytes()),
            None => out.truncate(begin),
        }
        out.len() > begin
    }

    /// Writes the parts that the next messages share.
    fn keep(&mut self, (origin, unix): (u64, u64)) {
        self.of = (origin, unix);
        self.head = format!("{}\0\0{origin:016x}-", String::from_utf8_lossy(HEAD)).into_bytes();
        self.time = format!(" {unix}").into_bytes();
    }
}

/// The text for the host of a publisher.
pub(crate) fn at_host(host: &(impl Display + ?Sized)) -> Box<str> {
    format!("@{host}").into()
}

/// The same with the name of its user.
pub(crate) fn with_user(host: Option<Box<str>>, user_name: Option<&str>) -> Option<Box<str>> {
    match user_name {
        Some(user) => Some(format!("{}/{} {user}", host.as_deref().unwrap_or("@"), user.len()).into()),
        None => host,
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
            writer.append(numbers, ("", "pump 7"), &mut out);
            let value = format!("{origin:016x}-{number} {unix} pump 7");
            let len = (value.len() as u16).to_be_bytes();
            assert_eq!(out, [&b"before"[..], HEAD, &len, value.as_bytes()].concat());
        }
        let mut out = b"before".to_vec();
        writer.append((1, 1, 1), ("", &"x".repeat(65_535)), &mut out);
        assert_eq!(out, b"before");
    }

    #[test]
    fn the_property_has_host_and_user_of_the_publisher() {
        let value = |host: Option<&str>, user: Option<&str>| {
            let publisher = with_user(host.map(at_host), user);
            let mut out = Vec::new();
            OriginWriter::default().append((7, 1, 17), (publisher.as_deref().unwrap_or_default(), "pump 7"), &mut out);
            String::from_utf8(out.split_off(HEAD.len() + 2)).unwrap()
        };
        let id = "0000000000000007-1";
        assert_eq!(value(None, None), format!("{id} 17 pump 7"));
        assert_eq!(value(Some("192.0.2.7"), None), format!("{id} 17@192.0.2.7 pump 7"));
        assert_eq!(value(Some("2001:db8::7"), Some("ann b")), format!("{id} 17@2001:db8::7/5 ann b pump 7"));
        assert_eq!(value(None, Some("")), format!("{id} 17@/0  pump 7"));
        let long = "u".repeat(65_535);
        assert_eq!(value(Some("192.0.2.7"), Some(&long)), format!("{id} 17 pump 7"), "too long for the property");
    }
}
