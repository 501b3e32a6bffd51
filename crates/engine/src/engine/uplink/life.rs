//! A broker is added, fails, and is tried again.

use crate::engine::facets::FleetCalls;
use crate::event::{Event, LogEvent};
use crate::flows::cluster::ending::ending;
use crate::flows::groups::dealing::dealing;
use crate::flows::uplink::uplinking::uplinking;
use crate::ids::ConnectionKey;
use crate::ids::UplinkKey;
use crate::now::{Millis, Now};
use crate::orchestrator::uplink::copies::LastMessage;
use crate::orchestrator::uplink::packet_limits::PacketLimit;
use crate::orchestrator::uplink::spread::Spread;
use crate::orchestrator::uplink::versions::Objection;
use crate::orchestrator::uplink::{
    DialAttempt, FilterSync, Hold, Pause, Probe, Stage, Suspicion, Uplink, UplinkCounters, UplinkError, UplinkOptions,
};
use tidegate_mqtt::{QoS, Version};

impl FleetCalls<'_> {
    /// Adds a broker, or changes how one is spoken to from its next connection on. Called on the shard that has
    /// partition 0.
    ///
    /// # Errors
    /// Where there is no fleet.
    pub fn set_uplink(&mut self, now: Now, name: &str, options: UplinkOptions) -> Result<(), UplinkError> {
        self.engine.state.journal.now = now;
        if !self.engine.uplinks.brokers.config.has_uplinks_here() {
            return Err(UplinkError::NoFleet);
        }
        if let Some(key) = self.engine.uplinks.brokers.find(name) {
            if let Some(uplink) = self.engine.uplinks.brokers.all.get_mut(&key) {
                uplink.options = options;
            }
            uplinking!(self.engine).end_drain(now, key);
            ending!(self.engine).publish_held(now);
            self.engine.after_frame(now);
            return Ok(());
        }
        let session = uplinking!(self.engine).uplink_session(name);
        let stored = self.engine.state.sessions.get(session.0).and_then(|session| session.stored);
        let kept = self.engine.uplinks.kept_ids_of(stored);
        let flow = self.engine.state.sessions.get(session.0).and_then(|session| session.flow.as_ref());
        let released =
            flow.map_or(0, |flow| flow.inflight.iter().filter(|entry| entry.item.delivery.is_none()).count());
        let key = UplinkKey(self.engine.uplinks.brokers.next_key);
        self.engine.uplinks.brokers.next_key += 1;
        let uplink = Uplink {
            name: name.into(),
            version: options.version.unwrap_or(Version::V5),
            options,
            session,
            connection: None,
            stage: Stage::Resting(now.monotonic),
            since: now.unix,
            accepted: None,
            objection: Objection::None,
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
            reassign_at: self.engine.uplinks.brokers.config.reassign_time(now),
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
            away_logged: false,
            serving_logged: false,
            ends: false,
        };
        self.engine.uplinks.brokers.by_session.insert(session.0, key);
        self.engine.uplinks.brokers.all.insert(key, uplink);
        uplinking!(self.engine).take_uplink_seat(now, session, QoS::ExactlyOnce);
        dealing!(self.engine).keep_order(now);
        self.run_uplink_timer(now, key);
        uplinking!(self.engine).check_gate(now);
        ending!(self.engine).publish_held(now);
        self.engine.after_frame(now);
        Ok(())
    }

    /// A broker could not be reached. An outcome of another attempt than the present one changes nothing.
    pub fn fail_uplink(&mut self, now: Now, name: &str, attempt: DialAttempt, why: &str) {
        let Some(key) = self.engine.uplinks.brokers.find(name) else { return };
        let Some(uplink) = self.engine.uplinks.brokers.all.get_mut(&key) else { return };
        if uplink.stage != Stage::Dialing(attempt) {
            return;
        }
        uplink.note_failed_attempt();
        why.clone_into(&mut uplink.last_error);
        if !std::mem::replace(&mut uplink.away_logged, true) {
            let (broker, detail) = (uplink.name.to_string(), why.to_owned());
            self.engine.state.events.push_back(Event::Log(LogEvent::BrokerLost { broker, detail }));
        }
        self.engine.uplinks.brokers.rest(now, &mut self.engine.state, key, false);
    }

    /// The transport of a connection to a broker has failed for a reason outside MQTT, such as TLS.
    pub fn fail_uplink_transport(&mut self, now: Now, connection: ConnectionKey, why: &str) {
        let uplink = self.engine.uplinks.brokers.of_connection(connection);
        if let Some(uplink) = uplink.and_then(|uplink| self.engine.uplinks.brokers.all.get_mut(&uplink)) {
            uplink.silent = false;
            why.clone_into(&mut uplink.last_error);
        }
        self.engine.handle_transport_closed(now, connection);
    }

    /// Handles the due timer of an uplink.
    pub(crate) fn handle_uplink_timer(&mut self, now: Now, key: UplinkKey) {
        if let Some(uplink) = self.engine.uplinks.brokers.all.get_mut(&key) {
            uplink.timer = Millis::NEVER;
        }
        self.run_uplink_timer(now, key);
    }

    fn run_uplink_timer(&mut self, now: Now, key: UplinkKey) {
        let Some(uplink) = self.engine.uplinks.brokers.all.get_mut(&key) else { return };
        let stage = uplink.stage;
        match stage {
            Stage::Resting(at) if at <= now.monotonic && !self.engine.uplinks.brokers.stopping => {
                let attempt = DialAttempt(self.engine.uplinks.brokers.next_attempt);
                self.engine.uplinks.brokers.next_attempt += 1;
                uplink.stage = Stage::Dialing(attempt);
                self.engine.state.events.push_back(Event::Dial { uplink: uplink.name.to_string(), attempt });
            }
            Stage::Connecting | Stage::Open => {
                let given_up = self.probe_uplink(now, key) || self.is_silent_about_filters(now, key);
                if !given_up && stage == Stage::Open {
                    self.engine.uplinks.brokers.check_steady(
                        now,
                        &mut self.engine.state,
                        &mut self.engine.layouts,
                        key,
                    );
                    dealing!(self.engine).end_pause(now, key);
                    self.engine.uplinks.brokers.ask_filters_again(now, &mut self.engine.state, key);
                    self.engine.uplinks.brokers.ask_ending_again(
                        now,
                        &mut self.engine.state,
                        &self.engine.uplinks.wanted,
                        key,
                    );
                    uplinking!(self.engine).check_unreturned(now, key);
                }
            }
            Stage::Resting(_) | Stage::Dialing(_) => {}
        }
        dealing!(self.engine).spread_piece(now, key);
        self.engine.uplinks.brokers.end_long_hold(now, &mut self.engine.state, &mut self.engine.layouts, key);
        let Some(uplink) = self.engine.uplinks.brokers.all.get_mut(&key) else { return };
        if uplink.reassign_at <= now.monotonic {
            uplink.reassign_at = Millis::NEVER;
            uplinking!(self.engine).give_up_uplink(now, key);
        }
        self.engine.uplinks.brokers.set_uplink_timer(&mut self.engine.state, key);
    }
}
