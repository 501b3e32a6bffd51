//! The check whether brokers have delivered all messages that they sent before a moment.

use crate::engine::facets::FleetCalls;
use crate::engine::image::forwarding::OrchestratorMoves;
use crate::ids::BrokerLinkKey;
use crate::now::Now;
use crate::orchestrator::broker_link::Stage;
use crate::orchestrator::broker_link::settled::{Awaited, Settling};

impl FleetCalls<'_> {
    /// Begins to check whether all messages have arrived that brokers sent before now. Disconnected brokers are left
    /// out: their messages come on another connection, if at all.
    pub fn begin_settling(&mut self, now: Now) -> Settling {
        self.engine.state.journal.now = now;
        let own = self.engine.broker_links.last_number();
        let open: Vec<BrokerLinkKey> = self
            .engine
            .broker_links
            .brokers
            .all
            .iter()
            .filter(|(_, broker_link)| broker_link.stage == Stage::Open)
            .map(|(key, _)| *key)
            .collect();
        let awaited = open
            .into_iter()
            .filter_map(|key| {
                Awaited::begin(&mut self.engine.broker_links.brokers, now, &mut self.engine.state, key, own)
            })
            .collect();
        self.engine.after_frame(now);
        Settling { awaited, awaits_names: false }
    }

    /// Whether all of these messages have arrived. A broker with all of them is not asked again.
    pub fn settle(&mut self, now: Now, settling: &mut Settling) -> bool {
        if settling.awaits_names {
            *settling = OrchestratorMoves::of(self.engine).begin_settling(now);
            return false;
        }
        self.engine.state.journal.now = now;
        let own = self.engine.broker_links.last_number();
        let awaited = std::mem::take(&mut settling.awaited);
        settling.awaited = awaited
            .into_iter()
            .filter_map(|awaited| {
                awaited.remaining(&mut self.engine.broker_links.brokers, now, &mut self.engine.state, own)
            })
            .collect();
        self.engine.after_frame(now);
        settling.awaited.is_empty()
    }
}

impl OrchestratorMoves<'_> {
    /// Begins to check like [`FleetCalls::begin_settling`](crate::FleetCalls::begin_settling). Disconnected brokers are waited for: they keep messages that are
    /// to be forwarded. So are brokers of an earlier process that are not named yet.
    pub fn begin_settling(&mut self, now: Now) -> Settling {
        let brokers = self.engine.broker_links.brokers.all.iter();
        let away = brokers.filter(|(_, broker_link)| broker_link.stage != Stage::Open).map(|(key, _)| *key);
        let away: Vec<BrokerLinkKey> = away.collect();
        let mut settling = self.engine.fleet().begin_settling(now);
        settling.awaited.extend(away.into_iter().map(Awaited::of_disconnected));
        let brokers = &self.engine.broker_links.brokers;
        settling.awaits_names = brokers.former.may_be_named(&brokers.by_session, &self.engine.state.sessions);
        settling
    }

    /// Begins to check one broker like [`FleetCalls::begin_settling`](crate::FleetCalls::begin_settling). A disconnected broker is waited for.
    pub fn begin_settling_of(&mut self, now: Now, broker: &str) -> Settling {
        self.engine.state.journal.now = now;
        let key = self.engine.broker_links.brokers.find(broker);
        let own = self.engine.broker_links.last_number();
        let brokers = &mut self.engine.broker_links.brokers;
        let awaited = key.map(|key| {
            let is_open = brokers.all.get(&key).is_some_and(|broker_link| broker_link.stage == Stage::Open);
            let awaited = is_open.then(|| Awaited::begin(brokers, now, &mut self.engine.state, key, own));
            awaited.flatten().unwrap_or_else(|| Awaited::of_disconnected(key))
        });
        self.engine.after_frame(now);
        Settling { awaited: awaited.into_iter().collect(), awaits_names: false }
    }
}
