//! The state of a session whose bytes a third node carries.

use std::collections::VecDeque;
use std::io::Read as _;
use std::ops::Range;

use super::NodeName;
use super::slots::SessionId;
use super::wire::{Part, Portion};

/// How the bytes of a session come and go while another node carries them.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent facts about one direction")]
pub(super) struct Indirect {
    /// The session with the node that carries.
    pub carrier: SessionId,
    /// The node that carries.
    pub through: NodeName,
    /// The node at the other end.
    pub with: NodeName,
    /// The number of the session, as the node that dialed has given it.
    pub number: u64,
    /// Bytes that were received and not read.
    pub arrived: VecDeque<u8>,
    /// Bytes that were received over the direct connection, and belong behind all that is carried.
    ahead: Vec<u8>,
    /// All that the other side has given to be carried has come.
    pub is_complete: bool,
    /// The session has ended at the other side: it ends here behind the bytes that arrived.
    pub is_over: bool,
    /// More is read from here.
    pub reads: bool,
    /// Output is carried.
    pub writes: bool,
}

impl Indirect {
    pub(super) fn new(carrier: SessionId, through: NodeName, with: NodeName, number: u64) -> Self {
        Self {
            carrier,
            through,
            with,
            number,
            arrived: VecDeque::new(),
            ahead: Vec::new(),
            is_complete: false,
            is_over: false,
            reads: true,
            writes: true,
        }
    }

    /// Whether it depends on the node that carries.
    pub(super) fn is_carried(&self) -> bool {
        self.reads || self.writes
    }

    /// Reads received bytes.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> usize {
        if self.reads && self.is_complete {
            self.reads = false;
            self.arrived.extend(std::mem::take(&mut self.ahead));
        }
        // Memory never fails to be read.
        self.arrived.read(buffer).unwrap_or_default()
    }

    /// Takes bytes of the direct connection that arrived before the carried ones were read to their end.
    pub(super) fn put_ahead(&mut self, bytes: Vec<u8>) {
        if self.reads {
            self.ahead = bytes;
        } else {
            self.arrived.extend(bytes);
        }
    }

    /// A part of the session, for the carrying node.
    pub(super) fn portion<'a>(&self, part: Part, body: &'a [u8]) -> Portion<'a> {
        Portion { node: self.with.clone(), number: self.number, part, body }
    }

    /// Whether a part that a node has carried belongs to it.
    pub(super) fn is(&self, carrier: SessionId, portion: &Portion<'_>) -> bool {
        let is_number = self.number == portion.number || portion.part == Part::Unreachable;
        self.is_carried() && self.carrier == carrier && self.with == portion.node && is_number
    }
}

/// The places of carried frames in the output of a session.
#[derive(Debug, Default)]
pub(super) struct CarriedOutput {
    /// In order. Adjacent frames are one range.
    ranges: VecDeque<Range<usize>>,
    /// Bytes of all ranges.
    bytes: usize,
}

impl CarriedOutput {
    /// A carried frame takes this range of the output.
    pub(super) fn add(&mut self, range: Range<usize>) {
        self.bytes += range.len();
        match self.ranges.back_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => self.ranges.push_back(range),
        }
    }

    /// Carried bytes behind the first `written` bytes of the output.
    pub(super) fn waiting(&mut self, written: usize) -> usize {
        while let Some(range) = self.ranges.front() {
            if range.end > written {
                return self.bytes - written.saturating_sub(range.start);
            }
            self.bytes -= range.len();
            self.ranges.pop_front();
        }
        0
    }

    /// The output is empty.
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.bytes = 0;
    }
}

/// A frame for the carrying node, which is sent as soon as its session is not being worked.
#[derive(Debug)]
pub(super) struct Notice {
    pub carrier: SessionId,
    pub portion: Portion<'static>,
    pub body: Vec<u8>,
}
