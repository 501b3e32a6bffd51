//! Bytes that wait for one socket.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

/// Encoded packets in order. Small packets lie in one buffer; a large payload is referred to at its place between them.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    /// How much of `bytes` is written already.
    head: usize,
    /// Shared payloads by their place in `bytes`, in order.
    shared: VecDeque<Shared>,
    /// Unwritten bytes of all shared payloads.
    shared_len: usize,
    /// Bytes written since they were counted last.
    written: usize,
    /// Places in `bytes` from which on everything waits for a batch of the journal, and for which, in order of both.
    holds: VecDeque<Hold>,
    /// Whether a part of it was written since it was empty: where a packet begins is known at its holds only, then.
    begun: bool,
    /// Position from which all bytes wait for the decision about the node of the client.
    withheld: Option<Withheld>,
}

/// A place that only [`Output::go_on`] gives free.
#[derive(Clone, Copy, Debug)]
struct Withheld {
    at: usize,
    /// Whether a packet begins at that position.
    between: bool,
}

/// A place that a commit gives free.
#[derive(Clone, Copy, Debug)]
struct Hold {
    at: usize,
    batch: u64,
}

#[derive(Debug)]
struct Shared {
    /// The payload follows this many bytes of `bytes`.
    at: usize,
    payload: Arc<[u8]>,
    written: usize,
}

impl Output {
    /// Whether everything is written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.bytes.len() && self.shared.is_empty()
    }

    /// True if bytes may be written now. Packets that wait for a commit may not.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.head < self.limit() || self.shared.front().is_some_and(|shared| shared.at <= self.limit())
    }

    /// Bytes that may be written now.
    pub fn writable_len(&self) -> usize {
        let Some(at) = self.barrier() else { return self.len() };
        let before = self.shared.iter().take_while(|shared| shared.at <= at);
        at - self.head + before.map(|shared| shared.payload.len() - shared.written).sum::<usize>()
    }

    /// The end of the writable part of `bytes`. A shared payload is behind the bytes of its packet, so a payload at
    /// just this position belongs to the last packet before it.
    #[inline]
    fn limit(&self) -> usize {
        self.barrier().unwrap_or(self.bytes.len())
    }

    /// The start of the waiting bytes.
    #[inline]
    fn barrier(&self) -> Option<usize> {
        let hold = self.holds.front().map(|hold| hold.at);
        self.withheld.map(|withheld| withheld.at).into_iter().chain(hold).min()
    }

    /// Withholds all unwritten output, except [`Output::push_ahead`] packets, until [`Output::go_on`].
    pub(crate) fn withhold(&mut self) {
        let between = !self.begun || self.holds.front().is_some_and(|hold| hold.at == self.head);
        self.withheld.get_or_insert(Withheld { at: self.head, between });
    }

    /// Releases the withheld output; returns true if bytes may be written now.
    pub(crate) fn go_on(&mut self) -> bool {
        self.withheld = None;
        self.is_writable()
    }

    /// Appends a packet that promises nothing: ahead of the waiting packets, if a packet ends there.
    pub(crate) fn push_ahead(&mut self, packet: &[u8]) {
        let known = self.withheld.is_none_or(|withheld| withheld.between);
        let Some(at) = self.barrier().filter(|_| known) else { return self.append(packet) };
        self.bytes.splice(at..at, packet.iter().copied());
        for hold in &mut self.holds {
            hold.at += packet.len();
        }
        if let Some(withheld) = &mut self.withheld {
            withheld.at += packet.len();
        }
        // A payload at just this place belongs to the packet before it.
        for shared in self.shared.iter_mut().filter(|shared| shared.at > at) {
            shared.at += packet.len();
        }
    }

    /// Everything from `at` on, a place of the buffer, waits until a batch is committed.
    pub(crate) fn hold(&mut self, at: usize, batch: u64) {
        if self.holds.back().is_none_or(|last| last.batch < batch) {
            self.holds.push_back(Hold { at, batch });
        }
    }

    /// All batches up to this one are committed; returns whether further bytes may be written.
    pub(crate) fn release(&mut self, committed: u64) -> bool {
        let before = self.holds.len();
        while self.holds.front().is_some_and(|hold| hold.batch <= committed) {
            self.holds.pop_front();
        }
        self.holds.len() < before
    }

    /// Bytes not yet written.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.head + self.shared_len
    }

    /// Fills `into` with the unwritten bytes in order and returns how many slices were filled.
    pub fn slices<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        let mut from = self.head;
        let mut push = |slice: &'a [u8]| {
            if slice.is_empty() {
                return true;
            }
            let Some(place) = into.get_mut(filled) else { return false };
            *place = IoSlice::new(slice);
            filled += 1;
            true
        };
        let limit = self.limit();
        for shared in self.shared.iter().take_while(|shared| shared.at <= limit) {
            if !push(&self.bytes[from..shared.at]) || !push(&shared.payload[shared.written..]) {
                return filled;
            }
            from = shared.at;
        }
        push(&self.bytes[from..limit]);
        filled
    }

    /// Removes `written` bytes.
    #[inline]
    pub fn advance(&mut self, written: usize) {
        self.written += written;
        if self.shared.is_empty() {
            self.head = (self.head + written).min(self.bytes.len());
        } else {
            self.advance_shared(written);
        }
        if self.is_empty() {
            self.bytes.clear();
            self.head = 0;
            self.begun = false;
            if let Some(withheld) = &mut self.withheld {
                withheld.at = 0;
            }
        } else {
            self.begun |= written > 0;
            self.compact();
        }
    }

    fn advance_shared(&mut self, mut written: usize) {
        while written > 0 {
            let end = self.shared.front().map_or(self.bytes.len(), |shared| shared.at);
            let step = written.min(end - self.head);
            self.head += step;
            written -= step;
            let Some(shared) = self.shared.front_mut() else { break };
            let step = written.min(shared.payload.len() - shared.written);
            shared.written += step;
            self.shared_len -= step;
            written -= step;
            if shared.written == shared.payload.len() {
                self.shared.pop_front();
            }
        }
    }

    /// A slow reader's buffer would creep upwards forever; moving the rest down once half is written keeps it bounded.
    fn compact(&mut self) {
        if self.head < 64 * 1024 || self.head * 2 < self.bytes.len() {
            return;
        }
        self.bytes.drain(..self.head);
        for shared in &mut self.shared {
            shared.at -= self.head;
        }
        for hold in &mut self.holds {
            hold.at -= self.head;
        }
        if let Some(withheld) = &mut self.withheld {
            withheld.at -= self.head;
        }
        self.head = 0;
    }

    /// The buffer that packets are appended to.
    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends bytes of another source unchanged.
    pub fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a payload without copying it.
    pub(crate) fn push_shared(&mut self, payload: Arc<[u8]>) {
        self.shared_len += payload.len();
        self.shared.push_back(Shared { at: self.bytes.len(), payload, written: 0 });
    }

    /// Bytes written since this was asked last.
    #[inline]
    pub(crate) fn take_written(&mut self) -> u64 {
        std::mem::take(&mut self.written) as u64
    }

    /// Bytes that its own buffer could hold.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Empties it for its next user.
    pub(crate) fn reset(&mut self) {
        self.bytes.clear();
        self.head = 0;
        self.shared.clear();
        self.shared_len = 0;
        self.written = 0;
        self.holds.clear();
        self.begun = false;
        self.withheld = None;
    }
}

/// Output buffers that no connection needs at the moment, kept warm for the next one.
#[derive(Debug, Default)]
pub(crate) struct OutputPool {
    #[expect(clippy::vec_box, reason = "a connection holds one pointer; the box itself is reused")]
    free: Vec<Box<Output>>,
    /// The same above [`POOL_BUFFER_BYTES`], for connections that have needed as much, such as links.
    #[expect(clippy::vec_box, reason = "a connection holds one pointer; the box itself is reused")]
    large: Vec<Box<Output>>,
}

/// Buffers kept for reuse; more are freed.
const POOL_BUFFERS: usize = 128;
/// A buffer that grew beyond this is large, bytes: few of them are kept, so that a burst does not stay in memory.
const POOL_BUFFER_BYTES: usize = 64 * 1024;
/// Large buffers kept for reuse, and the bytes beyond which one is freed.
const POOL_LARGE_BUFFERS: usize = 4;
const POOL_LARGE_BYTES: usize = 1024 * 1024;

impl OutputPool {
    /// A buffer for a connection whose last one was `large` or not. Most packets find the buffer of an earlier packet of
    /// the turn, so that this stays out of their path.
    #[cold]
    pub(crate) fn take(&mut self, large: bool) -> Box<Output> {
        let output = if large { self.large.pop() } else { None };
        output.or_else(|| self.free.pop()).unwrap_or_default()
    }

    /// Takes a buffer back; returns whether it is large.
    #[inline]
    pub(crate) fn put(&mut self, mut output: Box<Output>) -> bool {
        let large = output.capacity() > POOL_BUFFER_BYTES;
        let has_room = if large {
            self.large.len() < POOL_LARGE_BUFFERS && output.capacity() <= POOL_LARGE_BYTES
        } else {
            self.free.len() < POOL_BUFFERS
        };
        if has_room {
            output.reset();
            if large { &mut self.large } else { &mut self.free }.push(output);
        }
        large
    }

    /// Frees everything, after a peak.
    pub(crate) fn clear(&mut self) {
        (self.free, self.large) = (Vec::new(), Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(output: &mut Output, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while !output.is_empty() {
            let mut slices = [IoSlice::new(&[]); 3];
            let filled = output.slices(&mut slices);
            let mut bytes: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.to_vec()).collect();
            bytes.truncate(step);
            all.extend_from_slice(&bytes);
            let written = bytes.len();
            output.advance(written);
        }
        all
    }

    #[test]
    fn partial_writes_keep_shared_payloads_in_place() {
        for step in 1..40 {
            let mut output = Output::default();
            output.buffer().extend_from_slice(b"head-1:");
            output.push_shared(Arc::from(&b"payload one"[..]));
            output.buffer().extend_from_slice(b"head-2:");
            output.push_shared(Arc::from(&b"payload two"[..]));
            output.push_shared(Arc::from(&b"payload three"[..]));
            output.buffer().extend_from_slice(b"end");
            let expected = b"head-1:payload onehead-2:payload twopayload threeend";
            assert_eq!(output.len(), expected.len());
            assert_eq!(drain(&mut output, step), expected, "step {step}");
            assert_eq!(output.len(), 0);
        }
    }

    #[test]
    fn a_slow_reader_does_not_make_the_buffer_creep() {
        let mut output = Output::default();
        for _ in 0..1000 {
            output.buffer().extend_from_slice(&[7; 4096]);
            let waiting = output.len();
            output.advance(waiting.min(4000));
        }
        assert!(output.capacity() < 1024 * 1024, "{}", output.capacity());
    }

    #[test]
    fn a_connection_gets_a_buffer_of_its_last_size() {
        let mut pool = OutputPool::default();
        let used = |pool: &mut OutputPool, large, bytes| {
            let mut output = pool.take(large);
            output.buffer().resize(bytes, 7);
            output.advance(bytes);
            (pool.put(output), pool.take(large).capacity())
        };
        assert!(!used(&mut pool, false, 100).0);
        let (large, capacity) = used(&mut pool, true, POOL_BUFFER_BYTES + 1);
        assert!(large && capacity > POOL_BUFFER_BYTES);
        assert_eq!(used(&mut pool, true, POOL_LARGE_BYTES + 1), (true, 0), "it is freed");
        for _ in 0..2 * POOL_LARGE_BUFFERS {
            let mut output = Box::<Output>::default();
            output.buffer().reserve(POOL_BUFFER_BYTES + 1);
            pool.put(output);
        }
        assert_eq!(pool.large.len(), POOL_LARGE_BUFFERS);
        assert!(pool.take(false).capacity() <= POOL_BUFFER_BYTES);
        pool.clear();
        assert_eq!(pool.take(true).capacity(), 0);
    }

    fn written(output: &Output) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 9];
        let filled = output.slices(&mut slices);
        slices[..filled].iter().flat_map(|slice| slice.to_vec()).collect()
    }

    #[test]
    fn packets_without_a_promise_overtake_at_packet_ends() {
        let mut output = Output::default();
        output.append(b"ab");
        output.push_shared(Arc::from(&b"CD"[..]));
        output.hold(2, 7);
        output.append(b"ef");
        output.push_shared(Arc::from(&b"GH"[..]));
        output.push_ahead(b"!");
        assert_eq!((written(&output), output.writable_len()), (b"abCD!".to_vec(), 5));
        output.withhold();
        assert!(!output.is_writable());
        output.push_ahead(b"?");
        assert_eq!(written(&output), b"?");
        output.advance(1);
        assert!(!output.is_writable() && !output.release(6));
        assert!(output.release(7) && !output.is_writable());
        assert!(output.go_on());
        assert_eq!(written(&output), b"abCD!efGH");
    }

    #[test]
    fn in_the_middle_of_a_packet_nothing_goes_ahead() {
        let mut output = Output::default();
        output.append(b"abcd");
        output.advance(1);
        output.withhold();
        output.push_ahead(b"!");
        assert!(!output.is_writable() && output.go_on());
        assert_eq!(written(&output), b"bcd!");
        output.advance(4);
        // All is written: it starts again.
        output.withhold();
        output.append(b"ab");
        output.push_ahead(b"!");
        assert_eq!(written(&output), b"!");
        output.advance(1);
        assert!(!output.is_writable() && output.go_on());
        assert_eq!(written(&output), b"ab");
    }
}
