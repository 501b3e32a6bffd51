//! The broker's logic: connections to sessions, filters to subscribers, QoS flows, retained messages, wills, shared groups.
//!
//! An [`Engine`] is one shard. It sees no socket, clock, thread or randomness: bytes, batches and the time come in by
//! calls, bytes, batches and events go out by calls. The same calls in the same order give the same bytes.

mod access;
mod acknowledge;
mod alias;
mod close;
mod completion;
mod connect;
mod connection;
mod counters;
mod deliver;
mod desk;
mod dispatch;
mod engine;
mod event;
mod groups;
mod hash;
mod ids;
mod image;
mod inner;
mod input;
mod layouts;
mod link;
mod message;
mod now;
mod output;
mod packet_ids;
mod peers;
mod publish;
mod reason;
mod retained;
mod retained_fetch;
mod session;
mod settings;
mod shared_group;
mod slab;
mod subscribe;
mod sys;
mod timers;
mod topics;
mod wire;

pub use access::{Access, Subject};
pub use counters::{Counters, Gauges};
pub use engine::Engine;
pub use event::{AuthRequest, Event, LogEvent, Verdict};
pub use ids::{ConnectionKey, ListenerId, MAX_SHARDS, PARTITIONS, PartitionId, Place, ShardId, TenantId, partition_of};
pub use image::{ImageError, Owed, PageError, PagedQueue};
pub use inner::{InnerError, InnerKey, InnerMessage};
pub use link::Batch;
pub use now::{Millis, Now};
pub use output::Output;
pub use reason::{REASONS, Reason};
pub use settings::{
    Authentication, Limits, ListenerSettings, OverflowPolicy, QueueSettings, RetainedSettings, Settings,
    SharedSettings, SharedStrategy,
};
pub use wire::WireError;
