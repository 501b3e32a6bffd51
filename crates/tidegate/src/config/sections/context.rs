//! The core for mobile nodes.

use std::time::Duration;

use crate::config::key::{Key, Section, SectionKeys, section};
use crate::config::list::Paths;
use crate::config::value::{Kind, Problem, Range, Raw, Value, Words, words};

use super::{DAY, HOUR, SECOND};

/// Where the services of the core run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CoreServices {
    /// Here, where the bus is this process's own.
    Auto,
    /// Here.
    Here,
    /// In other processes.
    Elsewhere,
}

words! {
    CoreServices {
        CoreServices::Auto => "auto", "in this process where the bus is its own, elsewhere otherwise";
        CoreServices::Here => "here", "in this process";
        CoreServices::Elsewhere => "elsewhere", "in other processes: `tidegate core`, or gateways with `here`";
    }
}

/// How gateways are scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankingName {
    /// By their nodes.
    Connections,
    /// By what they have left.
    Resources,
    /// By an expression.
    Expression,
}

words! {
    RankingName {
        RankingName::Connections => "connections", "by the number of nodes";
        RankingName::Resources => "resources", "by what is left of processors, memory, event loops and queues, and by what nodes see";
        RankingName::Expression => "expression", "by the expression `score`";
    }
}

section! {
    /// Makes the broker a gateway of mobile nodes, with services that balance nodes over gateways and put them into groups; see
    /// [context](context.md). Needs `addresses.enabled`, whose prefix its topics have.
    "context" => Context, CONTEXT {
        /// Whether it is one.
        enabled: bool = false, in Kind::Boolean;
        /// The name of this gateway, its own among all of them. Empty is `node.name`.
        name: String = String::new(), in Kind::Name { empty: true };
        /// Where nodes reach this gateway, as they are told when they are sent here: `HOST:PORT`. Without it the address of the first
        /// listener.
        address: Option<String> = None, in Kind::Text { max_len: 512 };
        /// The bus that gateways and services share: `nats://[USER:PASSWORD@]HOST:PORT[,HOST:PORT]`, or `kafka://` in a build with that
        /// feature. Without it the bus is within this process, and this gateway is the only one.
        bus: Option<String> = None, in Kind::Text { max_len: 4096 }, credentials = true;
        /// What names on the bus begin with.
        bus_prefix: String = "tidegate".to_owned(), in Kind::Name { empty: false };
        /// Copies of what is kept on the bus: 1 where one server is the whole bus.
        bus_replicas: u8 = 1, in Kind::Integer(Range::of(1, 5));
        /// Partitions that nodes are dealt to: the same for all who share the bus, and fixed once there are logs. As many processes can
        /// share the work of one group definer.
        partitions: u16 = 16, in Kind::Integer(Range::of(1, 1_024));
        /// Where the services run.
        services: CoreServices = CoreServices::Auto, in Kind::OneOf(<CoreServices as Words>::WORDS);
        /// Files of groups, one for each definer.
        groups: Paths = Paths::default(), in Kind::Paths;
        /// Time between two load reports of a gateway.
        load_period: Duration = Duration::from_secs(2), in Kind::Duration(Range::of(100, HOUR));
        /// Time between two connection reports of a gateway.
        connection_period: Duration = Duration::from_secs(5), in Kind::Duration(Range::of(100, HOUR));
        /// A gateway is inactive when so many load reports in a row did not come.
        missed_windows: u32 = 3, in Kind::Integer(Range::of(1, 1_000));
        /// Time between two cycles of the manager: scores, handovers, the list of gateways.
        cycle: Duration = Duration::from_secs(5), in Kind::Duration(Range::of(100, HOUR));
        /// How gateways are scored.
        ranking: RankingName = RankingName::Connections, in Kind::OneOf(<RankingName as Words>::WORDS);
        /// With `ranking = "expression"`: a CEL expression over `gateway`, higher being lighter.
        score: Option<String> = None, in Kind::Text { max_len: 2048 };
        /// Whether nodes are handed over to bring gateways to their ideal numbers.
        balance: bool = true, in Kind::Boolean;
        /// How long a node that was handed over stays where it is.
        handover_cooldown: Duration = Duration::from_secs(600), in Kind::Duration(Range::of(0, DAY));
        /// Most handovers of a cycle.
        handovers_per_cycle: u32 = 1_000, in Kind::Integer(Range::of(1, 1_000_000));
        /// Time between two rounds of pings to nodes: QoS 1 messages, whose acknowledgements are the pongs. 0 is none; round trips of
        /// transports are reported all the same.
        ping_interval: Duration = Duration::from_secs(0), in Kind::Duration(Range::of(0, DAY));
        /// How long pongs count at first.
        ping_window: Duration = Duration::from_secs(2), in Kind::Duration(Range::of(10, HOUR));
        /// Whether the window follows the ping rate.
        ping_reconfigure: bool = true, in Kind::Boolean;
        /// The shortest window that comes of it.
        ping_window_min: Duration = Duration::from_millis(200), in Kind::Duration(Range::of(10, HOUR));
        /// The longest window that comes of it.
        ping_window_max: Duration = Duration::from_secs(30), in Kind::Duration(Range::of(SECOND, HOUR));
    }
}
