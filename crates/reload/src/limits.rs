//! How much there may be: of sessions, messages, bytes, and how fast.

use tidegate_engine::Settings;
use tidegate_node::NodeHandle;

use tidegate_config::Config;
use tidegate_config::path::KeyPath;

use tidegate_config::reload::{PrepareError, Prepared, Reloadable};

/// Keys of `[limits]` that hold for what was made at the start.
const LIMITS_AT_START: &[&str] = &["max_connections", "shard_link_bytes"];
const QUEUE: &[&str] = &["max_messages", "max_bytes", "keep_qos0_offline"];
const RETAINED: &[&str] = &["max_messages", "max_bytes"];
/// Keys of a listener that clients are not told, and of which nothing is made at the start.
const LISTENER: &[&str] = &[
    "max_connections",
    "max_message_rate",
    "message_burst",
    "max_byte_rate",
    "byte_burst",
    "max_total_message_rate",
    "max_total_byte_rate",
];

/// The limits of engines. What is beyond a lower one already stays.
pub struct LimitKeys {
    node: NodeHandle,
}

impl LimitKeys {
    /// Of this node.
    pub fn new(node: NodeHandle) -> Self {
        Self { node }
    }
}

struct NewLimits {
    node: NodeHandle,
    settings: Box<Settings>,
    of_user: Option<Box<Settings>>,
}

impl Reloadable for LimitKeys {
    fn name(&self) -> &'static str {
        "limits"
    }

    fn takes(&self, key: &KeyPath) -> bool {
        match key.section {
            "limits" => !LIMITS_AT_START.contains(&key.key),
            "queue" => QUEUE.contains(&key.key),
            "retained" => RETAINED.contains(&key.key),
            "listener" => LISTENER.contains(&key.key),
            _ => false,
        }
    }

    fn prepare(&self, new: &Config) -> Result<Box<dyn Prepared>, PrepareError> {
        let settings = Box::new(new.engine_settings(self.node.shards()));
        let of_user = self.node.max_identities().map(|max| Box::new(new.identity_engine(max)));
        Ok(Box::new(NewLimits { node: self.node.clone(), settings, of_user }))
    }
}

impl Prepared for NewLimits {
    fn commit(self: Box<Self>) -> Vec<String> {
        if let Err(error) = self.node.set_limits(*self.settings, self.of_user.map(|settings| *settings)) {
            tracing::warn!(%error, "new limits apply on that shard later");
        }
        Vec::new()
    }
}
