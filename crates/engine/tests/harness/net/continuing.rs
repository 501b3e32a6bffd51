//! Connections that continue at another process while their client's end stays.

use std::collections::VecDeque;

use tidegate_engine::{LeftConnection, ListenerId, NotContinued, Partitions, Reason};

use super::socket::{Socket, Stand};
use super::{Net, SocketId};
use crate::harness::side::Side;

/// The client's end of a connection whose server's end is to be found.
#[derive(Clone, Debug)]
pub(crate) struct Loose {
    side: Side,
    upstream: VecDeque<u8>,
}

impl Net {
    /// A connection leaves its home, if it may now. The client's end is loose.
    pub(crate) fn leave(&mut self, id: SocketId) -> Option<(LeftConnection, Loose)> {
        let Stand::At { shard, key } = self.sockets[id].stand else { return None };
        let left = self.engines[shard].moves().leave(self.now, key)?;
        self.gather(shard);
        self.trace.note(format!("shard {shard}: socket {id} leaves"));
        self.by_key[shard].remove(&key);
        self.live.remove(&id);
        self.engines[shard].release_connection(key);
        let socket = &mut self.sockets[id];
        (socket.stand, socket.dirty) = (Stand::Gone, false);
        let (side, upstream) = (socket.side.clone(), std::mem::take(&mut socket.upstream));
        self.gather(shard);
        Some((left, Loose { side, upstream }))
    }

    /// A loose end is tied to the new home of its client.
    pub(crate) fn tie(&mut self, loose: Loose, left: &LeftConnection, shard: usize) -> Result<SocketId, NotContinued> {
        let id = self.sockets.len();
        let Loose { side, upstream } = loose;
        let key = self.engines[shard].open_connection(self.now, ListenerId(0)).expect("no limit is reached");
        let continued = self.engines[shard].homes().continue_connection(self.now, key, &left.image, false);
        if let Err(error) = continued {
            if error == NotContinued::NotExpected {
                let rest: Vec<u8> = left.tail.iter().copied().chain(upstream).collect();
                self.engines[shard].homes().end_unexpected(self.now, &left.image, &rest);
            }
            self.engines[shard].release_connection(key);
            self.gather(shard);
            return Err(error);
        }
        self.sockets.push(Socket {
            upstream: left.tail.iter().copied().chain(upstream).collect(),
            ..Socket::new(side, Stand::At { shard, key }, ListenerId(0))
        });
        self.live.insert(id);
        self.by_key[shard].insert(key, id);
        self.gather(shard);
        Ok(id)
    }

    /// Clients of partitions that are about to move leave with their connections, if sockets stay.
    pub(super) fn let_leave(&mut self, node: usize, partitions: Partitions) {
        if !self.sockets_stay {
            return;
        }
        for shard in self.nodes.engines_of(node) {
            for key in self.engines[shard].moves().begin_to_leave(partitions, false) {
                let id = self.by_key[shard][&key];
                if self.sockets[id].closing.is_some() {
                    continue;
                }
                let Some(left) = self.engines[shard].moves().leave(self.now, key) else { continue };
                self.gather(shard);
                self.trace.note(format!("shard {shard}: socket {id} leaves"));
                self.by_key[shard].remove(&key);
                self.live.remove(&id);
                self.engines[shard].release_connection(key);
                let socket = &mut self.sockets[id];
                (socket.closing, socket.dirty, socket.paused) = (None, false, false);
                socket.stand = Stand::Departed(Box::new(left));
            }
            self.gather(shard);
        }
    }

    /// Connections that have left continue at their new homes, where these serve.
    pub(super) fn continue_departed(&mut self) {
        for id in 0..self.sockets.len() {
            let Stand::Departed(left) = &self.sockets[id].stand else { continue };
            let (left, shard) = (left.clone(), self.nodes.home_of(left.image.partition()));
            if self.nodes.lives(self.nodes.node_of(shard)) {
                self.continue_at(id, shard, &left);
            }
        }
    }

    fn continue_at(&mut self, id: SocketId, shard: usize, left: &LeftConnection) {
        let listener = self.sockets[id].listener;
        let Ok(key) = self.engines[shard].open_connection(self.now, listener) else { return };
        let continued = self.engines[shard].homes().continue_connection(self.now, key, &left.image, false);
        if continued == Err(NotContinued::NotExpected) {
            let rest: Vec<u8> = left.tail.iter().copied().chain(self.sockets[id].upstream.iter().copied()).collect();
            self.engines[shard].homes().end_unexpected(self.now, &left.image, &rest);
        }
        let socket = &mut self.sockets[id];
        match continued {
            Ok(()) => {
                self.continued += 1;
                socket.stand = Stand::At { shard, key };
                for byte in left.tail.iter().rev() {
                    socket.upstream.push_front(*byte);
                }
                self.live.insert(id);
                self.by_key[shard].insert(key, id);
            }
            Err(NotContinued::NotHere) => self.engines[shard].release_connection(key),
            Err(NotContinued::NotExpected | NotContinued::Refused(_)) => {
                // No engine counts its end.
                self.broken += 1;
                (socket.stand, socket.closed) = (Stand::Gone, Some(Reason::NotServedHere));
                self.engines[shard].release_connection(key);
            }
        }
        self.trace.note(format!("shard {shard}: socket {id} continues: {continued:?}"));
        self.gather(shard);
    }
}
