//! On an orchestrator: whether the brokers of the fleet take messages.

use crate::events::reason::Reason;
use crate::flows::contexts::Deciding;
use crate::orchestrator::broker_link::Gate;
use crate::publish::inbound::Inbound;
use crate::topics::stages::Deferral;
use crate::topics::stages::Step;
use tidegate_mqtt::QoS;

impl Deciding<'_> {
    /// Rejects topics that brokers deny, and messages that are longer than any broker takes. Rejects or defers a message
    /// as long as the fleet has no room: an MQTT 5 publisher gets an error, and the acknowledgement of others is
    /// withheld. While no limit of a broker is known, it is withheld from all publishers: an acknowledged message above
    /// it would be dropped.
    #[cold]
    pub(super) fn check_fleet(&mut self, it: &Inbound<'_>) -> Step {
        let (topic, _) = self.router.cache.get(it.slot);
        if self.broker_links.quarantine.holds(topic, it.now.monotonic) {
            return Reason::TopicDenied.into();
        }
        if self.broker_links.is_too_large(&it.publication(topic), it.now) {
            return Reason::FleetPacketLimit.into();
        }
        let gate = self.broker_links.gate();
        let can_reject = self.state.connections.get(it.key).is_some_and(|connection| connection.version.is_v5());
        match gate {
            Gate::Open => Step::Continue,
            // An orchestrator that has just started learns of its brokers in a moment.
            _ if it.raw.qos != QoS::AtMostOnce && !(gate.is_full() && can_reject) => {
                if self.state.connections.is_leaving(it) { Step::Done } else { Step::Defer(Deferral::Fleet) }
            }
            // QoS 0 promises nothing. It counts as owed.
            Gate::LimitsUnknown => Step::Continue,
            Gate::NoBroker => Reason::NoBroker.into(),
            Gate::Full | Gate::FullLimitsUnknown => Reason::FleetFull.into(),
        }
    }
}
