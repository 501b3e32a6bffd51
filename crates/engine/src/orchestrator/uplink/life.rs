//! Uplinks come, are lost, drained and removed (BRK-31, BRK-32).

use crate::desk::{Desk, Timer};
use crate::groups::dealing::dealing;
use crate::orchestrator::uplink::uplinking::{Uplinking, uplinking};
use crate::orchestrator::uplink::{Brokers, FleetConfig};
use crate::subscribe::subscribing::subscribing;
use tidegate_mqtt::{QoS, Version};

use super::copies::LastMessage;
use super::filters::PACKETS_UNDER_WAY;
use super::packet_limits::PacketLimit;
use super::{
    DialAttempt, FilterSync, Hold, Pause, Probe, Stage, Suspicion, UPLINK_FILTER, UPLINK_LISTENER, UPLINK_SHARE,
    Uplink, UplinkCounters, UplinkError, UplinkKey, UplinkOptions,
};
use crate::engine::Engine;
use crate::event::{Event, LogEvent};
use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::link::envelope::Ticket;
use crate::link::record::{GroupName, MemberOptions};
use crate::now::{Millis, Now};
use crate::session::{FilterList, Session, Standing};
use crate::subscribe::SubAckWaits;
use crate::telling::reason::Reason;
use crate::topics::SubscriberOptions;

/// The group that all uplinks are in.
pub(super) fn group() -> GroupName<'static> {
    GroupName { tenant: TenantId::UPLINK, share: UPLINK_SHARE, filter: UPLINK_FILTER }
}

impl Engine {
    /// Adds a broker, or changes how one is spoken to from its next connection on. Called on the shard that has
    /// partition 0.
    ///
    /// # Errors
    /// Where there is no fleet.
    pub fn set_uplink(&mut self, now: Now, name: &str, options: UplinkOptions) -> Result<(), UplinkError> {
        self.desk.journal.now = now;
        if !self.uplinks.brokers.config.has_uplinks_here() {
            return Err(UplinkError::NoFleet);
        }
        if let Some(key) = self.uplinks.brokers.find(name) {
            if let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) {
                uplink.options = options;
            }
            uplinking!(self).end_drain(now, key);
            self.after_frame(now);
            return Ok(());
        }
        let session = uplinking!(self).uplink_session(name);
        let stored = self.desk.sessions.get(session.0).and_then(|session| session.stored);
        let kept = self.uplinks.kept_ids_of(stored);
        let flow = self.desk.sessions.get(session.0).and_then(|session| session.flow.as_ref());
        let released =
            flow.map_or(0, |flow| flow.inflight.iter().filter(|entry| entry.item.delivery.is_none()).count());
        let key = UplinkKey(self.uplinks.brokers.next_key);
        self.uplinks.brokers.next_key += 1;
        let uplink = Uplink {
            name: name.into(),
            version: options.version.unwrap_or(Version::V5),
            options,
            session,
            connection: None,
            stage: Stage::Resting(now.monotonic),
            since: now.unix,
            accepted: None,
            refuses_v5: false,
            silent: false,
            draining: None,
            filters: FilterSync::default(),
            released: released as u64,
            pause: Pause::default(),
            hold: Hold::default(),
            suspicion: Suspicion::default(),
            unreturned: std::collections::BTreeMap::new(),
            timer: Millis::NEVER,
            reassign_at: self.uplinks.brokers.config.reassign_time(now),
            backoff_ms: 0,
            window: 1,
            limit: PacketLimit::default(),
            max_qos: QoS::ExactlyOnce,
            probe: Probe::default(),
            last: LastMessage::default(),
            kept,
            adopted: None,
            counters: UplinkCounters::default(),
            last_error: String::new(),
            told_away: false,
            told_serving: false,
            ends: false,
        };
        uplinking!(self).remember_removals(now, session);
        self.uplinks.brokers.by_session.insert(session.0, key);
        self.uplinks.brokers.all.insert(key, uplink);
        uplinking!(self).take_uplink_seat(now, session, QoS::ExactlyOnce);
        dealing!(self).keep_order(now);
        self.run_uplink_timer(now, key);
        uplinking!(self).check_gate(now);
        self.after_frame(now);
        Ok(())
    }

    /// A broker could not be reached. An outcome of another attempt than the present one changes nothing.
    pub fn fail_uplink(&mut self, now: Now, name: &str, attempt: DialAttempt, why: &str) {
        let Some(key) = self.uplinks.brokers.find(name) else { return };
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return };
        if uplink.stage != Stage::Dialing(attempt) {
            return;
        }
        why.clone_into(&mut uplink.last_error);
        if !std::mem::replace(&mut uplink.told_away, true) {
            let (broker, detail) = (uplink.name.to_string(), why.to_owned());
            self.desk.events.push_back(Event::Log(LogEvent::BrokerLost { broker, detail }));
        }
        self.uplinks.brokers.rest(now, &mut self.desk, key, false);
    }

    /// The transport of a connection to a broker has failed in a way that says nothing about MQTT, such as TLS.
    pub fn fail_uplink_transport(&mut self, now: Now, connection: ConnectionKey, why: &str) {
        let uplink = self.uplinks.brokers.of_connection(connection);
        if let Some(uplink) = uplink.and_then(|uplink| self.uplinks.brokers.all.get_mut(&uplink)) {
            uplink.silent = false;
            why.clone_into(&mut uplink.last_error);
        }
        self.handle_transport_closed(now, connection);
    }

    /// Does what is due for an uplink.
    pub(crate) fn handle_uplink_timer(&mut self, now: Now, key: UplinkKey) {
        if let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) {
            uplink.timer = Millis::NEVER;
        }
        self.run_uplink_timer(now, key);
    }

    fn run_uplink_timer(&mut self, now: Now, key: UplinkKey) {
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return };
        let stage = uplink.stage;
        match stage {
            Stage::Resting(at) if at <= now.monotonic && !self.uplinks.brokers.stopping => {
                let attempt = DialAttempt(self.uplinks.brokers.next_attempt);
                self.uplinks.brokers.next_attempt += 1;
                uplink.stage = Stage::Dialing(attempt);
                self.desk.events.push_back(Event::Dial { uplink: uplink.name.to_string(), attempt });
            }
            Stage::Connecting | Stage::Open => {
                let given_up = self.probe_uplink(now, key) || self.is_silent_about_filters(now, key);
                if !given_up && stage == Stage::Open {
                    self.uplinks.brokers.check_steady(now, &mut self.desk, &mut self.layouts, key);
                    dealing!(self).end_pause(now, key);
                    self.uplinks.brokers.ask_filters_again(now, &mut self.desk, key);
                    self.uplinks.brokers.ask_ending_again(now, &mut self.desk, &self.uplinks.wanted, key);
                    uplinking!(self).check_unreturned(now, key);
                }
            }
            Stage::Resting(_) | Stage::Dialing(_) => {}
        }
        self.uplinks.brokers.end_long_hold(now, &mut self.desk, &mut self.layouts, key);
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return };
        if uplink.reassign_at <= now.monotonic {
            uplink.reassign_at = Millis::NEVER;
            uplinking!(self).give_up_uplink(now, key);
        }
        self.uplinks.brokers.set_uplink_timer(&mut self.desk, key);
    }
}

impl Uplinking<'_> {
    /// The session of a broker's uplink, made anew if the store has brought none.
    fn uplink_session(&mut self, broker: &str) -> SessionKey {
        let client_id = Self::uplink_session_name(broker);
        let known = self.desk.sessions.find_session(TenantId::UPLINK, &client_id);
        let session = known.unwrap_or_else(|| {
            self.desk.insert_session(Session {
                client_id: client_id.into(),
                connection: None,
                filters: FilterList::default(),
                flow: None,
                rare: None,
                expiry_seconds: u32::MAX,
                tenant: TenantId::UPLINK,
                listener: UPLINK_LISTENER,
                receive_maximum: 1,
                rights_epoch: 0,
                standing: Standing::Client,
                stored: None,
                identity: None,
            })
        });
        if let Some(session) = self.desk.sessions.get_mut(session.0) {
            session.flow_mut().inflight.keep_back(PACKETS_UNDER_WAY);
        }
        if known.is_none() {
            self.desk.sessions.store_session(&mut self.desk.journal, session);
        }
        session
    }

    /// Makes the uplink's session a member of the group that deals, which it may be already.
    pub(super) fn take_uplink_seat(&mut self, now: Now, session: SessionKey, max_qos: QoS) {
        let options = SubscriberOptions::new(max_qos, false, true);
        let member = MemberOptions { options: options.bits(), subscription_id: 0 };
        let whole = format!("$share/{UPLINK_SHARE}/{UPLINK_FILTER}");
        self.desk.sessions.store_subscription(&mut self.desk.journal, session, &whole, member.options, 0);
        let nobody = ConnectionKey { index: u32::MAX, generation: 0 };
        let ticket = Ticket { connection: nobody, sequence: 0 };
        let mut waits = SubAckWaits::default();
        subscribing!(self).join_group(now, session, UPLINK_SHARE, UPLINK_FILTER, member, ticket, &mut waits);
        self.groups.announce_presence(self.desk, self.links, session, true);
    }

    /// An uplink is there again: what was under way is sent again, and the broker is told what is wanted.
    pub(super) fn resume_uplink(&mut self, now: Now, key: UplinkKey, connection: ConnectionKey, session_present: bool) {
        let Some(uplink) = self.uplinks.brokers.all.get(&key) else { return };
        let (session, draining, max_qos) = (uplink.session, uplink.draining.is_some(), uplink.max_qos);
        self.uplinks.brokers.fit_window(self.desk, key);
        if !draining {
            self.take_uplink_seat(now, session, max_qos);
        }
        if !draining {
            self.groups.announce_presence(self.desk, self.links, session, true);
        }
        if !session_present {
            // A broker that has forgotten the orchestrator has forgotten what it had taken over as well. While the
            // session has no connection what is dealt anew is queued and sent below, once.
            self.start_anew(now, key);
        }
        if !draining {
            dealing!(self).keep_order(now);
        }
        if let Some(session) = self.desk.sessions.get_mut(session.0) {
            session.connection = Some(connection);
        }
        if let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) {
            uplink.begin_with_care(self.desk);
        }
        // Before messages, so that each that is published from now on comes back.
        self.uplinks.brokers.begin_filters(self.desk, &self.uplinks.wanted, key, session_present);
        self.desk.resume(now.monotonic, self.layouts, session);
        let complete = self.uplinks.brokers.all.get(&key).is_some_and(|uplink| uplink.filters.is_complete());
        if complete {
            self.uplinks.brokers.begin_serving(now, self.desk, key);
        }
        self.uplinks.brokers.set_uplink_timer(self.desk, key);
        self.check_gate(now);
    }

    /// The connection of an uplink has ended, for whatever reason.
    pub(crate) fn lose_uplink(&mut self, now: Now, connection: ConnectionKey, reason: Reason, detail: Option<&str>) {
        let Some(key) = self.uplinks.brokers.by_connection.remove(&connection) else { return };
        self.uplinks.settlement.end_confirming(self.desk, self.layouts, &mut self.uplinks.brokers, connection);
        let reassign_at = self.uplinks.brokers.config.reassign_time(now);
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return };
        let was = uplink.stage;
        uplink.connection = None;
        uplink.pause.forget();
        uplink.since = now.unix;
        uplink.counters.lost += u64::from(was == Stage::Open);
        if let Some(detail) = detail.filter(|detail| !detail.is_empty()) {
            detail.clone_into(&mut uplink.last_error);
        } else if uplink.last_error.is_empty() {
            uplink.last_error = "the connection broke off".into();
        }
        let (session, silent) = (uplink.session, uplink.silent);
        let wanted = uplink.ends || self.uplinks.brokers.stopping;
        if !wanted && !std::mem::replace(&mut uplink.told_away, true) {
            let (broker, detail) = (uplink.name.to_string(), uplink.last_error.clone());
            self.desk.events.push_back(Event::Log(LogEvent::BrokerLost { broker, detail }));
        }
        let closed = was == Stage::Open && !wanted && reason == Reason::ConnectionLost;
        let mut at_once = false;
        if was == Stage::Open {
            uplink.reassign_at = reassign_at;
            if uplink.options.version.is_none() && !uplink.refuses_v5 {
                // It may have been silent for another reason, or know more by now.
                uplink.version = Version::V5;
            }
            self.desk.sessions_connected -= 1;
            at_once = self.suspect(now, key, closed);
            if let Some(session) = self.desk.sessions.get_mut(session.0) {
                session.connection = None;
                if let Some(flow) = session.flow.as_mut() {
                    flow.to_resend = 0;
                }
            }
        } else if silent && uplink.accepted != Some(Version::V5) {
            // A broker that closes without a word may not know the version. One that has spoken it is only starting,
            // and what it has under way to the orchestrator would lose its ids in an older one.
            if let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) {
                uplink.try_other_version();
            }
        }
        self.uplinks.brokers.forget_hold(key);
        self.end_filters(now, key, closed);
        self.uplinks.brokers.rest(now, self.desk, key, at_once);
    }

    /// A broker stays away: others get what it has, if there are any.
    fn give_up_uplink(&mut self, now: Now, key: UplinkKey) {
        let Some(uplink) = self.uplinks.brokers.all.get(&key) else { return };
        let session = uplink.session;
        let another = self
            .uplinks
            .brokers
            .all
            .iter()
            .any(|(other, uplink)| *other != key && uplink.stage == Stage::Open && uplink.draining.is_none());
        if !another {
            // Its messages are as well with it as with anybody; whether somebody has come is looked at again.
            if let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) {
                uplink.reassign_at = now.monotonic.plus(REASSIGN_AGAIN_MS);
            }
            return;
        }
        self.groups.announce_presence(self.desk, self.links, session, false);
        self.reassign(now, key);
    }
}

impl Brokers {
    /// The next attempt to reach a broker waits, each time twice as long, unless it is to come at once.
    fn rest(&mut self, now: Now, desk: &mut Desk, key: UplinkKey, at_once: bool) {
        let Some(settings) = self.config.settings() else { return };
        let (least, most) = (settings.reconnect_min_ms, settings.reconnect_max_ms);
        let Some(uplink) = self.all.get_mut(&key) else { return };
        if !at_once {
            uplink.backoff_ms = (uplink.backoff_ms * 2).clamp(least, most);
        }
        let wait = if at_once { 0 } else { uplink.backoff_ms };
        uplink.stage = Stage::Resting(now.monotonic.plus(wait));
        self.set_uplink_timer(desk, key);
    }

    /// A broker holds all subscriptions.
    pub(super) fn begin_serving(&mut self, now: Now, desk: &mut Desk, key: UplinkKey) {
        let Some(uplink) = self.all.get_mut(&key) else { return };
        uplink.since = now.unix;
        if uplink.filters.refuses_nothing() && !uplink.suspicion.told {
            uplink.last_error.clear();
        }
        // One that closes connections again and again is tried less and less often, and told once.
        if !uplink.suspicion.is_lost_again() {
            self.tell_serving(desk, key);
        }
        if let Some(uplink) = self.all.get_mut(&key) {
            uplink.begin_steady_time(now);
        }
        self.await_former_uplinks(now, desk);
    }

    /// Tells the log that a broker serves, if it has heard last that it is away.
    pub(super) fn tell_serving(&mut self, desk: &mut Desk, key: UplinkKey) {
        let Some(uplink) = self.all.get_mut(&key) else { return };
        if std::mem::take(&mut uplink.told_away) || !std::mem::replace(&mut uplink.told_serving, true) {
            let broker = uplink.name.to_string();
            desk.events.push_back(Event::Log(LogEvent::BrokerServes { broker }));
        }
    }

    /// Sets the one timer of an uplink to whatever comes first.
    pub(super) fn set_uplink_timer(&mut self, desk: &mut Desk, key: UplinkKey) {
        let Some(settings) = self.config.settings() else { return };
        let timeout = settings.probe_timeout_ms;
        let Some(uplink) = self.all.get_mut(&key) else { return };
        let of_stage = match uplink.stage {
            Stage::Resting(at) if !self.stopping => at,
            Stage::Dialing(_) | Stage::Resting(_) => Millis::NEVER,
            Stage::Connecting | Stage::Open => {
                let connection = uplink.connection.and_then(|key| desk.connections.get(key));
                let seen = connection.map_or(Millis(0), |connection| connection.last_seen);
                uplink.probe.due(seen, timeout).unwrap_or(uplink.probe.next)
            }
        };
        let of_filters = if uplink.stage == Stage::Open { uplink.filters.due(timeout) } else { Millis::NEVER };
        let due = of_stage
            .min(uplink.reassign_at)
            .min(of_filters)
            .min(uplink.pause.until)
            .min(uplink.hold.until)
            .min(uplink.suspicion.steady_at);
        if due == uplink.timer {
            return;
        }
        let before = std::mem::replace(&mut uplink.timer, due);
        desk.timers.cancel(before, Timer::Uplink(key));
        desk.timers.set(due, Timer::Uplink(key));
    }
}

impl FleetConfig {
    pub(super) fn reassign_time(&self, now: Now) -> Millis {
        let after = self.settings().map_or(0, |settings| settings.reassign_after_ms);
        now.monotonic.plus(after)
    }
}

/// How long until it is asked again whether another broker could take a lost one's messages, milliseconds.
const REASSIGN_AGAIN_MS: u64 = 500;
