//! Sockets: the ends of clients, and the shell's handling of the other ones.

use std::collections::VecDeque;
use std::io::IoSlice;

use tidegate_engine::{ConnectionKey, LeftConnection, ListenerId, Preset, Reason};

use super::Net;
use super::trace::kinds;
use crate::harness::Connecting;
use crate::harness::side::Side;

/// A socket by its number; numbers are not used again.
pub(crate) type SocketId = usize;

/// The state of the server's end of a socket.
#[derive(Debug)]
pub(super) enum Stand {
    At {
        shard: usize,
        key: ConnectionKey,
    },
    Moving {
        home: usize,
        bytes: Vec<u8>,
    },
    /// It has left its home, and waits for the new one.
    Departed(Box<LeftConnection>),
    Gone,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub(crate) struct Socket {
    pub side: Side,
    /// The broker at the other end, where the engine is the client.
    pub broker: Option<String>,
    pub(super) stand: Stand,
    pub(super) listener: ListenerId,
    pub(super) preset: Preset,
    /// The host that the shell names before the CONNECT.
    pub(super) host: Option<String>,
    /// Whether the broker itself is the client.
    pub(super) own: bool,
    /// Bytes that the client has sent and the server has not read.
    pub(super) upstream: VecDeque<u8>,
    /// The client has closed its end: the server sees it behind `upstream`.
    pub(super) hung_up: bool,
    /// The engine knows it; it may end the connection later.
    pub(super) end_reported: bool,
    /// The server was asked not to read.
    pub paused: bool,
    /// Bytes that the client's end still takes.
    pub(super) window: usize,
    pub(super) dirty: bool,
    /// The engine has asked for the end of the connection.
    pub(super) closing: Option<Reason>,
    /// The end of the connection waits for a commit that gives the rest of its output free.
    pub(super) awaits_commit: bool,
    /// Why the server's end is gone.
    pub closed: Option<Reason>,
}

impl Socket {
    /// A socket that has just been opened.
    pub(super) fn new(side: Side, stand: Stand, listener: ListenerId) -> Self {
        Self {
            side,
            broker: None,
            stand,
            listener,
            preset: Preset::default(),
            host: None,
            own: false,
            upstream: VecDeque::new(),
            hung_up: false,
            end_reported: false,
            paused: false,
            window: usize::MAX,
            dirty: false,
            closing: None,
            awaits_commit: false,
            closed: None,
        }
    }

    /// Whether there can be a step for it: it has something to read or to write, moves, or ends.
    pub(super) fn may_act(&self) -> bool {
        let moves = matches!(self.stand, Stand::Moving { .. });
        !self.upstream.is_empty() || self.hung_up || self.dirty || self.closing.is_some() || moves
    }
}

impl Net {
    /// Opens a socket to the given shard, or to the next in turn.
    pub(crate) fn open(&mut self, side: Side, connecting: &Connecting) -> SocketId {
        let asked = connecting.accept_on.map_or(self.next_acceptor % self.engines.len(), usize::from);
        let mut those = (asked..self.engines.len()).chain(0..asked);
        let lives = |shard: &usize| self.nodes.lives(self.nodes.node_of(*shard));
        let shard = those.find(lives).expect("a node that lives");
        self.next_acceptor += 1;
        let id = self.sockets.len();
        self.trace.note(format!("{} opens socket {id} at shard {shard}", side.client_id));
        self.sockets.push(Socket {
            preset: connecting.preset.clone(),
            host: connecting.host.clone(),
            own: connecting.own,
            ..Socket::new(side, Stand::Gone, connecting.listener)
        });
        self.accept(id, shard, &[]);
        id
    }

    fn accept(&mut self, id: SocketId, shard: usize, bytes: &[u8]) {
        let listener = self.sockets[id].listener;
        let (engine, own) = (&mut self.engines[shard], self.sockets[id].own);
        let opened = if own {
            engine.entry().open_own_connection(self.now, listener)
        } else {
            engine.open_connection(self.now, listener)
        };
        match opened {
            Ok(key) => {
                self.sockets[id].stand = Stand::At { shard, key };
                self.live.insert(id);
                self.by_key[shard].insert(key, id);
                self.engines[shard].control().preset_connection(key, self.sockets[id].preset.clone());
                if let Some(host) = &self.sockets[id].host {
                    self.engines[shard].control().name_host(key, host);
                }
                if !bytes.is_empty() {
                    self.engines[shard].handle_input(self.now, key, bytes);
                }
                self.gather(shard);
            }
            Err(reason) => {
                self.trace.note(format!("shard {shard}: refuses socket {id}: {reason:?}"));
                self.sockets[id].stand = Stand::Gone;
                self.live.remove(&id);
                self.sockets[id].closed = Some(reason);
            }
        }
    }

    pub(crate) fn send(&mut self, id: SocketId, bytes: &[u8]) {
        let socket = &mut self.sockets[id];
        if !socket.hung_up {
            socket.upstream.extend(bytes);
        }
    }

    /// The client closes its end; the server may still read the bytes sent.
    pub(crate) fn hang_up(&mut self, id: SocketId) {
        let socket = &mut self.sockets[id];
        socket.hung_up = true;
        let name = socket.side.client_id.clone();
        self.trace.note(format!("{name} hangs up socket {id}"));
    }

    /// The network breaks: only `survives` of the client's bytes still arrive.
    pub(crate) fn cut(&mut self, id: SocketId, survives: usize) {
        self.sockets[id].upstream.truncate(survives);
        self.hang_up(id);
    }

    /// Bytes that the server has not read yet.
    pub(crate) fn upstream_len(&self, id: SocketId) -> usize {
        self.sockets[id].upstream.len()
    }

    /// How many bytes the client's end takes from now on.
    pub(crate) fn set_window(&mut self, id: SocketId, bytes: usize) {
        self.sockets[id].window = bytes;
    }

    pub(crate) fn add_window(&mut self, id: SocketId, bytes: usize) {
        let window = &mut self.sockets[id].window;
        *window = window.saturating_add(bytes);
    }

    /// The shard where a socket's connection is at present.
    pub(crate) fn shard_of(&self, id: SocketId) -> Option<usize> {
        match self.sockets[id].stand {
            Stand::At { shard, .. } => Some(shard),
            Stand::Moving { .. } | Stand::Departed(_) | Stand::Gone => None,
        }
    }

    /// Bytes that wait in the engine for a socket.
    pub(crate) fn output_len(&mut self, id: SocketId) -> usize {
        let Stand::At { shard, key } = self.sockets[id].stand else { return 0 };
        self.engines[shard].output(key).map_or(0, |output| output.len())
    }

    pub(super) fn adopt(&mut self, id: SocketId) {
        let Stand::Moving { home, bytes } = std::mem::replace(&mut self.sockets[id].stand, Stand::Gone) else { return };
        self.trace.note(format!("shard {home}: adopts socket {id} with {} bytes", bytes.len()));
        self.accept(id, home, &bytes);
    }

    pub(super) fn read(&mut self, id: SocketId) {
        let Stand::At { shard, key } = self.sockets[id].stand else { return };
        let all = self.sockets[id].upstream.len();
        let name = self.sockets[id].side.client_id.clone();
        if all == 0 {
            self.trace.note(format!("shard {shard}: {name} is gone (socket {id})"));
            self.sockets[id].end_reported = true;
            self.engines[shard].handle_transport_closed(self.now, key);
        } else {
            let part = self.part(all).min(all);
            let bytes: Vec<u8> = self.sockets[id].upstream.drain(..part).collect();
            self.trace.note(format!("shard {shard}: reads {part} bytes of {name} (socket {id}): {}", kinds(&bytes)));
            self.engines[shard].handle_input(self.now, key, &bytes);
        }
        self.gather(shard);
    }

    /// Writes up to `bound` bytes of a connection's output.
    pub(super) fn write(&mut self, id: SocketId, bound: usize) {
        let Stand::At { shard, key } = self.sockets[id].stand else { return };
        if self.sockets[id].hung_up {
            self.sockets[id].dirty = false;
            self.trace.note(format!("shard {shard}: cannot write to socket {id}"));
            self.engines[shard].handle_transport_closed(self.now, key);
            self.gather(shard);
            return;
        }
        let bound = bound.min(self.sockets[id].window);
        let mut bytes = Vec::new();
        let mut left = false;
        if let Some(output) = self.engines[shard].output(key) {
            while bytes.len() < bound && output.is_writable() {
                let mut slices = [IoSlice::new(&[]); 4];
                let filled = output.slices(&mut slices);
                let room = bound - bytes.len();
                let part: Vec<u8> =
                    slices[..filled].iter().flat_map(|slice| slice.iter().copied()).take(room).collect();
                output.advance(part.len());
                bytes.extend(part);
            }
            left = output.is_writable();
        }
        let socket = &mut self.sockets[id];
        socket.dirty = left;
        if socket.window != usize::MAX {
            socket.window -= bytes.len();
        }
        let name = socket.side.client_id.clone();
        let packets = if socket.broker.is_some() { kinds(&bytes) } else { String::new() };
        self.trace.note(format!("shard {shard}: writes {} bytes to {name} (socket {id}) {packets}", bytes.len()));
        if self.sockets[id].broker.is_some() {
            self.give_to_broker(id, &bytes);
        } else {
            let replies = self.sockets[id].side.receive(&bytes);
            self.sockets[id].upstream.extend(replies);
        }
        self.engines[shard].outputs().handle_written(self.now, key);
        self.gather(shard);
    }

    pub(super) fn finish(&mut self, id: SocketId) {
        let Stand::At { shard, key } = self.sockets[id].stand else { return };
        if !self.sockets[id].hung_up {
            self.write(id, usize::MAX);
            if self.output_len(id) > 0 && self.sockets[id].window > 0 {
                // The rest waits for a commit; the shell waits with it for a while.
                self.sockets[id].awaits_commit = true;
                return;
            }
        }
        let socket = &mut self.sockets[id];
        socket.closed = socket.closing;
        socket.stand = Stand::Gone;
        self.live.remove(&id);
        let line = format!("shard {shard}: closes socket {id} of {}: {:?}", socket.side.client_id, socket.closed);
        self.trace.note(line);
        self.tell_broker_of_end(id);
        self.by_key[shard].remove(&key);
        self.engines[shard].release_connection(key);
        self.gather(shard);
    }

    /// A client's bytes go on at its home on another node.
    pub(super) fn relay(&mut self, shard: usize, key: ConnectionKey, home: usize) {
        let id = self.by_key[shard].remove(&key).expect("Relay names a connection that the shell has");
        self.sockets[id].dirty = false;
        self.sockets[id].paused = false;
        let Some(bytes) = self.engines[shard].homes().leave_for_home(key) else { return };
        if !self.nodes.lives(self.nodes.node_of(home)) {
            self.sockets[id].stand = Stand::Gone;
            self.sockets[id].closed = Some(Reason::HomeUnreachable);
            self.live.remove(&id);
            return;
        }
        self.sockets[id].stand = Stand::Moving { home, bytes };
    }
}
