//! A broker is added, fails, and is tried again.

use crate::engine::facets::FleetCalls;
use crate::event::{Event, LogEvent};
use crate::flows::contexts::broker_linking;
use crate::flows::contexts::dealing;
use crate::flows::contexts::ending;
use crate::ids::BrokerLinkKey;
use crate::ids::ConnectionKey;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::copies::LastMessage;
use crate::orchestrator::broker_link::opening::Opening;
use crate::orchestrator::broker_link::packet_limits::PacketLimit;
use crate::orchestrator::broker_link::passed::Unpassed;
use crate::orchestrator::broker_link::spread::{BrokerQueues, Spread};
use crate::orchestrator::broker_link::versions::Objection;
use crate::orchestrator::broker_link::{
    BrokerLink, BrokerLinkCounters, BrokerLinkError, BrokerLinkOptions, DialAttempt, FilterSync, Hold, Pause, Probe,
    Stage, Suspicion,
};
use tidegate_mqtt::{QoS, Version};

impl FleetCalls<'_> {
    /// Adds a broker, or changes how one is spoken to from its next connection on. Called on the shard that has
    /// partition 0.
    ///
    /// # Errors
    /// Where there is no fleet.
    pub fn set_broker_link(&mut self, now: Now, name: &str, options: BrokerLinkOptions) -> Result<(), BrokerLinkError> {
        self.engine.state.journal.now = now;
        if !self.engine.broker_links.brokers.config.has_broker_links_here() {
            return Err(BrokerLinkError::NoFleet);
        }
        if let Some(key) = self.engine.broker_links.brokers.find(name) {
            if let Some(broker_link) = self.engine.broker_links.brokers.all.get_mut(&key) {
                broker_link.options = options;
            }
            broker_linking!(self.engine).end_drain(now, key);
            ending!(self.engine).publish_held(now);
            self.engine.after_frame(now);
            return Ok(());
        }
        let session = broker_linking!(self.engine).broker_link_session(name);
        let stored = self.engine.state.sessions.get(session.0).and_then(|session| session.stored);
        let kept = self.engine.broker_links.kept_ids_of(stored);
        let flow = self.engine.state.sessions.get(session.0).and_then(|session| session.flow.as_ref());
        let released = flow.map_or(0, |flow| flow.inflight.iter().filter(|it| it.item.delivery.is_none()).count());
        let key = BrokerLinkKey(self.engine.broker_links.brokers.next_key);
        self.engine.broker_links.brokers.next_key += 1;
        let broker_link = BrokerLink {
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
            unpassed: Unpassed::default(),
            opening: Opening::default(),
            questions: Vec::new(),
            timer: Millis::NEVER,
            reassign_at: self.engine.broker_links.brokers.config.reassign_time(now),
            backoff_ms: 0,
            window: 1,
            limit: PacketLimit::default(),
            max_qos: QoS::ExactlyOnce,
            probe: Probe::default(),
            last: LastMessage::default(),
            kept,
            last_own: 0,
            adopted: None,
            counters: BrokerLinkCounters::default(),
            last_error: String::new(),
            away_logged: false,
            serving_logged: false,
            ends: false,
        };
        self.engine.broker_links.brokers.by_session.insert(session.0, key);
        self.engine.broker_links.brokers.all.insert(key, broker_link);
        broker_linking!(self.engine).take_broker_link_seat(now, session, QoS::ExactlyOnce);
        dealing!(self.engine).keep_order(now);
        self.run_broker_link_timer(now, key);
        broker_linking!(self.engine).check_gate(now);
        ending!(self.engine).publish_held(now);
        self.engine.after_frame(now);
        Ok(())
    }

    /// A broker could not be reached. An outcome of another attempt than the present one changes nothing.
    pub fn fail_broker_link(&mut self, now: Now, name: &str, attempt: DialAttempt, why: &str) {
        let Some(key) = self.engine.broker_links.brokers.find(name) else { return };
        let Some(broker_link) = self.engine.broker_links.brokers.all.get_mut(&key) else { return };
        if broker_link.stage != Stage::Dialing(attempt) {
            return;
        }
        broker_link.note_failed_attempt();
        why.clone_into(&mut broker_link.last_error);
        if !std::mem::replace(&mut broker_link.away_logged, true) {
            let (broker, detail) = (broker_link.name.to_string(), why.to_owned());
            self.engine.state.events.push_back(Event::Log(LogEvent::BrokerLost { broker, detail }));
        }
        self.engine.broker_links.brokers.rest(now, &mut self.engine.state, key, false);
    }

    /// The transport of a connection to a broker has failed for a reason outside MQTT, such as TLS.
    pub fn fail_broker_link_transport(&mut self, now: Now, connection: ConnectionKey, why: &str) {
        let broker_link = self.engine.broker_links.brokers.of_connection(connection);
        if let Some(broker_link) =
            broker_link.and_then(|broker_link| self.engine.broker_links.brokers.all.get_mut(&broker_link))
        {
            broker_link.silent = false;
            why.clone_into(&mut broker_link.last_error);
        }
        self.engine.handle_transport_closed(now, connection);
    }

    /// Handles the due timer of a broker link.
    pub(crate) fn handle_broker_link_timer(&mut self, now: Now, key: BrokerLinkKey) {
        if let Some(broker_link) = self.engine.broker_links.brokers.all.get_mut(&key) {
            broker_link.timer = Millis::NEVER;
        }
        self.run_broker_link_timer(now, key);
    }

    fn run_broker_link_timer(&mut self, now: Now, key: BrokerLinkKey) {
        let Some(broker_link) = self.engine.broker_links.brokers.all.get_mut(&key) else { return };
        let stage = broker_link.stage;
        match stage {
            Stage::Resting(at) if at <= now.monotonic && !self.engine.broker_links.brokers.stopping => {
                let attempt = DialAttempt(self.engine.broker_links.brokers.next_attempt);
                self.engine.broker_links.brokers.next_attempt += 1;
                broker_link.stage = Stage::Dialing(attempt);
                self.engine.state.events.push_back(Event::Dial { broker_link: broker_link.name.to_string(), attempt });
            }
            Stage::Connecting | Stage::Open => {
                let given_up = self.probe_broker_link(now, key) || self.is_silent_about_filters(now, key);
                if !given_up && stage == Stage::Open {
                    self.engine.broker_links.brokers.check_steady(
                        now,
                        &mut self.engine.state,
                        &mut self.engine.layouts,
                        key,
                    );
                    dealing!(self.engine).end_pause(now, key);
                    BrokerQueues::of(&mut self.engine.broker_links.brokers, &self.engine.state).watch(now, key);
                    self.engine.broker_links.brokers.ask_filters_again(now, &mut self.engine.state, key);
                    self.engine.broker_links.brokers.ask_ending_again(
                        now,
                        &mut self.engine.state,
                        &self.engine.broker_links.wanted,
                        key,
                    );
                    broker_linking!(self.engine).check_unreturned(now, key);
                }
            }
            Stage::Resting(_) | Stage::Dialing(_) => {}
        }
        dealing!(self.engine).spread_piece(now, key);
        broker_linking!(self.engine).continue_opening(now, key);
        broker_linking!(self.engine).ask_members(now, key);
        self.engine.broker_links.brokers.end_long_hold(now, &mut self.engine.state, &mut self.engine.layouts, key);
        let Some(broker_link) = self.engine.broker_links.brokers.all.get_mut(&key) else { return };
        if broker_link.reassign_at <= now.monotonic {
            broker_link.reassign_at = Millis::NEVER;
            broker_linking!(self.engine).give_up_broker_link(now, key);
        }
        self.engine.broker_links.brokers.set_broker_link_timer(&mut self.engine.state, key);
    }
}
