//! The broker of a run: started for it, or already running.

use super::order::Order;
use super::plan::carrier_of;
use super::task::{ExecuteError, Task, Timeline};
use crate::endpoint::endpoint_of;
use crate::peer::{GatewayOrder, Peer, PeerError, Ports, Running, Site, Stopped, Template, without_credentials};
use crate::results::PeerInfo;
use crate::sample::Watched;
use crate::scenario::Action;
use crate::stop::Stop;

/// A broker of a run: started here, or somewhere else.
pub(super) struct Broker {
    pub(super) running: Option<Running>,
    pub(super) address: String,
    pid: Option<u32>,
}

impl Broker {
    pub(super) fn start(
        order: &Order,
        task: &Task<'_>,
        site: &Site,
        ports: &mut Ports,
        stop: &Stop,
    ) -> Result<Self, ExecuteError> {
        match task.peer {
            Peer::Address { name, address, pid } => {
                if !order.scenario.events.is_empty() {
                    return Err(ExecuteError::NotOurs(name.clone()));
                }
                Ok(Self { running: None, address: address.clone(), pid: *pid })
            }
            Peer::Template { template, by, .. } => {
                let v5 = task.case.load.get("protocol").and_then(toml::Value::as_str) == Some("5");
                let key = template.address_for(by.as_deref(), v5);
                speaks(order, task, template, key, v5)?;
                let running = Running::start(template, &order.place, site, ports, stop)?;
                let address = running.address(key).unwrap_or_default();
                Ok(Self { running: Some(running), address, pid: None })
            }
        }
    }

    /// Whether it brings messages to clients by their address.
    pub(super) fn has_addresses(&self) -> bool {
        self.running.as_ref().is_some_and(Running::has_addresses)
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.running.as_ref().and_then(Running::pid).or(self.pid)
    }

    pub(super) fn ended_early(&mut self) -> Option<String> {
        let running = self.running.as_mut()?;
        running.ended().map(|status| format!("{status}; see {}", running.directory().display()))
    }

    /// Its description; `product` is its own version.
    pub(super) fn info(&self, peer: &Peer, product: Option<String>) -> PeerInfo {
        match (&self.running, peer) {
            (Some(running), Peer::Template { template, .. }) => PeerInfo {
                title: template.title.clone(),
                language: template.language.clone(),
                version: running.version.clone(),
                notes: running.notes.clone(),
                configuration: running.configuration(),
            },
            _ => PeerInfo {
                title: peer.name().to_owned(),
                version: product.unwrap_or_else(|| "unknown".to_owned()),
                notes: vec![format!("it ran already, at {}", without_credentials(&self.address))],
                ..PeerInfo::default()
            },
        }
    }

    pub(super) fn act(&mut self, action: Action, watched: &Watched, stop: &Stop) -> Result<&'static str, PeerError> {
        let Some(running) = &mut self.running else { return Ok("nothing") };
        match action {
            Action::Kill => {
                running.kill();
                watched.set(None);
                Ok("broker killed")
            }
            Action::KillGateway => {
                running.signal_gateways(GatewayOrder::Kill)?;
                Ok("second gateway killed")
            }
            Action::StartGateway => {
                running.signal_gateways(GatewayOrder::Start)?;
                Ok("second gateway started again")
            }
            Action::Start => {
                running.start_again(stop)?;
                watched.set(running.pid());
                Ok("broker is back")
            }
        }
    }

    pub(super) fn finish(mut self, timeline: &mut Timeline) {
        let Some(running) = &mut self.running else { return };
        match running.stop() {
            Stopped::InTime | Stopped::Before(_) => {}
            Stopped::Killed => timeline.note("the broker did not stop when asked, and was killed"),
        }
        running.remove_files();
    }
}

/// Whether a broker has the protocol of the case, checked before it is started.
fn speaks(order: &Order, task: &Task<'_>, template: &Template, key: &str, v5: bool) -> Result<(), ExecuteError> {
    let scheme = template.scheme_of(key).unwrap_or("mqtt");
    let address = format!("{scheme}://localhost");
    if endpoint_of(&address).is_ok_and(|(_, protocol)| protocol.is_some()) {
        carrier_of(order, task, &address, false)?;
        return Ok(());
    }
    let protocol = if v5 { "mqtt-5" } else { "mqtt-3.1.1" };
    if template.protocols.iter().any(|known| known == protocol) {
        return Ok(());
    }
    Err(ExecuteError::Protocol { peer: template.name.clone(), protocol: protocol.to_owned() })
}
