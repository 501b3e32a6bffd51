//! A record: the usage of one payer in one period, as a line of text with its checksum.

use crate::period::Period;

/// Amounts of a payer. All of them can be added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Messages received from its clients.
    pub messages_in: u64,
    /// Messages sent to its clients.
    pub messages_out: u64,
    /// Bytes received from its clients.
    pub bytes_in: u64,
    /// Bytes sent to its clients.
    pub bytes_out: u64,
    /// Connection time, milliseconds, added up over connections.
    pub connection_ms: u64,
    /// Messages that sinks have confirmed, each counted for each sink.
    pub sink_deliveries: u64,
    /// Time of sessions, connected or not, milliseconds, added up over sessions.
    pub session_ms: u64,
    /// Bytes of retained messages times the seconds that they were kept.
    pub retained_byte_seconds: u64,
    /// Bytes of messages that wait for sessions times the seconds that they waited.
    pub stored_byte_seconds: u64,
}

/// Numbers in a record.
const NUMBERS: usize = 9;

impl Amounts {
    fn numbers(&self) -> [u64; NUMBERS] {
        [
            self.messages_in,
            self.messages_out,
            self.bytes_in,
            self.bytes_out,
            self.connection_ms,
            self.sink_deliveries,
            self.session_ms,
            self.retained_byte_seconds,
            self.stored_byte_seconds,
        ]
    }

    fn of_numbers(numbers: [u64; NUMBERS]) -> Self {
        let [
            messages_in,
            messages_out,
            bytes_in,
            bytes_out,
            connection_ms,
            sink_deliveries,
            session_ms,
            retained_byte_seconds,
            stored_byte_seconds,
        ] = numbers;
        Self {
            messages_in,
            messages_out,
            bytes_in,
            bytes_out,
            connection_ms,
            sink_deliveries,
            session_ms,
            retained_byte_seconds,
            stored_byte_seconds,
        }
    }

    /// Adds other amounts; a sum stops at the largest number.
    pub fn add(&mut self, other: &Self) {
        let mut sum = self.numbers();
        for (mine, theirs) in sum.iter_mut().zip(other.numbers()) {
            *mine = mine.saturating_add(theirs);
        }
        *self = Self::of_numbers(sum);
    }

    /// Whether nothing was used.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The amounts of a payer in a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The period.
    pub period: Period,
    /// The name of the payer: a tenant, or a user in the books of users.
    pub payer: String,
    /// The amounts.
    pub amounts: Amounts,
}

impl Record {
    /// The record as a line, with its checksum in front.
    pub(crate) fn line(&self) -> String {
        let numbers = self.amounts.numbers().map(|number| number.to_string()).join(" ");
        // The name is at the end of the line: it may have spaces, but no line break.
        let payer = self.payer.replace(['\n', '\r'], " ");
        let body = format!("{} {} {numbers} {payer}", self.period.start_s, self.period.length_s);
        format!("{:08x} {body}\n", crc32c::crc32c(body.as_bytes()))
    }

    /// A record from its line without the line break; `None` when it is damaged.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        let (checksum, body) = line.split_once(' ')?;
        if u32::from_str_radix(checksum, 16).ok()? != crc32c::crc32c(body.as_bytes()) {
            return None;
        }
        let mut words = body.splitn(NUMBERS + 3, ' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let period = Period { start_s: number()?, length_s: number()? };
        let mut numbers = [0; NUMBERS];
        for place in &mut numbers {
            *place = number()?;
        }
        Some(Self { period, payer: words.next()?.to_owned(), amounts: Amounts::of_numbers(numbers) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let amounts = Amounts::of_numbers([1, 2, 3, 4, 5, 6, 7, 8, u64::MAX]);
        let record = Record { period: Period::minute_of(61), payer: "a b".to_owned(), amounts };
        let line = record.line();
        assert_eq!(Record::of_line(line.trim_end_matches('\n')), Some(record));
        assert_eq!(Record::of_line(&line.replace(" 3 ", " 4 ")), None, "the checksum is of other numbers");
        assert_eq!(Record::of_line(&line[..line.len() / 2]), None);
    }
}
