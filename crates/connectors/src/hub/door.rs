//! The listener that pipelines of this broker come in by.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tidegate_engine::{self as engine, AuthRequest, ListenerId, Reason, Verdict};
use tidegate_hub::net::{Address, SocketOptions};
use tidegate_node::{HostPort, ListenAddress, Node};

use tidegate_config::Config;
use tidegate_config::hub::{CLIENT_PREFIX, HUB_LISTENER, NoStoreError, Way, check_kept};
use tidegate_config::sections::Listener;

/// Words of 64 bits of a password.
const PASSWORD_WORDS: u64 = 4;

/// The listener, and the password that opens it.
#[derive(Clone, Debug)]
pub struct Door {
    listener: ListenerId,
    password: String,
    /// Whether the origin of a message is known: brokers of a fleet do not say it.
    origins: bool,
}

/// The configuration with a listener for pipelines, where there are some.
///
/// # Errors
/// When a pipeline keeps messages on disk, and the broker has no store.
pub fn with_door(mut config: Config) -> Result<(Config, Option<Door>), NoStoreError> {
    if config.pipelines.is_empty() {
        return Ok((config, None));
    }
    check_kept(&config)?;
    let listener = ListenerId(u16::try_from(config.listeners.len()).unwrap_or(u16::MAX));
    config.listeners.push(Listener {
        address: ListenAddress::Tcp(HostPort { host: "127.0.0.1".to_owned(), port: 0 }),
        name: HUB_LISTENER.to_owned(),
        mobile_nodes: false,
        topic_alias_maximum_out: 0,
        ..Listener::default()
    });
    // Its keys are random, and this process gives them to no client.
    let keys = RandomState::new();
    let words: Vec<String> = (0..PASSWORD_WORDS).map(|word| format!("{:016x}", keys.hash_one(word))).collect();
    let password = words.concat();
    let origins = !config.orchestrator.enabled;
    Ok((config, Some(Door { listener, password, origins })))
}

impl Door {
    /// Whether it is this listener that a client comes by.
    pub fn is_at(&self, listener: ListenerId) -> bool {
        listener == self.listener
    }

    /// Lets only a pipeline in, with all rights.
    pub fn decide(&self, request: &AuthRequest) -> Verdict {
        let given = request.password.as_deref().unwrap_or_default();
        // As long as the password in any case, so that time does not tell how much of it is right.
        let differs = self.password.bytes().zip(given.iter().chain(std::iter::repeat(&0)));
        let differences = differs.fold(0, |found, (one, other)| found | (one ^ other));
        if differences != 0 || given.len() != self.password.len() || !request.client_id.starts_with(CLIENT_PREFIX) {
            return Verdict::Refuse(Reason::NotAuthorized);
        }
        let identity = engine::Identity { superuser: true, ..engine::Identity::default() };
        Verdict::Accept(engine::Accepted { identity: Some(Arc::new(identity)), ..engine::Accepted::default() })
    }

    /// How pipelines connect; `None` if the listener is not open.
    pub(super) fn way(&self, node: &Node) -> Option<Way> {
        let at = node.socket_of(|id| id == self.listener)?;
        Some(Way {
            address: Address::Tcp { host: at.ip().to_string(), port: at.port() },
            socket: SocketOptions::default(),
            user_name: Some(HUB_LISTENER.to_owned()),
            password: Some(self.password.clone().into_bytes()),
            shared: false,
            origins: self.origins,
            prefix: CLIENT_PREFIX.to_owned(),
            suffix: String::new(),
        })
    }
}
