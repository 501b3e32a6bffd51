//! Messages of a queue that the broker has sent and that are not acknowledged.

use std::collections::VecDeque;

/// Bytes of messages that are held for a queue. While they are held, no more are read from the broker.
const MAX_HELD_BYTES: usize = 4 << 20;
/// Messages of QoS 0 that are held for a queue. Beyond it the oldest one is dropped. The Receive Maximum of the session
/// bounds the others.
const MAX_HELD_OF_QOS_0: usize = 100;
/// Bytes that a message takes beside its JSON.
const COST: usize = 128;

/// A place behind a message: the messages up to there are acknowledged together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The run of the task that gave it.
    run: u64,
    /// The number of the message in this run.
    number: u64,
}

impl Cursor {
    /// Reads the text of [`Cursor::text`].
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (run, number) = text.split_once('-')?;
        Some(Self { run: u64::from_str_radix(run, 16).ok()?, number: number.parse().ok()? })
    }

    fn text(self) -> String {
        format!("{:x}-{}", self.run, self.number)
    }
}

/// Why a cursor acknowledges no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CursorError {
    /// It is of an earlier run.
    Stale,
    /// No message has it yet.
    Unknown,
}

/// Messages in their order.
pub(crate) struct Shelf<D> {
    run: u64,
    /// The number of the last message that was acknowledged.
    acknowledged: u64,
    /// The number of the last message.
    last: u64,
    messages: VecDeque<Held<D>>,
    /// Messages without a delivery.
    of_qos_0: usize,
    bytes: usize,
}

struct Held<D> {
    number: u64,
    json: String,
    /// The key of the acknowledgement; `None` for QoS 0.
    delivery: Option<D>,
}

impl<D> Held<D> {
    fn bytes(&self) -> usize {
        self.json.len() + COST
    }
}

/// The first messages of a shelf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// How many there are.
    pub(crate) count: usize,
    /// An object in JSON with the messages, and the cursor behind them.
    pub(crate) json: String,
}

impl<D> Shelf<D> {
    pub(crate) fn new(run: u64) -> Self {
        Self { run, acknowledged: 0, last: 0, messages: VecDeque::new(), of_qos_0: 0, bytes: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether nothing more may be read from the broker.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= MAX_HELD_BYTES
    }

    /// Puts a message in. A message without a delivery is one of QoS 0.
    pub(crate) fn put(&mut self, json: String, delivery: Option<D>) {
        self.last += 1;
        self.of_qos_0 += usize::from(delivery.is_none());
        let held = Held { number: self.last, json, delivery };
        self.bytes += held.bytes();
        self.messages.push_back(held);
        if self.of_qos_0 > MAX_HELD_OF_QOS_0 {
            let oldest = self.messages.iter().position(|held| held.delivery.is_none());
            let dropped = oldest.and_then(|at| self.messages.remove(at));
            self.bytes -= dropped.map_or(0, |held| held.bytes());
            self.of_qos_0 -= 1;
        }
    }

    /// The first messages, and the cursor behind them.
    pub(crate) fn page(&self, max: usize) -> Page {
        let held = || self.messages.iter().take(max);
        let number = held().last().map_or(self.acknowledged, |held| held.number);
        let messages: Vec<&str> = held().map(|held| held.json.as_str()).collect();
        let cursor = Cursor { run: self.run, number }.text();
        let json = format!("{{\"cursor\":\"{cursor}\",\"messages\":[{}]}}", messages.join(","));
        Page { count: messages.len(), json }
    }

    /// Takes the messages up to a cursor off the shelf. One that is acknowledged again changes nothing.
    pub(crate) fn acknowledge(&mut self, cursor: Cursor) -> Result<Vec<D>, CursorError> {
        if cursor.run != self.run {
            return Err(CursorError::Stale);
        }
        if cursor.number > self.last {
            return Err(CursorError::Unknown);
        }
        self.acknowledged = self.acknowledged.max(cursor.number);
        let count = self.messages.partition_point(|held| held.number <= cursor.number);
        let taken: Vec<Held<D>> = self.messages.drain(..count).collect();
        self.bytes -= taken.iter().map(Held::bytes).sum::<usize>();
        let deliveries: Vec<D> = taken.into_iter().filter_map(|held| held.delivery).collect();
        self.of_qos_0 -= count - deliveries.len();
        Ok(deliveries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shelf() -> Shelf<u8> {
        let mut shelf = Shelf::new(0xab);
        for number in 1..=3 {
            shelf.put(number.to_string(), Some(number));
        }
        shelf
    }

    fn page(cursor: &str, messages: &[u8]) -> Page {
        let json = serde_json::json!({ "cursor": cursor, "messages": messages }).to_string();
        Page { count: messages.len(), json }
    }

    #[test]
    fn messages_stay_until_their_cursor_is_acknowledged() {
        let mut shelf = shelf();
        assert_eq!(shelf.page(2), page("ab-2", &[1, 2]));
        assert_eq!(shelf.page(2), page("ab-2", &[1, 2]));
        let cursor = Cursor::read("ab-2").unwrap();
        assert_eq!(shelf.acknowledge(cursor), Ok(vec![1, 2]));
        assert_eq!((shelf.acknowledge(cursor), shelf.bytes), (Ok(vec![]), COST + 1));
        assert_eq!(shelf.page(9), page("ab-3", &[3]));
        assert_eq!(shelf.acknowledge(Cursor::read("ab-3").unwrap()), Ok(vec![3]));
        assert_eq!(shelf.page(9), page("ab-3", &[]));
    }

    #[test]
    fn a_cursor_of_another_run_acknowledges_nothing() {
        let mut shelf = shelf();
        assert_eq!(shelf.acknowledge(Cursor::read("ac-1").unwrap()), Err(CursorError::Stale));
        assert_eq!(shelf.acknowledge(Cursor::read("ab-4").unwrap()), Err(CursorError::Unknown));
        assert_eq!(shelf.page(9), page("ab-3", &[1, 2, 3]));
        for text in ["", "ab", "ab-", "-1", "xy-1", "ab--1"] {
            assert_eq!(Cursor::read(text), None, "{text}");
        }
    }

    #[test]
    fn the_oldest_messages_of_qos_0_are_dropped() {
        let mut shelf = Shelf::new(0xab);
        shelf.put("0".to_owned(), Some('a'));
        for _ in 0..3 * MAX_HELD_OF_QOS_0 {
            shelf.put(String::new(), None);
        }
        assert_eq!(shelf.messages.len(), MAX_HELD_OF_QOS_0 + 1, "the message of QoS 1 stays");
        assert_eq!(shelf.bytes, 1 + COST * shelf.messages.len());
        let all = Cursor { run: 0xab, number: shelf.last };
        assert_eq!(shelf.acknowledge(all), Ok(vec!['a']));
        assert_eq!((shelf.bytes, shelf.of_qos_0, shelf.is_empty()), (0, 0, true));
        shelf.put("1".to_owned(), None);
        assert_eq!(shelf.page(9), page("ab-302", &[1]), "cursors go on");
    }

    #[test]
    fn a_shelf_is_full_by_its_json_and_a_cost_of_each() {
        let mut shelf = Shelf::new(1);
        for _ in 0..MAX_HELD_BYTES / COST {
            assert!(!shelf.is_full());
            shelf.put(String::new(), Some(()));
        }
        assert!(shelf.is_full());
    }
}
