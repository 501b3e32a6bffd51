//! A partition begins to leave this shard or to come to it.

use crate::cluster::transfer::{Coming, Leaving, Stage};
use crate::engine::facets::{MoveCalls, ShardQuestions};
use crate::flows::contexts::moving;
use crate::ids::Partitions;
use crate::link::transfer_word::TransferWord;
use crate::now::Now;
use std::collections::BTreeSet;

impl ShardQuestions<'_> {
    /// Whether every shard has confirmed that its messages go to the new home.
    pub fn is_cut(&self, id: u64) -> bool {
        self.engine.state.transfers.is_cut(id)
    }
}

impl MoveCalls<'_> {
    /// Begins to note records for partitions whose images this shard has just given out, in the same turn. `id` is
    /// that of the move.
    pub fn begin_leaving(&mut self, id: u64, partitions: Partitions) {
        let uncut = self.engine.links.roster.all();
        let transfers = &mut self.engine.state.transfers;
        transfers.noted.begin(id);
        for partition in self.engine.place.own(partitions).iter() {
            transfers.leaving.insert(partition, Leaving { id, uncut, link_lost: false, is_given: false });
        }
    }

    /// Asks all shards to send messages for these partitions here, in the turn in which their images were taken in.
    /// Messages from their cuts on are set aside until
    /// [`MoveCalls::finish_transfer`](crate::MoveCalls::finish_transfer).
    pub fn begin_coming(&mut self, now: Now, id: u64, partitions: Partitions) {
        self.engine.state.journal.now = now;
        let uncut = self.engine.links.roster.all();
        let own = self.engine.place.own(partitions);
        let transfers = &mut self.engine.state.transfers;
        transfers.aside.begin(id, |id| transfers.coming.values().any(|it| it.id == id));
        for partition in own.iter() {
            let coming = Coming {
                id,
                uncut,
                aside: Vec::new(),
                failed: None,
                stage: Stage::Collecting,
                touched: BTreeSet::new(),
            };
            transfers.coming.insert(partition, coming);
        }
        if own.is_empty() {
            return;
        }
        for shard in self.engine.links.roster.others() {
            self.engine.links.send_transfer(shard, TransferWord::Ask { id, partitions: own });
        }
        self.engine.pipeline().finish_fan_outs(now);
        moving!(self.engine).cut(self.engine.place.shard, id, own);
        self.engine.after_frame(now);
    }
}
