//! Messages go to observers, and wait for them.

use crate::events::reason::Reason;
use crate::flows::contexts::Answering;
use crate::flows::contexts::Deciding;
use crate::ids::PRINCIPAL_LISTENER;
use crate::link::envelope::Ticket;
use crate::now::Now;
use crate::publish::inbound::Inbound;
use crate::topics::observed::ObserverSet;

impl Answering<'_> {
    /// One confirmation for a publisher.
    ///
    /// A refusal for now ends the connection of a publisher that gets no reason codes, and of one whose message has QoS 2:
    /// others have it by now, and a PUBREC with an error would free its packet identifier, so that it could come twice.
    /// The publisher sends it again, and only observers get it then.
    ///
    /// A refusal for good ends the exchange, or the publisher would send the message for ever. MQTT 5 has a code for it
    /// in PUBACK and PUBREC. MQTT 3 allows only a positive acknowledgement there ([MQTT-3.3.5-2] of 3.1.1).
    pub(crate) fn confirm_publisher(&mut self, now: Now, ticket: Ticket, refused: Option<Reason>) {
        let Some(connection) = self.state.connections.get(ticket.connection) else { return };
        if let Some(reason) = refused {
            self.state.counters.drop_message(reason);
            let is_principal = connection.listener == PRINCIPAL_LISTENER;
            let extra = connection.extra.as_ref().filter(|_| !is_principal);
            let is_exactly_once = extra.is_some_and(|extra| extra.acks.is_pub_rec(ticket.sequence));
            let has_codes = is_principal || connection.version.is_v5();
            if reason.is_temporary() {
                if !has_codes || is_exactly_once {
                    return self.state.to_close.push((ticket.connection, reason, None));
                }
            } else if !has_codes {
                return self.confirm(now, ticket, None, false);
            }
        }
        self.confirm(now, ticket, refused, false);
    }
}

impl Deciding<'_> {
    /// The observers of a message on its way in. A principal may be of a service that observes as well, and does not
    /// get its own messages.
    #[inline]
    pub(crate) fn observers_of(&self, it: &Inbound<'_>) -> ObserverSet {
        let all = self.router.cache.traits(it.slot).observers;
        if it.session.is_some() || all.is_empty() {
            all
        } else {
            all.without(self.services.principals.unobserved_by(it.key))
        }
    }

    /// The same for a message on its way in. Its acknowledgement waits for each observer that receives it.
    #[cold]
    pub(crate) fn tell_observers_of(&mut self, it: &Inbound<'_>, ticket: Option<Ticket>) -> u32 {
        let (topic, set) = (self.router.cache.topic_of(it), self.observers_of(it));
        let name = self.publisher_of(it).map(|(_, name)| name.to_owned()).unwrap_or_default();
        self.services.observers.tell_observers(self.state, set, &it.publication(&topic), &name, ticket)
    }
}
