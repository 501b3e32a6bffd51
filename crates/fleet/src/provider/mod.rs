//! Providers of resources.
//!
//! A [`Provider`] is the interface to a cloud: seven operations. Each may be repeated without harm, because the manager
//! may die between a request and its answer. [`process`] spawns processes on this machine, [`machines`] calls commands
//! that a fleet file names for a cloud's API, and `kubernetes` (behind the feature of that name) scales StatefulSets.
//!
//! | operation | effect |
//! | --- | --- |
//! | [`allocate`](Provider::allocate) | begin to create a resource of the given name; report an existing one; start a dead or hanging one again |
//! | [`list`](Provider::list) | every resource of this fleet, also resources that an earlier manager allocated |
//! | [`release`](Provider::release) | begin to remove it, or report that it is gone; an unknown name is gone |
//! | [`discard`](Provider::discard) | as `release`, for a dead or hanging one: at once |
//! | [`stop`](Provider::stop) | begin to end it and keep its stored state, for a stopped fleet |
//! | [`set_aside`](Provider::set_aside) | begin to end it for good and keep its stored state, for a person |
//! | [`observe`](Provider::observe) | for every resource: whether it is reachable, its CPU as a fraction of its share, its memory |
//!
//! Some name resources themselves and can only release the last one created: such a provider has a
//! [`stack`](Provider::stack), and the manager drains that one.
//!
//! None of them waits for a resource: the manager asks again with its next observation (BRK-30).

pub mod attached;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub mod machines;
mod name;
mod probes;
pub mod process;
mod stack;

pub use name::{ResourceName, ResourceNameError};
pub use stack::Stack;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::level::Level;

/// A request for a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Allocation {
    /// Its name, unique in the fleet and never used twice for different resources.
    pub name: ResourceName,
    /// Its level.
    pub level: Level,
    /// The template that it is made from (BRK-19).
    pub template: String,
    /// How much CPU it gets, cores; above 0.
    pub cores: f64,
}

/// A resource of a fleet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    /// Its name.
    pub name: ResourceName,
    /// Its level.
    pub level: Level,
    /// The template that it was made from.
    pub template: String,
    /// Its MQTT address: `mqtt://HOST:PORT`.
    pub address: String,
    /// The URL of its admin API, `http://HOST:PORT`; an orchestrator has one.
    pub admin: Option<String>,
    /// Its process, if it is on this machine.
    pub pid: Option<u32>,
    /// A note for people, such as a limit that could not be set; empty without one.
    pub note: String,
}

/// The condition of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// It is being created and has not answered yet.
    Starting,
    /// It answers.
    Online,
    /// It runs and no longer answers; with the observed error.
    Down(String),
    /// It has died. With the observed reason.
    Ended(String),
    /// It is being removed: by the manager, or by another controller, such as an autoscaler or the operator of a
    /// machine. While it still answers it can be drained.
    Stopping,
}

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The conditions only. CPU and memory are not sampled, and `None`.
    Conditions,
    /// CPU, too, since the last look at everything, and memory.
    Everything,
}

/// A resource as it was observed.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The resource.
    pub resource: Resource,
    /// Its condition.
    pub condition: Condition,
    /// CPU used since the last observation as a fraction of its share (BRK-39); `None` at the first observation. It may
    /// exceed 1 where the limit is not enforced.
    pub cpu: Option<f64>,
    /// Its memory, bytes; `None` where that is unknown.
    pub memory: Option<u64>,
}

/// The progress of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// It is stopping; ask again.
    Stopping,
    /// It is removed, or it has ended if it was only to stop.
    Gone,
}

/// Why an operation of a provider failed.
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
        /// The commands that were looked for.
        commands: Vec<String>,
    },
    /// The listen address of processes does not belong to this machine.
    #[error("cannot listen on {host}: {source}; name an address of this machine in `{level}s.host` of the fleet file")]
    Address {
        /// Whose address.
        level: Level,
        /// The address.
        host: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Each address has its process.
    #[error("no free address of {0}; widen `host` in the fleet file")]
    NoHosts(String),
    /// The processes of a level have the same ports, and one of these is taken on each address that is left.
    #[error(
        "port {port} of {host} is taken, and the other processes of the level have this port; end the program that listens there, or widen `host` in the fleet file"
    )]
    PortTaken {
        /// The last address that was tried.
        host: String,
        /// The port.
        port: u16,
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
    #[error("cannot {attempt} {}: {source}", .path.display())]
    Io {
        /// The attempted operation.
        attempt: &'static str,
        /// The file, directory or program.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A record of a resource is damaged.
    #[error("the record {} cannot be read ({problem}); end the process it may be about, then remove the directory", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The fault.
        problem: String,
    },
    /// The records of machines are damaged.
    #[error("the records of machines in {} cannot be read ({problem}); remove the file, and the manager takes over what `list` shows", .path.display())]
    Machines {
        /// The file.
        path: PathBuf,
        /// The fault.
        problem: String,
    },
    /// The resource is attached, not the fleet's own.
    #[error("`{0}` is not the manager's to release: it is attached in the fleet file; remove it there")]
    Attached(ResourceName),
    /// Too much was set aside already.
    #[error("{} holds the stored state of {most} given-up orchestrators; look at it, and remove the unneeded ones", .path.display())]
    TooManySetAside {
        /// Its file.
        path: PathBuf,
        /// The most that is kept.
        most: usize,
    },
    /// The provider cannot keep the stored state of a resource apart from it.
    #[error("the stored state of `{0}` cannot be moved aside; start it again, or release it by hand")]
    NotSetAside(ResourceName),
    /// The cloud refuses, does not answer, or gives a malformed answer.
    #[error(transparent)]
    Cloud(Box<dyn std::error::Error + Send + Sync>),
}

/// A provider of resources. See the [module](self) for the guarantees of each operation.
pub trait Provider: Send {
    /// Begins to make a resource, or finds it made.
    ///
    /// # Errors
    /// When it cannot be made now; asking again may help.
    fn allocate(&mut self, wanted: &Allocation) -> Result<Resource, ProviderError>;

    /// All resources of this fleet.
    ///
    /// # Errors
    /// When the provider does not answer; no resource may then count as absent.
    fn list(&mut self) -> Result<Vec<Resource>, ProviderError>;

    /// Begins or continues to remove a resource.
    ///
    /// # Errors
    /// When it cannot be removed now; asking again may help.
    fn release(&mut self, name: &ResourceName) -> Result<Release, ProviderError>;

    /// Begins or continues to remove a dead resource. Its pending work and stored state are not needed: it is killed
    /// where that is possible.
    ///
    /// # Errors
    /// As of [`release`](Self::release).
    fn discard(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        self.release(name)
    }

    /// Begins or continues to end a resource, and keeps its stored state: allocating it again starts it on that.
    ///
    /// # Errors
    /// As of [`release`](Self::release).
    fn stop(&mut self, name: &ResourceName) -> Result<Release, ProviderError>;

    /// Begins or continues to end a resource, and keeps its stored state where it is not started again: it is then no
    /// longer listed. The manager calls this for resources that it names itself.
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

    /// All resources with their conditions and, for [`Look::Everything`], their CPU and memory.
    ///
    /// # Errors
    /// As of [`list`](Self::list).
    fn observe(&mut self, look: Look) -> Result<Vec<Observed>, ProviderError>;

    /// Whether a resource that lived at the last look has ended since. It is asked several times a second: a provider that
    /// would have to ask others says no, and its next look shows it.
    fn has_ended(&mut self) -> bool {
        false
    }
}
