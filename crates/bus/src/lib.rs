//! The bus between nodes: the functions that a cluster of brokers and its services need from Kafka, NATS, or one
//! process.
//!
//! ```text
//! let bus = Bus::open(&"nats://127.0.0.1:4222".parse()?, Settings::default(), observer)?;
//! bus.create(LogSpec::fenced(LogName::new("state")?, 64), done)?;          // once per process; repeating it does no harm
//! bus.own(&place, done)?;                                                  // Epoch: older owners are refused from now on
//! bus.append(&place, Append::new(payload).with_key(key).by(epoch), done)?; // Position, when it is durable
//! let mut reader = bus.read(&place, Position::START, wake)?;               // reader.take(256)? -> records, next position
//! bus.trim(&place, position, done)?;
//! let membership = bus.join(&group, &member, 64, wake)?;                   // membership.take() -> gained, losing, lost
//! bus.publish(&subject, payload)?;                                         // at most once, never kept
//! let subscription = bus.subscribe(filter, wake)?;                         // subscription.take(256)
//! ```
//!
//! No call waits: a result that takes time comes through a [`Done`], and news through a [`Wake`].
//! Every queue is bounded, and an `Err` that a call returns at once means that nothing was begun. `docs/bus.md` says
//! what each backend promises.
//!
//! - `bus` checks requests and keeps the limits; `backend` is the interface of `embedded`, `nats` and `kafka`.
//! - Requests: `address`, `settings`, `log`, `name`, `record`. Results: `completion`, `feed`, `live`, `error`.
//! - `group`, `assignment` and `membership` share partitions among members, over a log of any backend.
//! - `budget` bounds waiting requests; `connection` and `complaints` report the state of the servers; `tally` bounds
//!   the lines of the log.

mod address;
mod assignment;
mod backend;
mod budget;
mod bus;
mod complaints;
mod completion;
mod connection;
mod embedded;
mod error;
mod feed;
mod group;
#[cfg(feature = "kafka")]
mod kafka;
mod live;
mod log;
mod membership;
mod name;
#[cfg(feature = "nats")]
mod nats;
mod record;
mod settings;
mod tally;

pub use address::{Address, AddressError, Credentials, Server};
pub use bus::Bus;
pub use completion::{Done, Wake};
pub use connection::{Connection, Observer};
pub use error::BusError;
pub use feed::{Reader, Taken};
pub use group::{NameUse, NameWatch};
pub use live::{LiveMessage, Subscription};
pub use log::{Bounds, Keep, LogPartition, LogSpec, Writers};
pub use membership::{Member, Membership, MembershipEvent, Tenure};
pub use name::{GroupName, LogName, MemberName, NameError, Subject, SubjectFilter};
pub use record::{Append, Epoch, Header, Partition, Position, Record};
pub use settings::{Sasl, Settings, TlsIdentity};
pub use tally::Tally;
