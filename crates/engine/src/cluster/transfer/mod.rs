//! Messages that arrive for partitions while they move from node to node: each message once, in its place.
//!
//! The old home gives out images and continues to collect; the new one takes them in and announces its subscriptions. From then on a shard sends both of
//! them the messages for these sessions. Between the two lie messages that only the old home has. So the new home asks every shard of the cluster for a *cut*:
//! the shard informs both homes, in line with its messages, that later ones are for the new home. Each message of a shard
//! is before its cut or behind it, and both homes see which: the old one notes the messages before, the new one keeps those
//! behind. When the old home has every shard's cut, its noted messages are complete: the *rest*. The new home delivers
//! the images, the rest, and the messages set aside, in this order, so that the order of a publisher's messages stays.
//!
//! Until the move is committed the old home has everything as well, and resumes when the move is called off. Retained values
//! go the same way: from its cut on, a shard sends them to both homes, until its table says which one it is.

mod cuts;
pub(crate) mod error;
pub(crate) mod finish;

use crate::cluster::transfer::error::ImageError;
use crate::ids::{PartitionId, Partitions, SessionKey, ShardId, TenantId, hash_name, partition_of};
use crate::link::exchange_word::ExchangeName;
use crate::message::Publication;
use crate::now::Now;
use crate::partitions::put_partitions;
use crate::records::image::put_delivery;
use crate::roster::Roster;
use crate::roster::Shards;
use crate::session::Delivery;
use crate::session::table::Sessions;
use crate::session::terms::Terms;
use crate::settings::Settings;
use crate::wire::WireWrite;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes noted or set aside on a shard for all partitions of one move, beyond which the move is given up.
const MOVE_MAX_BYTES: u64 = 128 * 1024 * 1024;

/// A delivery to a session, in a rest.
pub(crate) const TO_SESSION: u8 = 0;

/// A retained value that was set or cleared, in a rest.
pub(crate) const RETAINED: u8 = 1;

/// The name of a message of another node that has come, in a rest.
pub(crate) const NAME: u8 = 2;

/// The name of such a message that was dealt to groups, in a rest.
pub(crate) const DEALT: u8 = 3;

/// Partitions that leave, come, or are cut, as one shard sees them.
#[derive(Debug)]
pub(crate) struct Transfers {
    /// The shard whose message is being delivered.
    pub(crate) source: ShardId,
    /// The shard whose group deals the message, where that is another one.
    pub(crate) dealer: Option<ShardId>,
    /// Whether the present delivery was noted or set aside.
    pub(crate) late: bool,
    /// Whether only topics of addresses, and what shared groups deal, cross to other nodes. The old home forwards all
    /// other messages by another way.
    of_addresses_only: bool,
    pub(crate) leaving: BTreeMap<PartitionId, Leaving>,
    pub(crate) coming: BTreeMap<PartitionId, Coming>,
    /// Messages noted for partitions that leave.
    pub(crate) noted: NotedByMove,
    /// Bytes set aside for arriving partitions.
    pub(crate) aside: BytesOfMoves,
    pub(crate) cuts: Vec<Cut>,
    /// Cuts for new homes that are gone. A later table decides whether these became the homes before.
    undecided: Vec<Cut>,
    /// From where partitions have moved, as far as this shard has cut them: the former home may not know of the move yet.
    moved_from: BTreeMap<PartitionId, ShardId>,
}

/// Bytes that were set aside for each move, by its id. A move has one limit, however many partitions it has.
#[derive(Debug, Default)]
pub(crate) struct BytesOfMoves(BTreeMap<u64, u64>);

impl BytesOfMoves {
    /// A move begins. Finished moves are forgotten.
    pub(crate) fn begin(&mut self, id: u64, is_open: impl Fn(u64) -> bool) {
        self.0.retain(|known, _| is_open(*known));
        self.0.entry(id).or_default();
    }

    fn has_room(&self, id: u64) -> bool {
        self.0.get(&id).is_none_or(|bytes| *bytes <= MOVE_MAX_BYTES)
    }

    fn add(&mut self, id: u64, bytes: u64) {
        *self.0.entry(id).or_default() += bytes;
    }
}

/// Messages noted for each move, by its id. A move has one limit, however many partitions it has.
#[derive(Debug, Default)]
pub(crate) struct NotedByMove(BTreeMap<u64, MoveNotes>);

/// Messages noted for the partitions of a move, in the order of their arrival.
#[derive(Debug, Default)]
struct MoveNotes {
    bytes: Vec<u8>,
    /// There was more than is kept.
    full: bool,
}

impl NotedByMove {
    /// The images of a move are given out.
    pub(crate) fn begin(&mut self, id: u64) {
        self.0.insert(id, MoveNotes::default());
    }

    /// Forgets the noted messages of finished moves.
    fn keep(&mut self, is_open: impl Fn(u64) -> bool) {
        self.0.retain(|known, _| is_open(*known));
    }

    /// Removes the noted messages of a move.
    pub(crate) fn take(&mut self, id: u64) -> Result<Vec<u8>, ImageError> {
        let noted = self.0.remove(&id).unwrap_or_default();
        if noted.full { Err(too_much()) } else { Ok(noted.bytes) }
    }

    fn note(&mut self, id: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(noted) = self.0.get_mut(&id) else { return };
        noted.full |= noted.bytes.len() as u64 > MOVE_MAX_BYTES;
        if !noted.full {
            write(&mut noted.bytes);
        }
    }

    fn note_name(&mut self, id: u64, partitions: Partitions, name: ExchangeName, kind: u8) {
        self.note(id, |out| {
            out.put_u8(kind);
            put_partitions(out, partitions);
            name.write(out);
        });
    }
}

/// A partition whose images were given out.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) id: u64,
    /// Shards whose messages are still to be noted.
    pub(crate) uncut: Shards,
    /// Whether a shard was lost before its cut: its messages to the new home were not noted there, and may not have arrived here.
    pub(crate) link_lost: bool,
    /// Whether the rest was given out: the new home gets no later message from here.
    pub(crate) is_given: bool,
}

/// A partition whose images were taken in.
#[derive(Debug)]
pub(crate) struct Coming {
    pub(crate) id: u64,
    /// Shards whose messages the old home still notes.
    pub(crate) uncut: Shards,
    pub(crate) aside: Vec<Aside>,
    /// The reason why it cannot come.
    pub(crate) failed: Option<ImageError>,
    pub(crate) stage: Stage,
    /// Retained values that were set here, newer than the values of the rest.
    pub(crate) touched: BTreeSet<(TenantId, Box<str>)>,
}

/// The stage of an arriving partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Arriving messages are set aside.
    Collecting,
    /// The rest and later messages are delivered, except messages dealt by groups.
    Complete,
    /// It is served here; something may be under way that the old home has delivered.
    Served,
}

/// A delivery that waits for the rest.
#[derive(Debug)]
pub(crate) struct Aside {
    pub(crate) to: SessionKey,
    /// Hash of the client id.
    pub(crate) client: u64,
    pub(crate) delivery: Delivery,
}

/// Partitions for which this shard has announced that its messages are for the new home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) id: u64,
    pub(crate) partitions: Partitions,
    pub(crate) to: ShardId,
}

impl Transfers {
    pub(crate) fn new(own: ShardId) -> Self {
        Self {
            source: own,
            dealer: None,
            late: false,
            of_addresses_only: false,
            leaving: BTreeMap::new(),
            coming: BTreeMap::new(),
            noted: NotedByMove::default(),
            aside: BytesOfMoves::default(),
            cuts: Vec::new(),
            undecided: Vec::new(),
            moved_from: BTreeMap::new(),
        }
    }

    /// A table has come: notes which topics cross to other nodes.
    pub(crate) fn note_scope(&mut self, roster: &Roster) {
        self.of_addresses_only = roster.is_of_orchestrators();
    }

    /// Whether messages of a topic are part of a transfer. Messages that a shared group deals always are.
    #[inline]
    pub(crate) fn concern(&self, settings: &Settings, topic: &str, is_dealt: impl FnOnce() -> bool) -> bool {
        !self.are_none() && (!self.of_addresses_only || is_dealt() || settings.is_of_addresses(topic.as_bytes()))
    }

    /// Whether no partition leaves or comes.
    #[inline]
    pub(crate) fn are_none(&self) -> bool {
        self.leaving.is_empty() && self.coming.is_empty()
    }

    /// The new home of a partition, which is sent its retained values as well.
    #[inline]
    pub(crate) fn new_home(&self, partition: PartitionId) -> Option<ShardId> {
        if self.cuts.is_empty() {
            return None;
        }
        self.cuts.iter().find(|cut| cut.partitions.has(partition)).map(|cut| cut.to)
    }

    /// Partitions with a cut for a new home that satisfies the condition.
    pub(crate) fn cut_for(&self, is_meant: impl Fn(ShardId) -> bool) -> Partitions {
        let cuts = self.cuts.iter().filter(|cut| is_meant(cut.to));
        cuts.fold(Partitions::NONE, |all, cut| all.with(cut.partitions))
    }

    /// Whether some partition may have moved to a node that is gone.
    #[inline]
    pub(crate) fn has_undecided(&self) -> bool {
        !self.undecided.is_empty()
    }

    /// Partitions that may have moved to a node that is gone.
    pub(crate) fn undecided(&self) -> Partitions {
        self.undecided.iter().fold(Partitions::NONE, |all, cut| all.with(cut.partitions))
    }

    /// Whether there are partitions with a cut of this shard whose move may be undecided.
    #[inline]
    pub(crate) fn have_cuts(&self) -> bool {
        !self.cuts.is_empty() || !self.undecided.is_empty()
    }

    /// Partitions whose move no table has decided yet.
    pub(crate) fn unsettled(&self, roster: &Roster) -> Partitions {
        let all = self.cuts.iter().chain(&self.undecided).filter(|cut| !roster.has_decided(cut.id));
        all.fold(Partitions::NONE, |all, cut| all.with(cut.partitions))
    }

    /// A partition has moved away from a shard.
    pub(crate) fn note_moved(&mut self, partition: PartitionId, from: ShardId) {
        self.moved_from.insert(partition, from);
    }

    /// Whether a partition has moved away from a shard.
    pub(crate) fn has_moved_from(&self, partition: PartitionId, shard: ShardId) -> bool {
        self.moved_from.get(&partition) == Some(&shard)
    }

    /// A table is in force: drops the state of partitions that are back at their former home.
    pub(crate) fn forget_returned(&mut self, roster: &Roster) {
        self.moved_from.retain(|partition, from| roster.home_of(*partition) != *from);
    }

    /// Whether a retained value is kept here for a partition that comes.
    pub(crate) fn keeps(&self, partition: PartitionId) -> bool {
        self.coming.get(&partition).is_some_and(|coming| !coming.uncut.has(self.source))
    }

    /// Whether values of a partition are here because it comes or leaves.
    pub(crate) fn keeps_values_of(&self, partition: PartitionId) -> bool {
        self.coming.contains_key(&partition) || self.leaving.contains_key(&partition)
    }

    /// Whether the old home still answers for the retained values of a partition.
    pub(crate) fn is_incomplete(&self, partition: PartitionId) -> bool {
        self.coming.get(&partition).is_some_and(|coming| coming.stage == Stage::Collecting)
    }

    /// Whether another shard reports the outcomes of messages to the sessions of a partition.
    fn old_home_answers(&self, partition: PartitionId) -> bool {
        self.coming.get(&partition).is_some_and(|coming| coming.stage < Stage::Served)
    }

    /// Notes the name of a message that a shard sends: its outcome is noted behind it.
    pub(crate) fn note_name(&mut self, source: ShardId, name: ExchangeName) {
        let mut of_moves: BTreeMap<u64, Partitions> = BTreeMap::new();
        for (partition, leaving) in self.leaving.iter().filter(|(_, leaving)| leaving.uncut.has(source)) {
            of_moves.entry(leaving.id).or_default().add(*partition);
        }
        for (id, partitions) in of_moves {
            self.noted.note_name(id, partitions, name, NAME);
        }
    }

    /// The moves of partitions are over, or the partitions are forgotten: stops to note messages for them.
    pub(crate) fn end_leaving(&mut self, partitions: Partitions) {
        self.leaving.retain(|partition, _| !partitions.has(*partition));
        self.noted.keep(|id| self.leaving.values().any(|leaving| leaving.id == id));
    }

    /// These partitions had left this shard and do not come back: groups deal no messages to their sessions here.
    pub(crate) fn leave_again(&mut self, partitions: Partitions) {
        for partition in partitions.iter() {
            let has_left = Leaving { id: 0, uncut: Shards::default(), link_lost: false, is_given: true };
            self.leaving.insert(partition, has_left);
        }
    }

    /// Whether the images of a partition were given out.
    pub(crate) fn leaves(&self, partition: PartitionId) -> bool {
        self.leaving.contains_key(&partition)
    }

    /// Notes the name of a message that groups of a partition are dealt here.
    pub(crate) fn note_dealt(&mut self, partition: PartitionId, name: ExchangeName) {
        if let Some(leaving) = self.leaving.get(&partition) {
            self.noted.note_name(leaving.id, Partitions::of(partition), name, DEALT);
        }
    }

    /// Notes the name of a message that a group has dealt to a session of a partition.
    pub(crate) fn note_deal(&mut self, partition: PartitionId, name: ExchangeName) {
        if let Some(leaving) = self.leaving.get(&partition) {
            self.noted.note_name(leaving.id, Partitions::of(partition), name, NAME);
        }
    }

    /// Notes a retained value that has been set or cleared here.
    pub(crate) fn note_retained(&mut self, now: Now, publication: &Publication<'_>) {
        let partition = partition_of(publication.tenant, publication.topic);
        if let Some(leaving) = self.leaving.get(&partition).filter(|it| it.uncut.has(self.source)) {
            self.noted.note(leaving.id, |out| {
                out.put_u8(RETAINED);
                out.put_u16(partition.0);
                out.put_u16(publication.tenant.0);
                crate::records::image::put_publication(out, now, publication);
            });
        }
        if let Some(coming) = self.coming.get_mut(&partition).filter(|it| it.stage == Stage::Collecting) {
            coming.touched.insert((publication.tenant, publication.topic.into()));
        }
    }
}

/// More came for the partitions of a move than is kept.
fn too_much() -> ImageError {
    ImageError::TooLarge { bytes: MOVE_MAX_BYTES, max_bytes: MOVE_MAX_BYTES }
}

impl Coming {
    fn set_aside(&mut self, bytes: &mut BytesOfMoves, aside: Aside) {
        if !bytes.has_room(self.id) {
            self.failed = Some(too_much());
            return;
        }
        bytes.add(self.id, aside.delivery.cost());
        self.aside.push(aside);
    }
}

impl Sessions {
    /// Whether the old home of a session answers for messages to it: the session is about to come from another node, and its move may
    /// still be called off.
    #[inline]
    pub(crate) fn old_home_answers(&self, transfers: &Transfers, key: SessionKey) -> bool {
        if transfers.coming.is_empty() {
            return false;
        }
        let partition = self.get(key.0).map(|session| partition_of(session.tenant, &session.client_id));
        partition.is_some_and(|partition| transfers.old_home_answers(partition))
    }

    /// Whether the image of a session was given out.
    pub(crate) fn leaves(&self, transfers: &Transfers, key: SessionKey) -> bool {
        let partition = self.get(key.0).map(|session| partition_of(session.tenant, &session.client_id));
        partition.is_some_and(|partition| transfers.leaves(partition))
    }

    /// Whether a session has left as far as the groups of a shard are concerned: they have a member of its name at the new home, or will
    /// have one when they reach that. `left` are the partitions whose sessions stay here only while brokers bring messages for
    /// them: an earlier life of this process may have given out their images.
    pub(crate) fn has_left(&self, transfers: &Transfers, left: Partitions, key: SessionKey, dealer: ShardId) -> bool {
        if transfers.leaving.is_empty() && left.is_empty() {
            return false;
        }
        let Some(session) = self.get(key.0) else { return false };
        let partition = partition_of(session.tenant, &session.client_id);
        let leaving = transfers.leaving.get(&partition);
        leaving.map_or(left.has(partition), |leaving| leaving.is_given || !leaving.uncut.has(dealer))
    }
}

impl<'a> Terms<'a> {
    /// The values of a delivery.
    pub(crate) fn of(delivery: &'a Delivery) -> Self {
        Self {
            qos: delivery.qos,
            retain: delivery.retain,
            subscription_ids: delivery.ids.as_slice(),
            group: delivery.group.as_ref(),
            publisher: None,
            metered: false,
        }
    }
}

impl Transfers {
    /// Looks at a delivery to a session that may be moving; returns whether it is not for the session now.
    #[cold]
    pub(crate) fn attend_transfer(
        &mut self,
        sessions: &Sessions,
        now: Now,
        shard: ShardId,
        to: SessionKey,
        delivery: &Delivery,
    ) -> bool {
        let Some(session) = sessions.get(to.0).filter(|_| !self.late) else { return false };
        let partition = partition_of(session.tenant, &session.client_id);
        let dealt = delivery.group.is_some();
        let transfers = self;
        let source = if dealt { transfers.dealer.unwrap_or(shard) } else { transfers.source };
        if let Some(leaving) = transfers.leaving.get(&partition) {
            if leaving.uncut.has(source) {
                transfers.noted.note(leaving.id, |out| {
                    out.put_u8(TO_SESSION);
                    out.put_u16(partition.0);
                    out.put_u16(session.tenant.0);
                    out.put_bytes(session.client_id.as_bytes());
                    put_delivery(out, now, delivery);
                });
            }
            return false;
        }
        let Some(coming) = transfers.coming.get_mut(&partition) else { return false };
        if coming.uncut.has(source) && !dealt {
            return true;
        }
        // A group deals a message to one session only: until it is clear that the session stays, the message can go back.
        if coming.stage == Stage::Served || (coming.stage == Stage::Complete && !dealt) {
            return false;
        }
        let client = hash_name(session.tenant, &session.client_id);
        coming.set_aside(&mut transfers.aside, Aside { to, client, delivery: delivery.clone() });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_has_one_limit_for_all_its_partitions() {
        let mut noted = NotedByMove::default();
        noted.begin(7);
        noted.begin(8);
        (0..128).for_each(|_| noted.note(7, |out| out.resize(out.len() + (1 << 20), 0)));
        noted.note(7, |out| out.push(0));
        assert!(!noted.0[&7].full, "the last one may be beyond the limit");
        noted.note(7, |_| panic!("there is no room"));
        noted.note(9, |_| panic!("nothing is noted for it"));
        assert!(noted.take(7).is_err() && noted.take(8).is_ok());
        noted.begin(9);
        noted.begin(10);
        noted.keep(|id| id == 9);
        assert_eq!(noted.0.keys().copied().collect::<Vec<_>>(), [9], "moves that are over are forgotten");
        let mut aside = BytesOfMoves::default();
        aside.begin(7, |_| true);
        aside.add(7, MOVE_MAX_BYTES + 1);
        assert!(!aside.has_room(7));
        aside.begin(8, |_| false);
        assert_eq!(aside.0.keys().copied().collect::<Vec<_>>(), [8], "moves that are over are forgotten");
    }

    #[test]
    fn a_name_is_noted_once_for_all_partitions_of_a_move() {
        let (own, other) = (ShardId(0), ShardId(1));
        let mut transfers = Transfers::new(own);
        let [first, second] = [0, 200].map(|from| Partitions::that(|it| (from..from + 128).contains(&it.0)));
        for (id, partitions, uncut) in [(7, first, own), (8, second, other)] {
            transfers.noted.begin(id);
            for partition in partitions.iter() {
                let leaving = Leaving { id, uncut: Shards::of(uncut), link_lost: false, is_given: false };
                transfers.leaving.insert(partition, leaving);
            }
        }
        let name = ExchangeName::of_deal(5);
        transfers.note_name(own, name);
        let noted = transfers.noted.take(7).unwrap();
        let mut expected = vec![NAME];
        put_partitions(&mut expected, first);
        name.write(&mut expected);
        assert_eq!((noted, transfers.noted.take(8).unwrap()), (expected, Vec::new()));
        transfers.noted.begin(7);
        transfers.end_leaving(first.with(second));
        assert!(transfers.noted.0.is_empty() && transfers.are_none());
    }
}
