//! Requests to the broker itself in messages, where there are addresses of mobile nodes.

use crate::events::reason::Reason;
use crate::flows::contexts::Deciding;
use crate::ids::ObserverId;
use crate::publish::inbound::Inbound;
use crate::topics::observed::ObserverSet;
use crate::topics::stages::Step;

impl Deciding<'_> {
    /// Rejects a message above QoS 0 that asks for receipts that do not exist, or that is an unusable report.
    #[cold]
    pub(super) fn check_understanding(&mut self, it: &Inbound<'_>) -> Step {
        if it.raw.packet_id.is_none() {
            return Step::Continue;
        }
        if it.unknown_receipts {
            return Reason::NotUnderstood.into();
        }
        if !self.router.cache.traits(it.slot).is_report || !self.is_unusable_report(it) {
            return Step::Continue;
        }
        // Observers of reports find the fault and count it.
        let (topic, set) = (self.router.cache.topic_of(it), ObserverSet::default().with_if(true, ObserverId::REPORTS));
        let name = self.publisher_of(it).map(|(_, name)| name.to_owned()).unwrap_or_default();
        self.services.observers.tell_observers(self.state, set, &it.publication(&topic), &name, None);
        Reason::NotUnderstood.into()
    }

    /// True if a report is rejected. The report of a publisher without negative acknowledgements is not: it goes to its
    /// subscribers, and the shell ignores it.
    fn is_unusable_report(&self, it: &Inbound<'_>) -> bool {
        let can_reject = self.state.connections.get(it.key).is_some_and(|connection| connection.version.is_v5());
        let Some(addresses) = self.state.settings.addresses.as_ref().filter(|_| can_reject) else { return false };
        let topic = self.router.cache.get(it.slot).0;
        addresses.unusable_report.is_some_and(|check| check.holds(&addresses.prefix, topic, it.raw.payload))
    }
}
