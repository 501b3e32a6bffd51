//! Decisions carried out, one step after the other.
//!
//! [`Manager`] is a state machine without a clock, a socket or a file: its input is the state of the fleet ([`Sight`]),
//! its output [`Command`]s. Its persistent state is its [`Book`]. Each change of the book is a command to
//! [save](Command::Keep) it, which precedes the dependent commands. All other state is recomputed from the input, and
//! every command may be repeated. So a manager that is killed at any point resumes from its book without losing or
//! leaking a resource.
//!
//! The steps of an observation (BRK-29, BRK-30): note dead resources, advance the actions in progress, correct the
//! orchestrators' lists of brokers ([`reconcile`](Manager)), then heal or decide, one action per level.

mod action;
mod adopt;
mod advance;
mod begin;
mod book;
mod cluster_view;
mod command;
mod decided_elsewhere;
mod decisions;
pub mod driver;
mod evacuate;
mod explain;
mod give_up;
mod history;
mod journal;
mod judge;
mod machine;
mod members;
mod memory;
mod metrics;
mod moment;
mod named;
mod policy;
mod progress;
mod progress_state;
mod reconcile;
mod recorder;
mod seen;
mod settings;
mod sight;
mod silences;
mod stacked;
mod status;
mod tally;
mod turn;

pub use action::{Action, Kind, Outcome, Step, StepRecord};
pub use book::{Book, Member, Phase, Record, Totals};
pub use cluster_view::ClusterView;
pub use command::{Command, Endpoint, Entry};
pub use decided_elsewhere::DecidedElsewhere;
pub use history::{History, HistoryError};
pub use journal::{Journal, JournalError};
pub use judge::{HottestMember, Judge, LevelDecision, LevelSeen, MemberSeen, Wish};
pub use machine::Manager;
pub use moment::Moment;
pub use policy::PolicyJudge;
pub use settings::{LevelSettings, OnDrainLimit, Settings, Victim};
pub use sight::{BrokerState, BrokerView, OrchestratorView, Sight};
pub use tally::{Observations, Tally};

#[cfg(test)]
mod tests;
