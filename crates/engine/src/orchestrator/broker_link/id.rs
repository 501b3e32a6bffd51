//! The id that a message carries to a broker and back, and the memory of returned ids.
//!
//! It rides in a user property, so brokers of MQTT 5 bring it back; earlier versions have no place for it.

pub(crate) mod sequence;

use std::collections::VecDeque;

use crate::wire::{WireError, WireReader, WireWrite};

use tidegate_mqtt::PublishProperties;

/// The name of the user property.
pub(crate) const PROPERTY: &str = "tidegate-id";

/// Characters of an encoded id.
const TEXT_LEN: usize = 11 + 11 + 8 + 11 + 1;
/// The bytes before it: the identifier of a user property, the name with its length, and the length of the value.
const HEAD: [u8; 16] = *b"\x26\x00\x0btidegate-id\x00\x2a";
/// Bytes of the whole user property.
const PAIR_LEN: usize = HEAD.len() + TEXT_LEN;
/// The identifier of the property Subscription Identifier.
const SUBSCRIPTION_IDENTIFIER: u8 = 0x0b;

/// The id of a message that goes through a fleet of brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MessageId {
    /// The shard of the process where it entered; another number with each start.
    pub origin: u64,
    /// Counts the messages of the origin from 1. A message that is sent again may leave a gap.
    pub number: u64,
    /// When it entered, Unix milliseconds: between two retained values of one topic the later one wins.
    pub entered: u64,
    /// Hash of its publisher's client id, for No Local ([MQTT-3.8.3-3]); 0 means no publisher.
    pub publisher: u64,
    /// Whether it was published with RETAIN.
    pub retain: bool,
}

const ALPHABET: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~";

fn put(digits: &mut [u8], mut value: u64) {
    for place in digits.iter_mut().rev() {
        *place = ALPHABET[(value & 63) as usize];
        value >>= 6;
    }
}

/// Characters that are read in one step.
const STEP: usize = 4;
/// For each place in a step the value that each character has there, [`NO_DIGIT`] for other characters. A table for each
/// place spares the shifts.
const DIGITS: [[u32; 256]; STEP] = {
    let mut digits = [[NO_DIGIT; 256]; STEP];
    let mut place = 0;
    while place < STEP {
        let mut value = 0;
        while value < ALPHABET.len() {
            digits[place][ALPHABET[value] as usize] = (value as u32) << (6 * (STEP - 1 - place));
            value += 1;
        }
        place += 1;
    }
    digits
};
const NO_DIGIT: u32 = 1 << 31;

/// Reads a number. Sets [`NO_DIGIT`] in `seen` at a character that is no digit.
#[inline]
fn get<const LEN: usize>(text: &[u8; LEN], seen: &mut u32) -> u64 {
    let mut value = 0;
    let (steps, last) = text.as_chunks::<STEP>();
    for [first, second, third, fourth] in steps {
        let read = DIGITS[0][usize::from(*first)]
            | DIGITS[1][usize::from(*second)]
            | DIGITS[2][usize::from(*third)]
            | DIGITS[3][usize::from(*fourth)];
        *seen |= read;
        value = value << (6 * STEP) | u64::from(read);
    }
    for character in last {
        let read = DIGITS[STEP - 1][usize::from(*character)];
        *seen |= read;
        value = value << 6 | u64::from(read);
    }
    value
}

/// The origin and the number in the text of an id, and the rest: time, publisher and flag.
#[inline]
fn split(text: &[u8; TEXT_LEN]) -> Option<(&[u8; 11], &[u8; 11], &[u8; TEXT_LEN - 22])> {
    let (origin, behind) = text.split_first_chunk()?;
    let (number, rest) = behind.split_first_chunk()?;
    Some((origin, number, rest.first_chunk()?))
}

/// Reads the publisher and the flag at the end of an id. Sets [`NO_DIGIT`] in `seen` at a character that is no digit.
#[inline]
fn publisher_and_flag(text: &[u8; 12], seen: &mut u32) -> Option<(u64, bool)> {
    let (publisher, flag) = text.split_first_chunk::<11>()?;
    let retain = match flag {
        b"r" => true,
        b"-" => false,
        _ => return None,
    };
    Some((get(publisher, seen), retain))
}

impl MessageId {
    /// Appends the user property that carries it to encoded properties.
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        let mut pair = [if self.retain { b'r' } else { b'-' }; PAIR_LEN];
        let (head, mut rest) = pair.split_at_mut(HEAD.len());
        head.copy_from_slice(&HEAD);
        for (value, digits) in [(self.origin, 11), (self.number, 11), (self.entered, 8), (self.publisher, 11)] {
            let (place, behind) = rest.split_at_mut(digits);
            put(place, value);
            rest = behind;
        }
        out.extend_from_slice(&pair);
    }

    /// Reads the value of the user property.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::parse_bytes(text.as_bytes())
    }

    fn parse_bytes(text: &[u8]) -> Option<Self> {
        let (origin, number, rest) = split(text.try_into().ok()?)?;
        let (entered, rest) = rest.split_first_chunk::<8>()?;
        let mut seen = 0;
        let (publisher, retain) = publisher_and_flag(rest.first_chunk()?, &mut seen)?;
        let id = Self {
            origin: get(origin, &mut seen),
            number: get(number, &mut seen),
            entered: get(entered, &mut seen),
            publisher,
            retain,
        };
        (seen & NO_DIGIT == 0).then_some(id)
    }

    /// The id among encoded properties that were written by [`MessageId::append`] last.
    pub(crate) fn at_end_of(properties: &[u8]) -> Option<Self> {
        let (head, text) = properties.last_chunk::<PAIR_LEN>()?.split_at(HEAD.len());
        if *head == HEAD { Self::parse_bytes(text) } else { None }
    }

    /// Encoded properties without the id at their end.
    pub(crate) fn strip(properties: &[u8]) -> &[u8] {
        match Self::at_end_of(properties) {
            Some(_) => &properties[..properties.len() - PAIR_LEN],
            None => properties,
        }
    }

    /// The id among the properties of a PUBLISH packet, wherever the broker has put it. Of several it is the last:
    /// brokers keep the order of user properties ([MQTT-3.3.2-18]), and those before it came with the message from its
    /// publisher.
    pub(crate) fn of(properties: &PublishProperties<'_>) -> Option<Self> {
        let pairs = properties.user_properties.iter();
        pairs.filter(|(name, _)| *name == PROPERTY).last().and_then(|(_, value)| Self::parse(value))
    }
}

/// Origins remembered at once; the one not heard of for longest makes room.
const ORIGINS_MAX: usize = 256;
/// The least and the most numbers of an origin that are distinguished, each a power of two. An id this far behind the
/// newest counts as new: better twice than never.
pub(super) const WINDOW_MIN: u64 = 1 << 18;
const WINDOW_MAX: u64 = 1 << 24;
/// Words of 64 numbers in each part that is written.
const PART_WORDS: u64 = 64;
/// The numbers of an origin that are written, behind its newest: the messages that a broker may still deliver to another
/// member.
const WRITTEN: u64 = 1 << 16;
/// The window is this many times the limit of owed messages: while one message is under way, others enter and are
/// settled.
const WINDOW_PER_OWED: u64 = 2;

/// Which messages have returned from the fleet, so that none is delivered twice that a fleet brings twice.
#[derive(Clone, Debug)]
pub(crate) struct SeenIds {
    /// Numbers of an origin that are distinguished, a power of two.
    window: u64,
    /// The origin with the latest message is at the back.
    origins: VecDeque<Seen>,
}

#[derive(Clone, Debug)]
struct Seen {
    origin: u64,
    /// The highest number seen.
    newest: u64,
    /// One bit for each number of the window, at its remainder.
    bits: Box<[u64]>,
}

impl Default for SeenIds {
    fn default() -> Self {
        Self { window: WINDOW_MIN, origins: VecDeque::new() }
    }
}

impl Seen {
    fn new(origin: u64, window: u64) -> Self {
        Self { origin, newest: 0, bits: vec![0; (window / 64) as usize].into_boxed_slice() }
    }

    fn window(&self) -> u64 {
        self.bits.len() as u64 * 64
    }

    fn bit(&self, number: u64) -> (usize, u64) {
        let place = number & (self.window() - 1);
        ((place / 64) as usize, 1 << (place % 64))
    }

    /// True if the number is within the window.
    fn is_near(&self, number: u64) -> bool {
        number.saturating_add(self.window()) > self.newest
    }

    fn contains(&self, number: u64) -> bool {
        let (word, bit) = self.bit(number);
        self.is_near(number) && number <= self.newest && self.bits[word] & bit != 0
    }

    /// The numbers of a word that were seen, one bit each: the first one is 64 times that of the word.
    fn word(&self, word: u64) -> u64 {
        let first = word.saturating_mul(64);
        let Some(behind) = self.newest.checked_sub(first) else { return 0 };
        let bits = self.bits[(word % self.bits.len() as u64) as usize];
        // Beyond the newest number are the oldest ones of the window.
        let above = if behind < 63 { u64::MAX << (behind + 1) } else { 0 };
        let below = match behind.checked_sub(self.window()) {
            Some(old) if old >= 63 => u64::MAX,
            Some(old) => !(u64::MAX << (old + 1)),
            None => 0,
        };
        bits & !above & !below
    }

    /// The words that are written, the oldest first.
    fn written(&self) -> std::ops::RangeInclusive<u64> {
        self.newest.saturating_sub(WRITTEN - 1) / 64..=self.newest / 64
    }

    /// The numbers to write, in their order.
    fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.written().flat_map(|word| {
            let bits = self.word(word);
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| word * 64 + bit)
        })
    }

    #[expect(clippy::inline_always, reason = "a separate call costs each message of a broker 15 instructions")]
    #[inline(always)]
    fn insert(&mut self, number: u64) -> bool {
        // Most messages return in the order in which they entered.
        if self.newest.checked_add(1) == Some(number) {
            let (word, bit) = self.bit(number);
            self.bits[word] |= bit;
            self.newest = number;
            return true;
        }
        self.insert_out_of_order(number)
    }

    #[inline(never)]
    fn insert_out_of_order(&mut self, number: u64) -> bool {
        if self.contains(number) {
            return false;
        }
        if !self.is_near(number) {
            return true;
        }
        if number > self.newest {
            if number - self.newest >= self.window() {
                self.bits.fill(0);
            } else {
                for passed in self.newest + 1..number {
                    let (word, bit) = self.bit(passed);
                    self.bits[word] &= !bit;
                }
            }
            self.newest = number;
        }
        let (word, bit) = self.bit(number);
        self.bits[word] |= bit;
        true
    }
}

impl SeenIds {
    /// For a process whose fleet may owe at most this number of messages.
    pub(crate) fn for_owed(max_owed: u64) -> Self {
        let window = max_owed.saturating_mul(WINDOW_PER_OWED).clamp(WINDOW_MIN, WINDOW_MAX).next_power_of_two();
        Self { window, origins: VecDeque::new() }
    }

    /// As many as are written of each origin.
    pub(crate) fn as_written() -> Self {
        Self { window: WRITTEN, origins: VecDeque::new() }
    }

    /// Notes the messages of other ones.
    pub(crate) fn add(&mut self, others: &Self) {
        self.add_where(others, |_| true);
    }

    /// The messages that are not among others, as far as they are written.
    pub(crate) fn without(&self, others: &Self) -> Self {
        let mut left = Self::as_written();
        left.add_where(self, |id| !others.may_contain(id));
        left
    }

    fn add_where(&mut self, others: &Self, is_meant: impl Fn(&MessageId) -> bool) {
        for seen in &others.origins {
            let ids = seen.numbers().map(|number| MessageId {
                origin: seen.origin,
                number,
                entered: 0,
                publisher: 0,
                retain: false,
            });
            for id in ids.filter(|id| is_meant(id)) {
                self.insert(&id);
            }
        }
    }

    /// Notes a message; returns whether it is new.
    #[inline]
    pub(crate) fn insert(&mut self, id: &MessageId) -> bool {
        if let Some(last) = self.origins.back_mut()
            && last.origin == id.origin
        {
            return last.insert(id.number);
        }
        self.insert_of_another(id)
    }

    /// The same for another origin than that of the last message.
    #[inline(never)]
    fn insert_of_another(&mut self, id: &MessageId) -> bool {
        let known = self.origins.iter().position(|seen| seen.origin == id.origin);
        let mut seen =
            known.and_then(|at| self.origins.remove(at)).unwrap_or_else(|| Seen::new(id.origin, self.window));
        if self.origins.len() >= ORIGINS_MAX {
            self.origins.pop_front();
        }
        let new = seen.insert(id.number);
        self.origins.push_back(seen);
        new
    }

    /// Appends the latest numbers of each origin, in parts.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.put_u16(0);
        let mut parts: u16 = 0;
        for seen in &self.origins {
            let (oldest, newest) = seen.written().into_inner();
            // The last word of each part, the oldest first.
            let ends = (0..=(newest - oldest) / PART_WORDS).rev().map(|part| newest - part * PART_WORDS);
            for end in ends {
                let words = (0..PART_WORDS).map(|word| end.checked_sub(word).map_or(0, |word| seen.word(word)));
                let words: Vec<u64> = words.map(u64::reverse_bits).collect();
                if words.iter().any(|word| *word != 0) {
                    out.put_u64(seen.origin);
                    out.put_u64(end * 64 + 63);
                    for word in words {
                        out.put_u64(word);
                    }
                    parts += 1;
                }
            }
        }
        if let Some(count) = out.get_mut(at..at + 2) {
            count.copy_from_slice(&parts.to_le_bytes());
        }
    }

    /// Notes the numbers that were written.
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub(crate) fn read(&mut self, reader: &mut WireReader<'_>) -> Result<(), WireError> {
        for _ in 0..reader.u16("a number of parts")? {
            let (origin, newest) = (reader.u64("an origin")?, reader.u64("the last number of a part")?);
            let mut numbers = Vec::new();
            for word in 0..PART_WORDS {
                let bits = reader.u64("numbers of an origin")?;
                let set = (0..64).filter(|bit| bits >> bit & 1 != 0);
                numbers.extend(set.filter_map(|bit| newest.checked_sub(word * 64 + bit)));
            }
            for number in numbers.into_iter().rev() {
                self.insert(&MessageId { origin, number, entered: 0, publisher: 0, retain: false });
            }
        }
        Ok(())
    }

    /// Whether a message has returned, or is too old to know.
    pub(crate) fn may_contain(&self, id: &MessageId) -> bool {
        let seen = self.origins.iter().rev().find(|seen| seen.origin == id.origin);
        seen.is_some_and(|seen| seen.contains(id.number) || !seen.is_near(id.number))
    }

    /// Whether a message has returned.
    pub(crate) fn contains(&self, id: &MessageId) -> bool {
        let seen = self.origins.iter().rev().find(|seen| seen.origin == id.origin);
        seen.is_some_and(|seen| seen.contains(id.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(origin: u64, number: u64) -> MessageId {
        MessageId { origin, number, entered: 1_700_000_000_123, publisher: u64::MAX, retain: true }
    }

    #[test]
    fn an_id_survives_its_way_through_properties() {
        for id in [id(0, 1), id(u64::MAX, u64::MAX), id(7, 1 << 40)] {
            let mut properties = vec![0x01, 0x01];
            id.append(&mut properties);
            assert_eq!(MessageId::at_end_of(&properties), Some(id));
            assert_eq!(MessageId::strip(&properties), &[0x01, 0x01]);
            let decoded = PublishProperties::decode(&properties).expect("valid properties");
            assert_eq!(MessageId::of(&decoded), Some(id));
        }
        assert_eq!(MessageId::at_end_of(b"\x01\x01"), None);
        assert_eq!(MessageId::strip(b"\x01\x01"), b"\x01\x01");
        assert_eq!(MessageId::parse("short"), None);
        assert_eq!(MessageId::parse(&"!".repeat(TEXT_LEN)), None);
    }

    #[test]
    fn an_id_with_a_wrong_character_is_not_read() {
        let valid = format!("{}r", "~".repeat(TEXT_LEN - 1));
        assert!(MessageId::parse(&valid).is_some());
        for place in 0..TEXT_LEN {
            let mut text = valid.clone();
            text.replace_range(place..=place, "!");
            assert_eq!(MessageId::parse(&text), None, "{place}");
        }
    }

    #[test]
    fn each_id_is_new_once_in_any_order() {
        let mut seen = SeenIds::default();
        for number in [5, 3, 4, 1, 2, 70, 69] {
            assert!(seen.insert(&id(1, number)), "{number}");
            assert!(!seen.insert(&id(1, number)), "{number} again");
        }
        assert!(seen.insert(&id(2, 5)), "of another origin");
        assert!(!seen.contains(&id(1, 6)) && seen.contains(&id(1, 5)));
    }

    #[test]
    fn what_lies_far_behind_counts_as_new() {
        let mut seen = SeenIds::default();
        assert!(seen.insert(&id(1, 10)));
        assert!(seen.insert(&id(1, 10 + WINDOW_MIN)));
        assert!(seen.insert(&id(1, 10)) && seen.insert(&id(1, 10)));
        assert!(seen.insert(&id(1, 11)) && !seen.insert(&id(1, 11)), "the last of the window");
        assert!(seen.insert(&id(1, 11 + 3 * WINDOW_MIN)));
        assert!(seen.insert(&id(1, 12 + 2 * WINDOW_MIN)), "nothing is left of an earlier round");
    }

    #[test]
    fn the_window_covers_all_messages_that_may_be_owed() {
        for (max_owed, window) in [(0, 1 << 18), (100_000, 1 << 18), (200_000, 1 << 19), (u64::MAX, 1 << 24)] {
            let mut seen = SeenIds::for_owed(max_owed);
            assert!(seen.insert(&id(1, 1)) && seen.insert(&id(1, window)));
            assert!(!seen.insert(&id(1, 1)), "the last of {window} for {max_owed}");
            assert!(seen.insert(&id(1, window + 1)) && seen.insert(&id(1, 1)), "no more than {window} for {max_owed}");
        }
    }

    #[test]
    fn the_latest_numbers_are_written_and_read() {
        let mut seen = SeenIds::default();
        let numbers = [1, 63, 64, 4_096, 70_000, 70_001, 131_135, 131_136];
        for number in numbers {
            assert!(seen.insert(&id(3, number)) && seen.insert(&id(4, number + 7)));
        }
        let mut written = Vec::new();
        seen.write(&mut written);
        let mut read = SeenIds::as_written();
        read.read(&mut WireReader::new(&written)).unwrap();
        for number in 0..131_200 {
            let is_written = numbers.contains(&number) && number > 131_136 - WRITTEN;
            assert_eq!(read.contains(&id(3, number)), is_written, "{number}");
            assert_eq!(read.contains(&id(4, number + 7)), is_written, "{number}");
        }
        assert!(read.may_contain(&id(3, 5)) && !read.may_contain(&id(3, 131_100)) && !read.may_contain(&id(9, 5)));
    }

    #[test]
    fn messages_of_others_are_left_out() {
        let (mut all, mut before) = (SeenIds::default(), SeenIds::default());
        for number in 1..200 {
            all.insert(&id(1, number));
            if number % 3 == 0 {
                before.insert(&id(1, number));
            }
        }
        all.insert(&id(2, 5));
        let left = all.without(&before);
        assert!((1..200).all(|number| left.contains(&id(1, number)) == (number % 3 != 0)));
        assert!(left.contains(&id(2, 5)));
        before.add(&left);
        assert!((1..200).all(|number| before.contains(&id(1, number))));
    }

    #[test]
    fn origins_are_bounded() {
        let mut seen = SeenIds::default();
        for origin in 0..2 * ORIGINS_MAX as u64 {
            assert!(seen.insert(&id(origin, 1)));
        }
        assert_eq!(seen.origins.len(), ORIGINS_MAX);
    }
}
