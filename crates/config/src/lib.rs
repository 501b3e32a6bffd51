//! The configuration: defaults, then a file, then the environment, then the command line.
//!
//! Every key is declared once, in [`sections`]. From there come the reading of all sources, the range checks, `config
//! show`, `config explain` and the reference page.

pub mod access;
pub mod address;
mod address_settings;
mod admission_settings;
pub mod authentication;
pub mod bridges;
pub mod bus_access;
mod checks;
pub mod cluster;
pub mod context;
pub mod credentials;
pub mod engine_settings;
mod feature;
mod file;
pub mod finding;
pub mod hub;
pub mod key;
pub mod list;
pub mod load;
mod loading;
mod memory;
pub mod mirror;
pub mod orchestrator;
pub mod origins;
pub mod overrides;
pub mod own_sockets;
pub mod path;
pub mod reference;
pub mod reload;
pub mod sections;
pub mod show;
pub mod source;
pub mod store;
pub mod tls_files;
pub mod tls_settings;
pub mod value;
mod waiting_settings;

#[cfg(test)]
mod tests;

pub use memory::MemoryPlan;

use finding::Findings;
use key::Section;
use loading::Loading;
use origins::Origins;
use overrides::Flags;
use path::KeyPath;
use sections::access::AccessRules;
use sections::address::Addresses;
use sections::admission::{Admission, Flight};
use sections::auth::{Auth, Authentication};
use sections::bridge::Bridge;
use sections::cluster::Cluster;
use sections::context::Context;
use sections::hub::{HubBus, Pipeline, Sink, SourceSection};
use sections::mirror::Mirror;
use sections::orchestrator::Orchestrator;
use sections::tenant::Tenant;
use sections::waiting::{DeadLetters, Overflow, Priority};
use sections::{Admin, Limits, Listener, Log, Node, Queue, Retained, Shared, Shutdown, Store, Sys};
use source::{FileText, Source};
use value::{Problem, Raw};

/// Listeners that a broker may have.
const MAX_LISTENERS: usize = 64;

/// The sources of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The file, if one was named.
    pub file: Option<FileText>,
    /// The environment.
    pub environment: Vec<(String, String)>,
    /// The command line.
    pub flags: Flags,
}

/// A configuration that was read and found right.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The section `[node]`.
    pub node: Node,
    /// The sections `[[listener]]`.
    pub listeners: Vec<Listener>,
    /// The sections `[[tenant]]`.
    pub tenants: Vec<Tenant>,
    /// The sections `[[auth]]`.
    pub auths: Vec<Auth>,
    /// The section `[authentication]`.
    pub authentication: Authentication,
    /// The section `[access]`.
    pub access: AccessRules,
    /// The section `[addresses]`.
    pub addresses: Addresses,
    /// The section `[context]`.
    pub context: Context,
    /// The section `[limits]`.
    pub limits: Limits,
    /// The section `[admission]`.
    pub admission: Admission,
    /// The section `[flight]`.
    pub flight: Flight,
    /// The section `[queue]`.
    pub queue: Queue,
    /// The sections `[[overflow]]`.
    pub overflow: Vec<Overflow>,
    /// The sections `[[priority]]`.
    pub priority: Vec<Priority>,
    /// The section `[dead_letter]`.
    pub dead_letter: DeadLetters,
    /// The section `[retained]`.
    pub retained: Retained,
    /// The section `[shared]`.
    pub shared: Shared,
    /// The section `[store]`.
    pub store: Store,
    /// The section `[cluster]`.
    pub cluster: Cluster,
    /// The section `[mirror]`.
    pub mirror: Mirror,
    /// The section `[orchestrator]`.
    pub orchestrator: Orchestrator,
    /// The sections `[[bridge]]`.
    pub bridges: Vec<Bridge>,
    /// The sections `[[source]]`.
    pub hub_sources: Vec<SourceSection>,
    /// The sections `[[sink]]`.
    pub sinks: Vec<Sink>,
    /// The sections `[[pipeline]]`.
    pub pipelines: Vec<Pipeline>,
    /// The section `[hub]`.
    pub hub: HubBus,
    /// The section `[sys]`.
    pub sys: Sys,
    /// The section `[admin]`.
    pub admin: Admin,
    /// The section `[log]`.
    pub log: Log,
    /// The section `[shutdown]`.
    pub shutdown: Shutdown,
    /// The file, and the source of each key.
    pub origins: Origins,
}

impl Config {
    /// Reads a configuration from all its sources and checks it as a whole.
    ///
    /// # Errors
    /// Everything that is wrong with it, not only the first thing.
    pub fn load(inputs: Inputs) -> Result<Self, Findings> {
        let Inputs { file, environment, flags } = inputs;
        let (config, mut findings) = Loading::new(file).read(&environment, &flags);
        // Keys are checked together only when each of them is right.
        if findings.is_empty() {
            checks::run(&config, &mut findings);
        }
        findings.sort();
        if findings.is_empty() { Ok(config) } else { Err(findings) }
    }

    /// Sets a key.
    ///
    /// # Errors
    /// When there is no such listener or the value is refused; the message continues a sentence that begins with the
    /// key.
    pub fn try_set(&mut self, path: KeyPath, raw: &Raw, source: Source) -> Result<(), Problem> {
        let (name, count) = (path.section, self.sections(path.section).len());
        let section = self
            .section_mut(&path)
            .ok_or_else(|| Problem::new(format!("names a {name} that is not there; there are {count}")))?;
        section.set(path.key, raw)?;
        self.origins.set(path, source);
        Ok(())
    }

    /// Whether clients have identities that rules can distinguish.
    pub fn has_users(&self) -> bool {
        !self.auths.is_empty()
            || self.listeners.iter().any(|listener| listener.identity_as == tidegate_node::IdentityRole::Username)
    }

    /// The sections of a name: one, or each listener.
    pub fn sections(&self, name: &str) -> Vec<&dyn Section> {
        match name {
            "node" => vec![&self.node],
            "listener" => self.listeners.iter().map(|it| it as &dyn Section).collect(),
            "tenant" => self.tenants.iter().map(|it| it as &dyn Section).collect(),
            "auth" => self.auths.iter().map(|it| it as &dyn Section).collect(),
            "authentication" => vec![&self.authentication],
            "access" => vec![&self.access],
            "addresses" => vec![&self.addresses],
            "context" => vec![&self.context],
            "limits" => vec![&self.limits],
            "admission" => vec![&self.admission],
            "flight" => vec![&self.flight],
            "queue" => vec![&self.queue],
            "overflow" => self.overflow.iter().map(|it| it as &dyn Section).collect(),
            "priority" => self.priority.iter().map(|it| it as &dyn Section).collect(),
            "dead_letter" => vec![&self.dead_letter],
            "retained" => vec![&self.retained],
            "shared" => vec![&self.shared],
            "store" => vec![&self.store],
            "cluster" => vec![&self.cluster],
            "mirror" => vec![&self.mirror],
            "orchestrator" => vec![&self.orchestrator],
            "bridge" => self.bridges.iter().map(|it| it as &dyn Section).collect(),
            "source" => self.hub_sources.iter().map(|it| it as &dyn Section).collect(),
            "sink" => self.sinks.iter().map(|it| it as &dyn Section).collect(),
            "pipeline" => self.pipelines.iter().map(|it| it as &dyn Section).collect(),
            "hub" => vec![&self.hub],
            "sys" => vec![&self.sys],
            "admin" => vec![&self.admin],
            "log" => vec![&self.log],
            "shutdown" => vec![&self.shutdown],
            _ => Vec::new(),
        }
    }

    fn section_mut(&mut self, path: &KeyPath) -> Option<&mut dyn Section> {
        Some(match path.section {
            "node" => &mut self.node,
            "listener" => self.listeners.get_mut(path.index)?,
            "tenant" => self.tenants.get_mut(path.index)?,
            "auth" => self.auths.get_mut(path.index)?,
            "authentication" => &mut self.authentication,
            "access" => &mut self.access,
            "addresses" => &mut self.addresses,
            "context" => &mut self.context,
            "limits" => &mut self.limits,
            "admission" => &mut self.admission,
            "flight" => &mut self.flight,
            "queue" => &mut self.queue,
            "overflow" => self.overflow.get_mut(path.index)?,
            "priority" => self.priority.get_mut(path.index)?,
            "dead_letter" => &mut self.dead_letter,
            "retained" => &mut self.retained,
            "shared" => &mut self.shared,
            "store" => &mut self.store,
            "cluster" => &mut self.cluster,
            "mirror" => &mut self.mirror,
            "orchestrator" => &mut self.orchestrator,
            "bridge" => self.bridges.get_mut(path.index)?,
            "source" => self.hub_sources.get_mut(path.index)?,
            "sink" => self.sinks.get_mut(path.index)?,
            "pipeline" => self.pipelines.get_mut(path.index)?,
            "hub" => &mut self.hub,
            "sys" => &mut self.sys,
            "admin" => &mut self.admin,
            "log" => &mut self.log,
            "shutdown" => &mut self.shutdown,
            _ => return None,
        })
    }

    /// Makes room for this number of sections with a repeatable name.
    fn resize(&mut self, section: &str, count: usize) {
        match section {
            "listener" => self.listeners.resize(count, Listener::default()),
            "overflow" => self.overflow.resize(count, Overflow::default()),
            "priority" => self.priority.resize(count, Priority::default()),
            "tenant" => self.tenants.resize(count, Tenant::default()),
            "auth" => self.auths.resize(count, Auth::default()),
            "bridge" => self.bridges.resize(count, Bridge::default()),
            "source" => self.hub_sources.resize(count, SourceSection::default()),
            "sink" => self.sinks.resize(count, Sink::default()),
            "pipeline" => self.pipelines.resize(count, Pipeline::default()),
            _ => {}
        }
    }
}
