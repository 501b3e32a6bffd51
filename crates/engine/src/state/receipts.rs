//! Receipts are noted.

use crate::addresses::receipts::{Asked, Receipt, quoted};
use crate::ids::{SessionKey, TenantId};
use crate::message::{Message, Publication};
use crate::state::Reporting;
use crate::telling::fate::Fate;
use crate::telling::reason::Reason;
use crate::topics::address_name::Address;
use tidegate_mqtt::QoS;

fn told(fate: &str, node: &str, topic: &str, reason: Option<Reason>) -> String {
    let reason = reason.map_or_else(String::new, |reason| format!(",\"reason\":{}", quoted(reason.label())));
    format!("{{\"receipt\":\"{fate}\",\"node\":{},\"topic\":{}{reason}}}", quoted(node), quoted(topic))
}

impl Reporting<'_> {
    /// Sends the outcome of a message to its sender, if the message was addressed to the client of a session and the
    /// sender asked for receipts.
    #[inline]
    pub(crate) fn tell_fate(&mut self, to: SessionKey, topic: &str, properties: &[u8], qos: QoS, fate: Fate) {
        if self.has_addresses && !properties.is_empty() {
            self.tell_fate_of_node(to, topic, properties, qos, fate);
        }
    }

    #[cold]
    fn tell_fate_of_node(&mut self, to: SessionKey, topic: &str, properties: &[u8], qos: QoS, fate: Fate) {
        let Some(session) = self.sessions.get(to.0).filter(|session| session.standing.is_node()) else { return };
        let (tenant, client_id) = (session.tenant, session.client_id.clone());
        self.tell_fate_named(tenant, &client_id, topic, properties, qos, fate);
    }

    /// The same for a message that is kept.
    #[inline]
    pub(crate) fn tell_fate_of(&mut self, to: SessionKey, message: &Message, fate: Fate) {
        self.tell_fate(to, message.topic(), message.properties(), message.qos, fate);
    }

    /// The same for a node by its name.
    pub(crate) fn tell_fate_named(
        &mut self,
        tenant: TenantId,
        client_id: &str,
        topic: &str,
        properties: &[u8],
        qos: QoS,
        fate: Fate,
    ) {
        let Some(addresses) = self.settings.addresses.as_ref() else { return };
        let Some(address) = Address::read(&addresses.prefix, topic) else { return };
        let Some(asked) = Asked::read(properties) else { return };
        match address {
            Address::Node(id) if *id == *client_id && (asked.all || fate != Fate::Stored) => {
                let reason = if let Fate::Dropped(reason) = fate { Some(reason) } else { None };
                let payload = told(fate.word(), client_id, topic, reason);
                self.receipts.push(Receipt::new(tenant, &asked, qos, payload));
            }
            Address::Group(_) | Address::All => self.note_fate(asked.number, client_id, fate),
            Address::Node(_) | Address::Receipts(_) => {}
        }
    }

    /// Tells the sender of a message that there is no such node.
    pub(crate) fn tell_unknown(&mut self, node: &str, publication: &Publication<'_>) {
        if let Some(asked) = Asked::read(publication.properties) {
            let payload = told("unknown", node, publication.topic, None);
            self.receipts.push(Receipt::new(publication.tenant, &asked, publication.qos, payload));
        }
    }
}
