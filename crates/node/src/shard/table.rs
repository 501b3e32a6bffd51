//! The shell's half of each connection: its socket and a few flags. Engine and shell use the same index.

use std::net::{IpAddr, SocketAddr};

use mio::Token;
use tidegate_engine::{ConnectionKey, ListenerId};

use crate::admission::Seat;
use crate::peer::Peer;
use crate::transport::Transport;

/// The shell's state of one connection.
#[derive(Debug)]
pub(crate) struct Slot {
    transport: Option<Transport>,
    generation: u32,
    /// The listener of the connection.
    pub listener: ListenerId,
    /// Its slot in the count of its address.
    seat: Seat,
    /// Its origin, for when its socket no longer knows it.
    origin: Origin,
    /// Its state.
    pub flags: Flags,
}

// An idle TCP connection costs the shell this much. Debug builds of mio add a check to each socket.
#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<Slot>() <= 48);

/// The address that a connection was accepted from, in a compact form. IPv4 addresses are mapped ones, and port 0 means
/// no address.
#[derive(Clone, Copy, Debug, Default)]
struct Origin {
    ip: [u8; 16],
    port: u16,
}

impl Origin {
    fn of(peer: Peer) -> Self {
        let Peer::Address(address) = peer else { return Self::default() };
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        Self { ip: ip.octets(), port: address.port() }
    }

    fn peer(self) -> Peer {
        match self.port {
            0 => Peer::Gone,
            port => Peer::Address(SocketAddr::new(IpAddr::from(self.ip).to_canonical(), port)),
        }
    }
}

/// A set of states of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u16);

impl Flags {
    /// The poller reports this socket.
    pub(crate) const REGISTERED: Self = Self(1);
    /// The socket may be readable, and the poller will not report that again: it is in the ring, or its reading is
    /// paused.
    pub(crate) const READABLE: Self = Self(2);
    /// The peer has closed its side: read on until that is all there is.
    pub(crate) const PEER_CLOSED: Self = Self(4);
    /// The engine takes no input of this connection at the moment.
    pub(crate) const PAUSED: Self = Self(8);
    /// The socket takes no output until it reports that it does.
    pub(crate) const BLOCKED: Self = Self(16);
    /// The engine is done with it: output is flushed, input ignored.
    pub(crate) const CLOSING: Self = Self(32);
    /// Our side is closed; further input is dropped until the peer closes.
    pub(crate) const LINGERING: Self = Self(64);
    /// The socket failed, or writing is forbidden.
    pub(crate) const BROKEN: Self = Self(128);
    /// Once output is flushed, linger: the client did not ask for the end and must be able to read why.
    pub(crate) const WILL_LINGER: Self = Self(256);

    /// The client leaves for another home, and its socket is not read here any more.
    pub(crate) const HELD: Self = Self(512);
    /// The node that relays the client was asked to send no more.
    pub(crate) const ASKED: Self = Self(1024);
    /// That node has sent all.
    pub(crate) const READ_TO_END: Self = Self(2048);

    pub(crate) fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    pub(crate) fn set(&mut self, flags: Self) {
        self.0 |= flags.0;
    }

    pub(crate) fn clear(&mut self, flags: Self) {
        self.0 &= !flags.0;
    }
}

impl std::ops::BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// All connections of a shard.
#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: Vec<Slot>,
    live: usize,
}

/// The token under which a connection's socket is registered. Where a token has no room for the generation, a stale
/// event reaches the slot's next connection as a spurious one.
pub(crate) fn token_of(key: ConnectionKey) -> Token {
    Token((u64::from(key.generation) << 32 | u64::from(key.index)) as usize)
}

impl Table {
    /// Takes a connection in under the key that the engine gave it.
    pub(crate) fn insert(
        &mut self,
        key: ConnectionKey,
        transport: Transport,
        listener: ListenerId,
        seat: Seat,
        peer: Peer,
    ) {
        let index = key.index as usize;
        while self.slots.len() <= index {
            let (listener, flags, origin) = (ListenerId(0), Flags::default(), Origin::default());
            self.slots.push(Slot { transport: None, generation: 0, listener, seat: Seat::NONE, origin, flags });
        }
        if let Some(slot) = self.slots.get_mut(index) {
            self.live += usize::from(slot.transport.is_none());
            let (generation, flags, origin) = (key.generation, Flags::default(), Origin::of(peer));
            *slot = Slot { transport: Some(transport), generation, listener, seat, origin, flags };
        }
    }

    /// A connection and its transport, if the key is not that of an earlier one.
    #[inline]
    pub(crate) fn get(&mut self, key: ConnectionKey) -> Option<(&mut Flags, &mut Transport)> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        Some((&mut slot.flags, slot.transport.as_mut()?))
    }

    /// The origin of a connection, also when its peer has reset it.
    pub(crate) fn peer(&self, key: ConnectionKey) -> Option<Peer> {
        let slot = self.slots.get(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        match slot.transport.as_ref()?.peer() {
            Peer::Gone => Some(slot.origin.peer()),
            known => Some(known),
        }
    }

    /// The listener of a connection.
    #[inline]
    pub(crate) fn listener(&self, key: ConnectionKey) -> ListenerId {
        self.slots.get(key.index as usize).map_or_else(ListenerId::default, |slot| slot.listener)
    }

    /// Whether the broker itself has opened a connection.
    pub(crate) fn is_own(&self, key: ConnectionKey) -> bool {
        let slot = self.slots.get(key.index as usize).filter(|slot| slot.generation == key.generation);
        slot.is_some_and(|slot| slot.seat == Seat::OWN && slot.transport.is_some())
    }

    /// Gives a connection a slot and returns its former one.
    pub(crate) fn seat(&mut self, key: ConnectionKey, seat: Seat) -> Option<Seat> {
        let slot = self.slots.get_mut(key.index as usize)?;
        (slot.generation == key.generation && slot.transport.is_some()).then(|| std::mem::replace(&mut slot.seat, seat))
    }

    /// The flags of a connection, if there is one.
    #[inline]
    pub(crate) fn flags(&mut self, key: ConnectionKey) -> Option<&mut Flags> {
        self.get(key).map(|(flags, _)| flags)
    }

    /// Whether a connection has input that this shard has not read, although it may.
    pub(crate) fn is_unread(&self, key: ConnectionKey) -> bool {
        let slot = self.slots.get(key.index as usize);
        let flags = slot.filter(|slot| slot.generation == key.generation).map(|slot| slot.flags);
        flags.is_some_and(|flags| flags.has(Flags::READABLE) && !flags.has(Flags::PAUSED | Flags::HELD))
    }

    /// The key of the connection that a token was made for, if it still exists.
    #[inline]
    pub(crate) fn key_of(&self, token: Token) -> Option<ConnectionKey> {
        let index = token.0 as u32;
        let slot = self.slots.get(index as usize)?;
        let key = ConnectionKey { index, generation: slot.generation };
        (slot.transport.is_some() && token_of(key) == token).then_some(key)
    }

    /// Lets go of a connection.
    pub(crate) fn remove(&mut self, key: ConnectionKey) -> Option<(Flags, Transport, Seat)> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let transport = slot.transport.take()?;
        self.live -= 1;
        Some((slot.flags, transport, slot.seat))
    }

    /// Open connections.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// The keys of all open connections.
    pub(crate) fn keys(&self) -> Vec<ConnectionKey> {
        let open = self.slots.iter().zip(0..).filter(|(slot, _)| slot.transport.is_some());
        open.map(|(slot, index)| ConnectionKey { index, generation: slot.generation }).collect()
    }

    /// Frees the unused end.
    pub(crate) fn shrink(&mut self) {
        let used = self.slots.iter().rposition(|slot| slot.transport.is_some()).map_or(0, |last| last + 1);
        self.slots.truncate(used);
        self.slots.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use mio::net::UnixStream;

    use super::*;

    fn transport() -> Transport {
        Transport::Unix(UnixStream::pair().unwrap().0)
    }

    /// A peer that closes with unread bytes resets the connection.
    #[test]
    fn a_connection_that_was_reset_keeps_its_address() {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, address) = listener.accept().unwrap();
        stream.write_all(b"unread").unwrap();
        client.peek(&mut [0]).unwrap();
        drop(client);
        assert!(stream.read(&mut [0]).is_err(), "it was reset");
        assert!(stream.peer_addr().is_err(), "the socket no longer knows");
        let mut table = Table::default();
        let transport = Transport::Tcp(mio::net::TcpStream::from_std(stream));
        table.insert(key(0, 1), transport, ListenerId(0), Seat::NONE, Peer::Address(address));
        assert_eq!(table.peer(key(0, 1)), Some(Peer::Address(address)));
        assert_eq!(table.peer(key(0, 0)), None, "an earlier connection");
    }

    #[test]
    fn addresses_of_both_kinds_are_kept_and_none_is_made_up() {
        for text in ["192.0.2.7:1883", "[2001:db8::7]:65535"] {
            let peer = Peer::Address(text.parse().unwrap());
            assert_eq!(Origin::of(peer).peer(), peer);
        }
        assert_eq!(Origin::of(Peer::Unix).peer(), Peer::Gone);
    }

    fn key(index: u32, generation: u32) -> ConnectionKey {
        ConnectionKey { index, generation }
    }

    #[test]
    fn an_event_of_a_closed_connection_does_not_reach_another() {
        let mut table = Table::default();
        table.insert(key(3, 1), transport(), ListenerId(7), Seat::NONE, Peer::Gone);
        let old = token_of(key(3, 1));
        assert_eq!(table.key_of(old), Some(key(3, 1)));
        assert_eq!(table.listener(key(3, 1)), ListenerId(7));
        assert!(table.remove(key(3, 1)).is_some());
        assert_eq!(table.key_of(old), None);
        table.insert(key(3, 2), transport(), ListenerId(0), Seat::NONE, Peer::Gone);
        assert_eq!(table.key_of(old), None);
        assert!(table.get(key(3, 1)).is_none());
        assert!(table.remove(key(3, 1)).is_none());
        assert_eq!((table.len(), table.keys()), (1, vec![key(3, 2)]));
    }

    #[test]
    fn the_unused_end_is_given_back() {
        let mut table = Table::default();
        for index in 0..100 {
            table.insert(key(index, 0), transport(), ListenerId(0), Seat::NONE, Peer::Gone);
        }
        for index in (0..100).filter(|index| *index != 10) {
            table.remove(key(index, 0));
        }
        table.shrink();
        assert_eq!((table.slots.len(), table.slots.capacity()), (11, 11));
        assert!(table.get(key(10, 0)).is_some());
        assert_eq!(table.key_of(token_of(key(99, 0))), None);
    }
}
