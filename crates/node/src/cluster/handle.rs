//! The control plane's hold on the links.

use std::net::SocketAddr;

use super::to_links::LinksSender;

/// The control plane's hold on the links.
#[derive(Debug)]
pub(crate) struct LinksHandle {
    pub(crate) sender: LinksSender,
    pub(crate) address: SocketAddr,
}
