//! Arrival, loss, drain and removal of broker links (BRK-31, BRK-32).

use super::{BROKER_LINK_FILTER, BROKER_LINK_SHARE, Stage};
use crate::event::{Event, LogEvent};
use crate::ids::BrokerLinkKey;
use crate::ids::TenantId;
use crate::link::record::GroupName;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::{Brokers, FleetConfig};
use crate::state::ShardState;
use crate::timers::Timer;

/// The group that all broker links are in.
pub(crate) fn group() -> GroupName<'static> {
    GroupName { tenant: TenantId::BROKER_LINK, share: BROKER_LINK_SHARE, filter: BROKER_LINK_FILTER }
}

impl Brokers {
    /// The next attempt to reach a broker waits, each time twice as long, unless it is to come at once.
    pub(crate) fn rest(&mut self, now: Now, state: &mut ShardState, key: BrokerLinkKey, at_once: bool) {
        let Some(settings) = self.config.settings() else { return };
        let (least, most) = (settings.reconnect_min_ms, settings.reconnect_max_ms);
        let Some(broker_link) = self.all.get_mut(&key) else { return };
        if !at_once {
            broker_link.backoff_ms = (broker_link.backoff_ms * 2).clamp(least, most);
        }
        let wait = if at_once { 0 } else { broker_link.backoff_ms };
        broker_link.stage = Stage::Resting(now.monotonic.plus(wait));
        self.set_broker_link_timer(state, key);
    }

    /// A broker holds all subscriptions.
    pub(crate) fn begin_serving(&mut self, now: Now, state: &mut ShardState, key: BrokerLinkKey) {
        let Some(broker_link) = self.all.get_mut(&key) else { return };
        broker_link.since = now.unix;
        if broker_link.filters.refuses_nothing() && !broker_link.suspicion.told {
            broker_link.last_error.clear();
        }
        // One that closes connections again and again is tried less and less often, and logged once.
        if !broker_link.suspicion.is_lost_again() {
            self.tell_serving(state, key);
        }
        if let Some(broker_link) = self.all.get_mut(&key) {
            broker_link.begin_steady_time(now);
        }
        self.await_former_broker_links(now, state);
        self.begin_spread(now, state);
    }

    /// Logs that a broker serves, if the log had reported it as away.
    pub(super) fn tell_serving(&mut self, state: &mut ShardState, key: BrokerLinkKey) {
        let Some(broker_link) = self.all.get_mut(&key) else { return };
        if std::mem::take(&mut broker_link.away_logged) || !std::mem::replace(&mut broker_link.serving_logged, true) {
            let broker = broker_link.name.to_string();
            state.events.push_back(Event::Log(LogEvent::BrokerServes { broker }));
        }
    }

    /// Sets the one timer of a broker link to whatever comes first.
    pub(crate) fn set_broker_link_timer(&mut self, state: &mut ShardState, key: BrokerLinkKey) {
        let Some(settings) = self.config.settings() else { return };
        let timeout = settings.probe_timeout_ms;
        let Some(broker_link) = self.all.get_mut(&key) else { return };
        let of_stage = match broker_link.stage {
            Stage::Resting(at) if !self.stopping => at,
            Stage::Dialing(_) | Stage::Resting(_) => Millis::NEVER,
            Stage::Connecting | Stage::Open => {
                let connection = broker_link.connection.and_then(|key| state.connections.get(key));
                let seen = connection.map_or(Millis(0), |connection| connection.last_seen);
                broker_link.probe.due(seen, timeout).unwrap_or(broker_link.probe.next)
            }
        };
        let of_filters =
            if broker_link.stage == Stage::Open { broker_link.filters.due(timeout) } else { Millis::NEVER };
        let of_members = broker_link.unpassed.due().min(broker_link.opening.due());
        let of_members = if broker_link.stage == Stage::Open { of_members } else { Millis::NEVER };
        let due = of_stage
            .min(broker_link.reassign_at)
            .min(of_filters)
            .min(broker_link.pause.until)
            .min(broker_link.hold.until)
            .min(broker_link.spread.at)
            .min(of_members)
            .min(broker_link.suspicion.steady_at);
        if due == broker_link.timer {
            return;
        }
        let before = std::mem::replace(&mut broker_link.timer, due);
        state.timers.cancel(before, Timer::BrokerLink(key));
        state.timers.set(due, Timer::BrokerLink(key));
    }
}

impl FleetConfig {
    pub(crate) fn reassign_time(&self, now: Now) -> Millis {
        let after = self.settings().map_or(0, |settings| settings.reassign_after_ms);
        now.monotonic.plus(after)
    }
}
