//! The listener that pipelines of this broker come in by.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tidegate_engine::{self as engine, AuthOutcome, AuthRequest, ClientQuery, ListenerId, Reason};
use tidegate_hub::SessionFilters;
use tidegate_hub::net::{Address, Pipes, SocketOptions};
use tidegate_node::{ListenAddress, Node, NodeHandle};

use tidegate_config::Config;
use tidegate_config::hub::{CLIENT_PREFIX, NoStoreError, Way, check_kept, hub_listener};
use tidegate_config::sections::Listener;
use tidegate_config::sections::hub::Pipeline;

use super::control::MAX_SESSIONS;

/// Words of 64 bits of a password.
const PASSWORD_WORDS: u64 = 4;

/// The listeners, and the password that opens them.
#[derive(Clone, Debug)]
pub struct Door {
    /// A listener for each tenant with pipelines, by its name; the default tenant has an empty one.
    listeners: Vec<(String, ListenerId)>,
    /// That of the default tenant.
    default: ListenerId,
    password: String,
    /// Whether the origin of a message is known: brokers of a fleet do not say it.
    origins: bool,
}

/// The configuration with a listener for the pipelines of each tenant, where there are some.
///
/// # Errors
/// When a pipeline keeps messages on disk, and the broker has no store.
pub fn with_door(mut config: Config) -> Result<(Config, Option<Door>), NoStoreError> {
    if config.pipelines.is_empty() {
        return Ok((config, None));
    }
    check_kept(&config.pipelines, &config.store)?;
    // The default tenant's is there in any case: pipelines with a source may publish.
    let tenants: BTreeSet<&str> =
        std::iter::once("").chain(config.pipelines.iter().map(Pipeline::tenant_name)).collect();
    let tenants: Vec<String> = tenants.into_iter().map(str::to_owned).collect();
    let next = |config: &Config| ListenerId(u16::try_from(config.listeners.len()).unwrap_or(u16::MAX));
    // The empty name is the first.
    let (default, mut listeners) = (next(&config), Vec::new());
    for tenant in tenants {
        let number = next(&config);
        config.listeners.push(Listener {
            address: ListenAddress::Process,
            name: hub_listener(&tenant),
            mobile_nodes: false,
            topic_alias_maximum_out: 0,
            ..Listener::default()
        });
        listeners.push((tenant, number));
    }
    // Its keys are random, and this process gives them to no client.
    let keys = RandomState::new();
    let words: Vec<String> = (0..PASSWORD_WORDS).map(|word| format!("{:016x}", keys.hash_one(word))).collect();
    let password = words.concat();
    let origins = !config.orchestrator.enabled;
    Ok((config, Some(Door { listeners, default, password, origins })))
}

impl Door {
    /// Whether a client comes by one of these listeners.
    pub fn is_at(&self, listener: ListenerId) -> bool {
        self.listeners.iter().any(|(_, own)| *own == listener)
    }

    /// Lets only a pipeline in, with all rights.
    pub fn decide(&self, request: &AuthRequest) -> AuthOutcome {
        let given = request.password.as_deref().unwrap_or_default();
        // As long as the password in any case, so that time does not tell how much of it is right.
        let differs = self.password.bytes().zip(given.iter().chain(std::iter::repeat(&0)));
        let differences = differs.fold(0, |found, (one, other)| found | (one ^ other));
        if differences != 0 || given.len() != self.password.len() || !request.client_id.starts_with(CLIENT_PREFIX) {
            return AuthOutcome::Refuse(Reason::NotAuthorized);
        }
        let identity = engine::Identity { superuser: true, ..engine::Identity::default() };
        AuthOutcome::Accept(engine::Accepted { identity: Some(Arc::new(identity)), ..engine::Accepted::default() })
    }

    /// How pipelines connect.
    pub(super) fn way(&self, node: &Node) -> Way {
        let address = |listener: &ListenerId| Address::Pipe { listener: listener.0 };
        let tenants = self.listeners.iter().map(|(tenant, listener)| (tenant.clone(), address(listener))).collect();
        let node = node.handle();
        let kept_filters = SessionFilters::through({
            let node = node.clone();
            move |client_id| filters_of(&node, client_id)
        });
        let pipes = Pipes::through(move |listener| node.insiders().connect(ListenerId(listener)));
        Way {
            address: address(&self.default),
            socket: SocketOptions { pipes: Some(pipes), ..SocketOptions::default() },
            // A user name could lead to another tenant than the listener.
            user_name: None,
            password: Some(self.password.clone().into_bytes()),
            shared: false,
            origins: self.origins,
            prefix: CLIENT_PREFIX.to_owned(),
            suffix: String::new(),
            tenants,
            kept_filters: Some(kept_filters),
        }
    }
}

/// The filters of a pipeline's session, if its shard answers.
fn filters_of(node: &NodeHandle, client_id: &str) -> Vec<String> {
    let query = ClientQuery { containing: client_id.to_owned(), after: None, limit: MAX_SESSIONS, filters: usize::MAX };
    let sessions = node.clients().list(&query).unwrap_or_default();
    let session = sessions.into_iter().find(|(session, _)| session.client_id == client_id);
    session.map(|(session, _)| session.filters).unwrap_or_default()
}
