//! Bridges to other brokers: what the configuration says of them, and those that run.

use std::time::{Duration, Instant};

use tidegate_bridge::{Bridge, Side};
use tidegate_console::BridgeNumbers;
use tidegate_node::Node;

use crate::status::BrokerStatus;
use tidegate_config::Config;

/// The bridges of a broker.
#[derive(Debug, Default)]
pub(crate) struct Bridges(Vec<Bridge>);

impl Bridges {
    /// Starts those that the configuration names, whose numbers are in `status` from then on. They come in by a
    /// listener of this broker, which has to be open.
    ///
    /// # Errors
    /// In words for people, when a file cannot be read, or the system has no sockets or threads left.
    pub(crate) fn start(config: &Config, node: &Node, status: &BrokerStatus) -> Result<Self, String> {
        let mut running = Vec::new();
        for bridge in &config.bridges {
            let settings = config.bridge_settings(bridge, node).map_err(|error| error.to_string())?;
            if bridge.any_host_name {
                tracing::warn!(
                    bridge = bridge.name,
                    "any_host_name is set: whoever has any certificate of a trusted authority can pose as the other broker"
                );
            }
            running.push(Bridge::start(&settings).map_err(|error| error.to_string())?);
        }
        let bridges = Self(running);
        status.bridges(bridges.numbers());
        Ok(bridges)
    }

    /// What reads their numbers.
    fn numbers(&self) -> impl Fn() -> Vec<BridgeNumbers> + Send + Sync + 'static {
        let all: Vec<_> = self.0.iter().map(|bridge| (bridge.name().to_owned(), bridge.status())).collect();
        move || {
            let numbers = all.iter().map(|(name, status)| BridgeNumbers {
                name: name.clone(),
                local_connected: status.is_connected(Side::Local),
                remote_connected: status.is_connected(Side::Remote),
                carried_out: status.carried_to(Side::Remote),
                carried_in: status.carried_to(Side::Local),
                dropped_out: status.dropped_to(Side::Remote),
                dropped_in: status.dropped_to(Side::Local),
                looped_out: status.looped_to(Side::Remote),
                looped_in: status.looped_to(Side::Local),
                beyond_window_local: status.beyond_window_from(Side::Local),
                beyond_window_remote: status.beyond_window_from(Side::Remote),
            });
            numbers.collect()
        }
    }

    /// Says farewell to all brokers, within `grace`.
    pub(crate) fn stop(&self, grace: Duration) {
        let deadline = Instant::now() + grace;
        self.0.iter().for_each(Bridge::ask_to_stop);
        for bridge in &self.0 {
            bridge.wait_until_stopped(deadline);
        }
    }
}
