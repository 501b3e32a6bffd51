//! A message that makes brokers close the connection is found and set aside, before it takes them all down one after
//! the other.
//!
//! Some brokers close the connection when they dislike a packet, such as one whose topic has a character that they do
//! not allow. It would be sent again on each connection, and go to the next broker once the first has been away for
//! long. So after two connections in a row that were closed soon, the messages in flight are sent one at a time: the
//! message that is in flight alone when the broker closes the connection is blamed, and set aside when that has
//! happened often enough. A broker that says why it closes (MQTT 5) is believed: one connection less, and one blame is
//! enough. As long as the broker answers other messages, the next connection begins at once: others do not wait for a
//! back-off.

use super::BrokerLink;
use super::id::MessageId;
use crate::ids::BrokerLinkKey;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::Brokers;
use crate::publish::layouts::Layouts;
use crate::state::ShardState;
use std::collections::BTreeMap;
use tidegate_mqtt::ReasonCode;

/// Connections in a row that a broker has closed soon, from which on it is given one message at a time.
pub(crate) const CLOSED_BEFORE_CARE: u8 = 2;

/// How often a message has to be under way alone when a broker closes the connection until it is set aside.
const BLAMED_MAX: u8 = 3;

/// Messages whose blames are counted. Beyond it, the count of the oldest starts again.
const BLAMES_COUNTED_MAX: usize = 1_024;

/// Connections in a row that begin at once after the broker has closed one over something that it was sent. It has to
/// answer a message until there are as many again.
const AT_ONCE_MAX: u8 = 8;

/// How long a broker has to serve until its earlier troubles are forgotten, milliseconds.
pub(super) const STEADY_AFTER_MS: u64 = 5_000;

/// How often messages were under way alone when brokers closed the connection.
#[derive(Debug, Default)]
pub(crate) struct Blames(BTreeMap<MessageId, u8>);

impl Blames {
    /// Counts one more; returns whether the limit is reached.
    pub(crate) fn is_enough(&mut self, id: &MessageId) -> bool {
        if self.0.len() >= BLAMES_COUNTED_MAX && !self.0.contains_key(id) {
            self.0.pop_first();
        }
        let times = self.0.entry(*id).or_default();
        *times = times.saturating_add(1);
        *times >= BLAMED_MAX
    }

    /// Whether nothing is counted.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A broker has answered the message, or it is set aside.
    pub(crate) fn forget(&mut self, id: &MessageId) {
        self.0.remove(id);
    }
}

/// The history of the connections that a broker has closed.
#[derive(Debug)]
pub(crate) struct Suspicion {
    /// Connections in a row that it closed before it had served for long.
    pub(crate) closed: u8,
    /// The same for connections closed by either side.
    pub(crate) lost: u8,
    /// Messages in flight when the last one ended.
    pub(crate) under_way: usize,
    /// How many messages are still to be answered one at a time; 0 where it gets as many as its window takes.
    careful: usize,
    /// The answered probe that would show that the broker has outlived the message under way: one to a PINGREQ sent
    /// behind it.
    pub(crate) outlived_at: u64,
    /// With which code the broker has ended the present connection.
    pub(crate) said: Option<ReasonCode>,
    /// Connections that began at once since it has answered a message.
    at_once: u8,
    /// When it has served for long, [`Millis::NEVER`] where it does not serve or has.
    pub(crate) steady_at: Millis,
    /// Whether `last_error` is a problem that the next connection does not solve.
    pub(crate) told: bool,
}

impl Default for Suspicion {
    fn default() -> Self {
        Self {
            closed: 0,
            lost: 0,
            under_way: 0,
            careful: 0,
            outlived_at: 0,
            said: None,
            at_once: 0,
            steady_at: Millis::NEVER,
            told: false,
        }
    }
}

impl Suspicion {
    /// Whether the broker gets one message at a time.
    #[inline]
    pub(crate) fn is_careful(&self) -> bool {
        self.careful > 0
    }

    /// Whether the next connection begins at once; counts it.
    pub(crate) fn may_retry_at_once(&mut self) -> bool {
        let may = self.at_once < AT_ONCE_MAX;
        self.at_once += u8::from(may);
        may
    }

    /// Whether it has lost more than one connection and not served for long since.
    pub(super) fn is_lost_again(&self) -> bool {
        self.lost > 1
    }
}

/// True if a broker with this reason code probably closes the connection because of a packet.
pub(crate) fn is_about_packets(code: ReasonCode) -> bool {
    !matches!(
        code,
        ReasonCode::Success
            | ReasonCode::DisconnectWithWillMessage
            | ReasonCode::ServerBusy
            | ReasonCode::ServerShuttingDown
            | ReasonCode::KeepAliveTimeout
            | ReasonCode::SessionTakenOver
            | ReasonCode::AdministrativeAction
            | ReasonCode::UseAnotherServer
            | ReasonCode::ServerMoved
            | ReasonCode::ConnectionRateExceeded
            | ReasonCode::MaximumConnectTime
    )
}

impl BrokerLink {
    /// A message has been answered; returns whether it was the last one to be sent alone.
    #[inline]
    pub(super) fn note_one_answered(&mut self) -> bool {
        let suspicion = &mut self.suspicion;
        suspicion.at_once = 0;
        if suspicion.careful == 0 {
            return false;
        }
        suspicion.careful -= 1;
        suspicion.outlived_at = self.probe.answered + u64::from(self.probe.asked.is_some());
        suspicion.careful == 0
    }
}

impl Brokers {
    /// The broker has answered the messages that were sent one by one: it gets as many as its window allows.
    pub(crate) fn end_care(&mut self, now: Now, state: &mut ShardState, layouts: &mut Layouts, key: BrokerLinkKey) {
        let session = self.all.get(&key).map(|broker_link| broker_link.session);
        let session = session.and_then(|session| state.sessions.get_mut(session.0));
        if let Some(flow) = session.and_then(|session| session.flow.as_mut()) {
            flow.one_at_a_time = false;
        }
        self.open_window(now, state, layouts, key);
    }

    /// A broker may have served for long.
    pub(crate) fn check_steady(&mut self, now: Now, state: &mut ShardState, layouts: &mut Layouts, key: BrokerLinkKey) {
        let Some(broker_link) = self.all.get_mut(&key) else { return };
        if broker_link.suspicion.steady_at > now.monotonic {
            return;
        }
        broker_link.suspicion.steady_at = Millis::NEVER;
        broker_link.suspicion.closed = 0;
        broker_link.suspicion.at_once = 0;
        broker_link.suspicion.lost = 0;
        let careful = std::mem::take(&mut broker_link.suspicion.careful) > 0;
        broker_link.suspicion.told = false;
        broker_link.backoff_ms = 0;
        if broker_link.filters.refuses_nothing() {
            broker_link.last_error.clear();
        }
        self.tell_serving(state, key);
        if careful {
            self.end_care(now, state, layouts, key);
        }
    }
}

impl BrokerLink {
    /// A connection begins: messages in flight go alone, if the broker has closed connections again and again.
    pub(crate) fn begin_with_care(&mut self, state: &mut ShardState) {
        let flow = state.sessions.get_mut(self.session.0).and_then(|session| session.flow.as_mut());
        let suspicion = &mut self.suspicion;
        suspicion.outlived_at = 0;
        suspicion.careful = 0;
        suspicion.said = None;
        if let Some(flow) = flow {
            if suspicion.closed >= CLOSED_BEFORE_CARE {
                // A broker that has forgotten them gets them from its queue.
                suspicion.careful = suspicion.under_way;
            }
            flow.one_at_a_time = suspicion.is_careful();
        }
    }

    /// A PINGREQ is sent: its answer says nothing about a message sent after it.
    pub(crate) fn note_probe_sent(&mut self, state: &ShardState) {
        if !self.suspicion.is_careful() {
            return;
        }
        let flow = state.sessions.get(self.session.0).and_then(|session| session.flow.as_ref());
        if flow.is_none_or(|flow| flow.inflight.len() == flow.to_resend) {
            self.suspicion.outlived_at = self.probe.answered + 1;
        }
    }

    /// A broker holds all filters: when it has done so for long, its troubles are forgotten.
    pub(super) fn begin_steady_time(&mut self, now: Now) {
        self.suspicion.steady_at = now.monotonic.plus(STEADY_AFTER_MS);
    }
}
