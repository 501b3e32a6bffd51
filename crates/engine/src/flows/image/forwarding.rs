//! Messages of brokers for partitions that have moved, as they come.

use crate::cluster::transfer::error::ImageError;
use crate::flows::image::leaving::Moving;
use crate::ids::Partitions;
use crate::image::forwarding::{Forwarding, KEPT_BACK_MAX_BYTES, number_of};
use crate::image::noted::{each_noted, put_noted};
use crate::image::rest::concerns;
use crate::image::{begin, seal};
use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::uplink::id::MessageId;
use crate::topics::RouteSlot;

impl Moving<'_> {
    /// Looks at a message of a broker. Returns the partitions whose sessions do not get it now.
    pub(crate) fn attend_forwarding(
        &mut self,
        now: Now,
        slot: RouteSlot,
        id: Option<&MessageId>,
        message: &MessageRef,
    ) -> Partitions {
        let mut passed_over = Partitions::NONE;
        let (_, route) = self.cache.get(slot);
        let (place, state) = (self.place, &*self.state);
        let Forwarding { left, come, former } = &mut self.handover.forwarding;
        for left in left.values_mut().filter(|left| concerns(left.partitions, place, state, route)) {
            put_noted(&mut left.noted, now, id, message);
            if left.is_over && place.shards == 1 {
                passed_over = passed_over.with(left.partitions);
            }
        }
        let mut full = Vec::new();
        for (number, come) in come.iter_mut().filter(|(number, _)| Some(**number) != *former) {
            let concerns = come.kept_back.is_some() && concerns(come.partitions, place, state, route);
            if come.keeps_back(now, id, message, concerns) {
                passed_over = passed_over.with(come.partitions);
            }
            full.extend(come.kept_back.as_ref().filter(|it| it.noted.len() > KEPT_BACK_MAX_BYTES).map(|_| *number));
        }
        for number in full {
            // What was kept back before is complete and in order. An error would mean that this process cannot read
            // what it has written.
            let _ = self.deliver_kept_back(now, number);
        }
        passed_over
    }

    /// Delivers what was kept back for a move and was not passed on; from now on nothing is kept back.
    pub(crate) fn deliver_kept_back(&mut self, now: Now, id: u64) -> Result<Vec<u8>, ImageError> {
        let mut out = begin();
        let come = self.handover.forwarding.come.get_mut(&id);
        if let Some((kept_back, partitions)) = come.and_then(|come| Some((come.kept_back.take()?, come.partitions))) {
            each_noted(now, &seal(kept_back.noted), |id, message| {
                if id.is_none_or(|id| !kept_back.delivered.contains(&number_of(id))) {
                    put_noted(&mut out, now, id, message);
                    self.deliver_only(now, message, |session| session.is_some_and(|session| session.is_of(partitions)));
                }
            })?;
        }
        Ok(out)
    }
}
