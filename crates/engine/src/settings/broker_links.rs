//! Settings of broker links.

use crate::summed;
use std::num::NonZeroU16;
use tidegate_mqtt::Version;
use zeroize::Zeroizing;

/// How publishes are spread over the brokers of a fleet (BRK-23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutingPolicy {
    /// Each broker in turn, as in the Brokel study. The order of a topic's messages is not kept.
    RoundRobin,
    /// By the topic, with rendezvous hashing: the order of a topic's messages is kept, and few topics move when brokers
    /// come and go.
    TopicHash,
    /// The broker that owes least. The order of a topic's messages is not kept.
    LeastLoaded,
}

/// Unsettled messages for a broker that announces as many or more as its Receive Maximum, where the configuration says
/// none: as many as a broker of this kind takes.
const WINDOW_ANNOUNCED_MAX: u16 = 1024;

/// The same for a broker that announces no Receive Maximum: half of the messages that common brokers queue for a client.
const WINDOW_UNANNOUNCED: u16 = 512;

/// Makes an engine an orchestrator: clients' messages go to one broker of a fleet and return by subscriptions there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerLinkSettings {
    /// Names this orchestrator towards brokers: the beginning of the client ids that it shows them. No two of a fleet
    /// may have the same one.
    pub orchestrator: String,
    /// The user whose own credentials brokers are shown (BRK-10). Their rules decide then: about each message before
    /// anybody gets it, and about each filter. `None` shows them the orchestrator's.
    pub user: Option<String>,
    /// How publishes are spread.
    pub policy: RoutingPolicy,
    /// Unsettled messages above QoS 0 for one broker: not acknowledged or, where the broker returns them, not returned.
    /// A broker may ask for less. The value is below a broker's queue limit, so that brokers drop no messages. `None` is
    /// as many as a broker asks for, at most 1,024; 512 where it asks for nothing.
    pub window: Option<u16>,
    /// Milliseconds between two probes (PINGREQ) of a broker.
    pub probe_interval_ms: u64,
    /// Milliseconds after which a broker that has not answered a probe, or a CONNECT, is taken for dead.
    pub probe_timeout_ms: u64,
    /// Milliseconds after which the messages of a broker that is away are given to others.
    pub reassign_after_ms: u64,
    /// Milliseconds within which an acknowledged message has to return if it is subscribed to; then it is sent again.
    pub return_timeout_ms: u64,
    /// Milliseconds before the first attempt to reach a broker again; each further one waits twice as long.
    pub reconnect_min_ms: u64,
    /// Milliseconds between two attempts at most.
    pub reconnect_max_ms: u64,
    /// Messages accepted and not settled by the fleet, above which publishers have to wait.
    pub max_owed_messages: u64,
    /// The same in bytes.
    pub max_owed_bytes: u64,
    /// Longest packet taken from a broker, bytes.
    pub max_packet_size: u32,
    /// Seconds that a broker is asked to keep the orchestrator's session while it is away.
    pub session_expiry_seconds: u32,
    /// Whether brokers of MQTT 3.1.1 are asked for filters without overlap: some send a copy of a message for each filter.
    pub merge_filters: bool,
    /// The longest packet for a broker that announces no limit, bytes. No broker of MQTT 3.1.1 announces one.
    pub unannounced_packet_limit: u32,
}

impl BrokerLinkSettings {
    /// The window of a broker that has announced this Receive Maximum. The highest one is the same as none.
    pub(crate) fn window_of(&self, announced: Option<NonZeroU16>) -> u16 {
        let announced = announced.map(NonZeroU16::get).filter(|announced| *announced != u16::MAX);
        let default = if announced.is_some() { WINDOW_ANNOUNCED_MAX } else { WINDOW_UNANNOUNCED };
        let most = self.window.unwrap_or(default).max(1);
        announced.map_or(most, |announced| announced.min(most))
    }

    /// The prefix of the client id shown to a broker. Of a user name it keeps characters that every broker accepts;
    /// other characters are written as their bytes, so that no two users have the same prefix.
    pub(crate) fn shown_name(&self) -> String {
        let Some(user) = &self.user else { return self.orchestrator.clone() };
        let mut name = format!("{}~", self.orchestrator);
        for byte in user.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' => name.push(char::from(byte)),
                _ => name.extend(['~', digit(byte >> 4), digit(byte & 15)]),
            }
        }
        name
    }
}

/// A hexadecimal digit.
fn digit(value: u8) -> char {
    char::from_digit(value.into(), 16).unwrap_or('~')
}

impl Default for BrokerLinkSettings {
    fn default() -> Self {
        Self {
            orchestrator: "tidegate".into(),
            user: None,
            policy: RoutingPolicy::TopicHash,
            window: None,
            probe_interval_ms: 1_000,
            probe_timeout_ms: 5_000,
            reassign_after_ms: 2_000,
            return_timeout_ms: 10_000,
            reconnect_min_ms: 100,
            reconnect_max_ms: 5_000,
            max_owed_messages: 100_000,
            max_owed_bytes: 256 * 1024 * 1024,
            max_packet_size: 268_435_460,
            session_expiry_seconds: 3_600,
            merge_filters: false,
            unannounced_packet_limit: u32::MAX,
        }
    }
}

/// How a broker is spoken to.
#[derive(Clone, PartialEq, Eq)]
pub struct BrokerLinkOptions {
    /// The version of the protocol; `None` tries MQTT 5.0 and falls back to 3.1.1.
    pub version: Option<Version>,
    /// The user name shown to the broker.
    pub user_name: Option<String>,
    /// The password shown to the broker.
    pub password: Option<Zeroizing<Vec<u8>>>,
    /// Whether the broker keeps the orchestrator's session; false if the orchestrator itself has no store.
    pub lasting: bool,
}

impl std::fmt::Debug for BrokerLinkOptions {
    /// Leaves the password out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { version, user_name, lasting, .. } = self;
        f.debug_struct("BrokerLinkOptions")
            .field("version", version)
            .field("user_name", user_name)
            .field("lasting", lasting)
            .finish_non_exhaustive()
    }
}

/// An attempt to reach a broker, numbered over all brokers of the process: a broker that is removed and added again may
/// still hear of an attempt that was made under the same name before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DialAttempt(pub u64);

/// How far a broker link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerLinkState {
    /// The broker is being reached.
    Connecting,
    /// It is there, and does not hold all subscriptions yet (BRK-26).
    Subscribing,
    /// It is there and holds all subscriptions.
    Serving,
    /// It gets no new messages and settles its own (BRK-32).
    Draining,
    /// The same, and all is settled.
    Drained,
    /// It was there and is not.
    Down,
}

impl BrokerLinkState {
    /// The name in lower case.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Subscribing => "subscribing",
            Self::Serving => "serving",
            Self::Draining => "draining",
            Self::Drained => "drained",
            Self::Down => "down",
        }
    }
}

/// How one broker link is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerLinkReport {
    /// The broker's name.
    pub name: String,
    /// How far it is.
    pub state: BrokerLinkState,
    /// Since when, Unix milliseconds.
    pub since: u64,
    /// The version that is spoken, once that is known.
    pub version: Option<Version>,
    /// Filters that the broker holds.
    pub filters: u64,
    /// Filters that it was not asked for yet, or has not confirmed.
    pub filters_pending: u64,
    /// Filters that it has refused, or that end its connections.
    pub filters_refused: u64,
    /// Messages that wait to be sent.
    pub queued: u64,
    /// Messages sent and not acknowledged.
    pub in_flight: u64,
    /// Acknowledged messages that have not returned.
    pub unreturned: u64,
    /// Counts since the start.
    pub counters: BrokerLinkCounters,
    /// The last error; empty without one.
    pub last_error: String,
}

impl BrokerLinkReport {
    /// Messages that were accepted from clients and are not settled.
    pub fn owed(&self) -> u64 {
        self.queued + self.in_flight + self.unreturned
    }
}

summed! {
    /// The counters of a broker link.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BrokerLinkCounters {
        /// Messages given to the broker, at any QoS.
        pub sent: u64,
        /// Messages that it has acknowledged.
        pub acknowledged: u64,
        /// Messages that it has acknowledged and brought back.
        pub returned: u64,
        /// Messages taken from it and given to another, or to it once more.
        pub resent: u64,
        /// Messages received.
        pub received: u64,
        /// Received messages that had been received before.
        pub duplicates: u64,
        /// Received messages above QoS 0 beyond the Receive Maximum announced to the broker.
        pub beyond_window: u64,
        /// Messages delivered to the clients of this process without the broker, which took them and does not bring them
        /// back.
        pub delivered_here: u64,
        /// Times that the broker was lost.
        pub lost: u64,
        /// Messages that were given to no broker any more, since this one has closed the connection each time that it got
        /// them.
        pub set_aside: u64,
        /// Acknowledged messages that were settled although another member did not say that it has them.
        pub unconfirmed: u64,
    }
}

/// Why a broker link was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokerLinkError {
    /// No broker has this name.
    #[error("there is no broker of the name {0:?}")]
    Unknown(String),
    /// It still has messages that are not settled.
    #[error("the broker {name:?} still owes {owed} messages; drain it first, or force it")]
    Owes {
        /// The broker.
        name: String,
        /// How many.
        owed: u64,
    },
    /// No other broker could take its messages: none is active, or none has been connected yet.
    #[error("the broker {0:?} is the last active one; add another one first, and wait until it is connected")]
    Last(String),
    /// This engine has no broker links.
    #[error("this is a broker, not an orchestrator: it has no fleet")]
    NoFleet,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_users_are_shown_under_the_same_name() {
        let shown =
            |user: &str| BrokerLinkSettings { user: Some(user.into()), ..BrokerLinkSettings::default() }.shown_name();
        assert_eq!(BrokerLinkSettings::default().shown_name(), "tidegate");
        assert_eq!(shown("ann"), "tidegate~ann");
        assert_eq!(shown("a/b-+#"), "tidegate~a~2fb~2d~2b~23");
        assert_ne!(shown("a/b"), shown("a~2fb"));
    }
}
