//! A node that has come in and sends what no shard would: its session ends, and nothing else does.

use std::sync::Arc;

use proptest::prelude::*;
use tidegate_engine::{
    Batch, ConnectionKey, Engine, ListenerId, Millis, Now, PARTITIONS, PartitionId, Roster, Settings, ShardId,
    ShardPosition,
};

use super::world::*;
use crate::wire::{connect, connect_v5, subscribe_qos1};

const NOW: Now = Now { monotonic: Millis(5_000), unix: 1_700_000_000_000 };
/// The number that each has for the other.
const OTHER: ShardId = ShardId(1);

/// A shard with a peer that works every second partition, and its clients.
struct Side {
    engine: Box<Engine>,
    clients: Vec<ConnectionKey>,
}

impl Side {
    fn new(odd: bool) -> Self {
        let mut engine = Box::new(Engine::new(Arc::new(Settings::default()), ShardPosition::ALONE, 1, NOW));
        let mut roster = Roster::alone(ShardPosition::ALONE).with_peer(OTHER);
        for partition in (0..PARTITIONS).filter(|partition| (partition % 2 == 1) != odd) {
            roster = roster.with_home(PartitionId(partition), OTHER);
        }
        engine.cluster().set_roster(NOW, roster);
        Self { engine, clients: Vec::new() }
    }

    fn client(&mut self, connect: &[u8]) -> usize {
        let key = self.engine.open_connection(NOW, ListenerId(0)).unwrap();
        self.clients.push(key);
        self.engine.handle_input(NOW, key, connect);
        self.clients.len() - 1
    }

    fn send(&mut self, client: usize, bytes: &[u8]) {
        self.engine.handle_input(NOW, self.clients[client], bytes);
    }

    /// The bytes written for the other side.
    fn written(&mut self) -> Option<Vec<u8>> {
        let batch = self.engine.take_batch(OTHER)?;
        let mut bytes = Vec::new();
        batch.write_to(&mut bytes);
        Some(bytes)
    }

    fn take(&mut self, bytes: &[u8]) -> bool {
        let taken = Batch::read_from(bytes, OTHER, 3)
            .is_ok_and(|batch| self.engine.cluster().handle_batch(NOW, batch).is_ok_and(|rest| rest.is_none()));
        self.engine.handle_timers(NOW);
        while self.engine.poll_event().is_some() {}
        taken
    }
}

/// Runs two sides until both have no more frames to send; returns the frames.
fn talk(sides: &mut [Side; 2]) -> Vec<Vec<u8>> {
    let mut said = Vec::new();
    loop {
        let before = said.len();
        for (from, to) in [(0, 1), (1, 0)] {
            while let Some(bytes) = sides[from].written() {
                assert!(sides[to].take(&bytes), "written frames can be read");
                said.push(bytes);
            }
        }
        if said.len() == before {
            return said;
        }
    }
}

/// Two sides whose clients do a bit of everything, and all that the sides said of it.
fn conversation() -> ([Side; 2], Vec<Vec<u8>>) {
    let mut sides = [Side::new(false), Side::new(true)];
    for (at, side) in sides.iter_mut().enumerate() {
        side.client(&connect(&format!("old-{at}")));
        side.client(&connect_v5(&format!("new-{at}")));
    }
    let mut said = talk(&mut sides);
    for filter in ["t/#", "+/1", "$share/g/t/+", "$share/h/#"] {
        for side in &mut sides {
            side.send(0, &subscribe_qos1(filter));
        }
        said.extend(talk(&mut sides));
    }
    for number in 0..8_u16 {
        let (qos, retain) = ((number % 3) as u8, number % 2 == 0);
        let packet = publish_at(&format!("t/{number}"), b"payload", qos, number + 1, retain);
        sides[usize::from(number % 2)].send(0, &packet);
        said.extend(talk(&mut sides));
    }
    sides[0].send(0, &subscribe_qos1("t/+"));
    said.extend(talk(&mut sides));
    assert!(said.len() > 20, "they have said enough: {}", said.len());
    (sides, said)
}

#[derive(Clone, Debug)]
enum Lie {
    Change(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
}

fn lie() -> impl Strategy<Value = Lie> {
    prop_oneof![
        6 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Lie::Change(at, byte)),
        1 => any::<prop::sample::Index>().prop_map(Lie::Cut),
        1 => (any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 1..9))
            .prop_map(|(at, bytes)| Lie::Insert(at, bytes)),
    ]
}

proptest! {
    #[test]
    fn records_that_no_shard_would_write_end_no_thread(
        lies in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(lie(), 1..4)), 1..12),
    ) {
        let (mut sides, said) = conversation();
        for (which, lies) in lies {
            let mut bytes = which.get(&said).clone();
            for lie in lies {
                match lie {
                    Lie::Change(at, byte) => {
                        let at = at.index(bytes.len());
                        bytes[at] = byte;
                    }
                    Lie::Cut(at) => bytes.truncate(at.index(bytes.len()) + 1),
                    Lie::Insert(at, more) => {
                        let at = at.index(bytes.len());
                        bytes.splice(at..at, more);
                    }
                }
            }
            // It may be taken, or not.
            sides[0].take(&bytes);
            while sides[0].written().is_some() {}
        }
        // It continues to serve its own clients.
        let client = sides[0].client(&connect("afterwards"));
        let key = sides[0].clients[client];
        prop_assert!(sides[0].engine.output(key).is_some_and(|output| !output.is_empty()));
    }
}
