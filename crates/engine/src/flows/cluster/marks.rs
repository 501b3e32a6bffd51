//! The marks of exchanges are compared with a message that comes.

use crate::cluster::exchanges::Exchanges;
use crate::cluster::transfer::Transfers;
use crate::flows::contexts::Deciding;
use crate::groups::Groups;
use crate::ids::{PartitionId, Partitions, ShardId, ShardPosition};
use crate::journal::Journal;
use crate::journal::keys::Key;
use crate::link::exchange_word::{ExchangeName, ExchangeWord};
use crate::link::got::Got;
use tidegate_mqtt::QoS;

impl Deciding<'_> {
    /// The next message is named by `word` of another shard. Returns the partitions that have it already; from now on
    /// all partitions here have it.
    #[cold]
    pub(crate) fn mark_coming(&mut self, from: ShardId, word: &ExchangeWord) -> Got {
        let known = self.state.exchanges.marks.get(word.name).with(word.covered);
        let mut got = self.state.exchanges.got_here(self.groups, from);
        got.groups = got.groups.without(self.groups.passing(self.links, from));
        self.state.exchanges.put_mark(self.links.place, &mut self.state.journal, word.name, got);
        self.groups.tell_next_homes(self.state, self.links, word.name, got.groups);
        self.state.transfers.note_name(from, word.name);
        let done = self.state.exchanges.marks.forget_below(word.name.origin, word.done_below);
        let silent = self.state.exchanges.marks.forget_silent();
        for (name, stored) in done.into_iter().chain(silent) {
            self.state.journal.delete_marks(self.links.place, name, stored);
        }
        known
    }
}

impl Exchanges {
    /// The receivers of a shard's message here: the sessions that are here, and the groups that are dealt for here.
    pub(crate) fn got_here(&self, groups: &Groups, from: ShardId) -> Got {
        Got { sessions: self.here(), groups: groups.dealers.all_dealt_for(from) }
    }

    /// Notes the receivers of a message. A mark without receivers is noted as long as this process lives.
    pub(crate) fn put_mark(&mut self, place: ShardPosition, journal: &mut Journal, name: ExchangeName, by: Got) {
        let own = 1 << place.shard.0;
        let stored = if journal.is_on() && !by.is_empty() { own } else { 0 };
        let mark = self.marks.add(name, by, stored);
        if stored != 0 {
            journal.put(Key::Mark(name, place.shard), |out| mark.by.write_stored(out));
        }
    }

    /// Notes that all receivers here have a message that is sent again. An earlier copy of it, from a former home of its
    /// publisher, may still be under way to them.
    pub(crate) fn mark_sent_again(&mut self, place: ShardPosition, journal: &mut Journal, name: ExchangeName, by: Got) {
        self.put_mark(place, journal, name, by);
        // Shards forget marks when the publisher's shard says so. This is the publisher's shard, so it forgets them here.
        for (name, stored) in self.forget_own_ended() {
            journal.delete_marks(place, name, stored);
        }
    }

    /// Notes that a message kept by a group under an id was taken: its receiver's session, which is in the store, or
    /// its group goes along with a partition. A kept message is given again when a link returns, or by the successor
    /// of a dead keeper, or to the successor of a dead receiver.
    pub(crate) fn note_taken(
        &mut self,
        place: ShardPosition,
        transfers: &mut Transfers,
        journal: &mut Journal,
        qos: QoS,
        id: u64,
        owner: Option<PartitionId>,
    ) {
        if qos != QoS::ExactlyOnce || id == 0 {
            return;
        }
        let sessions = owner.map_or(Partitions::NONE, Partitions::of);
        if let Some(owner) = owner {
            transfers.note_deal(owner, ExchangeName::of_deal(id));
        }
        self.put_mark(place, journal, ExchangeName::of_deal(id), Got { sessions, ..Got::EMPTY });
        while let Some(id) = self.marks.pop_deal() {
            let stored = self.marks.forget_deal(id);
            journal.delete_marks(place, ExchangeName::of_deal(id), stored);
        }
    }

    /// A message returns to its keeper: it may be given to this shard again.
    pub(crate) fn give_up_deal(&mut self, place: ShardPosition, journal: &mut Journal, id: u64) {
        if id != 0 {
            let stored = self.marks.give_up_deal(id);
            journal.delete_marks(place, ExchangeName::of_deal(id), stored);
        }
    }

    /// Partitions have left, or did not arrive: their marks are at their home.
    pub(crate) fn leave_marks(&mut self, place: ShardPosition, journal: &mut Journal, partitions: Partitions) {
        let own = 1 << place.shard.0;
        for (name, mark) in self.marks.leave(partitions) {
            if mark.by.is_empty() {
                journal.delete_marks(place, name, mark.stored);
            } else if mark.stored & own != 0 {
                journal.put(Key::Mark(name, place.shard), |out| mark.by.write_stored(out));
            }
        }
    }
}
