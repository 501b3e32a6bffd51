//! Messages of brokers for partitions that have moved, as they come.

use crate::cluster::transfer::error::ImageError;
use crate::durable::crossing::Left;
use crate::event::{Event, LogEvent};
use crate::events::reason::Reason;
use crate::flows::contexts::Moving;
use crate::ids::Partitions;
use crate::image::forwarding::{Forwarding, KEPT_BACK_MAX_BYTES};
use crate::image::handover::{concerns, concerns_left};
use crate::image::noted::each_noted;
use crate::image::seal;
use crate::journal::keys::Key;
use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::broker_link::id::MessageId;
use crate::topics::RouteSlot;

impl Moving<'_> {
    /// Looks at a message of a broker that the partitions `having` have. Returns the partitions whose sessions do not get it
    /// now.
    pub(crate) fn attend_forwarding(
        &mut self,
        now: Now,
        slot: RouteSlot,
        id: Option<&MessageId>,
        message: &MessageRef,
        having: Partitions,
    ) -> Partitions {
        if self.handover.forwards()
            && !self.router.cache.get(slot).1.groups().is_empty()
            && let Some(message) = self.of_clients(message)
        {
            self.note_for_groups(slot, &message, having);
        }
        let mut passed_over = self.collect_for_left(now, slot, id, message);
        let (_, route) = self.router.cache.get(slot);
        let (place, state) = (self.links.place, &mut *self.state);
        let Forwarding { come, at_hand, .. } = &mut self.handover.forwarding;
        let mut full = Vec::new();
        for (number, come) in come.iter_mut().filter(|(number, _)| !at_hand.former.contains(number)) {
            let concerns = come.kept_back.is_some() && concerns(come.partitions, place, state, self.groups, route);
            passed_over = passed_over.with(come.keeps_back(now, &mut state.journal, (id, having), message, concerns));
            full.extend(come.kept_back.as_ref().filter(|it| it.noted.len() > KEPT_BACK_MAX_BYTES).map(|_| *number));
        }
        for number in full {
            // The messages kept back before are complete and in order.
            if let Err(error) = self.deliver_kept_back(now, number) {
                // This process cannot read its own format.
                let lost = LogEvent::KeptBackLost { detail: error.to_string() };
                self.state.events.push_back(Event::Log(lost));
            }
        }
        passed_over
    }

    /// Collects a message of a broker for the new homes of partitions that have left. Returns the partitions whose
    /// sessions here do not get it.
    pub(crate) fn collect_for_left(
        &mut self,
        now: Now,
        slot: RouteSlot,
        id: Option<&MessageId>,
        message: &MessageRef,
    ) -> Partitions {
        let mut passed_over = Partitions::NONE;
        let (_, route) = self.router.cache.get(slot);
        let (place, state) = (self.links.place, &mut *self.state);
        let Forwarding { left, at_hand, stored, .. } = &mut self.handover.forwarding;
        for left in left.values_mut() {
            if !concerns_left(left.partitions, place, state, self.groups, route) {
                continue;
            }
            if !Forwarding::note_left(at_hand, left, now, id, message) {
                state.counters.drop_message(Reason::MemoryCeiling);
            } else if at_hand.is_last {
                left.keep_copy(&mut state.journal, stored, id, message);
            }
            if place.shards == 1 {
                passed_over = passed_over.with(left.passed_over());
            }
        }
        passed_over
    }

    /// Delivers the messages that were kept back for a move and not passed on, and stops to keep messages back.
    pub(crate) fn deliver_kept_back(&mut self, now: Now, id: u64) -> Result<(), ImageError> {
        let come = self.handover.forwarding.come.get_mut(&id);
        if let Some((mut kept_back, partitions)) = come.and_then(|come| Some((come.kept_back.take()?, come.partitions)))
        {
            let noted = seal(std::mem::take(&mut kept_back.noted));
            each_noted(now, &noted, |id, message| {
                let missing = partitions.without(kept_back.have(id));
                if !missing.is_empty() {
                    self.pass_on_to(now, message, missing);
                }
            })?;
            for number in kept_back.stored {
                self.state.journal.delete(Key::Crossing(number));
            }
        }
        Ok(())
    }

    /// Takes a last copy of an earlier process for partitions that had left. It stays in the store until it is forwarded.
    pub(crate) fn replay_for_left(
        &mut self,
        now: Now,
        message: &MessageRef,
        (of, partitions): (Option<&str>, Partitions),
    ) {
        if self.broker_links.brokers.config.has_broker_links_here() {
            let forwarding = &mut self.handover.forwarding;
            let copy = forwarding.stored.put_again(&mut self.state.journal, of, partitions, message);
            forwarding.take_copy(now, copy);
        }
    }

    /// Delivers messages that an earlier process kept back for partitions that had moved to it.
    pub(crate) fn replay_kept_back(&mut self, now: Now, left: &Left, partitions: Partitions, name: u64) {
        let is_missing = |partition| !left.crossed.iter().any(|place| place.owns(partition));
        let missing: Partitions = partitions.iter().filter(|partition| is_missing(*partition)).collect();
        self.deliver_only(now, &left.message, |session| session.is_some_and(|session| session.is_of(missing)));
        if let Some(message) = self.of_clients(&left.message) {
            self.keep_for_groups(now, &message, missing, name);
        }
    }
}
