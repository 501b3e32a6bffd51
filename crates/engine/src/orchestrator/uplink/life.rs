//! Arrival, loss, drain and removal of broker links (BRK-31, BRK-32).

use super::{Stage, UPLINK_FILTER, UPLINK_SHARE};
use crate::event::{Event, LogEvent};
use crate::ids::TenantId;
use crate::ids::UplinkKey;
use crate::link::record::GroupName;
use crate::now::{Millis, Now};
use crate::orchestrator::uplink::{Brokers, FleetConfig};
use crate::state::ShardState;
use crate::timers::Timer;

/// The group that all uplinks are in.
pub(crate) fn group() -> GroupName<'static> {
    GroupName { tenant: TenantId::UPLINK, share: UPLINK_SHARE, filter: UPLINK_FILTER }
}

impl Brokers {
    /// The next attempt to reach a broker waits, each time twice as long, unless it is to come at once.
    pub(crate) fn rest(&mut self, now: Now, state: &mut ShardState, key: UplinkKey, at_once: bool) {
        let Some(settings) = self.config.settings() else { return };
        let (least, most) = (settings.reconnect_min_ms, settings.reconnect_max_ms);
        let Some(uplink) = self.all.get_mut(&key) else { return };
        if !at_once {
            uplink.backoff_ms = (uplink.backoff_ms * 2).clamp(least, most);
        }
        let wait = if at_once { 0 } else { uplink.backoff_ms };
        uplink.stage = Stage::Resting(now.monotonic.plus(wait));
        self.set_uplink_timer(state, key);
    }

    /// A broker holds all subscriptions.
    pub(crate) fn begin_serving(&mut self, now: Now, state: &mut ShardState, key: UplinkKey) {
        let Some(uplink) = self.all.get_mut(&key) else { return };
        uplink.since = now.unix;
        if uplink.filters.refuses_nothing() && !uplink.suspicion.told {
            uplink.last_error.clear();
        }
        // One that closes connections again and again is tried less and less often, and told once.
        if !uplink.suspicion.is_lost_again() {
            self.tell_serving(state, key);
        }
        if let Some(uplink) = self.all.get_mut(&key) {
            uplink.begin_steady_time(now);
        }
        self.await_former_uplinks(now, state);
        self.begin_spread(now, state);
    }

    /// Logs that a broker serves, if the log had reported it as away.
    pub(super) fn tell_serving(&mut self, state: &mut ShardState, key: UplinkKey) {
        let Some(uplink) = self.all.get_mut(&key) else { return };
        if std::mem::take(&mut uplink.away_logged) || !std::mem::replace(&mut uplink.serving_logged, true) {
            let broker = uplink.name.to_string();
            state.events.push_back(Event::Log(LogEvent::BrokerServes { broker }));
        }
    }

    /// Sets the one timer of an uplink to whatever comes first.
    pub(crate) fn set_uplink_timer(&mut self, state: &mut ShardState, key: UplinkKey) {
        let Some(settings) = self.config.settings() else { return };
        let timeout = settings.probe_timeout_ms;
        let Some(uplink) = self.all.get_mut(&key) else { return };
        let of_stage = match uplink.stage {
            Stage::Resting(at) if !self.stopping => at,
            Stage::Dialing(_) | Stage::Resting(_) => Millis::NEVER,
            Stage::Connecting | Stage::Open => {
                let connection = uplink.connection.and_then(|key| state.connections.get(key));
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
            .min(uplink.spread.at)
            .min(uplink.suspicion.steady_at);
        if due == uplink.timer {
            return;
        }
        let before = std::mem::replace(&mut uplink.timer, due);
        state.timers.cancel(before, Timer::Uplink(key));
        state.timers.set(due, Timer::Uplink(key));
    }
}

impl FleetConfig {
    pub(crate) fn reassign_time(&self, now: Now) -> Millis {
        let after = self.settings().map_or(0, |settings| settings.reassign_after_ms);
        now.monotonic.plus(after)
    }
}
