//! A message of a broker that has come before, and values that brokers have kept.

use crate::events::reason::Reason;
use crate::flows::broker_link::adopted::FromBroker;
use crate::flows::contexts::BrokerLinking;
use crate::flows::contexts::Publishing;
use crate::flows::contexts::answering;
use crate::flows::publish::dispatch::reach;
use crate::ids::{ConnectionKey, SessionKey, TenantId, partition_of};
use crate::link::envelope::Ticket;
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::id::MessageId;
use crate::orchestrator::broker_link::receive::version_of;
use crate::publish::dispatch::Source;
use crate::settings::fleet_topics::{of_brokers, owner_of};
use tidegate_mqtt::{PacketId, RawPublish};

impl BrokerLinking<'_> {
    /// Takes a QoS 2 message whose packet id is taken. Partitions that have left its old home may not have it, here or at
    /// another member.
    pub(crate) fn take_repetition(
        &mut self,
        now: Now,
        session: SessionKey,
        packet_id: PacketId,
        message: &FromBroker<'_>,
    ) {
        let key = message.key;
        if self.state.connections.answers_pub_rec(key, packet_id) {
            return;
        }
        message.forward_again(self, now);
        if self.links.place.shards == 1 {
            message.deliver_to_taken_over(self, now);
        }
        let noted = message.note_repetition(self, now);
        let waits = self.handover.end_message() + u32::from(noted);
        answering!(self).answer_repetition(now, key, session, packet_id, waits);
    }

    /// Counts a message that has come before. Sessions that were taken over since may not have it.
    pub(crate) fn take_duplicate(&mut self, now: Now, message: &FromBroker<'_>) {
        if let Some(broker_link) = self.broker_links.brokers.all.get_mut(&message.broker_link) {
            broker_link.counters.duplicates += 1;
        }
        message.deliver_to_taken_over(self, now);
    }
}

impl Publishing<'_> {
    /// Sends a value that a broker has kept to its topic's home, which decides whether it is new and distributes it.
    /// Returns whether the home is another shard.
    pub(crate) fn ask_home(
        &mut self,
        now: Now,
        key: ConnectionKey,
        raw: &RawPublish<'_>,
        (properties, expires_at): (&[u8], Millis),
        id: Option<MessageId>,
        ticket: Option<Ticket>,
    ) -> bool {
        let Ok(topic) = std::str::from_utf8(raw.topic) else { return false };
        let (tenant, own) = owner_of(&self.state.settings, TenantId::BROKER_LINK, topic);
        let home = self.links.roster.home_of_topic(tenant, own);
        if home == self.links.place.shard {
            return false;
        }
        let with_id = with_id(properties, id);
        let mut publication =
            Publication::new(TenantId::BROKER_LINK, topic, raw.qos, true, &with_id, expires_at, raw.payload, 0);
        publication.from_retained = true;
        let source = Source { connection: Some(key), ticket, ..Source::inside(self.links.place.shard, now) };
        reach!(self).send_to_home(&mut publication, &source, home);
        true
    }

    /// Takes over a value that a broker has kept, at its topic's home, and gives it to everybody if it is news.
    pub(crate) fn take_over_at_home(&mut self, now: Now, publication: &mut Publication<'_>) -> Option<Reason> {
        match self.retain_from_fleet(now, publication, None) {
            Err(reason) => return Some(reason),
            Ok(false) => return None,
            Ok(true) => {}
        }
        let (tenant, topic) = of_brokers(&self.state.settings, publication.topic)?;
        let slot = self.route_of(tenant, topic);
        let priority = self.router.cache.traits(slot).priority.level(publication.properties);
        let (topic, route) = self.router.cache.get(slot);
        let properties = MessageId::strip(publication.properties);
        let (qos, expires_at, payload) = (publication.qos, publication.expires_at, publication.payload);
        let mut own = Publication::new(tenant, topic, qos, true, properties, expires_at, payload, 0);
        own.priority = priority;
        own.retain_is_done = true;
        own.from_retained = true;
        let source = Source::inside(self.links.place.shard, now);
        reach!(self).dispatch(now, route, &mut own, &source);
        reach!(self).tell_found(&mut own, &source);
        None
    }

    /// Keeps a retained value here as well, unless a later one is known. Returns whether it is new, as far as this
    /// shard knows.
    pub(crate) fn takes_over(
        &mut self,
        now: Now,
        raw: &RawPublish<'_>,
        (properties, expires_at): (&[u8], Millis),
        id: Option<MessageId>,
    ) -> bool {
        let Ok(topic) = std::str::from_utf8(raw.topic) else { return false };
        let own = id.is_some_and(|id| id.origin == self.broker_links.origin);
        if own && !raw.retain && !self.broker_links.brokers.config.brokers_decide() {
            // It was kept when it entered here.
            return true;
        }
        let with_id = with_id(properties, id);
        let mut publication =
            Publication::new(TenantId::BROKER_LINK, topic, raw.qos, true, &with_id, expires_at, raw.payload, 0);
        let (tenant, own) = owner_of(&self.state.settings, TenantId::BROKER_LINK, topic);
        let home = self.links.roster.home_of_topic(tenant, own);
        if home == self.links.place.shard {
            return self.retain_from_fleet(now, &mut publication, None).unwrap_or(false);
        }
        if let Some(id) = id {
            self.broker_links.settlement.newest_brought.note(topic, (id.entered, id.number));
        }
        let source = Source::inside(self.links.place.shard, now);
        reach!(self).send_to_home(&mut publication, &source, home);
        true
    }

    /// Keeps a value whose topic is at home here; returns whether it was news, or why it cannot be kept. `entered_at` is
    /// the time at which a client has given it, and `None` for a value that comes another way.
    pub(crate) fn retain_from_fleet(
        &mut self,
        now: Now,
        publication: &mut Publication<'_>,
        entered_at: Option<Millis>,
    ) -> Result<bool, Reason> {
        let mut version = version_of(publication.properties);
        let id = MessageId::at_end_of(publication.properties);
        if let Some(id) = id.filter(|id| id.origin != self.broker_links.origin) {
            self.broker_links.clock.note(now, id.entered);
        }
        let Some((tenant, topic)) = of_brokers(&self.state.settings, publication.topic) else { return Ok(false) };
        if let Some(entered_at) = entered_at {
            let present = self.broker_links.clock.present(now);
            let age_ms = now.monotonic.since(entered_at);
            version = self.retaining.store.version_entering(now, (tenant, topic), version, present, age_ms);
        }
        // A value of a publisher that speaks to a broker directly has no version: whatever is known here stays.
        if self.retaining.store.has_as_new(now, tenant, topic, version) {
            return Ok(false);
        }
        let is_known = self.retaining.store.values.get(tenant, topic, now.monotonic).is_some();
        let partition = partition_of(tenant, topic);
        // A dead home may know a newer value: the node that takes its place sends it.
        let is_settled = !self.links.roster.lacks_home(partition);
        let news = is_settled && (is_known || !publication.payload.is_empty());
        let own = Publication::new(
            tenant,
            topic,
            publication.qos,
            true,
            MessageId::strip(publication.properties),
            publication.expires_at,
            publication.payload,
            version,
        );
        let (place, roster) = (self.links.place, &self.links.roster);
        self.retaining.store.take_stray(now, place, roster, self.state, &own).map_or(Ok(news), Err)
    }
}

/// Properties with the id that a message came with.
fn with_id(properties: &[u8], id: Option<MessageId>) -> Vec<u8> {
    let mut with_id = properties.to_vec();
    if let Some(id) = id {
        id.append(&mut with_id);
    }
    with_id
}
