//! Listeners for HTTP in a program without the feature `http`: the configuration refuses them.

use std::convert::Infallible;
use std::time::Duration;

use tidegate_administration::BrokerStatus;
use tidegate_config::Config;
use tidegate_identity::access::Tenancy;
use tidegate_identity::authentication::Visitors;
use tidegate_node::Node;

/// The way of clients without MQTT to the node: there are none.
pub(super) struct ToNode;

impl ToNode {
    pub(super) fn new(_: &Config, _: &Node, _: &Tenancy, _: (Visitors, bool)) -> Self {
        Self
    }
}

/// The listeners for HTTP of a broker: none.
#[derive(Debug)]
pub(crate) struct HttpListeners;

impl HttpListeners {
    #[expect(clippy::unnecessary_wraps, reason = "the program with the feature may fail here")]
    pub(crate) fn start(_: &Config, _: &ToNode, _: &BrokerStatus) -> Result<Self, Infallible> {
        Ok(Self)
    }

    #[expect(clippy::unused_self, reason = "the program with the feature has listeners")]
    pub(crate) fn urls(&self, _: &Config) -> Vec<String> {
        Vec::new()
    }

    #[expect(clippy::unused_self, reason = "the program with the feature has listeners")]
    pub(crate) fn stop(self, _: Duration) {}
}
