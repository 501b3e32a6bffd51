//! A PUBLISH packet is checked and its topic is found.

mod admission;
mod fan_out;
mod fleet_run;
mod origin;
mod pipeline;
mod turn_share;
mod with_properties;

use crate::engine::facets::PublishPipeline;
use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::flows::contexts::{parking, publishing};
use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::now::{Millis, Now};
use crate::publish::inbound::Inbound;
use crate::publish::pipeline::Progress;
use crate::publish::turn_share::VISITS_PER_DELIVERY;
use crate::publish::unacknowledged;
use crate::topics::RouteSlot;
use crate::topics::origin::ORIGIN_PROPERTY;
use tidegate_mqtt::{Frame, PublishProperties, QoS, RawPublish, Version};

impl PublishPipeline<'_> {
    /// Takes a PUBLISH packet: checks what the protocol and the listener allow, finds its topic, and hands it to the
    /// pipeline.
    #[expect(clippy::inline_always, reason = "a separate call costs each message 31 instructions")]
    #[inline(always)]
    pub(crate) fn handle_publish(
        &mut self,
        now: Now,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
    ) -> Result<Progress, Refused> {
        let raw = RawPublish::decode(version, frame.first_byte, frame.body)?;
        if !self.engine.fan_outs.is_empty() {
            self.finish_fan_out(now, key);
        }
        let Some(connection) = self.engine.state.connections.get(key) else { return Ok(Progress::Taken) };
        let Some(session) = connection.session else { return Ok(Progress::Taken) };
        let Some(listener) = self.engine.state.settings.listener(connection.listener) else {
            return Ok(Progress::Taken);
        };
        let (tenant, payer) = (connection.tenant, connection.payer);
        if raw.qos > listener.maximum_qos && !connection.was_promised(raw.qos) {
            return Err(Refused::new(Reason::QosNotSupported, "the QoS is above the maximum"));
        }
        if raw.retain && !self.engine.state.settings.retained.available {
            return Err(Refused::new(Reason::RetainNotSupported, "RETAIN is set"));
        }
        self.engine.state.counters.messages_in[raw.qos as usize] += 1;
        self.engine.state.counters.payload_bytes_in += raw.payload.len() as u64;
        self.engine.state.meters.of(payer).messages_in += 1;
        if raw.qos != QoS::AtMostOnce && version.is_v5() {
            let flow = self.engine.state.sessions.get(session.0).and_then(|session| session.flow.as_deref());
            if unacknowledged(connection, flow) >= usize::from(listener.receive_maximum) {
                self.check_receive_maximum(key, session, &raw)?;
            }
        }
        let goes_to_fleet = self.engine.broker_links.brokers.config.is_on();
        if !goes_to_fleet
            && (raw.properties.is_empty() || PublishProperties::are_plain_pairs(raw.properties, ORIGIN_PROPERTY))
        {
            let slot = match self.engine.router.cache.lookup(self.engine.router.index.epoch(), tenant, raw.topic) {
                Some(slot) => slot,
                // The context is made for a new topic only: it costs as much as the look-up.
                None => publishing!(self.engine).new_slot(tenant, raw.topic)?,
            };
            let traits = self.engine.router.cache.traits(slot);
            if !traits.is_for_hub && (raw.properties.is_empty() || !traits.is_address) {
                let expires_at = self.expiry_of(now, slot, Millis::NEVER);
                let (raw, session, properties, unknown_receipts) = (&raw, Some(session), raw.properties, false);
                let it = Inbound { now, key, session, tenant, slot, raw, properties, expires_at, unknown_receipts };
                let progress = self.publish(&it);
                self.charge_matching(now, key);
                return Ok(progress);
            }
            if !traits.is_address {
                let progress = self.publish_plain_to_hub(now, (key, session, tenant), slot, &raw);
                self.charge_matching(now, key);
                return Ok(progress);
            }
        }
        let is_plain = raw.properties.is_empty() && tenant == TenantId::DEFAULT;
        let mut properties = std::mem::take(&mut self.engine.layouts.properties);
        properties.clear();
        let progress = if is_plain && goes_to_fleet && !self.engine.state.settings.is_of_addresses(raw.topic) {
            self.publish_plain_to_fleet(now, (key, session), &raw, &mut properties)
        } else {
            self.publish_with_properties(now, (key, Some(session), tenant), &raw, Millis::NEVER, &mut properties)
        };
        self.engine.layouts.properties = properties;
        self.charge_matching(now, key);
        progress
    }

    /// Counts the work of finding the receivers of new topics: many filters of one client can match a topic.
    #[inline]
    fn charge_matching(&mut self, now: Now, key: ConnectionKey) {
        let visited = self.engine.router.index.take_visited();
        if visited >= VISITS_PER_DELIVERY {
            self.charge_long_matching(now, key, visited);
        }
    }

    #[cold]
    fn charge_long_matching(&mut self, now: Now, key: ConnectionKey, visited: usize) {
        if let Some(share) = self.engine.turn_share.charge_matching(now, visited, &self.engine.state) {
            parking!(self.engine).wait_for_next_turn(now, key, share);
        }
    }

    /// The expiry of a message whose sender asks for `asked`: the broker may shorten it for mobile nodes.
    #[inline]
    fn expiry_of(&self, now: Now, slot: RouteSlot, asked: Millis) -> Millis {
        let addresses =
            self.engine.state.settings.addresses.as_ref().filter(|_| self.engine.router.cache.traits(slot).is_address);
        addresses.map_or(asked, |addresses| addresses.expiry(now.monotonic, asked))
    }

    /// As many messages are in flight as the listener announces as its Receive Maximum, or more: whether the publisher may
    /// send one more ([MQTT-3.3.4-7]).
    #[cold]
    fn check_receive_maximum(
        &mut self,
        key: ConnectionKey,
        session: SessionKey,
        raw: &RawPublish<'_>,
    ) -> Result<(), Refused> {
        let Some(connection) = self.engine.state.connections.get(key) else { return Ok(()) };
        let Some(listener) = self.engine.state.settings.listener(connection.listener) else { return Ok(()) };
        let flow = self.engine.state.sessions.get(session.0).and_then(|session| session.flow.as_deref());
        let unacknowledged = unacknowledged(connection, flow);
        if connection.promised().is_some_and(|terms| unacknowledged < usize::from(terms.receive_maximum)) {
            return Ok(());
        }
        // A repetition of a message in flight counts only once.
        if flow.is_some_and(|flow| raw.packet_id.is_some_and(|id| flow.received.contains(id))) {
            return Ok(());
        }
        if listener.receive_maximum_lenient {
            self.engine.state.counters.receive_maximum_tolerated += 1;
            return Ok(());
        }
        Err(Refused::new(
            Reason::ReceiveMaximumExceeded,
            format!("more than {} messages unacknowledged", listener.receive_maximum),
        ))
    }
}
