//! Every key of the configuration with its type, default, range and documentation.

pub mod access;
pub mod address;
pub mod admission;
pub mod auth;
pub mod bridge;
pub mod cluster;
pub mod context;
pub mod hub;
pub mod mirror;
pub mod orchestrator;
pub mod tenant;
pub mod waiting;

use std::time::Duration;

use tidegate_engine::{OverflowPolicy, SharedStrategy};
use tidegate_logging::{LogFormat, LogLevel};
use tidegate_node::{
    ClientCertificates, DEFAULT_MAX_HANDSHAKES, IdentityField, IdentityRole, ListenAddress, OutdatedLists, TlsVersion,
};

use super::address::{AdminAddress, loopback};
use super::key::{Key, Section, SectionKeys, section};
use super::list::{Networks, Paths, Texts};
use super::value::{Kind, Lifetime, Problem, Range, Raw, Value, words};
use tidegate_units::size::{Bytes, KIB, MIB, TIB};

mod store;

pub use store::{STORE, Store, StoreDurability};

/// One second, in the milliseconds that ranges of durations count.
const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;

/// The largest remaining length that the wire format can say, and so the largest packet that may be advertised.
const MAX_PACKET: u64 = 268_435_455;

section! {
    /// The broker as a whole.
    "node" => Node, NODE {
        /// Name of this broker, as in `$SYS/brokers/NAME/...`. A node of a cluster has `cluster.name` there.
        name: String = "tidegate".to_owned(), in Kind::Name { empty: false };
        /// Threads that work clients, each with its own share of them. By default half of the cores are left to the
        /// kernel's share of the work and to other programs; a machine that serves only remote clients may have
        /// one per core.
        shards: u16 = 0, in Kind::Integer(Range::of(1, 64).or_zero("one for every two cores")), flag "--shards";
        /// Time between two looks at the files of TLS listeners, which are read again when one has changed.
        certificate_check: Duration = Duration::from_secs(60), in Kind::Seconds(Range::of(SECOND, DAY).or_zero("only on a reload"));
    }
}

section! {
    /// A listener for clients, and the settings of its connections. A configuration without a listener has
    /// one, on `127.0.0.1:1883`.
    "listener" [repeated = true] => Listener, LISTENER {
        /// Address to listen on: `"127.0.0.1:1883"`, `"1883"` (the same), `"mqtts://0.0.0.0:8883"` for TLS,
        /// `"ws://127.0.0.1:9001/mqtt"` (`/*` for every path), `"wss://0.0.0.0:443/mqtt"`, `"quic://0.0.0.0:14567"`,
        /// `"unix:/run/tidegate.sock"`, `"http://127.0.0.1:8080"` and `"https://0.0.0.0:8443"` for HTTP,
        /// `"coap://127.0.0.1:5683"` for CoAP, or `"coaps://0.0.0.0:5684"` for CoAP over DTLS. Port 0 takes any free
        /// port, which the line that says "ready" names.
        address: ListenAddress = ListenAddress::Tcp(loopback(1883)), in Kind::ListenAddress, flag "--listen", flag "--port", flag "--quic";
        /// Name in logs and metrics; without one it is made from the address, such as `tcp-1883`.
        name: String = String::new(), in Kind::Name { empty: true };
        /// Whether clients are admitted without authentication although other machines reach the listener. Without it
        /// the broker refuses to start with such an address.
        allow_anonymous: bool = false, in Kind::Boolean, flag "--allow-anonymous";
        /// Whether only the broker's user, and root, may open a Unix socket. Without it the umask of the process decides.
        owner_only: bool = false, in Kind::Boolean;
        /// The server's certificates (PEM), each followed by those between it and the root. A client gets the first
        /// that has the name that it asks for (SNI), or the first of all. The files are read again when they change and
        /// on a reload; clients stay connected. A listener for QUIC on this machine that is given none has one for
        /// development.
        certificate: Paths = Paths::default(), in Kind::Paths;
        /// The private keys (PEM: PKCS#8, PKCS#1 or SEC1, not encrypted) of those certificates, in the same order.
        key: Paths = Paths::default(), in Kind::Paths;
        /// Whether clients show a certificate.
        client_certificate: ClientCertificates = ClientCertificates::None, in Kind::OneOf(<ClientCertificates as super::value::Words>::WORDS);
        /// File (PEM) of the authorities whose certificates clients may show.
        client_ca: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// Lists of revoked certificates (PEM). With one, that of the authority that issued a client's certificate must
        /// be among them, or the client is refused.
        crl: Paths = Paths::default(), in Kind::Paths;
        /// Whether clients are accepted when such a list is older than its own next update.
        crl_outdated: OutdatedLists = OutdatedLists::Accept, in Kind::OneOf(<OutdatedLists as super::value::Words>::WORDS);
        /// The part of a client's certificate with its identity.
        identity_from: IdentityField = IdentityField::CommonName, in Kind::OneOf(<IdentityField as super::value::Words>::WORDS);
        /// The identity that the part of the certificate is used as.
        identity_as: IdentityRole = IdentityRole::None, in Kind::OneOf(<IdentityRole as super::value::Words>::WORDS);
        /// The pre-shared keys of clients that speak DTLS, for `coaps://`: a line `IDENTITY:KEY` for each client, with a
        /// key of 16 to 64 bytes in hexadecimal digits. The identity is the user name. The file is read again when it
        /// changes.
        psk_file: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// The least version of TLS that is spoken.
        tls_minimum: TlsVersion = TlsVersion::Tls12, in Kind::OneOf(<TlsVersion as super::value::Words>::WORDS);
        /// TLS handshakes at once; beyond it new connections are closed at once. Each holds up to 32 KiB. Over QUIC
        /// clients have to prove their address from a quarter of it on, and beyond it they are left to ask again, which
        /// they do.
        max_handshakes: u32 = DEFAULT_MAX_HANDSHAKES, in Kind::Integer(Range::of(1, 1_000_000).or_zero("no limit"));
        /// Origins of web pages that may use a listener for HTTP or WebSocket, such as `"https://shop.example"`; `"*"`
        /// means all. Requests of other pages than these and the listener's own are refused. Without any, pages of all
        /// origins may use a WebSocket, and only the listener's own may use HTTP.
        allowed_origins: Texts = Texts::default(), in Kind::Texts;
        /// Whether proxies in front of this listener tell where clients are, by the PROXY protocol, version 1 or 2.
        proxy_protocol: bool = false, in Kind::Boolean;
        /// Networks of those proxies. From there each connection must begin with a header, from elsewhere none may:
        /// a client that could send one could pass for any address.
        proxy_networks: Networks = Networks::default(), in Kind::Networks;
        /// Longest packet taken from a client; MQTT 5 clients are notified.
        max_packet_size: Bytes = Bytes(2 * MIB), in Kind::Size(Range::of(20, MAX_PACKET));
        /// Connections at once; beyond it new ones are closed at once. Divided evenly between the shards.
        max_connections: u32 = 0, in Kind::Integer(Range::of(1, 10_000_000).or_zero("no limit, and 256 where HTTP or CoAP is spoken"));
        /// QoS 1 and 2 messages that a client may have in flight to the broker without an answer; MQTT 5 clients
        /// receive it in the CONNACK.
        receive_maximum: u16 = 1024, in Kind::Integer(Range::of(1, 65_535));
        /// Whether more than that is tolerated and counted, as old firmware needs it, instead of answered with
        /// DISCONNECT 0x93.
        receive_maximum_lenient: bool = false, in Kind::Boolean;
        /// Topic aliases that a client may set.
        topic_alias_maximum: u16 = 32, in Kind::Integer(Range::of(0, 65_535));
        /// Topic aliases that the broker sets towards a client that allows as many. Each costs memory per connection.
        topic_alias_maximum_out: u16 = 16, in Kind::Integer(Range::of(0, 1_024));
        /// PUBLISH packets per second that a client may send; beyond it they wait, and nothing is dropped.
        max_message_rate: u32 = 0, in Kind::Integer(Range::of(1, 100_000_000).or_zero("no limit"));
        /// PUBLISH packets that a client may send at once after it was quiet.
        message_burst: u32 = 0, in Kind::Integer(Range::of(1, 100_000_000).or_zero("as many as in a second"));
        /// Bytes of PUBLISH packets per second that a client may send; beyond it they wait, and nothing is dropped.
        max_byte_rate: Bytes = Bytes(0), in Kind::Size(Range::of(KIB, TIB).or_zero("no limit"));
        /// Bytes of PUBLISH packets that a client may send at once after it was quiet.
        byte_burst: Bytes = Bytes(0), in Kind::Size(Range::of(KIB, TIB).or_zero("as many as in a second"));
        /// PUBLISH packets per second that all clients of the listener may send together, and as many at once after
        /// they were quiet; beyond it those wait who send more, and nothing is dropped. Divided evenly between the
        /// shards.
        max_total_message_rate: u32 = 0, in Kind::Integer(Range::of(1, 1_000_000_000).or_zero("no limit"));
        /// Bytes of PUBLISH packets per second that all clients of the listener may send together, and as many at once
        /// after they were quiet; beyond it those wait who send more. Divided evenly between the shards.
        max_total_byte_rate: Bytes = Bytes(0), in Kind::Size(Range::of(KIB, TIB).or_zero("no limit"));
        /// Highest QoS offered; a PUBLISH above it is a protocol error, a subscription above it is granted this one.
        maximum_qos: u8 = 2, in Kind::Integer(Range::of(0, 2));
        /// Keep-alive imposed on clients that ask for a longer one or for none. MQTT 3 clients cannot be notified and are
        /// held to it all the same.
        keep_alive_maximum: Duration = Duration::ZERO, in Kind::Seconds(Range::of(SECOND, 65_535 * SECOND).or_zero("none imposed"));
        /// Whether MQTT 3 clients that ask for a longer one or for none are refused (return code 2) instead.
        keep_alive_refuse: bool = false, in Kind::Boolean;
        /// Whether payloads with the UTF-8 indicator are checked.
        check_payload_format: bool = false, in Kind::Boolean;
        /// Whether a client may leave its client id empty and be given one.
        allow_empty_client_id: bool = true, in Kind::Boolean;
        /// Longest client id, in bytes. MQTT asks that at least 23 be taken.
        max_client_id_len: u16 = 1024, in Kind::Integer(Range::of(23, 65_535));
        /// Whether its clients are mobile nodes, where `[addresses]` are enabled: clients of MQTT with a client id of
        /// their own.
        mobile_nodes: bool = true, in Kind::Boolean;
        /// Response Information given to MQTT 5 clients that request it: usually the root of their reply topics.
        response_information: Option<String> = None, in Kind::Text { max_len: 1024 };
        /// The server that MQTT 5 clients are sent to when this one stops.
        server_reference: Option<String> = None, in Kind::Text { max_len: 1024 };
    }
}

section! {
    /// Bounds of connections, sessions and memory. Bounds for the whole broker are divided evenly between the
    /// shards.
    "limits" => Limits, LIMITS {
        /// Time from the connection to a complete CONNECT.
        connect_timeout: Duration = Duration::from_secs(10), in Kind::Duration(Range::of(100, HOUR));
        /// Bytes that a client may send behind its CONNECT before that is answered.
        pipelined_bytes: Bytes = Bytes(64 * KIB), in Kind::Size(Range::of(KIB, 16 * MIB));
        /// Connections at once over all listeners. Beyond it connections that have sent no CONNECT are closed, the oldest
        /// first, and where there are none, new ones. The broker refuses to start when the system grants fewer open
        /// files than that and the files that are reserved for the store, the bus, bridges, links and the admin listener.
        max_connections: u32 = 0, in Kind::Integer(Range::of(1, 10_000_000).or_zero("as many as the open files leave"));
        /// Sessions, connected or not, of the whole broker.
        max_sessions: u32 = 1_000_000, in Kind::Integer(Range::of(1, 100_000_000).or_zero("no limit"));
        /// Longest time that a session is kept for a client that is away. A client that asks for more is granted this.
        max_session_expiry: Lifetime = Lifetime::Unlimited, in Kind::Lifetime(Range::of(0, 4_294_967_294 * SECOND));
        /// Subscriptions of one client.
        max_subscriptions_per_client: u32 = 10_000, in Kind::Integer(Range::of(1, 10_000_000));
        /// Levels of a topic name or filter.
        max_topic_levels: u16 = 128, in Kind::Integer(Range::of(1, 32_768));
        /// Longest payload that is forwarded. A longer one is acknowledged with an error (0x83; MQTT 3 has no word for
        /// it) and dropped; a packet beyond `listener.max_packet_size` ends its connection.
        max_payload: Bytes = Bytes(0), in Kind::Size(Range::of(1, MAX_PACKET).or_zero("no limit"));
        /// Bytes of a topic name or filter.
        max_topic_bytes: u16 = 65_535, in Kind::Integer(Range::of(1, 65_535));
        /// Levels of a topic filter that are `+`.
        max_filter_wildcards: u16 = 0, in Kind::Integer(Range::of(1, 32_768).or_zero("no limit"));
        /// Time without an acknowledgement after which a connected client is named as slow.
        slow_after: Duration = Duration::from_secs(30), in Kind::Duration(Range::of(1, DAY));
        /// Unacknowledged messages towards a client. An MQTT 5 client may name a lower Receive Maximum.
        max_inflight: u16 = 1024, in Kind::Integer(Range::of(1, 65_535));
        /// Encoded output per connection that is held ready for a slow reader; beyond it messages wait in its queue.
        output_high_water: Bytes = Bytes(256 * KIB), in Kind::Size(Range::of(4 * KIB, 256 * MIB));
        /// Memory of unfinished packets, output, queues, wills and subscriptions of the whole broker, above which new
        /// work is refused. Retained messages have a limit of their own.
        memory_ceiling: Bytes = Bytes(0), in Kind::Size(Range::of(MIB, 16 * TIB).or_zero("half of the memory of the machine or the container"));
        /// Messages under way from one shard to another, above which their publishers wait.
        shard_link_bytes: Bytes = Bytes(8 * MIB), in Kind::Size(Range::of(64 * KIB, TIB));
        /// Bytes of two kinds of messages of a shard's shared groups: messages dealt to other nodes of the cluster,
        /// kept until these have confirmed them, and messages that wait since all members of their group are at a dead
        /// node. Beyond it a message is dealt without being kept, and one that would have to wait is refused at QoS 1
        /// (0x97) and dropped at QoS 2 (`no_group_member`).
        kept_deal_bytes: Bytes = Bytes(64 * MIB), in Kind::Size(Range::of(64 * KIB, TIB));
        /// Waiting PUBLISH packets per connection, above which its socket is no longer read.
        parked_bytes: Bytes = Bytes(256 * KIB), in Kind::Size(Range::of(4 * KIB, 256 * MIB));
        /// Longest time that a publisher waits for room; then its message is dropped with a reason.
        block_timeout: Duration = Duration::from_secs(30), in Kind::Duration(Range::of(1, DAY));
    }
}

words! {
    OverflowPolicy {
        OverflowPolicy::DropNewest => "drop-newest", "the new message is dropped";
        OverflowPolicy::DropOldest => "drop-oldest", "the oldest waiting message makes room";
        OverflowPolicy::Disconnect => "disconnect", "the slow reader is disconnected";
        OverflowPolicy::Block => "block", "the publisher waits";
        OverflowPolicy::KeepLast => "keep-last", "the newest message of a topic replaces the waiting older one, also where there is room";
        OverflowPolicy::Reject => "reject", "no client gets the message, and its publisher is notified (0x97) or its acknowledgement withheld";
    }
}

section! {
    /// The queue of each session: messages that wait because the client is away, reads slowly or has its window full.
    "queue" => Queue, QUEUE {
        /// Messages that wait per session.
        max_messages: u32 = 0, in Kind::Integer(Range::of(1, 1_000_000_000).or_zero("10,000, and as many as `max_bytes` allows for a session that is in the store"));
        /// Bytes that wait per session, and as many again (16 MiB by default) that were sent and are kept until they are
        /// acknowledged.
        max_bytes: Bytes = Bytes(0), in Kind::Size(Range::of(KIB, TIB).or_zero("16 MiB, or a sixteenth of `limits.memory_ceiling` if that is less, and for a session that is in the store 1 GiB or an eighth of its disk, the smaller of both; of that at most as much as of a session in memory that cannot leave memory: priorities, shared groups, `keep-last`"));
        /// Bytes of them that stay in memory where a store holds the rest.
        memory_size: Bytes = Bytes(256 * KIB), in Kind::Size(Range::of(KIB, TIB));
        /// The policy beyond either limit.
        overflow: OverflowPolicy = OverflowPolicy::DropNewest, in Kind::OneOf(<OverflowPolicy as super::value::Words>::WORDS);
        /// Whether QoS 0 messages are kept for clients that are away.
        keep_qos0_offline: bool = false, in Kind::Boolean;
        /// While messages of a higher priority wait, one message of this number is taken from a lower priority.
        lower_priority_share: u16 = 10, in Kind::Integer(Range::of(1, 65_535).or_zero("none before all higher ones have left"));
    }
}

section! {
    /// Retained messages.
    "retained" => Retained, RETAINED {
        /// Whether the broker keeps retained messages at all.
        available: bool = true, in Kind::Boolean;
        /// How many are kept by the whole broker. Further topics are refused; kept messages may still be replaced.
        max_messages: u64 = 0, in Kind::Integer(Range::of(1, 1_000_000_000).or_zero("no limit"));
        /// Memory for them in the whole broker.
        max_bytes: Bytes = Bytes(0), in Kind::Size(Range::of(KIB, 16 * TIB).or_zero("a quarter of the memory of the machine or the container"));
        /// Retained messages looked at for one subscription before other clients get their turn.
        step: u32 = 512, in Kind::Integer(Range::of(1, 1_000_000));
    }
}

words! {
    SharedStrategy {
        SharedStrategy::RoundRobin => "round-robin", "each member in turn";
        SharedStrategy::Sticky => "sticky", "the same member as long as it takes messages";
        SharedStrategy::HashClient => "hash-client", "by the publisher's client id";
        SharedStrategy::HashTopic => "hash-topic", "by the topic";
    }
}

section! {
    /// Shared subscriptions, `$share/GROUP/FILTER`.
    "shared" => Shared, SHARED {
        /// Whether they are served.
        available: bool = true, in Kind::Boolean;
        /// The strategy that selects the member of a group for the next message.
        strategy: SharedStrategy = SharedStrategy::RoundRobin, in Kind::OneOf(<SharedStrategy as super::value::Words>::WORDS);
    }
}

section! {
    /// The topics below `$SYS` that the broker publishes about itself.
    "sys" => Sys, SYS {
        /// Time between two rounds of values, while a client is subscribed to them.
        interval: Duration = Duration::from_secs(10), in Kind::Seconds(Range::of(SECOND, DAY).or_zero("no values"));
        /// Whether connects and disconnects are published below `$SYS/brokers/NAME/clients/`.
        events: bool = true, in Kind::Boolean;
    }
}

section! {
    /// The HTTP listener for metrics (`/metrics`), health (`/healthz`, `/readyz`) and the API of `tidegate why` and
    /// `tidegate ban`.
    "admin" => Admin, ADMIN {
        /// Address to listen on, or `"off"`. When the default address is taken the broker starts without it and says so;
        /// when an address that was asked for is taken, the broker does not start.
        address: AdminAddress = AdminAddress::of_this_program(), in Kind::AdminAddress, flag "--admin";
        /// File with the token that the API asks for: one word of at least 16 characters. Without it the API answers
        /// every program on this machine, and no program where others reach the address. Health needs no token, and metrics
        /// only where others than this machine reach the address.
        token_file: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// Whether metrics may be read without a password although other machines reach the address.
        allow_anonymous: bool = false, in Kind::Boolean, flag "--allow-anonymous";
        /// Connections at once. Beyond it a new connection replaces the longest silent one.
        max_connections: u16 = 64, in Kind::Integer(Range::of(1, 10_000));
        /// Time within which the head of a request must be complete.
        header_timeout: Duration = Duration::from_secs(10), in Kind::Duration(Range::of(100, HOUR));
        /// Longest head of a request.
        max_header_size: Bytes = Bytes(16 * KIB), in Kind::Size(Range::of(8 * KIB, MIB));
    }
}

words! {
    LogLevel {
        LogLevel::Error => "error", "what went wrong";
        LogLevel::Warn => "warn", "and what looks wrong";
        LogLevel::Info => "info", "and who connects and disconnects";
        LogLevel::Debug => "debug", "and connections that never said who they are";
        LogLevel::Trace => "trace", "and what only developers want to know";
    }
}

words! {
    LogFormat {
        LogFormat::Text => "text", "a line for people";
        LogFormat::Json => "json", "one JSON object per line";
    }
}

section! {
    /// The log, which goes to standard error.
    "log" => Log, LOG {
        /// The level of the log; each level includes the levels before it. Up to `info` a repeated line is logged [100
        /// times a minute](operations.md#lines-without-end) at most, from `debug` on each time.
        level: LogLevel = LogLevel::Info, in Kind::OneOf(<LogLevel as super::value::Words>::WORDS), flag "--log";
        /// How a line is written.
        format: LogFormat = LogFormat::Text, in Kind::OneOf(<LogFormat as super::value::Words>::WORDS), flag "--log-format";
    }
}

section! {
    /// The shutdown on SIGTERM and SIGINT.
    "shutdown" => Shutdown, SHUTDOWN {
        /// Time within which waiting output must be written; then connections are closed all the same.
        grace: Duration = Duration::from_secs(5), in Kind::Duration(Range::of(0, HOUR));
        /// Whether the wills of connected clients are published at a stop, since they lose their connection without a
        /// DISCONNECT of their own.
        publish_wills: bool = true, in Kind::Boolean;
    }
}

/// All sections, in the order of the reference page.
pub static SECTIONS: &[&SectionKeys] = &[
    &NODE,
    &LISTENER,
    &auth::AUTH,
    &auth::AUTHENTICATION,
    &access::ACCESS,
    &tenant::TENANT,
    &address::ADDRESSES,
    &context::CONTEXT,
    &LIMITS,
    &admission::ADMISSION,
    &admission::FLIGHT,
    &QUEUE,
    &waiting::OVERFLOW,
    &waiting::PRIORITY,
    &waiting::DEAD_LETTER,
    &RETAINED,
    &SHARED,
    &STORE,
    &cluster::CLUSTER,
    &mirror::MIRROR,
    &orchestrator::ORCHESTRATOR,
    &bridge::BRIDGE,
    &hub::SOURCE,
    &hub::SINK,
    &hub::PIPELINE,
    &hub::HUB,
    &SYS,
    &ADMIN,
    &LOG,
    &SHUTDOWN,
];

/// The section of that name.
pub fn section_keys(name: &str) -> Option<&'static SectionKeys> {
    SECTIONS.iter().copied().find(|section| section.name == name)
}
