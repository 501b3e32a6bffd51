//! Kafka's protocol: a topic of one partition, whose leader is the broker that is spoken to. Subscribers are in no
//! consumer group: each reads everything from the end on. Messages of a turn go as one batch.

mod batch;

use std::collections::VecDeque;

use batch::{Gathered, values};

use super::driver::Bytes;
use super::{Driver, Problem, Role, Sink};

/// A request: its key and the version that is spoken, which brokers from 2.1 to 4.x know.
type Api = (i16, i16);
const PRODUCE: Api = (0, 3);
const FETCH: Api = (1, 4);
const LIST_OFFSETS: Api = (2, 1);
const METADATA: Api = (3, 4);

/// Batches that are not acknowledged yet.
const IN_FLIGHT: usize = 5;
/// Bytes of records above which a batch is closed.
const FULL: usize = 512 * 1024;
/// Bytes that a fetch brings at most.
const FETCH_BYTES: i32 = 16 * 1024 * 1024;
/// How long the broker keeps a fetch without records, in milliseconds.
const WAIT_MS: i32 = 500;
/// Answers that pass: the topic is being made, or its partition has no leader yet.
const PASSING: [u16; 4] = [3, 5, 6, 9];

/// A connection.
pub(super) struct Kafka {
    topic: String,
    acknowledged: bool,
    role: Role,
    is_ready: bool,
    correlation: i32,
    /// Requests without an answer; with the number of messages of a batch.
    asked: VecDeque<(Api, u32)>,
    gathered: Gathered,
    closed: VecDeque<Gathered>,
    offset: u64,
}

impl Kafka {
    pub(super) fn new(topic: &str, acknowledged: bool, role: Role) -> Self {
        Self {
            topic: topic.to_owned(),
            acknowledged,
            role,
            is_ready: false,
            correlation: 0,
            asked: VecDeque::new(),
            gathered: Gathered::default(),
            closed: VecDeque::new(),
            offset: 0,
        }
    }

    fn ask(&mut self, api: Api, messages: u32, body: &[u8], out: &mut Vec<u8>) {
        const CLIENT: &[u8] = b"tidegate-lab";
        self.correlation = self.correlation.wrapping_add(1);
        out.extend_from_slice(&((10 + CLIENT.len() + body.len()) as u32).to_be_bytes());
        out.extend_from_slice(&api.0.to_be_bytes());
        out.extend_from_slice(&api.1.to_be_bytes());
        out.extend_from_slice(&self.correlation.to_be_bytes());
        string(CLIENT, out);
        out.extend_from_slice(body);
        // Without acknowledgements a batch has no answer.
        if api != PRODUCE || self.acknowledged {
            self.asked.push_back((api, messages));
        }
    }

    fn ask_metadata(&mut self, out: &mut Vec<u8>) {
        let mut body = 1_u32.to_be_bytes().to_vec();
        string(self.topic.as_bytes(), &mut body);
        // Create the topic if it does not exist.
        body.push(1);
        self.ask(METADATA, 0, &body, out);
    }

    /// The topic with its one partition, and the fields of the request for it.
    fn of_partition(&self, before: &[u8], of: &[u8]) -> Vec<u8> {
        let mut body = before.to_vec();
        body.extend_from_slice(&1_u32.to_be_bytes());
        string(self.topic.as_bytes(), &mut body);
        body.extend_from_slice(&1_u32.to_be_bytes());
        body.extend_from_slice(&0_u32.to_be_bytes());
        body.extend_from_slice(of);
        body
    }

    fn ask_end(&mut self, out: &mut Vec<u8>) {
        let body = self.of_partition(&(-1_i32).to_be_bytes(), &(-1_i64).to_be_bytes());
        self.ask(LIST_OFFSETS, 0, &body, out);
    }

    fn fetch(&mut self, out: &mut Vec<u8>) {
        let mut before = (-1_i32).to_be_bytes().to_vec();
        for number in [WAIT_MS, 1, FETCH_BYTES] {
            before.extend_from_slice(&number.to_be_bytes());
        }
        before.push(0);
        let mut of = self.offset.to_be_bytes().to_vec();
        of.extend_from_slice(&FETCH_BYTES.to_be_bytes());
        let body = self.of_partition(&before, &of);
        self.ask(FETCH, 0, &body, out);
    }

    fn produce(&mut self, gathered: &Gathered, out: &mut Vec<u8>) {
        let mut before = (-1_i16).to_be_bytes().to_vec();
        before.extend_from_slice(&i16::from(self.acknowledged).to_be_bytes());
        before.extend_from_slice(&30_000_u32.to_be_bytes());
        let batch = gathered.batch();
        let mut of = (batch.len() as u32).to_be_bytes().to_vec();
        of.extend_from_slice(&batch);
        let body = self.of_partition(&before, &of);
        self.ask(PRODUCE, gathered.count, &body, out);
    }

    fn on_answer(&mut self, answer: &[u8], out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<(), Problem> {
        let mut bytes = Bytes(answer);
        bytes.take(4)?;
        let (api, messages) = self.asked.pop_front().ok_or_else(|| Problem::new("an answer that nothing asked for"))?;
        match api {
            METADATA => self.on_metadata(&mut bytes, out),
            LIST_OFFSETS => self.on_end(&mut bytes, out),
            FETCH => self.on_fetched(&mut bytes, out, sink),
            _ => {
                match to_partition(&mut bytes)? {
                    0 => sink.acknowledged(u64::from(messages)),
                    _ => sink.refused(u64::from(messages)),
                }
                Ok(())
            }
        }
    }

    fn on_metadata(&mut self, bytes: &mut Bytes<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
        bytes.take(4)?;
        for _ in 0..bytes.u32()? {
            bytes.take(4)?;
            text(bytes)?;
            bytes.take(4)?;
            text(bytes)?;
        }
        text(bytes)?;
        bytes.take(4)?;
        let topics = bytes.u32()?;
        let mut error = bytes.u16()?;
        text(bytes)?;
        bytes.take(1)?;
        let partitions = bytes.u32()?;
        if error == 0 && partitions > 0 {
            error = bytes.u16()?;
        }
        match error {
            0 if topics == 1 && partitions == 1 => match self.role {
                Role::Publish => self.is_ready = true,
                Role::Subscribe => self.ask_end(out),
            },
            0 if partitions > 1 => return Err(Problem::new("the topic has several partitions")),
            0 => self.ask_metadata(out),
            passing if PASSING.contains(&passing) => self.ask_metadata(out),
            other => return Err(Problem::new(format!("the topic cannot be had: error {other}"))),
        }
        Ok(())
    }

    fn on_end(&mut self, bytes: &mut Bytes<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
        match to_partition(bytes)? {
            0 => {
                bytes.take(8)?;
                self.offset = bytes.u64()?;
                self.is_ready = true;
                self.fetch(out);
            }
            passing if PASSING.contains(&passing) => self.ask_end(out),
            other => return Err(Problem::new(format!("the end of the topic cannot be had: error {other}"))),
        }
        Ok(())
    }

    fn on_fetched(&mut self, bytes: &mut Bytes<'_>, out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<(), Problem> {
        bytes.take(4)?;
        match to_partition(bytes)? {
            0 => {
                bytes.take(16)?;
                // Aborted transactions; -1 for none.
                let aborted = bytes.u32()?;
                if aborted != u32::MAX {
                    bytes.take(aborted as usize * 16)?;
                }
                let len = bytes.u32()?;
                let records = if len == u32::MAX { &[] } else { bytes.take(len as usize)? };
                self.offset = values(records, self.offset, |value| sink.message(value))?;
            }
            passing if PASSING.contains(&passing) => {}
            other => return Err(Problem::new(format!("a fetch failed: error {other}"))),
        }
        self.fetch(out);
        Ok(())
    }
}

/// Moves to the only partition of the only topic; returns its error.
fn to_partition(bytes: &mut Bytes<'_>) -> Result<u16, Problem> {
    if bytes.u32()? != 1 {
        return Err(Problem::new("an answer about no topic"));
    }
    text(bytes)?;
    if bytes.u32()? != 1 {
        return Err(Problem::new("an answer about no partition"));
    }
    bytes.take(4)?;
    bytes.u16()
}

/// A text with its length before it; empty for the length -1.
fn text<'a>(bytes: &mut Bytes<'a>) -> Result<&'a [u8], Problem> {
    match bytes.u16()? {
        u16::MAX => Ok(&[]),
        len => bytes.take(usize::from(len)),
    }
}

fn string(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text);
}

impl Driver for Kafka {
    fn opened(&mut self, out: &mut Vec<u8>) {
        self.ask_metadata(out);
    }

    fn received(&mut self, bytes: &[u8], out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<usize, Problem> {
        let mut rest = Bytes(bytes);
        loop {
            let mut reader = rest;
            let Ok(len) = reader.u32() else { break };
            let Ok(answer) = reader.take(len as usize) else { break };
            self.on_answer(answer, out, sink)?;
            rest = reader;
        }
        Ok(bytes.len() - rest.0.len())
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn publish(&mut self, payload: &[u8], _: &mut Vec<u8>) {
        self.gathered.add(payload);
        if self.gathered.len() >= FULL {
            self.closed.push_back(std::mem::take(&mut self.gathered));
        }
    }

    fn end_turn(&mut self, out: &mut Vec<u8>) {
        while self.asked.len() < IN_FLIGHT {
            let next = match self.closed.pop_front() {
                Some(closed) => closed,
                None if self.gathered.count > 0 => std::mem::take(&mut self.gathered),
                None => return,
            };
            self.produce(&next, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::{Noted, feed};
    use super::*;

    fn answer(parts: &[&[u8]]) -> Vec<u8> {
        let body = parts.concat();
        let mut out = ((body.len() + 4) as u32).to_be_bytes().to_vec();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&body);
        out
    }

    fn metadata(error: u8) -> Vec<u8> {
        let (none, one): (&[u8], &[u8]) = (&[0; 4], &[0, 0, 0, 1]);
        let topic: &[u8] = &[0, error, 0, 1, b't', 0];
        let partition: &[u8] = if error == 0 { &[0; 18] } else { &[] };
        let partitions = if error == 0 { one } else { none };
        answer(&[none, none, &[0xFF, 0xFF], none, one, topic, partitions, partition])
    }

    const PARTITION: &[u8] = &[0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0];

    #[test]
    fn a_subscriber_reads_from_the_end_on() {
        let (mut driver, mut noted) = (Kafka::new("t", false, Role::Subscribe), Noted::default());
        let mut out = Vec::new();
        driver.opened(&mut out);
        assert_eq!(out[4..8], [0, 3, 0, 4]);
        let again = feed(&mut driver, &metadata(5), 3, &mut noted);
        assert_eq!(again[4..8], [0, 3, 0, 4], "the topic is being made");
        let asked = feed(&mut driver, &metadata(0), 3, &mut noted);
        assert_eq!(asked[4..8], [0, 2, 0, 1]);
        let end = answer(&[PARTITION, &[0, 0], &[0xFF; 8], &40_u64.to_be_bytes()]);
        assert_eq!(feed(&mut driver, &end, 100, &mut noted)[4..8], [0, 1, 0, 4]);
        assert!(driver.is_ready());
        let mut gathered = Gathered::default();
        gathered.add(b"one");
        gathered.add(b"two");
        let mut batch = gathered.batch();
        batch[..8].copy_from_slice(&40_u64.to_be_bytes());
        let len = (batch.len() as u32).to_be_bytes();
        let fetched = answer(&[&[0; 4], PARTITION, &[0, 0], &[0; 16], &[0xFF; 4], &len, &batch]);
        feed(&mut driver, &fetched, 7, &mut noted);
        assert_eq!(noted.messages, [b"one".to_vec(), b"two".to_vec()]);
        assert_eq!(driver.offset, 42);
    }

    #[test]
    fn a_publisher_sends_batches_and_counts_acknowledgements() {
        let (mut driver, mut noted) = (Kafka::new("t", true, Role::Publish), Noted::default());
        driver.opened(&mut Vec::new());
        feed(&mut driver, &metadata(0), 100, &mut noted);
        assert!(driver.is_ready());
        let mut out = Vec::new();
        for _ in 0..3 {
            driver.publish(b"message", &mut out);
        }
        assert!(out.is_empty(), "the turn is not over");
        driver.end_turn(&mut out);
        assert_eq!(out[4..8], [0, 0, 0, 3]);
        let taken = answer(&[PARTITION, &[0, 0], &[0; 16], &[0; 4]]);
        feed(&mut driver, &taken, 5, &mut noted);
        assert_eq!(noted.acknowledged, 3);
        driver.publish(b"message", &mut out);
        driver.end_turn(&mut out);
        feed(&mut driver, &answer(&[PARTITION, &[0, 7], &[0; 16], &[0; 4]]), 5, &mut noted);
        assert_eq!(noted.refused, 1);
    }
}
