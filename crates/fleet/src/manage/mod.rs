//! Decisions carried out, one step after the other.
//!
//! [`Manager`] is a state machine without a clock, a socket or a file: it is handed what was seen ([`Sight`]) and
//! answers with [`Command`]s. What it must not forget is its [`Book`]; each change of the book is a command to
//! [keep](Command::Keep) it, which comes before the commands that follow from it. Everything else is worked out anew
//! from what is seen, and every command may be repeated, so a manager that is killed anywhere and started again goes on
//! from its book: nothing is lost, nothing leaks.
//!
//! The way of an observation (BRK-29, BRK-30): note who is down, advance the actions that are under way, put right what
//! orchestrators know of brokers ([`reconcile`](Manager)), then heal or decide, one action per level.

mod action;
mod adopt;
mod advance;
mod begin;
mod book;
mod command;
mod decided_elsewhere;
pub mod driver;
mod evacuate;
mod explain;
mod give_up;
mod history;
mod homes;
mod journal;
mod judge;
mod machine;
mod memory;
mod metrics;
mod moment;
mod named;
mod policy;
mod reconcile;
mod seen;
mod settings;
mod sight;
mod stacked;
mod status;
mod tally;

pub use action::{Action, Kind, Outcome, Step, StepRecord};
pub use book::{Book, Member, Phase, Record, Totals};
pub use command::{Command, Endpoint, Entry};
pub use decided_elsewhere::DecidedElsewhere;
pub use history::{History, HistoryError};
pub use homes::{HomePlace, HomesTable, HomesView, PARTITIONS};
pub use journal::{Journal, JournalError};
pub use judge::{Judge, LevelSeen, MemberSeen, Verdict, Wish};
pub use machine::Manager;
pub use moment::Moment;
pub use policy::PolicyJudge;
pub use settings::{LevelSettings, OnDrainLimit, Settings, Victim};
pub use sight::{BrokerState, BrokerView, OrchestratorView, Sight};
pub use tally::{Observations, Tally};

#[cfg(test)]
mod tests;
