//! Messages of one client to a fleet that come directly behind each other and differ in packet identifier and payload
//! only: the first one is checked, and the others share its outcome.

use crate::connection::Phase;
use crate::engine::facets::PublishPipeline;
use crate::flows::contexts::{broker_linking, deciding};
use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::limits::usage::Payer;
use crate::now::{Millis, Now};
use crate::publish::dispatch::Source;
use crate::publish::inbound::Inbound;
use crate::publish::unacknowledged;
use crate::topics::RouteSlot;
use tidegate_mqtt::{Frame, PacketType, QoS, RawPublish, Version, split_frame};

/// The facts that all messages of a run share.
struct FleetRun {
    key: ConnectionKey,
    session: SessionKey,
    payer: Payer,
    /// The longest packet of the listener, bytes.
    max_packet: u32,
    slot: RouteSlot,
    expires_at: Millis,
    /// The hash of the client id, for the ids of the messages.
    publisher: u64,
    /// The only broker.
    broker: SessionKey,
}

impl PublishPipeline<'_> {
    /// Takes the messages directly behind one that has gone to the fleet, as long as only packet identifier and payload
    /// differ and nothing has consequences for other connections. Returns their bytes. Each
    /// skips the checks and the look-up of the route, which the first one had.
    #[inline]
    pub(crate) fn publish_run_to_fleet(
        &mut self,
        now: Now,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
        behind: &[u8],
    ) -> usize {
        if behind.first() != Some(&frame.first_byte) {
            return 0;
        }
        let Ok(first) = RawPublish::decode(version, frame.first_byte, frame.body) else { return 0 };
        let Some(run) = self.begin_run(now, key, version, &first) else { return 0 };
        let mut properties = std::mem::take(&mut self.engine.layouts.properties);
        let taken = self.take_run(now, &run, (version, frame.first_byte, first.topic), behind, &mut properties);
        self.engine.layouts.properties = properties;
        taken
    }

    /// The facts of a run, if messages like this one go to the only broker of the fleet, and nowhere else.
    fn begin_run(
        &mut self,
        now: Now,
        key: ConnectionKey,
        version: Version,
        first: &RawPublish<'_>,
    ) -> Option<FleetRun> {
        let engine = &mut *self.engine;
        let is_plain = !first.retain && first.qos != QoS::ExactlyOnce && first.properties.is_empty();
        let is_busy = !engine.fan_outs.is_empty() || engine.state.loop_lag.is_on(now);
        if !is_plain || is_busy || engine.broker_links.is_confirming() || engine.questions().has_consequences() {
            return None;
        }
        let connection = engine.state.connections.get(key)?;
        let session = connection.session?;
        let listener = engine.state.settings.listener(connection.listener)?;
        let answers_wait = connection.extra.as_ref().is_some_and(|extra| !extra.acks.is_empty());
        let is_open = connection.phase == Phase::Open && !connection.is_parked();
        if !is_open
            || answers_wait
            || connection.tenant != TenantId::DEFAULT
            || engine.state.settings.is_of_addresses(first.topic)
        {
            return None;
        }
        if first.qos != QoS::AtMostOnce && version.is_v5() {
            let flow = engine.state.sessions.get(session.0).and_then(|session| session.flow.as_deref());
            if unacknowledged(connection, flow) >= usize::from(listener.receive_maximum) {
                return None;
            }
        }
        let (payer, max_packet) = (connection.payer, listener.max_packet_size);
        let slot = engine.router.cache.lookup(engine.router.index.epoch(), TenantId::BROKER_LINK, first.topic)?;
        let traits = engine.router.cache.traits(slot);
        let group = engine.router.cache.get(slot).1.sole_group()?;
        let deals = engine.groups.deals_for(engine.state.transfers.source, group);
        if traits.is_for_hub || !traits.observers.is_empty() || !deals {
            return None;
        }
        let broker = engine.groups.sole_receiver_here(group)?;
        let publisher = engine.broker_links.publisher_of(&engine.state, key, Some(session));
        let expires_at = self.expiry_of(now, slot, Millis::NEVER);
        Some(FleetRun { key, session, payer, max_packet, slot, expires_at, publisher, broker })
    }

    /// Takes the messages at the beginning of `input` that belong to the run; returns their bytes. `properties` is memory
    /// for their ids.
    fn take_run(
        &mut self,
        now: Now,
        run: &FleetRun,
        (version, first_byte, topic): (Version, u8, &[u8]),
        input: &[u8],
        properties: &mut Vec<u8>,
    ) -> usize {
        let FleetRun { key, slot, expires_at, .. } = *run;
        let (mut taken, mut count, mut payload_bytes, mut qos) = (0, 0, 0, QoS::AtMostOnce);
        // The longest payload whose message needs no stage.
        let mut longest = None;
        while let Ok(Some(frame)) = split_frame(&input[taken..], run.max_packet) {
            let decoded = RawPublish::decode(version, frame.first_byte, frame.body);
            let Ok(raw) = decoded.as_ref() else { break };
            if frame.first_byte != first_byte || raw.topic != topic || !raw.properties.is_empty() {
                break;
            }
            properties.clear();
            self.engine.broker_links.append_next_id(now, run.publisher, false, properties);
            let (tenant, session, unknown_receipts) = (TenantId::BROKER_LINK, Some(run.session), false);
            let it = Inbound { now, key, session, tenant, slot, raw, properties, expires_at, unknown_receipts };
            if longest < Some(raw.payload.len()) {
                if !self.goes_straight(&it, run.broker) {
                    self.engine.broker_links.give_id_back();
                    break;
                }
                longest = Some(raw.payload.len());
            }
            (taken, count, payload_bytes) = (taken + frame.total_len, count + 1, payload_bytes + raw.payload.len());
            qos = raw.qos;
            let mark = self.engine.state.journal.mark();
            self.give_to_broker(&it, run.broker);
            self.answer_for_fleet(&it, mark, 0);
            if self.engine.broker_links.count_message() {
                broker_linking!(self.engine).work_after_message(now);
                break;
            }
            if self.engine.state.journal.full || self.engine.questions().has_consequences() {
                break;
            }
        }
        let counters = &mut self.engine.state.counters;
        counters.packets_in[PacketType::Publish as usize] += count;
        counters.messages_in[qos as usize] += count;
        counters.payload_bytes_in += payload_bytes as u64;
        self.engine.state.meters.of(run.payer).messages_in += count;
        taken
    }

    #[inline]
    fn give_to_broker(&mut self, it: &Inbound<'_>, broker: SessionKey) {
        let engine = &mut *self.engine;
        let source = Source::publisher_here(engine.place.shard, it.now, it.session, it.key, None);
        let mut publication = it.publication(engine.router.cache.get(it.slot).0);
        publication.priority = engine.router.cache.traits(it.slot).priority.level(it.properties);
        engine.state.gave_up = false;
        let parts = (&mut engine.state, &mut engine.layouts);
        engine.broker_links.give(it.now, parts, broker, &mut publication, &source);
    }

    /// Whether a message needs no stage, and its broker takes its length.
    fn goes_straight(&mut self, it: &Inbound<'_>, broker: SessionKey) -> bool {
        let engine = &mut *self.engine;
        let publication = it.publication(engine.router.cache.get(it.slot).0);
        let len = engine.broker_links.len_to_check(&publication, it.now);
        engine.broker_links.takes(broker.0, len) && deciding!(engine).stages_of(it).is_empty()
    }
}
