//! A broker is added, fails, and is tried again.

use crate::engine::Engine;
use crate::event::{Event, LogEvent};
use crate::flows::groups::dealing::dealing;
use crate::flows::uplink::uplinking::uplinking;
use crate::ids::ConnectionKey;
use crate::ids::UplinkKey;
use crate::now::{Millis, Now};
use crate::orchestrator::uplink::copies::LastMessage;
use crate::orchestrator::uplink::packet_limits::PacketLimit;
use crate::orchestrator::uplink::spread::Spread;
use crate::orchestrator::uplink::{
    DialAttempt, FilterSync, Hold, Pause, Probe, Stage, Suspicion, Uplink, UplinkCounters, UplinkError, UplinkOptions,
};
use tidegate_mqtt::{QoS, Version};

impl Engine {
    /// Adds a broker, or changes how one is spoken to from its next connection on. Called on the shard that has
    /// partition 0.
    ///
    /// # Errors
    /// Where there is no fleet.
    pub fn set_uplink(&mut self, now: Now, name: &str, options: UplinkOptions) -> Result<(), UplinkError> {
        self.state.journal.now = now;
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
        let stored = self.state.sessions.get(session.0).and_then(|session| session.stored);
        let kept = self.uplinks.kept_ids_of(stored);
        let flow = self.state.sessions.get(session.0).and_then(|session| session.flow.as_ref());
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
            spread: Spread::default(),
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
            last_own: 0,
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
            self.state.events.push_back(Event::Log(LogEvent::BrokerLost { broker, detail }));
        }
        self.uplinks.brokers.rest(now, &mut self.state, key, false);
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
                self.state.events.push_back(Event::Dial { uplink: uplink.name.to_string(), attempt });
            }
            Stage::Connecting | Stage::Open => {
                let given_up = self.probe_uplink(now, key) || self.is_silent_about_filters(now, key);
                if !given_up && stage == Stage::Open {
                    self.uplinks.brokers.check_steady(now, &mut self.state, &mut self.layouts, key);
                    dealing!(self).end_pause(now, key);
                    self.uplinks.brokers.ask_filters_again(now, &mut self.state, key);
                    self.uplinks.brokers.ask_ending_again(now, &mut self.state, &self.uplinks.wanted, key);
                    uplinking!(self).check_unreturned(now, key);
                }
            }
            Stage::Resting(_) | Stage::Dialing(_) => {}
        }
        dealing!(self).spread_piece(now, key);
        self.uplinks.brokers.end_long_hold(now, &mut self.state, &mut self.layouts, key);
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return };
        if uplink.reassign_at <= now.monotonic {
            uplink.reassign_at = Millis::NEVER;
            uplinking!(self).give_up_uplink(now, key);
        }
        self.uplinks.brokers.set_uplink_timer(&mut self.state, key);
    }
}
