//! Sessions that move are connected at times, with wills, and which member serves them is in a table.

use tidegate_engine::{Home, Homes, Millis, PARTITIONS, Partitions};
use tidegate_mqtt::QoS;

use super::{Published, READERS, Run, settle};
use crate::harness::*;

/// A member as the table names it where another one serves a partition.
const ANOTHER: Home = Home::At(0);

/// Longer than any will waits for its client, milliseconds: after a move ten seconds.
const WAIT_OF_WILLS_MS: u64 = 11_000;

impl Run {
    /// A session connects with a will, or its connection breaks.
    pub(super) fn connect_or_cut(&mut self) {
        let reader = self.random.below(READERS);
        if self.members[self.readers[reader].home].is_dead {
            return;
        }
        // A will that is due is published before its client is back.
        self.run(self.readers[reader].home);
        self.readers[reader].device.notice_close();
        if self.readers[reader].device.client().is_some() {
            self.owe_will(reader);
            let survives = self.random.pick(&[0, usize::MAX]);
            self.readers[reader].device.cut(survives);
        } else {
            self.connect_with_will(reader);
        }
        self.run(self.readers[reader].home);
    }

    fn connect_with_will(&mut self, reader: usize) {
        let (payload, delay) = (format!("will-{}", self.published.len()), self.random.pick(&[0, 0, 2]));
        let world = self.members[self.readers[reader].home].world.clone();
        let it = &mut self.readers[reader];
        it.device.move_to(&world);
        (it.will, it.waiting_will) = (Some((self.published.len(), delay)), None);
        let will = message("t/1", &payload).qos2().delay(delay);
        it.device.connect(v5("").clean(false).expiry(u32::MAX).will(will));
        settle(&world, &mut it.device);
        assert!(it.device.online, "seed {}: {} is not accepted", self.seed, it.name);
        self.published.push(Published { payload, qos: QoS::ExactlyOnce, is_owed: false, is_shared: false });
    }

    /// The connection of a session breaks: its will comes, unless there is time for its client to return.
    fn owe_will(&mut self, reader: usize) {
        if let Some((number, 0)) = self.readers[reader].will {
            self.readers[reader].will = None;
            self.published[number].is_owed = true;
        } else {
            self.keep_will(reader);
        }
    }

    /// The client of a session has time to return before its will comes.
    pub(super) fn keep_will(&mut self, reader: usize) {
        let it = &mut self.readers[reader];
        if let Some((number, _)) = it.will.take() {
            it.waiting_will = Some(number);
        }
    }

    /// Clients that have not returned stay away until their wills have to come.
    pub(super) fn await_wills(&mut self) {
        for member in self.living() {
            self.members[member].world.advance(WAIT_OF_WILLS_MS);
            self.spread();
        }
        for number in self.readers.iter_mut().filter_map(|it| it.waiting_will.take()) {
            self.published[number].is_owed = true;
        }
    }

    /// A member is about to die, and its connections break.
    pub(super) fn owe_wills_of(&mut self, member: usize) {
        for reader in 0..READERS {
            let it = &mut self.readers[reader];
            it.device.notice_close();
            if it.home == member && it.device.client().is_some() {
                self.owe_will(reader);
            }
        }
    }

    /// All members get the table.
    pub(super) fn tell_homes(&self) {
        for member in self.living() {
            let of_others = self.readers.iter().filter(|it| it.home != member).map(|it| it.name.as_str());
            let publishers = self.members.iter().enumerate().filter(|(other, _)| *other != member);
            let publishers = publishers.flat_map(|(_, it)| it.publishers.iter().map(|it| it.name.as_str()));
            let elsewhere = of_others.chain(publishers).map(super::partitions_of);
            let elsewhere = elsewhere.fold(Partitions::NONE, Partitions::with);
            let mut homes = [Home::Here; PARTITIONS as usize];
            elsewhere.iter().for_each(|partition| homes[usize::from(partition.0)] = ANOTHER);
            let table =
                Homes { homes, references: Vec::new(), redirect: false, lease_until: Millis::NEVER, patience_ms: 0 };
            self.members[member].world.engine(0, |engine, now| engine.homes().set_homes(now, Some(table)));
        }
        self.tell_rosters();
    }
}
