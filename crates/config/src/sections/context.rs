//! The core for mobile nodes.

use std::time::Duration;

use tidegate_context::ReconfigSettings;
use tidegate_context::ranking::ResourceWeights;

use crate::key::{Key, Section, SectionKeys, section};
use crate::list::{Paths, Texts};
use crate::value::{Kind, Lease, Problem, Range, Raw, Value, Words, words};
use tidegate_units::size::{Bytes, MIB, TIB};

use super::cluster::BusSasl;
use super::{DAY, HOUR, SECOND};

words! {
    /// The processes that run the services of the core.
    pub enum CoreServices {
        Auto => "auto", "in this process where the bus is its own or its cluster's, elsewhere otherwise";
        Here => "here", "in this process";
        Elsewhere => "elsewhere", "in other processes: `tidegate core`, or gateways with `here`";
    }
}

words! {
    /// How gateways are scored.
    pub enum RankingName {
        Connections => "connections", "by the number of nodes";
        Resources => "resources", "by free processors, memory, event loops and queues, and by the reports of nodes";
        Expression => "expression", "by the expression `score`";
    }
}

words! {
    /// How records hold messages.
    pub enum EnvelopeName {
        Plain => "plain", "the value is the payload, all else is in headers";
        Json => "json", "the value is a JSON object with everything";
        MessagePack => "msgpack", "the value is a map of MessagePack with everything";
    }
}

words! {
    /// The process that delivers records of applications.
    pub enum DeliveryName {
        Auto => "auto", "shared where `cluster.name` is set, each otherwise";
        Shared => "shared", "each record by one of the gateways: for a cluster, or a gateway that is the only one";
        Each => "each", "each record by every gateway, to the nodes that it knows: for brokers that are no cluster";
    }
}

section! {
    /// Makes the broker a gateway of mobile nodes, with services that balance nodes over gateways and put them into
    /// groups; see [context](context.md). Needs `addresses.enabled`, whose prefix its topics have.
    "context" => Context, CONTEXT {
        /// Whether it is one.
        enabled: bool = false, in Kind::Boolean;
        /// The name of this gateway, unique among all gateways. Empty is `cluster.name`, or `node.name` without a
        /// cluster.
        name: String = String::new(), in Kind::Name { empty: true };
        /// Address at which nodes that are sent here reach this gateway: `HOST:PORT`. Without it the
        /// address of the first listener for mobile nodes, over whatever transport; one that listens on all addresses
        /// needs this key.
        address: Option<String> = None, in Kind::Text { max_len: 512 };
        /// The bus that gateways and services share: `nats://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]]`, `kafka://` in
        /// a build with that feature, `embedded://DIRECTORY` for processes of one machine, or `embedded`. The default is
        /// `cluster.bus`; without either, the bus is within this process, and this gateway is the only one.
        bus: Option<String> = None, in Kind::Text { max_len: 4096 }, credentials = true;
        /// Whether `bus` has to be spoken to over TLS. For Kafka that needs a build with the feature `kafka-tls`. This
        /// key and the four below it are for `context.bus`; the bus of the cluster is spoken to as `[cluster]` says.
        bus_tls: bool = false, in Kind::Boolean;
        /// A file (PEM) of authorities for the certificates of `bus`: for NATS in addition to the system's authorities,
        /// for Kafka in their place.
        bus_ca: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// A file (PEM) with the certificate that this process shows to `bus`, and those between it and an authority.
        bus_certificate: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// The file (PEM) with its key, not encrypted.
        bus_key: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// How user and password are proved to Kafka.
        bus_sasl: BusSasl = BusSasl::Plain, in Kind::OneOf(<BusSasl as Words>::WORDS);
        /// The beginning of names on the bus.
        bus_prefix: String = "tidegate".to_owned(), in Kind::Name { empty: false };
        /// Copies of each log on the bus. It holds for logs that are made from now on, by any gateway or service
        /// makes them: give all of them the same value.
        bus_replicas: u8 = 0, in Kind::Integer(Range::of(1, 5).or_zero("3 where the bus has at least three servers, else 1"));
        /// How long a service, or a gateway that shares records, may be silent on the bus until others take its work
        /// over. `"auto"` is 10 s, and 30 s on Kafka, as `cluster.lease` is. Give all services and gateways the same.
        lease: Lease = Lease::Auto, in Kind::Lease(Range::of(500, HOUR));
        /// Partitions that nodes are dealt to: the same for all who share the bus, and fixed once there are logs. As
        /// many processes can share the work of one group definer.
        partitions: u16 = 16, in Kind::Integer(Range::of(1, 1_024));
        /// Processes that run the services.
        services: CoreServices = CoreServices::Auto, in Kind::OneOf(<CoreServices as Words>::WORDS);
        /// Whether messages go between nodes and applications that are on the bus; see [applications](applications.md).
        /// Not on a bus within this process, which no other process could read.
        applications: bool = true, in Kind::Boolean;
        /// How records hold messages; records of applications may say otherwise.
        envelope: EnvelopeName = EnvelopeName::Plain, in Kind::OneOf(<EnvelopeName as Words>::WORDS);
        /// Gateways that deliver records of applications.
        delivery: DeliveryName = DeliveryName::Auto, in Kind::OneOf(<DeliveryName as Words>::WORDS);
        /// How long records between nodes and applications are kept on the bus. On Kafka it holds for topics that are
        /// made from now on.
        records_keep: Duration = Duration::from_secs(7 * 86_400), in Kind::Duration(Range::of(5 * 60 * SECOND, 366 * DAY));
        /// Bytes that a partition of them may have on NATS, which reserves them on its disk; beyond it messages are
        /// refused.
        records_max_bytes: Bytes = Bytes(64 * MIB), in Kind::Size(Range::of(MIB, TIB));
        /// Topics on which nodes publish their context, beside `PREFIX/context/CLIENT_ID`: topic filters, in
        /// which one level may be `{node}`, in place of the client id; without it, the node is the client that
        /// publishes. Payloads that are no JSON objects are none.
        topics: Texts = Texts::default(), in Kind::Texts;
        /// Topics whose messages may carry the node's context in a user property `context`, of the same form.
        /// `PREFIX/to/app/#` are all messages for applications.
        property_topics: Texts = Texts::default(), in Kind::Texts;
        /// Files of groups, one for each definer.
        groups: Paths = Paths::default(), in Kind::Paths;
        /// Time between two load reports of a gateway.
        load_period: Duration = Duration::from_secs(2), in Kind::Duration(Range::of(100, HOUR));
        /// Time between two connection reports of a gateway.
        connection_period: Duration = Duration::from_secs(5), in Kind::Duration(Range::of(100, HOUR));
        /// A gateway is inactive when this number of its load reports in a row are missing.
        missed_windows: u32 = 3, in Kind::Integer(Range::of(1, 1_000));
        /// Time between two cycles of the manager: scores, handovers, the list of gateways.
        cycle: Duration = Duration::from_secs(5), in Kind::Duration(Range::of(100, HOUR));
        /// How often the list of gateways is published if no gateway came, left or moved, so that its numbers of nodes
        /// stay current.
        list_period: Duration = Duration::from_secs(30), in Kind::Duration(Range::of(100, HOUR));
        /// How gateways are scored.
        ranking: RankingName = RankingName::Connections, in Kind::OneOf(<RankingName as Words>::WORDS);
        /// With `ranking = "resources"`: how much each resource counts, `RESOURCE: WEIGHT`, relative to the others; one
        /// that is not named counts for nothing. `cpu` and `memory` are the used shares, `loop_lag` of 100 ms,
        /// `queues` of 256 MiB, `latency` of 1 s; `ping_rate` is the share of nodes that answer no ping.
        weights: Texts = Texts(ResourceWeights::default().texts()), in Kind::Texts;
        /// With `ranking = "expression"`: a CEL expression over `gateway`, higher being lighter.
        score: Option<String> = None, in Kind::Text { max_len: 2048 };
        /// Whether nodes are handed over to bring gateways to their ideal numbers.
        balance: bool = true, in Kind::Boolean;
        /// How long a node that was handed over stays where it is.
        handover_cooldown: Duration = Duration::from_secs(600), in Kind::Duration(Range::of(0, DAY));
        /// Most handovers of a cycle.
        handovers_per_cycle: u32 = 1_000, in Kind::Integer(Range::of(1, 1_000_000));
        /// Time between two rounds of pings to nodes: QoS 1 messages, whose acknowledgements are the pongs. Without
        /// them, round trips of transports are reported all the same.
        ping_interval: Duration = Duration::from_secs(0), in Kind::Duration(Range::of(100, DAY).or_zero("none"));
        /// How long pongs count at first.
        ping_window: Duration = Duration::from_secs(2), in Kind::Duration(Range::of(10, HOUR));
        /// Whether the window follows the ping rate.
        ping_reconfigure: bool = true, in Kind::Boolean;
        /// By what the window is multiplied when the ping rate of the whole network is in an interval: `RATE%: FACTOR`,
        /// ascending; an interval ends with its rate, and begins where the previous interval ends. A factor is 0.1 to 10;
        /// 1 keeps the window, as does a rate above the last interval.
        ping_factors: Texts = Texts(ReconfigSettings::default().factors.iter().map(ToString::to_string).collect()), in Kind::Texts;
        /// Minimum of the window.
        ping_window_min: Duration = Duration::from_millis(200), in Kind::Duration(Range::of(10, HOUR));
        /// Maximum of the window.
        ping_window_max: Duration = Duration::from_secs(30), in Kind::Duration(Range::of(SECOND, HOUR));
    }
}
