//! Messages that are for the shell, too: those for applications, and what nodes say of themselves.

use tidegate_mqtt::RawPublish;

use super::Forwarding;
use crate::engine::Engine;
use crate::event::Attempt;
use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::link::envelope::Ticket;
use crate::message::Publication;
use crate::now::Now;
use crate::telling::reason::Reason;
use crate::topics::{RouteSlot, TopicTraits};

impl Engine {
    /// Hands a message for applications, or one that a node says of itself, to the shell; says for how many more
    /// confirmations its acknowledgement waits.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "as for publishing it")]
    pub(super) fn tell_shell_of(
        &mut self,
        traits: TopicTraits,
        tenant: TenantId,
        session: SessionKey,
        slot: RouteSlot,
        raw: &RawPublish<'_>,
        forwarding: &Forwarding<'_>,
        ticket: Option<Ticket>,
    ) -> u32 {
        let topic = self.cache.get(slot).0.to_owned();
        let (properties, expires_at) = (forwarding.properties, forwarding.expires_at);
        let publication = Publication::new(tenant, &topic, raw.qos, raw.retain, properties, expires_at, raw.payload, 0);
        self.tell_shell(traits, &publication, session, ticket)
    }

    /// The same of a message that is put together already.
    pub(crate) fn tell_shell(
        &mut self,
        traits: TopicTraits,
        publication: &Publication<'_>,
        session: SessionKey,
        ticket: Option<Ticket>,
    ) -> u32 {
        let mut waits = 0;
        if traits.is_report {
            waits += self.tell_report(publication, Some(session), ticket);
        }
        if traits.is_record {
            waits += self.tell_record(publication, Some(session), ticket);
        }
        waits
    }

    /// Whether a message goes nowhere but to the shell: one that was taken before, and only the bus has to confirm it
    /// once more, or a report that nobody can use, whose client can be told so.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "as for publishing it")]
    pub(super) fn ends_at_shell(
        &mut self,
        now: Now,
        key: ConnectionKey,
        session: SessionKey,
        tenant: TenantId,
        slot: RouteSlot,
        raw: &RawPublish<'_>,
        forwarding: &Forwarding<'_>,
    ) -> bool {
        let traits = self.cache.traits(slot);
        let topic = self.cache.get(slot).0.to_owned();
        let (properties, expires_at) = (forwarding.properties, forwarding.expires_at);
        let publication = Publication::new(tenant, &topic, raw.qos, raw.retain, properties, expires_at, raw.payload, 0);
        if traits.is_report && self.refuses_report(key, session, &topic, raw) {
            // The shell knows what is wrong with it, and counts it.
            self.tell_report(&publication, Some(session), None);
            self.refuse_not_understood(now, key, session, &topic, raw);
            return true;
        }
        self.repeat_to_shell(now, key, session, traits, &publication, raw)
    }

    /// Whether a report is refused. One whose client cannot be told why goes its way to subscribers, and the shell
    /// leaves it out.
    fn refuses_report(&self, key: ConnectionKey, session: SessionKey, topic: &str, raw: &RawPublish<'_>) -> bool {
        let is_told = self.desk.connections.get(key).is_some_and(|connection| connection.version.is_v5());
        let addresses = self.settings.addresses.as_ref().filter(|_| is_told);
        addresses.is_some_and(|it| it.unusable_report.is_some_and(|check| check.holds(&it.prefix, topic, raw.payload)))
            && self.may_be_refused(session, topic, raw)
    }

    /// Whether a client would hear of it if this message was refused for what it says: it is new, above QoS 0, and
    /// allowed.
    pub(super) fn may_be_refused(&self, session: SessionKey, topic: &str, raw: &RawPublish<'_>) -> bool {
        raw.packet_id.is_some()
            && !self.is_repeated(session, raw)
            && self.rules.may_publish(&self.desk, session, topic, raw.qos, raw.retain)
    }

    /// Nobody gets a message, since what it asks of the broker is not understood.
    pub(super) fn refuse_not_understood(
        &mut self,
        now: Now,
        key: ConnectionKey,
        session: SessionKey,
        topic: &str,
        raw: &RawPublish<'_>,
    ) {
        self.desk.counters.drop_message(Reason::NotUnderstood);
        self.charge_own_loop_lag(now, key, 0, raw.payload.len());
        self.desk.tell_denied(Attempt::Publish, session, topic, Reason::NotUnderstood);
        let mark = self.desk.journal.mark();
        self.answer_publish(now, key, raw, Err(Reason::NotUnderstood), 0, mark);
    }
}
