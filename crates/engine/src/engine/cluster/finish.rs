//! The rest of a partition that moves between shards is taken, and the move ends.

use crate::cluster::transfer::Stage;
use crate::cluster::transfer::error::ImageError;
use crate::cluster::transfer::finish::Entry;
use crate::engine::facets::MoveCalls;
use crate::flows::contexts::moving;
use crate::ids::Partitions;
use crate::image::{begin as begin_image, open as open_image, seal as seal_image};
use crate::now::Now;

impl MoveCalls<'_> {
    /// The messages that have come here alone for the partitions of a move since their images were taken. Asked for
    /// when [`ShardQuestions::is_cut`](crate::ShardQuestions::is_cut); from then on no message is noted.
    ///
    /// # Errors
    /// When it was more than is kept, or the link to a shard was lost before it had cut.
    pub fn take_transfer_rest(&mut self, id: u64) -> Result<Vec<u8>, ImageError> {
        let mut rest = begin_image();
        let transfers = &mut self.engine.state.transfers;
        if transfers.leaving.values().any(|leaving| leaving.id == id && leaving.link_lost) {
            return Err(ImageError::LinkLost);
        }
        rest.append(&mut transfers.noted.take(id)?);
        for leaving in transfers.leaving.values_mut().filter(|leaving| leaving.id == id) {
            leaving.is_given = true;
        }
        Ok(seal_image(rest))
    }

    /// Delivers the rests of all shards of the old home to the sessions of this shard, and then the messages set aside
    /// here. Returns the number of messages. The partitions stay held until they are released.
    ///
    /// # Errors
    /// When it was more than is kept, the link to a shard was lost meanwhile, or the bytes are no rest. The partitions
    /// are to be forgotten then.
    pub fn finish_transfer(&mut self, now: Now, id: u64, rests: &[Vec<u8>]) -> Result<u64, ImageError> {
        self.engine.state.journal.now = now;
        let (mut aside, mut own) = (Vec::new(), Partitions::NONE);
        let coming = self.engine.state.transfers.coming.iter_mut().filter(|(_, coming)| coming.id == id);
        for (partition, coming) in coming {
            own.add(*partition);
            if let Some(failed) = coming.failed.clone() {
                return Err(failed);
            }
            coming.stage = Stage::Complete;
            // Messages dealt by groups still wait: they return to the group if the session does not stay.
            aside.extend(coming.aside.extract_if(.., |aside| aside.delivery.group.is_none()));
        }
        let mut messages = aside.len() as u64;
        for rest in rests {
            let mut reader = open_image(rest)?;
            while !reader.is_empty() {
                let (partitions, entry) = self.engine.state.sessions.read_entry(&mut reader, now)?;
                let partitions = partitions.among(own);
                if !partitions.is_empty() {
                    messages += u64::from(!matches!(entry, Entry::Name(_) | Entry::Dealt(_)));
                    moving!(self.engine).take_entry(now, partitions, entry);
                }
            }
        }
        moving!(self.engine).deliver_aside(now, aside);
        for coming in self.engine.state.transfers.coming.values_mut().filter(|coming| coming.id == id) {
            coming.touched.clear();
        }
        self.engine.after_frame(now);
        Ok(messages)
    }
}
