//! The data plane's shell: threads, sockets and clocks around engines, which have none.
//!
//! A [`Node`] runs some threads, *shards*, each with its own engine and event loop. A shard reads its sockets into one
//! buffer, hands the bytes to its engine, and writes each connection's output once per turn. A client belongs to the
//! shard that its client id picks; the shard that accepted its socket hands it over as soon as the CONNECT packet is
//! there. `docs/data-plane.md` explains the turn and every limit.
//!
//! The crate does not interpret topics, and never blocks: slow work belongs to the control plane, which talks to shards
//! through a [`NodeHandle`].
//!
//! # Where things are
//!
//! - `node` starts and stops, `settings` has its settings, `limits` has the bounds of a turn.
//! - `shard` is a thread, its turn, and its work with the parts below; `orders` are the messages that it takes from
//!   other threads, by an `inbox`. No part below imports `shard`.
//! - Connections: `listener`, `transport` (with `tls`, [`websocket`], [`proxy_protocol`]), `quic`, `admission` (limits
//!   and bans), `access` (the rights of a client). `observer` authenticates clients.
//! - Connections that leave: `relay` (to the client's home at another orchestrator), `identities` (to the node of its
//!   user).
//! - More than one process: [`cluster`] (links between nodes), `moves` (of partitions), `broker_link` (brokers of a fleet).
//! - Persistence: `durable`, between shards and the store. The recorder for `tidegate why`: `flight`.
//! - For the control plane: `handle` (its calls), `service` (orders of services within the process), `report`
//!   (numbers), `tenants`.

mod access;
pub mod address;
mod admission;
mod broker_link;
mod clock;
pub mod cluster;
mod durable;
pub mod files;
mod flight;
mod handle;
mod identities;
mod inbox;
mod inner;
mod left_out;
mod limits;
mod listener;
mod memory;
mod moves;
mod node;
mod observer;
mod orchestrator_moves;
mod orders;
mod peer;
pub mod proxy_protocol;
#[cfg(feature = "quic")]
mod quic;
#[cfg(not(feature = "quic"))]
#[path = "quic_absent.rs"]
mod quic;
mod relay;
mod report;
mod secret;
mod service;
mod settings;
mod shard;
mod shortage;
mod socket_io;
mod tenants;
#[cfg(test)]
mod tests;
mod tls;
mod tokens;
mod transport;
pub mod websocket;

pub use access::AccessFactory;
pub use address::{AddressError, HostPort, ListenAddress, LocalAddress};
pub use admission::stored_bans::is_stored_ban;
pub use admission::{
    Admission, AdmissionReport, AdmissionSettings, Ban, BanChange, BanError, BanOrigin, BanRecord, BanTarget,
    MAX_BAN_TEXT, MAX_THRESHOLD, Network, NetworkError, OwnAddress, OwnSocket, Rate, RecordError, Source, Threshold,
    USERS_ANNOUNCEMENT, UserExchange,
};
pub use broker_link::{
    BrokerLinkTls, BrokerReport, BrokerSettings, BrokerWord, Brokers, FleetReport, NoBrokerWord, Question,
};
pub use clock::Clock;
pub use cluster::{
    AskError, Carried, ClusterSettings, ClusterStatus, ClusterView, LinkBindError, LinkCounters, LinkLimits, LinkState,
    MAX_NODE_NAME, MAX_QUESTION_BYTES, NodeName, NodeNameError, PeerAnswer, PeerEvent, PeerNode, PeerQuestion,
    PeerStatus,
};
pub use durable::DurableError;
pub use durable::place::{PlaceError, StoreImages, bans_of, images_of};
pub use durable::stored_usage::{LeftRuns, LeftUsage, describe_stored};
pub use files::{OpenFileLimit, TooFewFiles};
pub use flight::{
    FlightAnswer, FlightCounters, FlightEvent, FlightKind, FlightSettings, FlightSubject, MAX_FLIGHT_TEXT,
};
pub use handle::clients::NodeClients;
pub use handle::fleet::{FleetError, NodeFleet};
pub use handle::insiders::fetching::{NotFetched, RETAINED_QUESTION};
pub use handle::insiders::inlet::{Inlet, TlsStart};
pub use handle::insiders::membership::{ChangesError, MAX_MEMBERSHIP_CHANGES};
pub use handle::insiders::observers::{Deliver, NodeObserver, Observation, ObserveError};
pub use handle::insiders::principals::NodePrincipal;
pub use handle::insiders::records::{RecordEvent, Records, Reports};
pub use handle::insiders::{NodeInsiders, Pongs};
pub use handle::moves::{Arrived, MoveError, NodeMoves};
pub use handle::{NoAnswer, NodeHandle};
pub use identities::{EnterError, Give, Identities, IdentitySettings};
pub use inner::InnerNodes;
pub use left_out::LeftOut;
pub use listener::BindError;
pub use listener::preset::Presets;
pub use memory::program_pages::release_program_pages;
pub use memory::room::TooLittleMemory;
pub use memory::share_allocator_arena;
pub use moves::ahead::QueuePart;
pub use node::{HeldStore, Node, StartError, Stopped};
pub use observer::{Answer, ContinuedClient, Observer, Occasion, TracingObserver};
pub use orchestrator_moves::OrchestratorMoves;
pub use orders::Door;
pub use peer::Peer;
pub use relay::{Detours, NodeHomes};
pub use report::{AcceptRefusals, NodeReport, ShardReport, ShellCounters};
pub use secret::{MIN_SECRET_BYTES, Secret, SecretTooShort};
pub use service::principals::{Answered, PublishOutcome};
pub use service::{ClientLink, Ping, Pong, ServiceWake};
pub use settings::NodeSettings;
pub use tenants::{QUOTAS_ANNOUNCEMENT, TenantCounts, TenantHoldings, TenantSeat};
pub use tls::{
    CertificateFiles, ClientCertificate, ClientCertificates, ConnectionFacts, DEFAULT_MAX_HANDSHAKES, Identity,
    IdentityField, IdentityRole, LinkTls, OutdatedLists, PreparedTls, RevocationLists, TlsError, TlsFacts, TlsSettings,
    TlsVersion,
};
