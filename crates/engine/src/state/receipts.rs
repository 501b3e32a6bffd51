//! Receipts are noted.

use crate::addresses::receipts::{Asked, Receipt, quoted};
use crate::events::outcome::DeliveryOutcome;
use crate::events::reason::Reason;
use crate::ids::{PartitionId, SessionKey, TenantId, partition_of};
use crate::message::{Message, Publication};
use crate::state::Reporting;
use crate::topics::address_name::Address;
use tidegate_mqtt::QoS;

fn told(outcome: &str, node: &str, topic: &str, reason: Option<Reason>) -> String {
    let reason = reason.map_or_else(String::new, |reason| format!(",\"reason\":{}", quoted(reason.label())));
    format!("{{\"receipt\":\"{outcome}\",\"node\":{},\"topic\":{}{reason}}}", quoted(node), quoted(topic))
}

impl Reporting<'_> {
    /// Sends the outcome of a message to its sender, if the message was addressed to the client of a session and the
    /// sender asked for receipts.
    #[inline]
    pub(crate) fn report_outcome(
        &mut self,
        to: SessionKey,
        topic: &str,
        properties: &[u8],
        qos: QoS,
        outcome: DeliveryOutcome,
    ) {
        if self.has_addresses && !properties.is_empty() {
            self.report_outcome_of_node(to, topic, properties, qos, outcome);
        }
    }

    #[cold]
    fn report_outcome_of_node(
        &mut self,
        to: SessionKey,
        topic: &str,
        properties: &[u8],
        qos: QoS,
        outcome: DeliveryOutcome,
    ) {
        let Some(session) = self.sessions.get(to.0).filter(|session| session.standing.is_node()) else { return };
        let (tenant, client_id) = (session.tenant, session.client_id.clone());
        self.report_outcome_named(tenant, &client_id, topic, properties, qos, outcome);
    }

    /// The same for a message that is kept.
    #[inline]
    pub(crate) fn report_outcome_of(&mut self, to: SessionKey, message: &Message, outcome: DeliveryOutcome) {
        // The bytes of a topic are checked whenever it is read.
        if self.has_addresses {
            self.report_outcome(to, message.topic(), message.properties(), message.qos, outcome);
        }
    }

    /// The same for a node by its name.
    pub(crate) fn report_outcome_named(
        &mut self,
        tenant: TenantId,
        client_id: &str,
        topic: &str,
        properties: &[u8],
        qos: QoS,
        outcome: DeliveryOutcome,
    ) {
        let Some(addresses) = self.settings.addresses.as_ref() else { return };
        let Some(address) = Address::read(&addresses.prefix, topic) else { return };
        let Some(asked) = Asked::read(properties) else { return };
        match address {
            Address::Node(id) if *id == *client_id && (asked.all || outcome != DeliveryOutcome::Stored) => {
                let reason = if let DeliveryOutcome::Dropped(reason) = outcome { Some(reason) } else { None };
                let payload = told(outcome.word(), client_id, topic, reason);
                self.receipts.push(Receipt::new(tenant, Some(client_id), &asked, qos, payload));
            }
            Address::Group(_) | Address::All => self.note_outcome(asked.number, client_id, outcome),
            Address::Node(_) | Address::Receipts(_) => {}
        }
    }

    /// A message has expired on its way to this shard: its sender hears of it if this is the home of the receiver.
    #[cold]
    pub(crate) fn report_expired_on_way(&mut self, publication: &Publication<'_>, own: impl Fn(PartitionId) -> bool) {
        let prefix = self.settings.addresses.as_ref().map(|addresses| addresses.prefix.clone());
        let Some(Address::Node(id)) = prefix.and_then(|prefix| Address::read(&prefix, publication.topic)) else {
            return;
        };
        let (tenant, topic, outcome) =
            (publication.tenant, publication.topic, DeliveryOutcome::Dropped(Reason::MessageExpired));
        if own(partition_of(tenant, &id)) {
            self.report_outcome_named(tenant, &id, topic, publication.properties, publication.qos, outcome);
        }
    }

    /// Tells the sender of a message that there is no such node.
    pub(crate) fn tell_unknown(&mut self, node: &str, publication: &Publication<'_>) {
        if let Some(asked) = Asked::read(publication.properties) {
            let payload = told("unknown", node, publication.topic, None);
            self.receipts.push(Receipt::new(publication.tenant, Some(node), &asked, publication.qos, payload));
        }
    }
}
