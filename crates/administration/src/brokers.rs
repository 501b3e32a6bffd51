//! The brokers of an orchestrator, as the admin API shows them.

use tidegate_admin::{BrokerState, BrokerStatus as BrokerEntry};
use tidegate_engine::UplinkState;
use tidegate_node::BrokerReport;

/// The entry of a broker.
pub(crate) fn broker_status(report: &BrokerReport) -> BrokerEntry {
    let BrokerReport { at, secure, uplink } = report;
    let scheme = if *secure { "mqtts" } else { "mqtt" };
    let counters = uplink.counters;
    BrokerEntry {
        name: uplink.name.clone(),
        address: format!("{scheme}://{at}"),
        state: state(uplink.state),
        since_ms: uplink.since,
        version: uplink.version.map(|version| version.to_string()),
        filters: uplink.filters,
        filters_pending: uplink.filters_pending,
        filters_refused: uplink.filters_refused,
        queued: uplink.queued,
        in_flight: uplink.in_flight,
        unreturned: uplink.unreturned,
        owed: uplink.queued + uplink.in_flight + uplink.unreturned,
        sent: counters.sent,
        acknowledged: counters.acknowledged,
        returned: counters.returned,
        resent: counters.resent,
        received: counters.received,
        duplicates: counters.duplicates,
        beyond_window: counters.beyond_window,
        delivered_here: counters.delivered_here,
        set_aside: counters.set_aside,
        last_error: uplink.last_error.clone(),
    }
}

fn state(state: UplinkState) -> BrokerState {
    match state {
        UplinkState::Connecting => BrokerState::Connecting,
        UplinkState::Subscribing => BrokerState::Subscribing,
        UplinkState::Serving => BrokerState::Serving,
        UplinkState::Draining => BrokerState::Draining,
        UplinkState::Drained => BrokerState::Drained,
        UplinkState::Down => BrokerState::Down,
    }
}
