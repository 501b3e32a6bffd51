//! Users whose own credentials brokers are shown (BRK-10): each has a node of its own within this one, without
//! listeners.
//!
//! The node that a client connects to authenticates it. Then the connection goes to the node of its user. That node has
//! one shard, its own sessions, retained messages and filters, and its own connections to the brokers of the fleet,
//! opened with the user's credentials. So messages that the brokers deliver to one user never reach another. The node
//! of a user starts with the first client and ends some time after the last session.

mod contact;
mod fleet;
mod linger;
mod within;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use tidegate_engine::Settings;
use zeroize::Zeroizing;

use crate::access::AccessFactory;
use crate::broker_link::{BrokerSettings, Brokers};
use crate::inner::Family;
use crate::node::Node;
use crate::orders::{Admin, Door, Pass, ShardSender, ToShard};
use crate::report::NodeReport;
use crate::settings::NodeSettings;

use contact::Contact;

/// How long the first client of a user waits for the user's connections to the brokers: without them, its first
/// messages are lost at QoS 0.
const FIRST_CONTACT: Duration = Duration::from_secs(2);

/// The settings of the nodes of users.
#[derive(Debug)]
pub struct IdentitySettings {
    /// Maximum number of users, including users whose last session has just ended; further ones are refused.
    pub max: u16,
    /// The shortest time that the node of a user stays after the user's last session.
    pub linger: Duration,
    /// The longest time that a node stays for messages which brokers have not accepted. The rest is then dropped.
    pub settle: Duration,
    /// The settings of a user's node: one shard, no listeners, but the table of listeners.
    pub node: NodeSettings,
    /// The brokers of the fleet.
    pub brokers: Brokers,
}

/// The users whose own credentials brokers are shown. Passwords are in memory only, and wiped when they go.
pub struct Identities {
    settings: IdentitySettings,
    /// The parts that the nodes of users share with the node of the listeners; set when that one starts.
    family: OnceLock<Family>,
    state: Mutex<State>,
    /// The nodes of users have to stop.
    stopping: Condvar,
}

#[derive(Default)]
struct State {
    users: BTreeMap<String, Entry>,
    /// The counters of ended nodes of users.
    ended: NodeReport,
    /// The rules that a new node begins with.
    access: Option<AccessFactory>,
    /// The limits for new nodes, if they were changed since the start.
    limits: Option<Arc<Settings>>,
    stops: bool,
}

enum Entry {
    /// Its node is being started; these clients wait for it.
    Starting(Vec<Give>),
    Running(Box<Running>),
}

struct Running {
    node: Node,
    inbox: ShardSender,
    pass: Arc<Pass>,
    password: Option<Zeroizing<Vec<u8>>>,
    /// Time since which it is unused.
    unused: Option<Instant>,
}

/// Receives the way to the node of a user, on any thread.
pub type Give = Box<dyn FnOnce(Result<Door, EnterError>) + Send>;

/// Why a user that a broker accepts is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnterError {
    /// The limit of users is reached.
    #[error("{0} users are passed through to the brokers, which is the limit; raise orchestrator.max_identities")]
    TooMany(u16),
    /// Its node does not start.
    #[error("the connections of a user cannot be worked: {0}")]
    Start(String),
    /// The process ends, or has not begun.
    #[error("the orchestrator is starting or stopping")]
    NotNow,
}

impl Identities {
    /// No users yet. A node serves them after it got them ([`NodeSettings::identities`]).
    #[must_use]
    pub fn new(settings: IdentitySettings) -> Arc<Self> {
        let state = Mutex::new(State { access: settings.node.access.clone(), ..State::default() });
        Arc::new(Self { settings, family: OnceLock::new(), state, stopping: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is fine: the map is consistent at every step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an accepted client the way to the node of its user, which is started if necessary. A new password is used
    /// for the broker connections from now on. Never blocks for long.
    pub fn enter(self: &Arc<Self>, user: &str, password: Option<&[u8]>, give: Give) {
        let mut state = self.state();
        if state.stops || self.family.get().is_none() {
            drop(state);
            return give(Err(EnterError::NotNow));
        }
        let count = state.users.len();
        match state.users.get_mut(user) {
            Some(Entry::Running(running)) => {
                running.unused = None;
                let door = Door::new(&running.inbox, &running.pass);
                if running.password.as_deref().map(Vec::as_slice) != password {
                    running.password = password.map(|password| Zeroizing::new(password.to_vec()));
                    for known in self.settings.brokers.list() {
                        running.node.handle().fleet().tell_broker(shown(known.broker, user, running.password.as_ref()));
                    }
                }
                drop(state);
                give(Ok(door));
            }
            Some(Entry::Starting(waiting)) => waiting.push(give),
            None if count >= usize::from(self.settings.max) => {
                drop(state);
                give(Err(EnterError::TooMany(self.settings.max)));
            }
            None => {
                state.users.insert(user.to_owned(), Entry::Starting(vec![give]));
                drop(state);
                self.start_aside(user, password);
            }
        }
    }

    /// Starts the node of a user on its own thread.
    fn start_aside(self: &Arc<Self>, user: &str, password: Option<&[u8]>) {
        let (own, name) = (Arc::clone(self), user.to_owned());
        let password = password.map(|password| Zeroizing::new(password.to_vec()));
        let start = move || {
            let started = own.start(&name, password.as_ref());
            own.finish_start(&name, password, started);
        };
        if let Err(error) = Builder::new().name("identity".to_owned()).spawn(start) {
            self.finish_start(user, None, Err(EnterError::Start(error.to_string())));
        }
    }

    fn start(&self, user: &str, password: Option<&Zeroizing<Vec<u8>>>) -> Result<Node, EnterError> {
        let failed = |error: &dyn fmt::Display| EnterError::Start(error.to_string());
        let family = self.family.get().ok_or(EnterError::NotNow)?;
        let mut settings = self.settings.node.clone();
        if let Some(broker_links) = &mut settings.engine.broker_links {
            broker_links.user = Some(user.to_owned());
        }
        settings.access.clone_from(&self.state().access);
        let (contact, contacts) = Contact::with(settings.observer);
        settings.observer = contact;
        let node = Node::start_within(settings, family).map_err(|error| failed(&error))?;
        let handle = node.handle();
        let mut named = BTreeSet::new();
        for known in self.settings.brokers.list().into_iter().filter(|known| !known.draining) {
            named.insert(known.broker.name.clone());
            handle.fleet().set_broker(shown(known.broker, user, password)).map_err(|error| failed(&error))?;
        }
        contacts.wait(named, FIRST_CONTACT);
        Ok(node)
    }

    /// Notifies all clients that wait for the node of a user of the outcome.
    fn finish_start(&self, user: &str, password: Option<Zeroizing<Vec<u8>>>, started: Result<Node, EnterError>) {
        let mut state = self.state();
        let Some(Entry::Starting(waiting)) = state.users.remove(user) else { return };
        let started = if state.stops { Err(EnterError::NotNow) } else { started };
        let door = started.and_then(|node| {
            let inbox = node.handle().inboxes().first().cloned().ok_or(EnterError::NotNow)?;
            let pass = Arc::new(Pass);
            let door = Door::new(&inbox, &pass);
            for known in self.settings.brokers.list().into_iter().filter(|known| !known.draining) {
                // A broker may have been added meanwhile; the others ignore the repetition.
                node.handle().fleet().tell_broker(shown(known.broker, user, password.as_ref()));
            }
            // They may have changed since its settings were read.
            inbox.send(ToShard::Admin(Admin::SetAccess { access: state.access.clone(), done: channel().0 }));
            if let Some(settings) = state.limits.clone() {
                inbox.send(ToShard::Admin(Admin::SetLimits { settings, done: channel().0 }));
            }
            let running = Running { node, inbox, pass, password, unused: None };
            state.users.insert(user.to_owned(), Entry::Running(Box::new(running)));
            Ok(door)
        });
        drop(state);
        for give in waiting {
            give(door.clone());
        }
    }
}

impl Entry {
    fn running(&self) -> Option<&Running> {
        match self {
            Self::Starting(_) => None,
            Self::Running(running) => Some(running),
        }
    }

    fn into_running(self) -> Option<Box<Running>> {
        match self {
            Self::Starting(_) => None,
            Self::Running(running) => Some(running),
        }
    }
}

/// A broker as a user is shown to it.
fn shown(broker: BrokerSettings, user: &str, password: Option<&Zeroizing<Vec<u8>>>) -> BrokerSettings {
    let mut shown = broker;
    shown.options.user_name = Some(user.to_owned());
    shown.options.password = password.cloned();
    shown
}

impl fmt::Debug for Identities {
    /// Leaves out names, which may be tokens, and passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identities").field("max", &self.settings.max).finish_non_exhaustive()
    }
}
