//! Ids that follow each other. Most differ from the last one in their number only, so only that is written and parsed.

use super::{
    ALPHABET, HEAD, MessageId, NO_DIGIT, PAIR_LEN, SUBSCRIPTION_IDENTIFIER, TEXT_LEN, get, publisher_and_flag, put,
};

/// The first id of a sequence differs from this one in all its parts.
const ZERO: MessageId = MessageId { origin: 0, number: 0, entered: 0, publisher: 0, retain: false };
/// The text of [`ZERO`].
const ZERO_TEXT: [u8; TEXT_LEN] = {
    let mut text = [ALPHABET[0]; TEXT_LEN];
    text[TEXT_LEN - 1] = b'-';
    text
};
/// Numbers that differ in the last digit only.
const LAST_DIGIT: u64 = ALPHABET.len() as u64;

/// Numbers that differ in the last two digits only.
const LAST_DIGITS: u64 = LAST_DIGIT * LAST_DIGIT;

/// The last two digits of the number in the third word of an id's text, and the begin of the publisher in the fourth.
const IN_THIRD: u64 = u64::from_le_bytes([0, 0, 0, 0, 0xFF, 0xFF, 0, 0]);
const IN_FOURTH: u64 = u64::from_le_bytes([0, 0, 0, 0, 0, 0, 0xFF, 0xFF]);

/// Eight bytes of an id's text.
#[inline]
fn word(text: &[u8; TEXT_LEN], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&text[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Two differences between ids, each 0 for equal parts: of origin, time, and number without its last two digits; of
/// publisher and flag. It compares words, since comparing parts takes twice the instructions.
#[inline]
fn differences(one: &[u8; TEXT_LEN], other: &[u8; TEXT_LEN]) -> (u64, u64) {
    let differs = |at| word(one, at) ^ word(other, at);
    let (third, fourth) = (differs(16), differs(24));
    let message = differs(0) | differs(8) | third & !IN_THIRD | fourth & !IN_FOURTH;
    (message, fourth & IN_FOURTH | differs(32) | differs(34))
}

/// Writes ids.
#[derive(Debug)]
pub(crate) struct IdWriter {
    last: MessageId,
    /// The whole user property, so that it is appended by one copy.
    pair: [u8; PAIR_LEN],
}

impl Default for IdWriter {
    fn default() -> Self {
        let mut pair = [0; PAIR_LEN];
        let (head, text) = pair.split_at_mut(HEAD.len());
        head.copy_from_slice(&HEAD);
        text.copy_from_slice(&ZERO_TEXT);
        Self { last: ZERO, pair }
    }
}

impl IdWriter {
    /// Appends the user property that carries an id to encoded properties.
    #[inline]
    pub(crate) fn append(&mut self, id: &MessageId, out: &mut Vec<u8>) {
        let last = std::mem::replace(&mut self.last, *id);
        let (_, text) = self.pair.split_at_mut(HEAD.len());
        let (origin, rest) = text.split_at_mut(11);
        let (number, rest) = rest.split_at_mut(11);
        let (entered, rest) = rest.split_at_mut(8);
        let (publisher, flag) = rest.split_at_mut(11);
        if id.origin != last.origin {
            put(origin, id.origin);
        }
        if id.number ^ last.number < LAST_DIGIT {
            number[10] = ALPHABET[(id.number % LAST_DIGIT) as usize];
        } else {
            put(number, id.number);
        }
        if id.entered != last.entered {
            put(entered, id.entered);
        }
        if id.publisher != last.publisher {
            put(publisher, id.publisher);
        }
        flag[0] = if id.retain { b'r' } else { b'-' };
        out.extend_from_slice(&self.pair);
    }
}

/// Reads ids.
#[derive(Debug)]
pub(crate) struct IdReader {
    last: MessageId,
    text: [u8; TEXT_LEN],
}

impl Default for IdReader {
    fn default() -> Self {
        Self { last: ZERO, text: ZERO_TEXT }
    }
}

impl IdReader {
    /// Reads an id that is of another sequence than the last one.
    #[inline(never)]
    fn read_other(&mut self, text: &[u8; TEXT_LEN]) -> Option<MessageId> {
        self.last = MessageId::parse_bytes(text)?;
        self.text = *text;
        Some(self.last)
    }

    /// Reads the value of the user property.
    #[expect(clippy::inline_always, reason = "a separate call costs each message of a fleet 25 instructions")]
    #[inline(always)]
    fn read(&mut self, text: &[u8; TEXT_LEN]) -> Option<MessageId> {
        let (message, publisher) = differences(text, &self.text);
        if message != 0 {
            return self.read_other(text);
        }
        let mut seen = 0;
        let number = self.last.number & !(LAST_DIGITS - 1) | get(&[text[20], text[21]], &mut seen);
        if seen & NO_DIGIT != 0 {
            return None;
        }
        if publisher != 0 {
            let (publisher, retain) = publisher_and_flag(text.last_chunk()?, &mut seen)?;
            if seen & NO_DIGIT != 0 {
                return None;
            }
            self.last = MessageId { publisher, retain, ..self.last };
            self.text[30..].copy_from_slice(&text[30..]);
        }
        Some(MessageId { number, ..self.last })
    }

    /// The id that encoded properties begin with, as [`MessageId::append`] writes it.
    #[expect(clippy::inline_always, reason = "a separate call costs each message of a fleet 25 instructions")]
    #[inline(always)]
    fn at_start_of(&mut self, properties: &[u8]) -> Option<MessageId> {
        let (head, rest) = properties.split_first_chunk()?;
        let text = rest.first_chunk().filter(|_| *head == HEAD)?;
        self.read(text)
    }

    /// The id among encoded properties that were written by [`IdWriter::append`] last.
    #[inline]
    pub(crate) fn at_end_of(&mut self, properties: &[u8]) -> Option<MessageId> {
        let pair: &[u8; PAIR_LEN] = properties.last_chunk()?;
        self.at_start_of(pair)
    }

    /// The id of a message that has no properties beside it, but for subscription identifiers; these, too. That is how
    /// nearly all messages return, and it spares looking at properties one by one.
    #[inline]
    pub(crate) fn alone_in(&mut self, properties: &[u8]) -> Option<MessageId> {
        // An orchestrator subscribes with a short identifier to all filters without wildcards.
        let behind_one = match properties {
            [SUBSCRIPTION_IDENTIFIER, id, behind @ ..] if id & 0x80 == 0 => behind,
            _ => properties,
        };
        match <&[u8; PAIR_LEN]>::try_from(behind_one) {
            Ok(pair) => self.at_start_of(pair),
            Err(_) => self.alone_among(properties),
        }
    }

    /// The same beside any subscription identifiers.
    #[inline(never)]
    fn alone_among(&mut self, properties: &[u8]) -> Option<MessageId> {
        let mut rest = properties;
        let mut id = None;
        while let Some(first) = rest.first() {
            if *first == SUBSCRIPTION_IDENTIFIER {
                // A variable byte integer: its last byte has no highest bit.
                let end = rest.iter().skip(1).take(4).position(|byte| byte & 0x80 == 0)?;
                rest = rest.get(end + 2..)?;
            } else if id.is_none() {
                id = Some(self.at_start_of(rest)?);
                rest = rest.get(PAIR_LEN..)?;
            } else {
                return None;
            }
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_id_is_read_beside_subscription_identifiers_only() {
        let id =
            MessageId { origin: 7, number: 1 << 40, entered: 1_700_000_000_123, publisher: u64::MAX, retain: true };
        let mut properties = vec![0x01, 0x01];
        id.append(&mut properties);
        let own = &properties[2..];
        let alone = |properties: &[u8]| IdReader::default().alone_in(properties);
        assert_eq!(alone(&properties), None, "something is beside it");
        assert_eq!(IdReader::default().at_end_of(&properties), Some(id));
        assert_eq!(alone(own), Some(id));
        assert_eq!(alone(&[&[0x0b, 0x85, 0x01][..], own, &[0x0b, 7]].concat()), Some(id));
        assert_eq!(alone(&[own, own].concat()), None);
        assert_eq!(alone(&[&[0x0b, 0x85][..], own].concat()), None);
    }

    fn ids() -> impl Strategy<Value = MessageId> {
        let small = || prop_oneof![0..3_u64, 60..70_u64, any::<u64>()];
        // The time has eight characters.
        let entered = prop_oneof![0..3_u64, 0..1_u64 << 48];
        (small(), small(), entered, small(), any::<bool>()).prop_map(|(origin, number, entered, publisher, retain)| {
            MessageId { origin, number, entered, publisher, retain }
        })
    }

    proptest! {
        #[test]
        fn each_id_of_a_sequence_is_written_and_read(sequence in proptest::collection::vec(ids(), 1..20)) {
            let (mut writer, mut reader) = (IdWriter::default(), IdReader::default());
            for id in sequence {
                let (mut alone, mut written) = (Vec::new(), Vec::new());
                id.append(&mut alone);
                writer.append(&id, &mut written);
                prop_assert_eq!(&alone, &written);
                prop_assert_eq!(reader.alone_in(&written), Some(id));
                prop_assert_eq!(reader.at_end_of(&written), Some(id));
            }
        }

        #[test]
        fn a_changed_character_is_read_as_by_a_new_reader(id in ids(), at in 0..PAIR_LEN, with in any::<u8>()) {
            let mut reader = IdReader::default();
            let mut written = Vec::new();
            id.append(&mut written);
            prop_assert_eq!(reader.alone_in(&written), Some(id));
            written[at] = with;
            prop_assert_eq!(reader.alone_in(&written), IdReader::default().alone_in(&written));
            prop_assert_eq!(reader.at_end_of(&written), MessageId::at_end_of(&written));
        }
    }
}
