//! A record: the usage of one payer in one period. Lines of text with their checksums: records, and the run that they are of.

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

/// A line of the books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Usage in a period, of the run that the last [`Line::Run`] before it names.
    Record(Record),
    /// A run of the process begins.
    Run(u64),
    /// Usage of this run that is in the records before the line that names it.
    Booked {
        /// The payer.
        payer: String,
        /// Its usage in all periods.
        amounts: Amounts,
    },
}

/// First word of [`Line::Run`]. Earlier versions skip such lines, with a warning.
const RUN: &str = "run";
/// First word of [`Line::Booked`].
const BOOKED: &str = "booked";

impl Line {
    /// The line, with its checksum in front.
    pub(crate) fn text(&self) -> String {
        let body = match self {
            Self::Record(Record { period, payer, amounts }) => {
                format!("{} {} {}", period.start_s, period.length_s, used(payer, amounts))
            }
            Self::Run(number) => format!("{RUN} {number}"),
            Self::Booked { payer, amounts } => format!("{BOOKED} {}", used(payer, amounts)),
        };
        format!("{:08x} {body}\n", crc32c::crc32c(body.as_bytes()))
    }

    /// A line from its text without the line break; `None` when it is damaged.
    pub(crate) fn of_text(line: &str) -> Option<Self> {
        let (checksum, body) = line.split_once(' ')?;
        if u32::from_str_radix(checksum, 16).ok()? != crc32c::crc32c(body.as_bytes()) {
            return None;
        }
        let (first, rest) = body.split_once(' ')?;
        match first {
            RUN => Some(Self::Run(rest.parse().ok()?)),
            BOOKED => {
                let (payer, amounts) = read_used(rest)?;
                Some(Self::Booked { payer, amounts })
            }
            start => {
                let (length, rest) = rest.split_once(' ')?;
                let period = Period { start_s: start.parse().ok()?, length_s: length.parse().ok()? };
                let (payer, amounts) = read_used(rest)?;
                Some(Self::Record(Record { period, payer, amounts }))
            }
        }
    }
}

/// The name is at the end of a line: it may have spaces, but no line break.
fn used(payer: &str, amounts: &Amounts) -> String {
    let numbers = amounts.numbers().map(|number| number.to_string()).join(" ");
    format!("{numbers} {}", payer.replace(['\n', '\r'], " "))
}

fn read_used(text: &str) -> Option<(String, Amounts)> {
    let mut words = text.splitn(NUMBERS + 1, ' ');
    let mut numbers = [0; NUMBERS];
    for place in &mut numbers {
        *place = words.next()?.parse().ok()?;
    }
    Some((words.next()?.to_owned(), Amounts::of_numbers(numbers)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let amounts = Amounts::of_numbers([1, 2, 3, 4, 5, 6, 7, 8, u64::MAX]);
        let payer = "a b".to_owned();
        let record = Record { period: Period::minute_of(61), payer: payer.clone(), amounts };
        for line in [Line::Record(record), Line::Run(7), Line::Booked { payer, amounts }] {
            let text = line.text();
            assert_eq!(Line::of_text(&text.replace(" 7", " 8")), None, "the checksum is of other numbers");
            assert_eq!(Line::of_text(&text[..text.len() / 2]), None);
            assert_eq!(Line::of_text(text.trim_end_matches('\n')), Some(line));
        }
    }
}
