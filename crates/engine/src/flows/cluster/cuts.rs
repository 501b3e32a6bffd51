//! Partitions that move between shards are cut off.

use crate::cluster::transfer::{Aside, Cut, Stage};
use crate::flows::contexts::Dealing;
use crate::flows::contexts::Moving;
use crate::ids::{Partitions, ShardId};
use crate::link::transfer_word::TransferWord;
use crate::now::Now;
use std::collections::BTreeSet;

impl Moving<'_> {
    /// Takes a word about a transfer.
    pub(crate) fn handle_transfer(&mut self, from: ShardId, word: TransferWord) {
        match word {
            TransferWord::Ask { id, partitions } => self.cut(from, id, partitions),
            TransferWord::Cut { id, partitions } => self.state.transfers.note_cut(from, id, partitions),
            TransferWord::End { id } => {
                self.state.transfers.cuts.retain(|cut| (cut.id, cut.to) != (id, from));
                self.retaining.fetches.wake_moved();
            }
        }
    }

    /// Later records of this shard are for the new home of these partitions.
    pub(crate) fn cut(&mut self, to: ShardId, id: u64, partitions: Partitions) {
        // A late request, for a move that was called off, takes nothing from the next move.
        let cuts = &mut self.state.transfers.cuts;
        let later = cuts.iter().filter(|cut| cut.id > id);
        let later = later.fold(Partitions::NONE, |all, cut| all.with(cut.partitions));
        let own = partitions.without(later);
        for cut in cuts.iter_mut() {
            cut.partitions = cut.partitions.without(own);
        }
        cuts.push(Cut { id, partitions: own, to });
        cuts.retain(|cut| !cut.partitions.is_empty());
        for shard in self.links.roster.others() {
            self.links.send_transfer(shard, TransferWord::Cut { id, partitions });
        }
        self.state.transfers.note_cut(self.links.place.shard, id, partitions);
    }

    /// The moves of these partitions have ended: arrived partitions are served, leaving ones stay.
    pub(crate) fn release_transfers(&mut self, now: Now, partitions: Partitions) {
        let transfers = &mut self.state.transfers;
        let stay: Partitions =
            transfers.leaving.keys().copied().filter(|partition| partitions.has(*partition)).collect();
        transfers.end_leaving(partitions);
        let mut aside = Vec::new();
        for (_, coming) in transfers.coming.iter_mut().filter(|(partition, _)| partitions.has(**partition)) {
            if coming.stage == Stage::Complete {
                aside.append(&mut coming.aside);
            }
            coming.stage = Stage::Served;
        }
        self.deliver_aside(now, aside);
        self.state.transfers.settle_transfers();
        self.groups.announce_members_that_stay(self.state, self.links, stay);
    }

    /// Forgets these partitions here. Returns the messages set aside, for `give_back_aside`.
    #[must_use]
    pub(crate) fn abandon_transfers(&mut self, partitions: Partitions) -> Vec<Aside> {
        self.state.transfers.end_leaving(partitions);
        let mut ids = BTreeSet::new();
        let mut all = Vec::new();
        for partition in partitions.iter() {
            let Some(mut coming) = self.state.transfers.coming.remove(&partition) else { continue };
            ids.insert(coming.id);
            all.append(&mut coming.aside);
        }
        for id in ids {
            let own = self.links.place.shard;
            self.state.transfers.cuts.retain(|cut| (cut.id, cut.to) != (id, own));
            for shard in self.links.roster.others() {
                self.links.send_transfer(shard, TransferWord::End { id });
            }
        }
        self.retaining.fetches.wake_moved();
        all
    }
}

impl Dealing<'_> {
    /// Returns messages that groups dealt to sessions of arriving partitions. All these sessions have been forgotten by
    /// now: a group whose home is here would otherwise deal the message to another of them.
    pub(crate) fn give_back_aside(&mut self, now: Now, all: Vec<Aside>) {
        for aside in all {
            if let Some(group) = &aside.delivery.group {
                let message = &aside.delivery.message;
                if !self.keeps_for_dead(now, group, message, aside.client) {
                    self.give_back(now, group, aside.to, &mut message.publication());
                }
            }
        }
    }
}
