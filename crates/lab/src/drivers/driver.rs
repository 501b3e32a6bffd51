//! The interface of a protocol: how a connection is opened, and how messages are encoded.

/// The role of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Messages are published.
    Publish,
    /// Messages are received.
    Subscribe,
}

/// The peer violates the protocol, or reports an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem(pub(super) String);

impl Problem {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Receives the messages.
pub(super) trait Sink {
    /// A message.
    fn message(&mut self, payload: &[u8]);

    /// A number of further messages is acknowledged.
    fn acknowledged(&mut self, messages: u64);

    /// A number of further messages is refused.
    fn refused(&mut self, messages: u64);
}

/// One connection's protocol as a state machine: it owns no socket.
pub(super) trait Driver {
    /// The connection is established: appends the first bytes.
    fn opened(&mut self, out: &mut Vec<u8>);

    /// Processes received bytes, and appends answers; returns how many of the bytes were complete.
    ///
    /// # Errors
    /// When the connection is of no use any more.
    fn received(&mut self, bytes: &[u8], out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<usize, Problem>;

    /// Whether messages can be sent or received now.
    fn is_ready(&self) -> bool;

    /// Whether the peer allows no more messages for now.
    fn is_full(&self) -> bool {
        false
    }

    /// Sends a message.
    fn publish(&mut self, payload: &[u8], out: &mut Vec<u8>);

    /// Ends a turn: appends batched output.
    fn end_turn(&mut self, _: &mut Vec<u8>) {}

    /// A second has passed.
    fn each_second(&mut self, _: &mut Vec<u8>) {}

    /// The peer's product and version, if known.
    fn product(&self) -> Option<String> {
        None
    }
}

/// Reads big-endian numbers and short strings, as most of these protocols have them.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Problem> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| Problem::new("a frame ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Problem> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Problem> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Problem> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Problem> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length of one byte, and its bytes.
    pub(super) fn short(&mut self) -> Result<&'a [u8], Problem> {
        let len = self.u8()?;
        self.take(usize::from(len))
    }
}

/// A sink for tests of drivers.
#[cfg(test)]
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Noted {
    pub(super) messages: Vec<Vec<u8>>,
    pub(super) acknowledged: u64,
    pub(super) refused: u64,
}

#[cfg(test)]
impl Sink for Noted {
    fn message(&mut self, payload: &[u8]) {
        self.messages.push(payload.to_vec());
    }

    fn acknowledged(&mut self, messages: u64) {
        self.acknowledged += messages;
    }

    fn refused(&mut self, messages: u64) {
        self.refused += messages;
    }
}

/// Passes bytes to a driver in pieces of any size, as a socket does; returns its output.
#[cfg(test)]
pub(super) fn feed(driver: &mut dyn Driver, bytes: &[u8], piece: usize, noted: &mut Noted) -> Vec<u8> {
    let (mut held, mut out) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        held.extend_from_slice(piece);
        let taken = driver.received(&held, &mut out, noted).unwrap();
        held.drain(..taken);
    }
    assert!(held.is_empty(), "all of it was whole");
    out
}
