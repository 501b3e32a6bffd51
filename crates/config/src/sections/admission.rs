//! Admission of clients, and its records.

use std::time::Duration;

use tidegate_node::Network;

use super::{DAY, HOUR, SECOND};
use crate::key::{Key, Section, SectionKeys, section};
use crate::list::{Texts, read_texts, show_texts};
use crate::value::{Kind, Problem, Range, Raw, Value};

/// Highest value of limits that count addresses, users and clients.
const MILLIONS: u64 = 10_000_000;

/// Failures and connects that are counted for one at most.
const MOST_COUNTED: u64 = tidegate_node::MAX_THRESHOLD as u64;

/// Networks, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(pub Vec<Network>);

impl Networks {
    /// This machine itself.
    fn loopback() -> Self {
        Self(["127.0.0.0/8", "::1"].iter().filter_map(|text| text.parse().ok()).collect())
    }
}

impl Value for Networks {
    fn read(raw: &Raw, _: &Kind) -> Result<Self, Problem> {
        let read = |text: String| text.parse().map_err(|error| Problem::new(format!("cannot be read: {error}")));
        read_texts(raw)?.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    fn show(&self) -> String {
        show_texts(self.0.iter().map(Network::to_string))
    }
}

section! {
    /// Admission of clients: limits of addresses, user names and listeners, bans, and what happens under overload. See
    /// limits.md.
    "admission" => Admission, ADMISSION {
        /// Connections at once from one address; of IPv6, from one /64. Beyond it new ones are closed at once.
        max_connections_per_address: u32 = 10_000, in Kind::Integer(Range::of(1, MILLIONS).or_zero("no limit"));
        /// Connections at once with one user name. Beyond it CONNECT is refused; a client that takes its own session
        /// over is not.
        max_connections_per_user: u32 = 0, in Kind::Integer(Range::of(1, MILLIONS).or_zero("no limit"));
        /// New connections per second of each listener, in the long run. Beyond it they are closed at once.
        connect_rate_per_listener: u32 = 0, in Kind::Integer(Range::of(1, MILLIONS).or_zero("no limit"));
        /// New connections of a listener at once after a quiet while.
        connect_burst_per_listener: u32 = 0, in Kind::Integer(Range::of(1, MILLIONS).or_zero("as many as in one second"));
        /// New connections per second from each address (of IPv6, from each /64), in the long run. Beyond it they are
        /// closed at once.
        connect_rate_per_address: u32 = 0, in Kind::Integer(Range::of(1, MILLIONS).or_zero("no limit"));
        /// New connections from one address at once after a quiet while.
        connect_burst_per_address: u32 = 0, in Kind::Integer(Range::of(1, MILLIONS).or_zero("as many as in one second"));
        /// The number each of addresses without connections, user names and client ids that are remembered for their
        /// limits and failures; the least recently seen entry is forgotten first.
        tracked: u32 = 100_000, in Kind::Integer(Range::of(64, MILLIONS));
        /// Networks whose addresses have no limit of their own and are never banned by the broker itself: this machine,
        /// and proxies that all clients come through.
        exempt_networks: Networks = Networks::loopback(), in Kind::Texts;
        /// Failed logins from one address within `failed_login_window` that ban it.
        failed_logins_per_address: u32 = 100, in Kind::Integer(Range::of(1, MOST_COUNTED).or_zero("none do"));
        /// Failed logins with one user name within `failed_login_window` that ban it. Anybody can lock a user out by
        /// it.
        failed_logins_per_user: u32 = 0, in Kind::Integer(Range::of(1, MOST_COUNTED).or_zero("none do"));
        /// Time within which failed logins are counted.
        failed_login_window: Duration = Duration::from_secs(60), in Kind::Seconds(Range::of(SECOND, DAY));
        /// Length of the ban that failed logins lead to.
        failed_login_ban: Duration = Duration::from_secs(300), in Kind::Seconds(Range::of(SECOND, 365 * DAY));
        /// Connects of one client id within `flapping_window` that ban it: a client that cannot stay, or two that take
        /// the session from each other.
        flapping_connects: u32 = 0, in Kind::Integer(Range::of(2, MOST_COUNTED).or_zero("none do"));
        /// Time within which the connects of a client id are counted.
        flapping_window: Duration = Duration::from_secs(60), in Kind::Seconds(Range::of(SECOND, DAY));
        /// Length of the ban that flapping leads to.
        flapping_ban: Duration = Duration::from_secs(300), in Kind::Seconds(Range::of(SECOND, 365 * DAY));
        /// Bans at once. When the list is full, the automatic ban that ends first is dropped; without automatic bans,
        /// new ones are refused.
        max_bans: u32 = 10_000, in Kind::Integer(Range::of(1, MILLIONS));
        /// Addresses and networks that are banned.
        banned_addresses: Networks = Networks::default(), in Kind::Texts;
        /// Banned client ids; for a tenant see `tenant.banned_clients`.
        banned_clients: Texts = Texts::default(), in Kind::Texts;
        /// Banned user names; for a tenant see `tenant.banned_users`.
        banned_users: Texts = Texts::default(), in Kind::Texts;
        /// Length of a shard's turns, in the mean of some seconds, above which the broker is overloaded: until they are
        /// shorter by a quarter it refuses new connections, and publishers that give the shard most to do wait, for
        /// `limits.block_timeout` at most. See limits.md.
        loop_lag_mark: Duration = Duration::from_secs(1), in Kind::Duration(Range::of(10, HOUR).or_zero("never overloaded"));
    }
}

section! {
    /// The flight recorder: the events for `tidegate why`. See why.md.
    "flight" => Flight, FLIGHT {
        /// Events that each shard remembers; the oldest makes room.
        entries: u32 = 1024, in Kind::Integer(Range::of(16, 1_000_000).or_zero("nothing is remembered"));
        /// Clients and addresses of each shard whose last events are kept beside those.
        subjects: u32 = 512, in Kind::Integer(Range::of(1, 1_000_000));
        /// Last events kept of each of them.
        entries_per_subject: u32 = 8, in Kind::Integer(Range::of(1, 1_000));
        /// Events of one client or address remembered per second, of connections and of messages each; further ones are
        /// only counted.
        events_per_second: u32 = 5, in Kind::Integer(Range::of(1, 10_000));
    }
}
