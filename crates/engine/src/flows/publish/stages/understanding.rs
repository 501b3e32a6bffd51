//! What a message asks of the broker itself, where there are addresses of mobile nodes.

use crate::flows::publish::deciding::Deciding;
use crate::ids::ObserverId;
use crate::publish::inbound::Inbound;
use crate::telling::reason::Reason;
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
        if !self.cache.traits(it.slot).is_report || !self.is_unusable_report(it) {
            return Step::Continue;
        }
        // Who observes reports knows what is wrong with it, and counts it.
        let (topic, set) = (self.cache.topic_of(it), ObserverSet::default().with_if(true, ObserverId::REPORTS));
        let name = self.publisher_of(it).map(|(_, name)| name.to_owned()).unwrap_or_default();
        self.observers.tell_observers(self.state, set, &it.publication(&topic), &name, None);
        Reason::NotUnderstood.into()
    }

    /// True if a report is rejected. A publisher that cannot be told why is not: the report goes to its subscribers, and
    /// the shell leaves it out.
    fn is_unusable_report(&self, it: &Inbound<'_>) -> bool {
        let is_told = self.state.connections.get(it.key).is_some_and(|connection| connection.version.is_v5());
        let Some(addresses) = self.settings.addresses.as_ref().filter(|_| is_told) else { return false };
        let topic = self.cache.get(it.slot).0;
        addresses.unusable_report.is_some_and(|check| check.holds(&addresses.prefix, topic, it.raw.payload))
    }
}
