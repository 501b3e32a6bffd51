//! A client, as small as it can be: there are many.

/// How far a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for its turn.
    Waiting,
    /// Its connection is being made.
    Dialling,
    /// It has sent CONNECT.
    Greeting,
    /// It has sent SUBSCRIBE.
    Subscribing,
    /// It works.
    Ready,
    /// It has no connection and will return.
    Away,
    /// It has no connection and will not return.
    Gone,
}

/// Bytes on their way to a connection.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) bytes: Vec<u8>,
    /// How many of them are written.
    pub(crate) written: usize,
}

/// Above this many bytes of capacity, an output that is empty gives its memory back.
const KEPT_CAPACITY: usize = 512 * 1024;

impl Output {
    /// The pending output.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// How many bytes are to be written.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Notes the number of further bytes written. `keep` is whether the memory will soon be used again.
    pub(crate) fn wrote(&mut self, count: usize, keep: bool) {
        self.written += count;
        if self.written == self.bytes.len() {
            self.written = 0;
            if keep && self.bytes.capacity() <= KEPT_CAPACITY {
                self.bytes.clear();
            } else {
                self.bytes = Vec::new();
            }
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[derive(Debug)]
pub(crate) struct Client {
    /// Its group in the plan.
    pub(crate) group: u16,
    /// Its number in the group, over all processes.
    pub(crate) number: u32,
    pub(crate) state: State,
    /// The connection of the two that it uses.
    pub(crate) slot: u8,
    /// Whether its connection is in the list of those with output.
    pub(crate) queued: bool,
    /// Whether it has subscribed before.
    pub(crate) known: bool,
    /// Whether it counts among those on their way.
    pub(crate) on_its_way: bool,
    /// The connections it has begun.
    pub(crate) epoch: u32,
    /// When it dialled or subscribed, or has left, in nanoseconds since the run's zero.
    pub(crate) since_ns: u64,
    pub(crate) publisher: u32,
    pub(crate) receiver: u32,
    /// The target's place that it connects to.
    pub(crate) place: u16,
    /// The packet id of the last message that it has passed on.
    pub(crate) relayed_id: u16,
    pub(crate) out: Output,
}

impl Client {
    /// The number of its connection; the client's own number is `index`.
    pub(crate) fn connection(&self, index: u32) -> u32 {
        index * 2 + u32::from(self.slot)
    }

    /// The packet id of the next message that it passes on. Ids come again after 65,535 messages, long after the broker
    /// has acknowledged the first.
    pub(crate) fn next_relayed_id(&mut self) -> u16 {
        self.relayed_id = self.relayed_id.checked_add(1).unwrap_or(1);
        self.relayed_id
    }

    /// Whether the broker has accepted it.
    pub(crate) const fn is_connected(&self) -> bool {
        matches!(self.state, State::Subscribing | State::Ready)
    }
}
