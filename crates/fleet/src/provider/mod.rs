//! Where resources come from.
//!
//! A [`Provider`] is all that is known of a cloud: six operations, each of which may be repeated without harm, because
//! the manager may die between asking and hearing the answer. A cloud's API is one file with one implementation of this
//! trait; [`process`] spawns processes on this machine, and `kubernetes` (behind the feature of that name) scales
//! StatefulSets.
//!
//! | operation | what it must do |
//! | --- | --- |
//! | [`allocate`](Provider::allocate) | begin to make a resource of the given name; when it is there, say so; when it has died or hangs, start it again on what it kept |
//! | [`list`](Provider::list) | every resource that this fleet has, also those that a manager before this one allocated |
//! | [`release`](Provider::release) | begin to take it away, or say that it is gone; the name of nothing is gone |
//! | [`discard`](Provider::discard) | as `release`, for one that is dead or hangs: at once |
//! | [`stop`](Provider::stop) | begin to end it and keep what it has stored, for a fleet that rests |
//! | [`set_aside`](Provider::set_aside) | begin to end it for good and keep what it has stored, for a person |
//! | [`observe`](Provider::observe) | for every resource: whether it is reachable, its CPU as a fraction of what it was given, and its memory |
//!
//! Some of them name resources themselves and can only release the last one made: such a provider says so with a
//! [`stack`](Provider::stack), and the manager drains the one that will go.
//!
//! None of them waits for a resource: the manager asks again with its next observation (BRK-30).

pub mod attached;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
mod name;
pub mod process;
mod stack;

pub use name::{ResourceName, ResourceNameError};
pub use stack::Stack;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::level::Level;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Allocation {
    /// Its name, unique in the fleet and never used twice for different resources.
    pub name: ResourceName,
    /// What it is for.
    pub level: Level,
    /// The template that it is made from (BRK-19).
    pub template: String,
    /// How much CPU it gets, cores; above 0.
    pub cores: f64,
}

/// What a fleet has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    /// Its name.
    pub name: ResourceName,
    /// What it is for.
    pub level: Level,
    /// The template that it was made from.
    pub template: String,
    /// Where it speaks MQTT: `mqtt://HOST:PORT`.
    pub address: String,
    /// Where its admin API answers, `http://HOST:PORT`; an orchestrator has one.
    pub admin: Option<String>,
    /// Where other orchestrators relay clients to that are at home here, `HOST:PORT`; `None` where an orchestrator does
    /// not take them.
    pub relay: Option<String>,
    /// Its process, where it is one of this machine.
    pub pid: Option<u32>,
    /// What a person should know about it, such as a limit that could not be set; empty when there is nothing to say.
    pub note: String,
}

/// What a resource does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// It is being made and has not answered yet.
    Starting,
    /// It answers.
    Online,
    /// It is there and no longer answers; with what was seen.
    Down(String),
    /// It has died: nothing of it works any more. With what was seen.
    Ended(String),
    /// It is being taken away: by the manager, or by somebody else, who may be an autoscaler or whoever empties a
    /// machine. While it still answers it can be drained.
    Stopping,
}

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// What resources do. CPU and memory are not sampled, and `None`.
    Conditions,
    /// CPU, too, since the last look at everything, and memory.
    Everything,
}

/// A resource as it was observed.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Which.
    pub resource: Resource,
    /// What it does.
    pub condition: Condition,
    /// CPU that it used since the last observation as a fraction of what it was given (BRK-39); `None` when there is
    /// nothing to compare with yet. It may exceed 1 where the limit is not enforced.
    pub cpu: Option<f64>,
    /// Memory that it holds, bytes; `None` where that cannot be told.
    pub memory: Option<u64>,
}

/// How far a release has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// It is stopping; ask again.
    Stopping,
    /// Nothing is left of it, or nothing that runs when it was only to stop.
    Gone,
}

/// Why a provider could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// No template has this name.
    #[error("there is no template `{0}`; name one of the fleet file's [templates] or one that is shipped")]
    UnknownTemplate(String),
    /// The program of a template is not installed.
    #[error("none of {} is installed for template `{template}`; install one of them, or set `command` in the template", .commands.join(", "))]
    MissingCommand {
        /// The template.
        template: String,
        /// What was looked for.
        commands: Vec<String>,
    },
    /// The address that processes shall listen on is none of this machine.
    #[error("cannot listen on {host}: {source}; name an address of this machine in `{level}s.host` of the fleet file")]
    Address {
        /// Whose address.
        level: Level,
        /// The address.
        host: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// All ports are taken.
    #[error("no {wanted} free ports from {from} to {to}; widen `ports` in the fleet file")]
    NoPorts {
        /// How many are needed.
        wanted: usize,
        /// The first port of the range.
        from: u16,
        /// The last port of the range.
        to: u16,
    },
    /// A file or a process of a resource.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file, directory or program.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A record of a resource is damaged.
    #[error("the record {} cannot be read ({problem}); end the process it may be about, then remove the directory", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The resource belongs to somebody else.
    #[error("`{0}` is not the manager's to release: it is attached in the fleet file; remove it there")]
    Attached(ResourceName),
    /// Too much was set aside already.
    #[error("{} holds what {most} given-up orchestrators have stored; look at it, and remove what is no longer needed", .path.display())]
    TooManySetAside {
        /// Where it is.
        path: PathBuf,
        /// The most that is kept.
        most: usize,
    },
    /// The provider cannot keep what a resource has stored apart from it.
    #[error("what `{0}` has stored cannot be set aside here; start it again, or release it by hand")]
    NotSetAside(ResourceName),
    /// What the provider speaks with refuses, does not answer, or answers something else than was agreed.
    #[error(transparent)]
    Cloud(Box<dyn std::error::Error + Send + Sync>),
}

/// Where resources come from. See the [module](self) for what each operation promises.
pub trait Provider: Send {
    /// Begins to make a resource, or finds it made.
    ///
    /// # Errors
    /// When it cannot be made now; asking again may help.
    fn allocate(&mut self, wanted: &Allocation) -> Result<Resource, ProviderError>;

    /// All resources of this fleet.
    ///
    /// # Errors
    /// When the provider does not answer; nothing may then be taken as absent.
    fn list(&mut self) -> Result<Vec<Resource>, ProviderError>;

    /// Begins to take a resource away, or goes on with it.
    ///
    /// # Errors
    /// When it cannot be taken away now; asking again may help.
    fn release(&mut self, name: &ResourceName) -> Result<Release, ProviderError>;

    /// Begins to take a dead resource away, or goes on with it. Nothing that it does or has stored is needed: it is not
    /// asked to end in order where it can be ended at once.
    ///
    /// # Errors
    /// As of [`release`](Self::release).
    fn discard(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        self.release(name)
    }

    /// Begins to end a resource, or goes on with it, and keeps what it has stored: allocating it again starts it on
    /// that.
    ///
    /// # Errors
    /// As of [`release`](Self::release).
    fn stop(&mut self, name: &ResourceName) -> Result<Release, ProviderError>;

    /// Begins to end a resource, or goes on with it, and keeps what it has stored where nothing starts it again: it is
    /// then no longer listed. The manager asks for it where it names resources itself.
    ///
    /// # Errors
    /// As of [`release`](Self::release).
    fn set_aside(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        Err(ProviderError::NotSetAside(name.clone()))
    }

    /// How the resources of a level are named and ordered; `None` where the manager names them and any of them can go.
    fn stack(&self, level: Level) -> Option<Stack> {
        let _ = level;
        None
    }

    /// All resources with what they do and, when asked for everything, how much CPU and memory they use.
    ///
    /// # Errors
    /// As of [`list`](Self::list).
    fn observe(&mut self, look: Look) -> Result<Vec<Observed>, ProviderError>;
}
