//! The relays of a shard, and the tokens of their sockets.

use std::collections::{BTreeSet, VecDeque};

use mio::Token;
use tidegate_engine::Millis;

use super::goodbye::Goodbye;
use super::{CLIENT, HOME, PATIENCE_MS, Relay};
use crate::shortage::Shortage;
use crate::tokens::RESERVED_INDEX;
#[cfg(feature = "quic")]
use crate::transport::Transport;

/// Tokens from this index on, up to the reserved ones, belong to relays: two for each. Engines number connections from
/// 0, and never reach them.
const FIRST_INDEX: u32 = 1 << 31;

/// A relay. The generation keeps an event for an ended one from reaching its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RelayKey {
    slot: u32,
    generation: u32,
}

impl RelayKey {
    /// The token of one of its sockets.
    pub(crate) fn token(self, side: usize) -> Token {
        let index = FIRST_INDEX + self.slot * 2 + u32::from(side == HOME);
        Token((u64::from(self.generation) << 32 | u64::from(index)) as usize)
    }

    /// Whether a token belongs to a relay, an ended one included.
    pub(crate) fn is_relay(token: Token) -> bool {
        (FIRST_INDEX..RESERVED_INDEX).contains(&(token.0 as u32))
    }
}

/// The step that a relay has to finish by its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Reached its home.
    Connecting,
    /// Written its last bytes.
    Ending,
    /// Got the answer of the new home of its client.
    Continuing,
}

/// The deadline of a step.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Millis,
    relay: RelayKey,
    stage: Stage,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    relay: Option<Relay>,
}

/// The relays of a shard.
#[derive(Debug)]
pub(crate) struct Relays {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Relays with more to do in the next turn.
    pub ring: VecDeque<RelayKey>,
    /// In the order of their times: each is set the same time ahead.
    deadlines: VecDeque<Deadline>,
    /// Homes that cannot be reached, for the log.
    pub unreachable: Shortage,
    /// Relays that wait for the new homes of their clients.
    moving: BTreeSet<RelayKey>,
    /// Time of the first of their searches; never without such relays.
    retry_at: Millis,
}

impl Default for Relays {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            ring: VecDeque::new(),
            deadlines: VecDeque::new(),
            unreachable: Shortage::default(),
            moving: BTreeSet::new(),
            retry_at: Millis::NEVER,
        }
    }
}

impl Relays {
    /// Takes a relay in.
    pub(crate) fn insert(&mut self, relay: Relay) -> RelayKey {
        let key = self.reserve();
        self.put(key, relay);
        key
    }

    /// A place for a relay, which has to be put there.
    pub(crate) fn reserve(&mut self) -> RelayKey {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let generation = self.slots.get(slot as usize).map_or(0, |slot| slot.generation);
        RelayKey { slot, generation }
    }

    fn slot(&mut self, key: RelayKey) -> Option<&mut Slot> {
        self.slots.get_mut(key.slot as usize).filter(|slot| slot.generation == key.generation)
    }

    /// A relay, if it has not ended.
    pub(crate) fn get(&mut self, key: RelayKey) -> Option<&mut Relay> {
        self.slot(key)?.relay.as_mut()
    }

    /// The transport of a client whose bytes go to and fro.
    #[cfg(feature = "quic")]
    pub(crate) fn client_transport(&mut self, key: RelayKey) -> Option<&mut Transport> {
        match self.get(key)? {
            Relay::Open(pair) => Some(pair.client_transport()),
            Relay::Moving(departed) => Some(departed.client.transport_mut()),
            Relay::Farewell(last) => Some(last.client.transport_mut()),
            Relay::Connecting { .. } => None,
        }
    }

    /// Puts a relay at its place.
    pub(crate) fn put(&mut self, key: RelayKey, relay: Relay) {
        if let Some(slot) = self.slot(key) {
            slot.relay = Some(relay);
        }
    }

    /// Takes a relay out; its place is used again, or [freed](Self::free).
    pub(crate) fn remove_for_now(&mut self, key: RelayKey) -> Option<Relay> {
        self.slot(key)?.relay.take()
    }

    /// Frees a place.
    pub(crate) fn free(&mut self, key: RelayKey) {
        if let Some(slot) = self.slot(key) {
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(key.slot);
        }
    }

    /// Takes a relay out for good.
    pub(crate) fn remove(&mut self, key: RelayKey) -> Option<Relay> {
        let relay = self.remove_for_now(key)?;
        self.free(key);
        Some(relay)
    }

    /// The relay that a token was made for, if it has not ended, and its side.
    pub(crate) fn key_of(&self, token: Token) -> Option<(RelayKey, usize)> {
        let index = (token.0 as u32).checked_sub(FIRST_INDEX)?;
        let (slot, side) = (index / 2, if index % 2 == 0 { CLIENT } else { HOME });
        let key = RelayKey { slot, generation: self.slots.get(slot as usize)?.generation };
        (key.token(side) == token).then_some((key, side))
    }

    /// Relays with a client's end.
    pub(crate) fn all(&self) -> Vec<RelayKey> {
        let has_client =
            |slot: &Slot| matches!(slot.relay, Some(Relay::Open(_) | Relay::Moving(_) | Relay::Farewell(_)));
        let all = self.slots.iter().zip(0..).filter(|(slot, _)| has_client(slot));
        all.map(|(slot, number)| RelayKey { slot: number, generation: slot.generation }).collect()
    }

    /// True if no client has its socket in a relay.
    pub(crate) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// A relay waits for the new home of its client until its next search, at this time.
    pub(crate) fn await_home(&mut self, key: RelayKey, at: Millis) {
        self.moving.insert(key);
        self.retry_at = self.retry_at.min(at);
    }

    /// Another table is in force: relays that wait for homes search at once.
    pub(crate) fn retry_now(&mut self, now: Millis) {
        for key in self.moving.clone() {
            if let Some(Relay::Moving(departed)) = self.get(key) {
                departed.look_at(now);
                self.retry_at = now;
            }
        }
    }

    /// The relays that wait for new homes, if a search is due.
    pub(crate) fn take_moving(&mut self, now: Millis) -> BTreeSet<RelayKey> {
        if self.retry_at > now {
            return BTreeSet::new();
        }
        self.retry_at = Millis::NEVER;
        std::mem::take(&mut self.moving)
    }

    /// Relays that are open and not about to end, or wait for the new home of their client, and that `wanted` accepts,
    /// at most `limit`.
    pub(crate) fn staying(&self, limit: usize, wanted: impl Fn(&Goodbye) -> bool) -> Vec<RelayKey> {
        let stays = |slot: &Slot| match &slot.relay {
            Some(Relay::Open(pair)) => !pair.ending && wanted(&pair.goodbye),
            Some(Relay::Moving(departed)) => wanted(&departed.goodbye),
            Some(Relay::Connecting { .. } | Relay::Farewell(_)) | None => false,
        };
        let staying = self.slots.iter().zip(0..).filter(|(slot, _)| stays(slot));
        staying.map(|(slot, number)| RelayKey { slot: number, generation: slot.generation }).take(limit).collect()
    }

    /// Sets the deadline of a stage of a relay to [`PATIENCE_MS`] from now.
    pub(crate) fn set_deadline(&mut self, now: Millis, relay: RelayKey, stage: Stage) {
        self.deadlines.push_back(Deadline { at: now.plus(PATIENCE_MS), relay, stage });
    }

    /// Time of the next deadline.
    pub(crate) fn next_deadline(&self) -> Millis {
        self.deadlines.front().map_or(Millis::NEVER, |deadline| deadline.at).min(self.retry_at)
    }

    /// The next relay that has missed its deadline, with the step.
    pub(crate) fn pop_due(&mut self, now: Millis) -> Option<(RelayKey, Stage)> {
        // A step that finished in time leaves its deadline behind.
        while self.deadlines.front().is_some_and(|deadline| deadline.at <= now || !self.is_awaited(deadline)) {
            let deadline = self.deadlines.pop_front()?;
            if self.is_awaited(&deadline) {
                return Some((deadline.relay, deadline.stage));
            }
        }
        None
    }

    fn is_awaited(&self, deadline: &Deadline) -> bool {
        let slot = self.slots.get(deadline.relay.slot as usize);
        match slot.filter(|slot| slot.generation == deadline.relay.generation).and_then(|slot| slot.relay.as_ref()) {
            Some(Relay::Connecting { .. }) => deadline.stage == Stage::Connecting,
            Some(Relay::Open(pair)) => match deadline.stage {
                Stage::Connecting => pair.awaits_connection(),
                Stage::Ending => pair.ending,
                Stage::Continuing => pair.awaits_answer(),
            },
            Some(Relay::Farewell(_)) => deadline.stage == Stage::Ending,
            Some(Relay::Moving(_)) | None => false,
        }
    }

    /// Frees the unused memory.
    pub(crate) fn shrink(&mut self) {
        self.free.shrink_to_fit();
        self.ring.shrink_to_fit();
        self.deadlines.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use mio::net::TcpStream;
    use tidegate_engine::{ConnectionKey, ListenerId, PartitionId};

    use super::super::end::End;
    use super::super::follower::Follower;
    use super::super::frame::Parcel;
    use super::super::goodbye::Goodbye;
    use super::super::introduction::Introduction;
    use super::super::pair::MoveStage;
    use super::super::search::Search;
    use super::super::sieve::Sieve;
    use super::super::{ClientOrigin, Pair, Way};
    use super::*;
    use crate::admission::Seat;
    use crate::transport::Transport;

    #[test]
    fn a_relay_always_has_its_full_time_for_its_last_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let end = || End::of(Transport::Tcp(TcpStream::connect(at).unwrap()));
        let (client, way) = (ConnectionKey { index: 0, generation: 0 }, Way { home: at, through: None });
        let mut relays = Relays::default();
        let key = relays.insert(Relay::Connecting { client, home: TcpStream::connect(at).unwrap(), way });
        relays.set_deadline(Millis(0), key, Stage::Connecting);
        let pair = Pair {
            ends: [end(), end()],
            seat: Seat::NONE,
            ending: true,
            goodbye: Goodbye::Never,
            sieve: Sieve::default(),
            sent: Follower::default(),
            stage: MoveStage::Open,
            origin: ClientOrigin { listener: ListenerId(0), tenant: None },
        };
        relays.put(key, Relay::Open(Box::new(pair)));
        relays.set_deadline(Millis(PATIENCE_MS - 1), key, Stage::Ending);
        assert_eq!(relays.pop_due(Millis(PATIENCE_MS)), None, "it had reached its home in time");
        assert_eq!(relays.next_deadline(), Millis(2 * PATIENCE_MS - 1));
        assert_eq!(relays.pop_due(Millis(2 * PATIENCE_MS - 1)), Some((key, Stage::Ending)));
    }

    #[test]
    fn a_new_home_has_its_full_time_for_its_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let end = || End::of(Transport::Tcp(TcpStream::connect(at).unwrap()));
        let parcel = Parcel { partition: PartitionId(1), proven: Vec::new(), tail: Vec::new() };
        let pair = Pair {
            ends: [end(), end()],
            seat: Seat::NONE,
            ending: false,
            goodbye: Goodbye::Never,
            sieve: Sieve::default(),
            sent: Follower::default(),
            stage: MoveStage::Continuing { parcel, search: Search::from(Millis(0)) },
            origin: ClientOrigin { listener: ListenerId(0), tenant: None },
        };
        let mut relays = Relays::default();
        let key = relays.insert(Relay::Open(Box::new(pair)));
        relays.set_deadline(Millis(0), key, Stage::Continuing);
        assert_eq!(relays.pop_due(Millis(PATIENCE_MS - 1)), None);
        assert_eq!(relays.pop_due(Millis(PATIENCE_MS)), Some((key, Stage::Continuing)));
        relays.set_deadline(Millis(0), key, Stage::Continuing);
        let Some(Relay::Open(pair)) = relays.get(key) else { panic!("no relay") };
        assert!(pair.take_parcel().is_some(), "the image is brought again");
        assert_eq!(relays.pop_due(Millis(PATIENCE_MS)), None, "an answer ends the deadline");
    }

    #[test]
    fn a_home_that_is_not_reached_in_time_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let (client, way) = (ConnectionKey { index: 0, generation: 0 }, Way { home: at, through: None });
        let mut relays = Relays::default();
        let mut begin = |now| {
            let key = relays.insert(Relay::Connecting { client, home: TcpStream::connect(at).unwrap(), way });
            relays.set_deadline(Millis(now), key, Stage::Connecting);
            key
        };
        let (gone, slow) = (begin(0), begin(1));
        relays.remove(gone);
        assert_eq!(relays.pop_due(Millis(PATIENCE_MS)), None);
        assert_eq!(relays.pop_due(Millis(PATIENCE_MS + 1)), Some((slow, Stage::Connecting)));
    }

    #[test]
    fn a_home_that_a_client_cannot_be_carried_to_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let home = listener.local_addr().unwrap();
        let dial = || Transport::Tcp(TcpStream::connect(home).unwrap());
        let mut relays = Relays::default();
        let mut begin = |end: End| {
            let pair = Pair {
                ends: [End::of(dial()), end],
                seat: Seat::NONE,
                ending: false,
                goodbye: Goodbye::Never,
                sieve: Sieve::default(),
                sent: Follower::default(),
                stage: MoveStage::Carried { home, introduction: Introduction::Complete },
                origin: ClientOrigin { listener: ListenerId(0), tenant: None },
            };
            let key = relays.insert(Relay::Open(Box::new(pair)));
            relays.set_deadline(Millis(0), key, Stage::Connecting);
            key
        };
        let (_connected, slow) = (begin(End::of(dial())), begin(End::connecting(dial())));
        assert_eq!(relays.pop_due(Millis(PATIENCE_MS)), Some((slow, Stage::Connecting)));
        assert_eq!(relays.pop_due(Millis(PATIENCE_MS)), None);
    }

    #[test]
    fn tokens_of_relays_are_distinct() {
        let key = RelayKey { slot: 7, generation: 3 };
        for side in [CLIENT, HOME] {
            assert!(RelayKey::is_relay(key.token(side)));
        }
        assert_ne!(key.token(CLIENT), key.token(HOME));
        assert!(!RelayKey::is_relay(Token(5)) && !RelayKey::is_relay(Token(RESERVED_INDEX as usize)));
    }
}
