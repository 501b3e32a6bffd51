//! The outcome of the stages is carried out: a PUBLISH is routed, deferred or rejected.

use crate::engine::facets::PublishPipeline;
use crate::event::{Attempt, Delay};
use crate::events::reason::Reason;
use crate::flows::contexts::answering;
use crate::flows::contexts::broker_linking;
use crate::flows::contexts::dealing;
use crate::flows::contexts::deciding;
use crate::flows::contexts::parking;
use crate::flows::publish::dispatch::reach;
use crate::ids::{ConnectionKey, TenantId};
use crate::journal::Mark;
use crate::now::Now;
use crate::publish::dispatch::Source;
use crate::publish::fan_out::FAN_OUT_STEP;
use crate::publish::inbound::Inbound;
use crate::publish::pipeline::Progress;
use crate::publish::turn_share::Share;
use crate::state::pub_acks::Gathered;
use crate::topics::GroupKey;
use crate::topics::stages::Deferral;
use crate::topics::stages::ORDER;
use crate::topics::stages::Rejection;
use crate::topics::stages::Stage;
use crate::topics::stages::StageSet;
use crate::topics::stages::Step;
use tidegate_mqtt::{QoS, ReasonCode};

/// The notice of a rejection to the publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice {
    /// By the acknowledgement. MQTT 3 publishers only see that there is one.
    Acknowledgement,
    /// By the acknowledgement with MQTT 5. Other connections end for this reason, so that the message is sent again.
    AcknowledgementOrClose(Reason),
    /// The connection ends, so that the message is sent again.
    Close,
}

impl Notice {
    fn of(reason: Reason) -> Self {
        match reason {
            Reason::NodeLost => Self::Close,
            Reason::StoreFull | Reason::BusRefused | Reason::ObserverRefused | Reason::BlockedTooLong => {
                Self::AcknowledgementOrClose(reason)
            }
            Reason::QueueFullReject => Self::AcknowledgementOrClose(Reason::RejectedTooLong),
            _ => Self::Acknowledgement,
        }
    }
}

impl PublishPipeline<'_> {
    /// Takes a PUBLISH whose topic is known through the pipeline. Most need no stage and are routed at once.
    #[inline]
    pub(super) fn publish(&mut self, it: &Inbound<'_>) -> Progress {
        let stages = deciding!(self.engine).stages_of(it);
        if !stages.is_empty() {
            return self.publish_by_stages(it, stages);
        }
        self.route(it);
        Progress::Taken
    }

    /// The same for a message to a fleet. Nearly all go to the fleet alone: others are retained, and their topics' homes get
    /// them as well.
    #[inline]
    pub(super) fn publish_to_fleet(&mut self, it: &Inbound<'_>) -> Progress {
        let stages = deciding!(self.engine).stages_of(it);
        if !stages.is_empty() {
            return self.publish_by_stages(it, stages);
        }
        match self.engine.router.cache.get(it.slot).1.sole_group().filter(|_| !it.raw.retain) {
            Some(group) => self.route_to_fleet(it, group),
            None => self.route(it),
        }
        Progress::Taken
    }

    /// Asks these stages in [`ORDER`] and acts on the first answer that is not [`Step::Continue`].
    #[inline(never)]
    fn publish_by_stages(&mut self, it: &Inbound<'_>, stages: StageSet) -> Progress {
        for stage in ORDER.into_iter().filter(|stage| stages.has(*stage)) {
            let step = deciding!(self.engine).ask_stage(stage, it);
            // A message that is sent again may have brought its value to the topic's home under this id.
            let keeps_id = step == Step::Continue || (stage, step) == (Stage::Exchange, Step::Done);
            if it.tenant == TenantId::BROKER_LINK && !keeps_id {
                self.engine.broker_links.give_id_back();
            }
            match step {
                Step::Continue => {}
                Step::Defer(why) => return self.defer(it, why),
                Step::Reject(rejection) => {
                    self.reject(it, rejection);
                    return Progress::Taken;
                }
                Step::Done => return Progress::Taken,
            }
        }
        self.route(it);
        Progress::Taken
    }

    /// Parks the publisher, and takes back that the message was counted.
    #[cold]
    fn defer(&mut self, it: &Inbound<'_>, why: Deferral) -> Progress {
        let (now, key) = (it.now, it.key);
        match why {
            Deferral::Line => parking!(self.engine).wait_for_next_turn(now, key, Share::Wide),
            Deferral::Fleet => {
                parking!(self.engine).start_withholding(now, key);
                self.engine.state.reports().tell_delayed(Delay::Queue(None), key);
                self.engine.broker_links.add_waiting(key);
                parking!(self.engine).park(now, key);
            }
            Deferral::Interest => {
                if self.engine.groups.dealers.waiting.insert(key) {
                    parking!(self.engine).park(now, key);
                }
            }
            Deferral::Queues { shard, full, whose } => parking!(self.engine).withhold(now, key, (shard, full), whose),
            Deferral::Answers => parking!(self.engine).park(now, key),
            Deferral::Observer(id) => {
                let name = self.engine.services.observers.name(id).unwrap_or_default().to_owned();
                self.engine.state.reports().tell_delayed(Delay::Observer(name), key);
                if self.engine.services.observers.wait(id, key) {
                    parking!(self.engine).park(now, key);
                }
            }
        }
        self.engine.state.counters.messages_in[it.raw.qos as usize] -= 1;
        self.engine.state.counters.payload_bytes_in -= it.raw.payload.len() as u64;
        let payer = self.engine.state.connections.payer_of(key);
        self.engine.state.meters.of(payer).messages_in -= 1;
        Progress::Deferred
    }

    /// Counts a rejected message, logs it, and answers its publisher.
    #[cold]
    fn reject(&mut self, it: &Inbound<'_>, Rejection { reason, whose }: Rejection) {
        let (now, key, topic) = (it.now, it.key, self.engine.router.cache.topic_of(it));
        if matches!(reason, Reason::QueueFullReject | Reason::BlockedTooLong) {
            self.engine.state.reports().discard_publication(reason, &mut it.publication(&topic));
        } else {
            self.engine.state.counters.drop_message(reason);
        }
        parking!(self.engine).charge_own_loop_lag(now, key, 0, it.raw.payload.len());
        let name = deciding!(self.engine).publisher_of(it).map(|(_, name)| name.to_owned()).unwrap_or_default();
        let Some(connection) = self.engine.state.connections.get(key) else { return };
        let tenant = connection.tenant;
        self.engine.state.reports().tell_denied_named(Attempt::Publish, (tenant, &name), &topic, reason, whose);
        let Some(connection) = self.engine.state.connections.get(key) else { return };
        let has_reason_code = connection.version.is_v5() || it.raw.packet_id.is_none();
        // A principal has no connection that could end.
        let notice = if it.session.is_some() { Notice::of(reason) } else { Notice::Acknowledgement };
        match notice {
            Notice::AcknowledgementOrClose(Reason::RejectedTooLong | Reason::BlockedTooLong)
                if !has_reason_code && connection.leaving => {}
            Notice::AcknowledgementOrClose(reason) if !has_reason_code => {
                self.engine.close_connection(now, key, reason, None);
            }
            Notice::Close => self.engine.close_connection(now, key, reason, None),
            Notice::Acknowledgement | Notice::AcknowledgementOrClose(_) => {
                self.engine.state.connections.end_withholding(key);
                let mark = self.engine.state.journal.mark();
                answering!(self.engine).answer_publish(now, key, it.raw, (Err(reason), None), 0, mark);
            }
        }
    }

    /// Gives a message to all its receivers, and answers its publisher when all of them have it.
    #[inline]
    fn route(&mut self, it: &Inbound<'_>) {
        let Inbound { now, key, session, slot, raw, .. } = *it;
        let mark = self.engine.state.journal.mark();
        let ticket = answering!(self.engine).begin_answer(it);
        let source = Source::publisher_here(self.engine.place.shard, now, session, key, ticket);
        let refused = if raw.retain { deciding!(self.engine).retain_inbound(it) } else { None };
        if raw.qos == QoS::ExactlyOnce
            && !self.engine.links.roster.has_no_peers()
            && let Some(session) = session
        {
            deciding!(self.engine).name_exchange(session, (it.tenant, slot), raw, ticket);
        }
        let traits = self.engine.router.cache.traits(slot);
        let mut first = self.engine.router.cache.get(slot).1.targets().len();
        if first > FAN_OUT_STEP {
            first = parking!(self.engine).first_receivers(now, key, raw, first);
        }
        let (topic, route) = self.engine.router.cache.get(slot);
        let mut publication = it.publication(topic);
        publication.priority = traits.priority.level(it.properties);
        if session.is_none() {
            publication.publisher = self.engine.services.principals.hash_of(key);
        }
        let deliveries = route.targets().len();
        self.engine.state.gave_up = false;
        let done = reach!(self.engine).dispatch_first(now, route, first, &mut publication, &source);
        self.engine.links.exchange = None;
        self.engine.state.memory.held += self.engine.fan_outs.begin(&mut publication, source, route, first);
        if let Some(share) = self.engine.turn_share.charge(now, deliveries, &self.engine.state) {
            parking!(self.engine).wait_for_next_turn(now, key, share);
        }
        if self.engine.state.loop_lag.is_on(now) {
            parking!(self.engine).charge_own_loop_lag(now, key, deliveries, raw.payload.len());
        }
        let mut waits = u32::from(done.waits);
        let mut reached = done.reached;
        if !traits.observers.is_empty() {
            let told = deciding!(self.engine).tell_observers_of(it, ticket);
            reached |= told > 0;
            waits += told;
        }
        if raw.packet_id.is_some() {
            let outcome = answering!(self.engine).outcome_of(raw.qos, refused, reached);
            let is_confirming = self.engine.broker_links.is_confirming();
            let is_plain = waits == 0 && outcome == Ok(ReasonCode::Success) && !is_confirming;
            if !is_plain || !Gathered(&mut self.engine.state).gather(key, raw, mark) {
                let digest = deciding!(self.engine).digest_if_refusable(it);
                answering!(self.engine).answer_publish(now, key, raw, (outcome, digest), waits, mark);
            }
        }
        self.after_publish(now, key, it.tenant, done.full);
    }

    /// Gives a message to the fleet, which alone gets it.
    #[inline]
    fn route_to_fleet(&mut self, it: &Inbound<'_>, group: GroupKey) {
        let Inbound { now, key, session, slot, raw, .. } = *it;
        let engine = &mut *self.engine;
        let mark = engine.state.journal.mark();
        let ticket = answering!(engine).begin_answer(it);
        let source = Source::publisher_here(engine.place.shard, now, session, key, ticket);
        let (topic, _) = engine.router.cache.get(slot);
        let traits = engine.router.cache.traits(slot);
        let mut publication = it.publication(topic);
        publication.priority = traits.priority.level(it.properties);
        if session.is_none() {
            publication.publisher = engine.services.principals.hash_of(key);
        }
        engine.state.gave_up = false;
        if engine.groups.deals_for(engine.state.transfers.source, group) {
            let only = engine.groups.sole_receiver_here(group);
            match only
                .filter(|only| engine.broker_links.takes(only.0, engine.broker_links.len_to_check(&publication, now)))
            {
                Some(only) => {
                    let parts = (&mut engine.state, &mut engine.layouts);
                    engine.broker_links.give(now, parts, only, &mut publication, &source);
                }
                None => dealing!(engine).deal_to(now, group, &mut publication, &source, None),
            }
        }
        // No session gets it now, but the turn may have no room for others.
        if let Some(share) = engine.turn_share.charge(now, 0, &engine.state) {
            parking!(engine).wait_for_next_turn(now, key, share);
        }
        if engine.state.loop_lag.is_on(now) {
            parking!(engine).charge_own_loop_lag(now, key, 0, raw.payload.len());
        }
        let waits = if traits.observers.is_empty() { 0 } else { deciding!(engine).tell_observers_of(it, ticket) };
        self.answer_for_fleet(it, mark, waits);
        if self.engine.broker_links.count_message() {
            broker_linking!(self.engine).work_after_message(now);
        }
    }

    /// Answers a message that the fleet has got when this number of confirmations have come.
    #[inline]
    pub(super) fn answer_for_fleet(&mut self, it: &Inbound<'_>, mark: Mark, waits: u32) {
        let Inbound { now, key, raw, .. } = *it;
        if raw.packet_id.is_none() {
            return;
        }
        let engine = &mut *self.engine;
        let outcome = answering!(engine).outcome_of(raw.qos, None, true);
        let is_confirming = engine.broker_links.is_confirming();
        let is_plain = waits == 0 && outcome == Ok(ReasonCode::Success) && !is_confirming;
        if !is_plain || !Gathered(&mut engine.state).gather(key, raw, mark) {
            let digest = deciding!(engine).digest_if_refusable(it);
            answering!(engine).answer_publish(now, key, raw, (outcome, digest), waits, mark);
        }
    }

    /// Makes the publisher wait if the message has filled a queue or a link.
    #[inline]
    fn after_publish(&mut self, now: Now, key: ConnectionKey, tenant: TenantId, full_links: u64) {
        if full_links != 0 {
            parking!(self.engine).wait_for_links(now, key, full_links);
        }
        if tenant == TenantId::BROKER_LINK && self.engine.broker_links.count_message() {
            broker_linking!(self.engine).work_after_message(now);
        }
    }
}
