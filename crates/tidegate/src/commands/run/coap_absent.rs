//! Listeners for CoAP in a program without the feature `coap`: the configuration refuses them.

use std::convert::Infallible;
use std::time::Duration;

use tidegate_administration::BrokerStatus;
use tidegate_config::Config;

use super::http::ToNode;

/// The listeners for CoAP of a broker: none.
#[derive(Debug)]
pub(crate) struct CoapListeners;

impl CoapListeners {
    #[expect(clippy::unnecessary_wraps, reason = "the program with the feature may fail here")]
    pub(crate) fn start(_: &Config, _: ToNode, _: &BrokerStatus) -> Result<Self, Infallible> {
        Ok(Self)
    }

    #[expect(clippy::unused_self, reason = "the program with the feature has listeners")]
    pub(crate) fn urls(&self, _: &Config) -> std::iter::Empty<String> {
        std::iter::empty()
    }

    #[expect(clippy::unused_self, reason = "the program with the feature has listeners")]
    pub(crate) fn stop(self, _: Duration) {}
}
