//! A node of a cluster.

use std::time::Duration;

use crate::key::{Key, Section, SectionKeys, section};
use crate::list::Networks;
use crate::value::{Kind, Lease, Problem, Range, Raw, Value, Words, words};

use super::{HOUR, SECOND};
use tidegate_units::size::{Bytes, MIB, TIB};

words! {
    /// How a password is proved to Kafka.
    pub enum BusSasl {
        Plain => "plain", "it is sent as it is: use TLS, too";
        ScramSha256 => "scram-sha-256", "the servers learn only that it is known (a build with `kafka-tls`)";
        ScramSha512 => "scram-sha-512", "the same with a longer hash (a build with `kafka-tls`)";
    }
}

words! {
    /// How links between nodes are encrypted.
    pub enum LinkEncryption {
        Off => "off", "they are not encrypted";
        Secret => "secret", "TLS 1.3 with a certificate that each node makes up at its start; the cluster's secret proves who is at its end";
        Files => "files", "TLS 1.3, and both sides have to show a certificate of `tls_ca`";
    }
}

words! {
    /// How clients get to their home when that is another node.
    pub enum Redirect {
        Off => "off", "relay the bytes of every client";
        Moves => "moves", "the same, and tell connected MQTT 5 clients the address of the server that their session moves to (0x9C)";
        V5 => "v5", "tell MQTT 5 clients to use the other server (0x9C), relay the others";
    }
}

words! {
    /// When a node takes a share of the partitions.
    pub enum Share {
        AtOnce => "at-once", "when it has joined";
        WhenAsked => "when-asked", "after each start only when `PUT /api/v1/cluster/share` asks it to; until then it brings clients to other nodes";
    }
}

words! {
    /// The measure that decides the sizes of shares.
    pub enum Balance {
        Weight => "weight", "by `weight` alone";
        Load => "load", "so that processors and event loops of all nodes are equally busy";
        Ranking => "ranking", "so that each node has its ideal number of clients by `context.ranking`";
    }
}

section! {
    /// Makes the broker a node of a cluster: nodes on one bus that are one broker to their clients; see
    /// [cluster](cluster.md).
    "cluster" => Cluster, CLUSTER {
        /// The name of this node, its own in the cluster, and kept over restarts. Empty is no cluster.
        name: String = String::new(), in Kind::Name { empty: true }, flag "--node";
        /// The bus that all nodes are on: `embedded://DIRECTORY` for nodes of one machine, where one node serves it to the
        /// others, `nats://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]]`, or `kafka://` in a build with that feature.
        bus: Option<String> = None, in Kind::Text { max_len: 4096 }, credentials = true, flag "--bus";
        /// The beginning of names on the bus, so that several clusters can share one.
        prefix: String = "tidegate".to_owned(), in Kind::Name { empty: false };
        /// Copies of each log of the cluster on the bus. It holds for logs that are made from now on; see
        /// [the bus](bus.md#several-servers).
        bus_replicas: u8 = 0, in Kind::Integer(Range::of(1, 5).or_zero("3 where the bus has at least three servers, else 1"));
        /// All bytes of records that a bus of `embedded://DIRECTORY` keeps, in files and in the memory of the node that
        /// serves it. Above it the stores of the nodes are full.
        bus_max_bytes: Bytes = Bytes(1024 * MIB), in Kind::Size(Range::of(64 * MIB, 16 * TIB));
        /// Whether the bus has to be spoken to over TLS. For Kafka that needs a build with the feature `kafka-tls`.
        bus_tls: bool = false, in Kind::Boolean;
        /// A file (PEM) of authorities that the certificates of the bus come from: for NATS beside the system's, for
        /// Kafka in their place.
        bus_ca: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// A file (PEM) with the certificate that this node shows to the bus, and those between it and an authority.
        bus_certificate: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// The file (PEM) with its key, not encrypted.
        bus_key: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// How user and password are proved to Kafka.
        bus_sasl: BusSasl = BusSasl::Plain, in Kind::OneOf(<BusSasl as Words>::WORDS);
        /// Whether a node with a data directory keeps its store on the bus, too, as the section `mirror` does alone, so
        /// that other nodes continue with it when the node dies. Without it a dead node's partitions begin empty.
        mirror: bool = true, in Kind::Boolean;
        /// Address at which other nodes reach this one, `ADDRESS:PORT`. Without it a free port on the address of the first
        /// listener.
        listen: Option<String> = None, in Kind::Text { max_len: 256 }, flag "--cluster-listen";
        /// Address at which other nodes hand over this node's clients, `ADDRESS:PORT`. Without it a free port on the
        /// address of `listen`. It lets clients in as the first listener does, without TLS.
        relay: Option<String> = None, in Kind::Text { max_len: 256 };
        /// The networks of other nodes: their word is taken for where a client is.
        networks: Networks = Networks::local(), in Kind::Networks;
        /// The address that other nodes use, where they cannot use that of `listen` (`0.0.0.0`, or it is translated on
        /// the way).
        advertise: Option<String> = None, in Kind::Text { max_len: 256 };
        /// Address at which clients reach this node, `HOST:PORT`, for `redirect`. Without it that of the first listener.
        client_address: Option<String> = None, in Kind::Text { max_len: 512 };
        /// How clients get to their home when that is another node.
        redirect: Redirect = Redirect::Off, in Kind::OneOf(<Redirect as Words>::WORDS);
        /// A file with the secret by which nodes know each other, at least 16 bytes, the same on all. Without it they
        /// agree on one by the bus, and every reader of the bus can pose as a node.
        secret_file: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// How links between nodes are encrypted. Give all nodes the same. Clients that are handed over to their home by
        /// `relay` are not covered.
        tls: LinkEncryption = LinkEncryption::Off, in Kind::OneOf(<LinkEncryption as Words>::WORDS);
        /// With `tls = "files"`: a file (PEM) of authorities that the certificates of nodes come from.
        tls_ca: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// With `tls = "files"`: a file (PEM) with the certificate of this node, and those between it and an authority. It
        /// is shown to both sides of a link.
        tls_certificate: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// With `tls = "files"`: the file (PEM) with its key, not encrypted.
        tls_key: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// How long a node may be silent on the bus before others take over its partitions. A node that does not reach
        /// the bus for so long acknowledges nothing until it is known who serves its clients. `"auto"` is 10 s, and 30
        /// s on Kafka, which is away for up to 16 s when one of its brokers dies; see
        /// [the bus](bus.md#several-servers). Give all nodes the same.
        lease: Lease = Lease::Auto, in Kind::Lease(Range::of(SECOND, HOUR));
        /// How long nodes have to stay as they are, after one was stopped or has died, before partitions move to make
        /// shares even again. Longer than what lies between two nodes of a rolling restart. 0 does so at once.
        settle: Duration = Duration::from_secs(30), in Kind::Duration(Range::of(0, HOUR));
        /// How long clients stay connected, behind the lease, to a node that does not reach the bus. Pings are
        /// answered, and published messages wait. Beyond it clients with waiting messages are disconnected with a
        /// reason. 0 ends all connections with the lease.
        patience: Duration = Duration::from_secs(3600), in Kind::Duration(Range::of(0, 24 * HOUR));
        /// How long a node that is stopped may take to hand over its partitions. Partitions not handed over by then are
        /// lost, or wait in its data directory.
        leave_timeout: Duration = Duration::from_secs(30), in Kind::Duration(Range::of(0, HOUR));
        /// The size of this node's share of the partitions in relation to the shares of other nodes. With 200 it gets
        /// twice the partitions, and so the clients, of a node with 100; with another `balance` than `"weight"`, twice the
        /// load or the ideal number of clients.
        weight: u16 = 100, in Kind::Integer(Range::of(1, 1_000));
        /// The measure that decides the sizes of shares; see [cluster](cluster.md#shares-by-load). Give all nodes the same:
        /// that of the leader counts, and it needs the measures of all.
        balance: Balance = Balance::Weight, in Kind::OneOf(<Balance as Words>::WORDS);
        /// With `balance` other than `"weight"`: time between the end of a change of shares and the next change. A change
        /// moves at most a sixteenth of the partitions.
        balance_pause: Duration = Duration::from_secs(60), in Kind::Duration(Range::of(SECOND, HOUR));
        /// When this node takes a share of the partitions. The manager of a fleet asks an orchestrator to take one when it
        /// serves all brokers.
        share: Share = Share::AtOnce, in Kind::OneOf(<Share as Words>::WORDS);
    }
}
