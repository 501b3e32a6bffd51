//! The proxies that a listener believes.

use std::sync::Arc;

use crate::proxy_protocol::Network;
use crate::secret::Secret;

/// Proxies in front of a listener.
#[derive(Clone, Debug)]
pub(crate) struct Proxies {
    /// The networks that they are in.
    pub(crate) networks: Arc<[Network]>,
    /// What proves the tenants that they name; `None` where these are not used, or believed as they are.
    pub(crate) secret: Option<Secret>,
}
