//! The trace of a run, for the test that fails.

use std::collections::VecDeque;

/// Lines shown when a test fails, unless `TIDEGATE_TRACE_LINES` says another number.
const TAIL_LINES: usize = 60;

/// The trace of a run: a digest of all events and the last lines.
#[derive(Debug)]
pub(crate) struct Trace {
    pub title: String,
    pub digest: u64,
    pub steps: u64,
    tail: VecDeque<String>,
    /// How many lines are kept.
    lines: usize,
    /// Whether each line is shown at once: several worlds of one run are read together then.
    is_shown: bool,
}

impl Trace {
    /// Nothing has happened yet.
    pub(super) fn new(title: String) -> Self {
        let lines = std::env::var("TIDEGATE_TRACE_LINES").ok().and_then(|text| text.parse().ok());
        let lines = lines.unwrap_or(TAIL_LINES);
        let is_shown = std::env::var_os("TIDEGATE_TRACE_AT_ONCE").is_some();
        Self { title, digest: 0xcbf2_9ce4_8422_2325, steps: 0, tail: VecDeque::new(), lines, is_shown }
    }

    pub(crate) fn note(&mut self, line: String) {
        for byte in line.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.steps += 1;
        if self.is_shown {
            eprintln!("{}: {line}", self.title);
        }
        if self.tail.len() == self.lines {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    /// Shows the last lines.
    pub(super) fn show(&self) {
        eprintln!("--- {} · step {} · last steps:", self.title, self.steps);
        for line in &self.tail {
            eprintln!("    {line}");
        }
    }
}

/// The packet types in a piece of a stream, as far as it starts with a packet: for reading a trace.
pub(super) fn kinds(bytes: &[u8]) -> String {
    let mut names = Vec::new();
    let mut rest = bytes;
    while names.len() < 8
        && let Ok(Some(frame)) = tidegate_mqtt::split_frame(rest, tidegate_mqtt::MAX_PACKET_SIZE)
    {
        names.push(frame.packet_type().name());
        rest = &rest[frame.total_len..];
    }
    if !rest.is_empty() {
        names.push("...");
    }
    names.join(" ")
}
