//! An orchestrator in front of other brokers.

use std::time::Duration;

use tidegate_engine::RoutingPolicy;

use crate::key::{Key, Section, SectionKeys, section};
use crate::list::Texts;
use crate::value::{Kind, Problem, Range, Raw, Value, Words, words};
use tidegate_units::size::{Bytes, KIB, MIB, TIB};

use super::{DAY, SECOND};

words! {
    RoutingPolicy {
        RoutingPolicy::RoundRobin => "round-robin", "each broker in turn; the order of a topic's messages is not kept";
        RoutingPolicy::TopicHash => "topic-hash", "by the topic: its order is kept, and few topics move when brokers come and go";
        RoutingPolicy::LeastLoaded => "least-loaded", "the broker that owes least; the order of a topic's messages is not kept";
    }
}

words! {
    /// The version of MQTT for connections to brokers.
    pub enum BrokerLinkProtocol {
        Auto => "auto", "MQTT 5.0, or 3.1.1 where the broker does not know it";
        V5 => "5", "MQTT 5.0";
        V311 => "3.1.1", "MQTT 3.1.1, without ids: at least once";
    }
}

words! {
    /// The credentials that are shown to brokers.
    pub enum BrokerIdentity {
        Own => "own", "the orchestrator's, from the broker's address: the orchestrator decides what clients may do";
        Client => "client", "user name and password of each client: the brokers decide, and clients of different users share nothing here";
    }
}

section! {
    /// Makes the process an orchestrator: what clients publish is worked by other brokers, and returns by
    /// subscriptions there. `tidegate orchestrator` switches it on; see [orchestrator](orchestrator.md).
    "orchestrator" => Orchestrator, ORCHESTRATOR {
        /// Whether it is one.
        enabled: bool = false, in Kind::Boolean;
        /// Its name in the fleet, which begins the client ids that it shows brokers; no two may have the same one.
        /// Empty is one made at random, kept in the data directory where there is one.
        name: String = String::new(), in Kind::Name { empty: true }, flag "--name";
        /// The brokers: `mqtt://HOST:PORT`, with `NAME=` before it and `USER:PASSWORD@` within where wanted; `mqtts://`
        /// for TLS. More can be added while it runs.
        brokers: Texts = Texts::default(), in Kind::Texts, credentials = true, flag "--broker";
        /// Credentials that are shown to brokers. See "Identity" in [orchestrator](orchestrator.md#identity).
        identity: BrokerIdentity = BrokerIdentity::Own, in Kind::OneOf(<BrokerIdentity as Words>::WORDS);
        /// With `identity = "client"`: users at once, those included whose last session has just ended. Each costs a
        /// thread and a connection to each broker, and what the configuration limits for the whole process is divided
        /// by this number. A user too many is refused as "server unavailable".
        max_identities: u16 = 32, in Kind::Integer(Range::of(1, 1_024));
        /// With `identity = "client"`: time that the connections of a user stay behind the user's last session. Where
        /// brokers have not taken what the user published they stay longer, at most `session_expiry`.
        identity_linger: Duration = Duration::from_secs(30), in Kind::Duration(Range::of(0, DAY));
        /// A file (PEM) of the authorities of brokers' certificates (`mqtts://`); without it the system's authorities.
        /// Each broker's certificate has to be for the host of its address.
        broker_ca: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// A file (PEM) with the certificate that brokers are shown, and those between it and the root; needs
        /// `broker_key`.
        broker_certificate: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// A file (PEM) with the key of that certificate, without a passphrase.
        broker_key: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// Takes a broker's certificate although it is for another host, or of X.509 version 1. Dangerous: a server
        /// with any certificate of a trusted authority can pose as a broker, and so can a client with one of version 1.
        /// Warned about at each start.
        broker_any_host_name: bool = false, in Kind::Boolean;
        /// How publishes are spread over the brokers.
        policy: RoutingPolicy = RoutingPolicy::TopicHash, in Kind::OneOf(<RoutingPolicy as Words>::WORDS), flag "--policy";
        /// The version of MQTT that brokers are spoken to with.
        protocol: BrokerLinkProtocol = BrokerLinkProtocol::Auto, in Kind::OneOf(<BrokerLinkProtocol as Words>::WORDS);
        /// Messages above QoS 0 that a broker has at once without having acknowledged and returned them. Keep it below
        /// what the broker queues for a client (1,000 in Mosquitto). 0 is the Receive Maximum that the broker announces,
        /// at most 1,024, and 512 where it announces none.
        window: u16 = 0, in Kind::Integer(Range::of(0, 65_000));
        /// Time between two probes of a broker.
        probe_interval: Duration = Duration::from_secs(1), in Kind::Duration(Range::of(50, 60 * SECOND));
        /// Time after which a broker that does not answer is taken for dead.
        probe_timeout: Duration = Duration::from_secs(5), in Kind::Duration(Range::of(100, 600 * SECOND));
        /// Time after which other brokers get the unsettled messages of a lost one.
        reassign_after: Duration = Duration::from_secs(2), in Kind::Duration(Range::of(0, DAY));
        /// Time within which an acknowledged message has to return if it is subscribed to; then it is sent again.
        return_timeout: Duration = Duration::from_secs(10), in Kind::Duration(Range::of(100, DAY));
        /// Messages accepted and not settled by the brokers, above which publishers wait or are refused (0x97).
        max_owed_messages: u32 = 100_000, in Kind::Integer(Range::of(1, 100_000_000));
        /// The same in bytes.
        max_owed_bytes: Bytes = Bytes(256 * MIB), in Kind::Size(Range::of(MIB, TIB));
        /// The longest packet for a broker that announces no limit, as none of MQTT 3.1.1 does. Longer messages go to another
        /// broker, or are refused before they are acknowledged. The default is the longest packet of MQTT.
        unannounced_packet_limit: Bytes = Bytes(256 * MIB), in Kind::Size(Range::of(KIB, 256 * MIB));
        /// Asks brokers of MQTT 3.1.1 for filters without overlap: each topic matches one at most. For brokers that send a
        /// copy for each filter, as NATS. Filters that overlap are replaced by a common one, which may bring messages that no client wants.
        /// Not with `identity = "client"`.
        merge_filters: bool = false, in Kind::Boolean;
        /// Time that brokers keep the orchestrator's session while it is away.
        session_expiry: Duration = Duration::from_secs(3600), in Kind::Seconds(Range::of(SECOND, 30 * DAY));
    }
}
