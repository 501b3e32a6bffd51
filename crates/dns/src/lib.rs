//! The entry point of a fleet: a DNS server for one zone of its own, which names for each query the orchestrator that
//! suits the asker (BRK-06, BRK-18, BRK-22).
//!
//! A [`Server`] answers on its own thread, over UDP and TCP. Its [`Zone`] is the handle by which a manager says
//! which [`Endpoint`]s there are; the next query sees the change. Each answer holds one address, chosen by a [`Policy`]
//! among the healthy ones. It asks no other server and answers for no other zone.
//! An [`Updater`] keeps the same names at another server, which outlives this process.
//!
//! | name | records |
//! | --- | --- |
//! | the zone, and `mqtt` below it | A and AAAA: one address of the endpoint that the policy chose |
//! | `_mqtt._tcp`, `_secure-mqtt._tcp` | SRV: the endpoint that the policy chose, with its addresses beside it |
//! | the name of an endpoint | A and AAAA: where that endpoint is, healthy or not, until it drains |
//! | the zone | SOA and NS |
//!
//! A query for another zone is refused. A name that the zone does not have is answered with NXDOMAIN or an empty answer
//! and the SOA (RFC 2308), and ANY with HINFO (RFC 8482). Malformed packets are dropped or answered with FORMERR.
//! [`Counters`] counts all of these.
//!
//! `server` has the sockets, `wire` the packets, `zone` the names, `policy` the choice, `places` and `location` where
//! askers are, `flood` how much a network may ask.

mod counters;
mod endpoint;
mod error;
mod flood;
mod location;
mod number;
mod places;
mod policy;
mod server;
mod settings;
mod update;
mod wire;
mod zone;

pub use counters::{AnswerKind, Counters, DropReason, Event, QueryKind};
pub use endpoint::{Endpoint, EndpointName, Load, NameError};
pub use error::StartError;
pub use ipnet::IpNet;
pub use location::Location;
pub use number::NumberError;
pub use places::{Database, Places, PlacesError, Table};
pub use policy::{Policy, UnknownPolicy};
pub use server::Server;
pub use settings::{Limits, NameServer, NoneHealthy, Settings, Ttl, ZoneName};
pub use update::{KeyError, UpdateCounters, UpdateError, UpdateKey, UpdateSettings, Updater};
pub use zone::{Zone, ZoneError};
