//! The brokers of an orchestrator, as the admin API shows them.

use tidegate_admin::{BrokerState, BrokerStatus as BrokerEntry};
use tidegate_engine::BrokerLinkState;
use tidegate_node::BrokerReport;

/// The entry of a broker.
pub(crate) fn broker_status(report: &BrokerReport) -> BrokerEntry {
    let BrokerReport { at, secure, broker_link } = report;
    let scheme = if *secure { "mqtts" } else { "mqtt" };
    let counters = broker_link.counters;
    BrokerEntry {
        name: broker_link.name.clone(),
        address: format!("{scheme}://{at}"),
        state: state(broker_link.state),
        since_ms: broker_link.since,
        version: broker_link.version.map(|version| version.to_string()),
        filters: broker_link.filters,
        filters_pending: broker_link.filters_pending,
        filters_refused: broker_link.filters_refused,
        queued: broker_link.queued,
        in_flight: broker_link.in_flight,
        unreturned: broker_link.unreturned,
        owed: broker_link.queued + broker_link.in_flight + broker_link.unreturned,
        sent: counters.sent,
        acknowledged: counters.acknowledged,
        returned: counters.returned,
        resent: counters.resent,
        received: counters.received,
        duplicates: counters.duplicates,
        beyond_window: counters.beyond_window,
        delivered_here: counters.delivered_here,
        set_aside: counters.set_aside,
        unconfirmed: counters.unconfirmed,
        last_error: broker_link.last_error.clone(),
    }
}

fn state(state: BrokerLinkState) -> BrokerState {
    match state {
        BrokerLinkState::Connecting => BrokerState::Connecting,
        BrokerLinkState::Subscribing => BrokerState::Subscribing,
        BrokerLinkState::Serving => BrokerState::Serving,
        BrokerLinkState::Draining => BrokerState::Draining,
        BrokerLinkState::Drained => BrokerState::Drained,
        BrokerLinkState::Down => BrokerState::Down,
    }
}
