//! The packets of a case's clients, for the message of a failure, and their traces in the broker.

use crate::version::Version;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::time::Instant;

/// Entries kept; older ones are forgotten so that a case with thousands of packets stays readable.
const ENTRIES_MAX: usize = 40;

/// Bytes of a packet shown in full; the rest is only counted.
const SHOWN_BYTES_MAX: usize = 96;

/// The shared record of one run of one case. Cases are single-threaded, so interior mutability suffices.
#[derive(Debug)]
pub(crate) struct Journal {
    started: Instant,
    inner: RefCell<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: VecDeque<String>,
    forgotten: usize,
    sessions: BTreeMap<String, Version>,
    retained: BTreeSet<String>,
}

/// The state that a case leaves in the broker, to be removed.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    /// Client identifiers whose session may outlive the connection, with the version they spoke last.
    pub(crate) sessions: BTreeMap<String, Version>,
    /// Topics that may hold a retained message.
    pub(crate) retained: BTreeSet<String>,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), inner: RefCell::default() }
    }

    /// Records bytes that `who` sent (`->`) or received (`<-`), with the name of the packet.
    pub(crate) fn bytes(&self, who: &str, arrow: &str, name: &str, bytes: &[u8]) {
        self.note(who, &format!("{arrow} {name}\n{}", hex(bytes, "            ")));
    }

    /// Records an event without bytes, such as a closed connection.
    pub(crate) fn note(&self, who: &str, event: &str) {
        let milliseconds = self.started.elapsed().as_secs_f64() * 1000.0;
        let mut inner = self.inner.borrow_mut();
        if inner.entries.len() == ENTRIES_MAX {
            inner.entries.pop_front();
            inner.forgotten += 1;
        }
        let entry = format!("{milliseconds:8.1} ms {who} {event}");
        inner.entries.push_back(entry.trim_end().to_owned());
    }

    /// Remembers that a session of this client identifier may outlive its connection.
    pub(crate) fn leaves_session(&self, client_id: &str, version: Version) {
        let mut inner = self.inner.borrow_mut();
        inner.sessions.insert(client_id.to_owned(), version);
    }

    /// Remembers that this topic may hold a retained message.
    pub(crate) fn leaves_retained(&self, topic: &str) {
        self.inner.borrow_mut().retained.insert(topic.to_owned());
    }

    /// Takes the traces to clean up.
    pub(crate) fn take_traces(&self) -> Traces {
        let mut inner = self.inner.borrow_mut();
        Traces { sessions: std::mem::take(&mut inner.sessions), retained: std::mem::take(&mut inner.retained) }
    }

    /// The conversation so far, oldest entry first.
    pub(crate) fn render(&self) -> String {
        let inner = self.inner.borrow();
        let mut text = String::new();
        if inner.forgotten > 0 {
            let _ = writeln!(text, "({} earlier entries not shown)", inner.forgotten);
        }
        for entry in &inner.entries {
            let _ = writeln!(text, "{entry}");
        }
        text
    }
}

/// Hex and text columns, 16 bytes to the line, each line after `indent`.
pub(crate) fn hex(bytes: &[u8], indent: &str) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(16).take(SHOWN_BYTES_MAX / 16) {
        let mut columns = String::new();
        for byte in chunk {
            let _ = write!(columns, "{byte:02x} ");
        }
        let readable: String = chunk.iter().map(|byte| printable(*byte)).collect();
        let _ = writeln!(text, "{indent}{columns:48} {readable}");
    }
    if bytes.len() > SHOWN_BYTES_MAX {
        let _ = writeln!(text, "{indent}... {} bytes in all", bytes.len());
    }
    text
}

fn printable(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_shows_bytes_and_readable_text_and_the_full_length() {
        let dump = hex(b"\x10\x04MQTT", "");
        assert!(dump.starts_with("10 04 4d 51 54 54"), "{dump}");
        assert!(dump.trim_end().ends_with("..MQTT"), "{dump}");
        let long = hex(&[0; 1000], "");
        assert!(long.contains("... 1000 bytes in all"), "{long}");
    }

    #[test]
    fn the_journal_keeps_the_newest_entries() {
        let journal = Journal::new();
        for number in 0..100 {
            journal.note("client", &format!("says {number}"));
        }
        let text = journal.render();
        assert!(text.contains("(60 earlier entries not shown)"), "{text}");
        assert!(text.contains("says 99") && !text.contains("says 59\n"), "{text}");
    }
}
