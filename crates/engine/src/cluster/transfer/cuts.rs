//! Shards say from where on their messages are for the new home of partitions.

use super::Stage;
use crate::cluster::transfer::Transfers;
use crate::cluster::transfer::error::ImageError;
use crate::ids::{PartitionId, Partitions, ShardId};
use crate::link::Links;
use crate::link::record::Record;
use crate::link::transfer_word::TransferWord;
use crate::roster::Roster;
use crate::roster::Shards;
use std::collections::BTreeMap;

impl Transfers {
    /// Whether every shard has confirmed that its messages go to the new home.
    pub(crate) fn is_cut(&self, id: u64) -> bool {
        let leaving = self.leaving.values().filter(|leaving| leaving.id == id);
        leaving.map(|leaving| leaving.uncut).all(|uncut| uncut == Shards::default())
    }

    /// From now on, records of a shard are for the new home.
    pub(crate) fn note_cut(&mut self, from: ShardId, id: u64, partitions: Partitions) {
        for partition in partitions.iter() {
            if let Some(leaving) = self.leaving.get_mut(&partition).filter(|it| it.id == id) {
                leaving.uncut = leaving.uncut.without(Shards::of(from));
            }
            if let Some(coming) = self.coming.get_mut(&partition).filter(|it| it.id == id) {
                coming.uncut = coming.uncut.without(Shards::of(from));
            }
        }
        self.settle_transfers();
    }

    /// A shard of another node is new: it receives the known cuts, and is asked like the others.
    pub(crate) fn tell_of_transfers(&mut self, links: &mut Links, peer: ShardId) {
        for cut in self.cuts.clone() {
            links.send_transfer(peer, TransferWord::Cut { id: cut.id, partitions: cut.partitions });
        }
        for leaving in self.leaving.values_mut() {
            leaving.uncut.add(peer);
        }
        let mut asked: BTreeMap<u64, Partitions> = BTreeMap::new();
        for (partition, coming) in self.coming.iter_mut().filter(|(_, coming)| coming.stage < Stage::Served) {
            coming.uncut.add(peer);
            asked.entry(coming.id).or_default().add(*partition);
        }
        for (id, partitions) in asked {
            links.send_transfer(peer, TransferWord::Ask { id, partitions });
        }
    }

    /// A shard of another node is gone. Its messages to the old home, sent while it could not reach this one, are
    /// unknown here.
    pub(crate) fn end_transfers_of(&mut self, peer: ShardId) {
        let gone = Shards::of(peer);
        self.moved_from.retain(|_, from| *from != peer);
        self.undecided.extend(self.cuts.extract_if(.., |cut| cut.to == peer));
        for leaving in self.leaving.values_mut() {
            leaving.link_lost |= leaving.uncut.has(peer);
            leaving.uncut = leaving.uncut.without(gone);
        }
        for coming in self.coming.values_mut() {
            coming.uncut = coming.uncut.without(gone);
            if coming.stage == Stage::Collecting {
                coming.failed = Some(ImageError::LinkLost);
            }
        }
        self.settle_transfers();
    }

    /// A table has come. Where the new home has become the home, the cut has done its work. Nothing else ends it here: while there is no session
    /// with the old home, this shard takes its place, and the move continues.
    pub(crate) fn end_cuts(&mut self, roster: &Roster, old: &Roster) {
        for cut in &mut self.cuts {
            let arrived = |at: &PartitionId| roster.home_of(*at) == cut.to && old.home_of(*at) != cut.to;
            cut.partitions = cut.partitions.without(cut.partitions.iter().filter(arrived).collect());
        }
        self.cuts.retain(|cut| !cut.partitions.is_empty());
    }

    /// A table is in force: it may decide moves whose new homes are gone. Returns the partitions of these moves.
    pub(crate) fn settle_undecided(&mut self, roster: &Roster) -> Partitions {
        let before = self.undecided();
        self.undecided.retain(|cut| !roster.has_decided(cut.id));
        before.without(self.undecided())
    }

    /// Late messages of a shard that has not cut yet are not for arrived sessions, even if these are served already.
    pub(crate) fn settle_transfers(&mut self) {
        let coming = &mut self.coming;
        coming.retain(|_, coming| coming.stage < Stage::Served || coming.uncut != Shards::default());
    }
}

impl Links {
    pub(crate) fn send_transfer(&mut self, shard: ShardId, word: TransferWord) {
        self.send(shard, Record::Transfer(Box::new(word)));
    }
}
