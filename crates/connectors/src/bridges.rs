//! Bridges to other brokers: their settings, and the running bridges.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_bridge::{Bridge, BridgeError, BridgeSettings, Side};
use tidegate_console::{BridgeEnd, BridgeNumbers, Status};
use tidegate_engine::{ListenerId, TenantId, Tenants as _};
use tidegate_node::Node;

use tidegate_administration::{BrokerStatus, Part};
use tidegate_config::Config;
use tidegate_config::bridges::BridgeConfigError;
use tidegate_config::sections::bridge::Bridge as BridgeSection;
use tidegate_placement::{Attempts, Placement};

/// Why bridges do not start.
#[derive(Debug, thiserror::Error)]
pub enum StartBridgesError {
    /// The settings of a bridge cannot be made.
    #[error(transparent)]
    Settings(#[from] BridgeConfigError),
    /// A bridge does not start.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
}

/// The bridges of a broker, a node or an orchestrator.
#[derive(Debug, Default)]
pub struct Bridges {
    /// Their settings, and the tenants of their local sessions.
    all: Vec<(BridgeSettings, TenantId)>,
    placement: Placement,
    running: Arc<Mutex<Vec<Bridge>>>,
    moving: Mutex<Moving>,
}

/// Unfinished changes of the placement.
#[derive(Debug, Default)]
struct Moving {
    /// Bridges that were asked to stop. Each keeps its sessions until both ends have stopped.
    leaving: Vec<Bridge>,
    attempts: Attempts,
}

impl Bridges {
    /// Starts the bridges of the configuration that are placed here, whose numbers are in `status` from then on. They
    /// come in by a listener of this broker, which has to be open.
    ///
    /// # Errors
    /// When a file cannot be read, or the system has no sockets or threads left.
    pub fn start(
        config: &Config,
        node: &Node,
        placement: Placement,
        status: &BrokerStatus,
    ) -> Result<Self, StartBridgesError> {
        let mut all = Vec::new();
        for bridge in &config.bridges {
            all.push((config.bridge_settings(bridge, node)?, tenant_of(bridge, config, status)?));
            if bridge.any_host_name {
                tracing::warn!(
                    bridge = bridge.name,
                    "any_host_name is set: the owner of any certificate of a trusted authority can impersonate the other broker"
                );
            }
        }
        let bridges = Self { all, placement, running: Arc::default(), moving: Mutex::default() };
        if !bridges.placement.may_change() {
            let running: Result<Vec<_>, _> = bridges.all.iter().map(|(settings, _)| Bridge::start(settings)).collect();
            *bridges.running() = running?;
        }
        status.parts().register(Arc::new(BridgesPart(Arc::clone(&bridges.running))));
        Ok(bridges)
    }

    fn running(&self) -> MutexGuard<'_, Vec<Bridge>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if there are bridges and another member may get or give them.
    pub fn may_move(&self) -> bool {
        self.placement.may_change() && !self.all.is_empty()
    }

    /// Starts each bridge that has come to this process, and stops each that has gone. Waits for none of them.
    pub fn follow(&self) {
        if !self.placement.may_change() {
            return;
        }
        let mut moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        moving.leaving.retain(|bridge| !bridge.has_stopped());
        for (settings, tenant) in &self.all {
            let is_here = self.placement.is_here(*tenant, &settings.local.client_id);
            let mut running = self.running();
            let at = running.iter().position(|bridge| bridge.name() == settings.name);
            match at {
                None if is_here => running.extend(moving.begin(settings)),
                Some(at) if !is_here => {
                    let bridge = running.remove(at);
                    bridge.ask_to_stop();
                    moving.leaving.push(bridge);
                    tracing::info!(bridge = settings.name, "the bridge moves to another member");
                }
                None => moving.attempts.forget(&settings.name),
                Some(_) => {}
            }
        }
    }

    /// Disconnects from all brokers, within `grace`.
    pub fn stop(&self, grace: Duration) {
        let deadline = Instant::now() + grace;
        let moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let running = self.running();
        running.iter().for_each(Bridge::ask_to_stop);
        running.iter().chain(&moving.leaving).for_each(|bridge| bridge.wait_until_stopped(deadline));
    }
}

impl Moving {
    /// Starts a bridge that has come here, unless its last run still uses its sessions or a failed attempt is recent.
    fn begin(&mut self, settings: &BridgeSettings) -> Option<Bridge> {
        let name = &settings.name;
        let is_leaving = self.leaving.iter().any(|bridge| bridge.name() == name);
        if is_leaving || !self.attempts.is_due(name, Instant::now()) {
            return None;
        }
        match Bridge::start(settings) {
            Ok(bridge) => {
                self.attempts.forget(name);
                tracing::info!(bridge = name, "the bridge starts at this member");
                Some(bridge)
            }
            Err(error) => {
                let error = error.to_string();
                if self.attempts.fail(name, Instant::now(), &error) {
                    tracing::warn!(bridge = name, error, "cannot start the bridge; retrying");
                }
                None
            }
        }
    }
}

/// The tenant of a bridge's session at this broker: its user's, else that of the listener.
fn tenant_of(bridge: &BridgeSection, config: &Config, status: &BrokerStatus) -> Result<TenantId, BridgeConfigError> {
    let (listener, _) = bridge.listener_of(&config.listeners)?;
    let listener = ListenerId(u16::try_from(listener).unwrap_or(u16::MAX));
    let Some(tenancy) = status.tenancy() else { return Ok(TenantId::DEFAULT) };
    let of_listener = tenancy.of_listener(listener).unwrap_or(TenantId::DEFAULT);
    let of_user = bridge.local_username.as_deref().and_then(|user| tenancy.of_user(of_listener, user));
    Ok(of_user.unwrap_or(of_listener))
}

/// The running bridges, as a part of the broker's status.
struct BridgesPart(Arc<Mutex<Vec<Bridge>>>);

impl Part for BridgesPart {
    fn add_to(&self, status: &mut Status) {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        status.bridges = running.iter().map(numbers_of).collect();
    }
}

fn numbers_of(bridge: &Bridge) -> BridgeNumbers {
    let status = bridge.status();
    let end = |side| BridgeEnd {
        connected: status.is_connected(side),
        carried: status.carried_to(side),
        dropped: status.dropped_to(side),
        looped: status.looped_to(side),
        beyond_window: status.beyond_window_from(side),
    };
    BridgeNumbers { name: bridge.name().to_owned(), local: end(Side::Local), remote: end(Side::Remote) }
}
