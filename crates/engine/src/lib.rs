//! The broker's logic: connections to sessions, filters to subscribers, QoS flows, retained messages, wills, shared
//! groups.
//!
//! An [`Engine`] is one shard. It sees no socket, clock, thread or randomness: bytes, batches and the time come in by
//! calls, bytes, batches and events go out by calls. The same calls in the same order give the same bytes.
//!
//! # A turn of the shell
//!
//! The shell owns sockets, threads and the clock. It reads the clock once per turn ([`Now`]) and calls, in this order:
//!
//! 1. what arrived: [`Engine::open_connection`], [`Engine::handle_input`] with whatever one read of a socket gave,
//!    split anywhere, [`Engine::handle_transport_closed`], [`ClusterCalls::handle_batch`](crate::ClusterCalls::handle_batch), [`EntryCalls::handle_auth_outcome`](crate::EntryCalls::handle_auth_outcome);
//! 2. [`Engine::handle_timers`] when [`Engine::next_deadline`] has come, and [`TimerCalls::handle_silence`](crate::TimerCalls::handle_silence) when
//!    [`ShardQuestions::next_silence`](crate::ShardQuestions::next_silence) has come and the input that had arrived by then was taken;
//! 3. [`Engine::poll_event`] until no event is left, and carries out each [`Event`];
//! 4. [`Engine::take_batch`] for each other shard, hands the batches over and wakes their receivers (also in between,
//!    when [`Engine::batches_due`] says that it is worth it);
//! 5. for each connection that [`OutputCalls::pop_dirty`](crate::OutputCalls::pop_dirty) names: writes [`Engine::output`] as far as the transport takes it,
//!    and tells with [`OutputCalls::handle_written`](crate::OutputCalls::handle_written). A shell that bounds its turns writes all that [`OutputCalls::pop_first`](crate::OutputCalls::pop_first)
//!    returns, and some connections of [`OutputCalls::pop_in_line`](crate::OutputCalls::pop_in_line); its next turn continues with the line.
//!
//! Batches leave before outputs are written, so that whatever an output acknowledges is already under way.
//!
//! # A connection
//!
//! Between [`Engine::open_connection`] and [`Engine::release_connection`] a [`ConnectionKey`] names it; its index is
//! small and dense, fit for a table of the shell's own. [`Event::HandOver`] takes it to the shard that its client lives
//! on: this engine has forgotten the key already, and the other one gets the bytes as if it had accepted the socket
//! itself. [`Event::Close`] ends it: the shell writes what the output still holds, within its own bound, closes
//! the transport and releases the key. [`Event::PauseReading`] and [`Event::ResumeReading`] say whether its socket is
//! to be read.
//!
//! # Seams
//!
//! - Who may come in: [`Event::Authenticate`] and [`AuthOutcome`]. Rights of a client: [`Access`].
//! - Who publishes without an MQTT session: [`InsiderCalls::add_principal`](crate::InsiderCalls::add_principal), [`InsiderCalls::publish_as`](crate::InsiderCalls::publish_as), and
//!   [`Event::Published`], which reports the outcome of each message; [`ShardQuestions::retained_for`](crate::ShardQuestions::retained_for) reads.
//! - Who must have a message before its publisher is acknowledged: [`InsiderCalls::observe`](crate::InsiderCalls::observe), [`Event::Observed`] and
//!   [`InsiderCalls::confirm_observed`](crate::InsiderCalls::confirm_observed). Each [`Observer`] has topic filters, a window, and a policy for when that is full.
//! - What moves between places is a partition: [`MoveCalls::snapshot_partitions`](crate::MoveCalls::snapshot_partitions), [`MoveCalls::arrive`](crate::MoveCalls::arrive), and the
//!   proof that nothing was lost, [`ShardQuestions::owed`](crate::ShardQuestions::owed).
//!
//! # Map
//!
//! - `engine` has the calls above, `flows` operations across components, `event` the answers of calls,
//!   `state` the state of a shard (connections, sessions, timers, events, counters), `settings` the settings at start;
//!   `ids`, `now`, `hash`, `slab`, `timers`, `message` and `wire` are below everything.
//! - A client: `connection` (bytes, CONNECT, output, close), `session` (queues, packet ids, acknowledgements),
//!   `access`.
//! - A message: `publish` (the pipeline and its stages, dispatch, delivery, answers), `subscribe`, `topics` (the index), `retained`,
//!   `groups` (shared subscriptions), `addresses` (mobile nodes), `service`, `principals`
//!   (who publishes without a session) and `observers` (who must have messages).
//! - More than one shard: `link` (between shards), `cluster` (other nodes), `orchestrator` (brokers behind, homes).
//! - What stays: `durable` (the journal), `image` (whole partitions). Limits: `limits`. Events: `events`;
//!   `audit` recomputes the books for tests.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use tidegate_engine::{Engine, ListenerId, Millis, Now, ShardPosition, Settings};
//!
//! let now = Now { monotonic: Millis(0), unix: 1_700_000_000_000 };
//! let mut engine = Engine::new(Arc::new(Settings::default()), ShardPosition::ALONE, 1, now);
//! let key = engine.open_connection(now, ListenerId(0)).expect("no limit is reached");
//! // CONNECT of MQTT 3.1.1, clean session, client id "a".
//! engine.handle_input(now, key, b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a");
//! assert_eq!(engine.outputs().pop_dirty(), Some(key));
//! let output = engine.output(key).expect("an answer");
//! let mut slices = [std::io::IoSlice::new(&[])];
//! output.slices(&mut slices);
//! assert_eq!(&*slices[0], b"\x20\x02\x00\x00");
//! output.advance(4);
//! engine.outputs().handle_written(now, key);
//! ```

mod access;
mod addresses;
mod audit;
mod cluster;
mod connection;
mod durable;
mod engine;
mod event;
mod events;
mod flows;
mod groups;
mod hash;
mod identity;
mod ids;
mod image;
mod journal;
mod limits;
mod link;
mod memory;
mod message;
mod now;
mod observers;
mod orchestrator;
mod partitions;
mod principals;
mod publish;
mod records;
mod retained;
mod roster;
mod service;
mod session;
mod settings;
mod slab;
mod state;
mod subscribe;
mod sys;
mod timers;
mod topics;
mod wire;

pub use crate::access::rights::Right;
pub use crate::cluster::transfer::error::ImageError;
pub use crate::event::ObservedMessage;
pub use crate::event::ObservedTicket;
pub use crate::identity::Grant;
pub use crate::identity::Identity;
pub use crate::identity::Proof;
pub use crate::ids::HUB_CLIENT_PREFIX;
pub use crate::journal::JournalBatch;
pub use crate::roster::Roster;
pub use crate::topics::observed::MAX_OBSERVERS;
pub use crate::topics::origin::{HOPS_PROPERTY, ORIGIN_PROPERTY};
pub use access::{Access, Subject};
pub use addresses::{MembershipChange, MembershipError, MembershipOutcome};
pub use connection::Preset;
pub use connection::close::Evicted;
pub use connection::output::Output;
pub use durable::{
    RestoreError, RestoreRoute, Restored, SHARES_WHILE_READ, Sweep, Takers, describe, name_of_kind, stays_in_memory,
};
pub use engine::Engine;
pub use engine::durable::restore::{SecondReading, session_of_queue};
pub use engine::facets::{
    ClusterCalls, ControlCalls, EntryCalls, FleetCalls, HomeCalls, InsiderCalls, MoveCalls, OutputCalls,
    ShardQuestions, StoreCalls, TimerCalls,
};
pub use engine::image::adopting::{AdoptError, BrokerLinkImage, Brought};
pub use engine::image::forwarding::OrchestratorMoves;
pub use engine::image::parting::LeftConnection;
pub use event::{
    Accepted, Attempt, AuthOutcome, AuthRequest, Delay, Enhanced, Event, LoadedQueue, LogEvent, WantedQueue,
};
pub use events::clients::{ClientQuery, ClientSummary};
pub use events::counters::{Counters, Gauges};
pub use events::reason::{REASONS, Reason};
pub use events::sums::{Highest, Sum};
pub use ids::{
    ConnectionKey, EARLIER_PARTITIONS, ListenerId, MAX_SHARDS, ObserverId, PARTITIONS, PartitionId, Partitions,
    PrincipalId, ShardId, ShardPosition, TenantId, partition_of,
};
pub use image::ahead::{LongQueue, PieceTaken};
pub use image::connection::{
    CONTINUE, CONTINUED, ConnectionImage, EDGE_STOPS, NotContinued, RELAY_FRAME, RELAY_FRAME_MAX, SHOWN_MAX,
    ShownCertificate,
};
pub use image::forwarding::{Behind, Forwarded};
pub use image::tail::SentAhead;
pub use image::{Owed, PartitionImage, Snapshot};
pub use limits::slow::SlowSession;
pub use limits::usage::{MAX_METERED_USERS, Usage};
pub use link::Batch;
pub use now::{Millis, Now};
pub use observers::{Observer, ObserverAnswer, ObserverError, ObserverPolicy, ObserverWindow};
pub use orchestrator::broker_link::former::Continued;
pub use orchestrator::broker_link::{
    BrokerLinkCounters, BrokerLinkError, BrokerLinkOptions, BrokerLinkReport, BrokerLinkSettings, BrokerLinkState,
    DialAttempt, RoutingPolicy, Settling,
};
pub use orchestrator::homes::{Home, Homes};
pub use principals::{Principal, PrincipalKind, RetainedValue};
pub use service::InnerPublication;
pub use session::tail::ReadFailure;
pub use settings::{
    AddressSettings, Authentication, DeadLetter, Durability, Holding, HubFilter, Limits, ListenerSettings,
    OverflowPolicy, OverflowRule, PayloadCheck, PriorityRule, PrioritySource, QUEUE_CLIENT_PREFIX, QueueSettings,
    ReportCheck, RetainedSettings, Settings, SharedSettings, SharedStrategy, TenantLedger, TenantQuota, Tenants,
};
pub use wire::WireError;
