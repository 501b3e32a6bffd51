//! Links between the nodes of a cluster: one TCP session with each other node, over which the shards of both talk.
//!
//! So far these are the types between the control plane and the links; no session is begun yet.

mod bind;
mod handle;
mod name;
#[cfg_attr(not(test), expect(dead_code, reason = "the handshake that proves it comes next"))]
mod secret;
mod settings;
mod status;
mod view;

pub use bind::LinkBindError;
pub(crate) use bind::bind_links;
pub(crate) use handle::LinksHandle;
pub use name::{MAX_NODE_NAME, NodeName, NodeNameError};
pub use secret::{MIN_SECRET_BYTES, Secret, SecretTooShort};
pub use settings::{ClusterSettings, LinkLimits};
pub use status::{ClusterStatus, LinkCounters, LinkState, PeerStatus};
pub use view::{ClusterView, PeerNode};
