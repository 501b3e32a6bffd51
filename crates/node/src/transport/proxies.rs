//! The proxies that a listener believes.

use std::sync::Arc;

use crate::proxy_protocol::Network;
use crate::secret::Secret;

/// Proxies in front of a listener.
#[derive(Clone, Debug)]
pub(crate) struct Proxies {
    /// The networks that they are in.
    pub(crate) networks: Arc<[Network]>,
    /// Proves the tenants that they name; `None` if tenants are not used, or are believed without a proof.
    pub(crate) secret: Option<Secret>,
}
