//! The broker of a run: started for it, or already running.

use super::order::Order;
use std::collections::BTreeMap;
use std::time::Instant;

use super::limited;
use super::plan::carrier_of;
use super::task::{ExecuteError, Task, Timeline};
use crate::endpoint::endpoint_of;
use crate::limits::Limits;
use crate::peer::{GatewayOrder, Peer, PeerError, Ports, Running, Site, Stopped, Template, without_credentials};
use crate::platform::{BROKERS, Builder, PartUse, Platform, RunningPlatform, Watermark};
use crate::results::PeerInfo;
use crate::sample::{Cgroups, Limited, Watched, cpu_of, peak_of};
use crate::scenario::Action;
use crate::stop::Stop;

/// A broker of a run: started here, or somewhere else.
pub(super) struct Broker {
    pub(super) running: Option<Running>,
    pub(super) address: String,
    pid: Option<u32>,
    around: Option<Around>,
}

/// The other parts of a platform.
struct Around {
    /// Further brokers.
    brokers: Vec<Running>,
    platform: RunningPlatform,
    /// The cgroups of the brokers: they are removed behind them.
    limited: Vec<Option<Limited>>,
    /// The limits of each broker.
    limits: Limits,
    /// The counters of all parts when the load began.
    since: (BTreeMap<String, Watermark>, Vec<(f64, u64)>),
    begun: Instant,
}

impl Broker {
    pub(super) fn start(
        order: &Order,
        task: &Task<'_>,
        (site, cgroups): (&Site, &Cgroups),
        ports: &mut Ports,
        stop: &Stop,
    ) -> Result<Self, ExecuteError> {
        if let Some(platform) = order.scenario.platform {
            return Self::start_platform(order, task, platform, cgroups, ports, stop);
        }
        match task.peer {
            Peer::Address { name, address, pid } => {
                if !order.scenario.events.is_empty() {
                    return Err(ExecuteError::NotOurs(name.clone()));
                }
                Ok(Self { running: None, address: address.clone(), pid: *pid, around: None })
            }
            Peer::Template { template, by, .. } => {
                let v5 = task.case.load.get("protocol").and_then(toml::Value::as_str) == Some("5");
                let key = template.address_for(by.as_deref(), v5);
                speaks(order, task, template, key, v5)?;
                let running = Running::start(template, &order.place, site, ports, stop)?;
                let address = running.address(key).unwrap_or_default();
                Ok(Self { running: Some(running), address, pid: None, around: None })
            }
        }
    }

    /// Starts a platform with brokers of the peer.
    fn start_platform(
        order: &Order,
        task: &Task<'_>,
        platform: Platform,
        cgroups: &Cgroups,
        ports: &mut Ports,
        stop: &Stop,
    ) -> Result<Self, ExecuteError> {
        let Peer::Template { template, by, .. } = task.peer else { return Err(ExecuteError::PlatformOfAddress) };
        if order.board.is_some() {
            return Err(ExecuteError::BoardOfPlatform);
        }
        let key = template.address_for(by.as_deref(), false);
        if template.scheme_of(key) != Some("mqtt") {
            return Err(ExecuteError::OnlyTcp);
        }
        let name = limited::name(task);
        let builder = Builder::new(platform, (&order.place, &order.host, name.clone()), cgroups, ports, stop)?;
        let mut running = builder.begin();
        builder.bus(&mut running, ports)?;
        let (mut limited, mut brokers) = (Vec::new(), Vec::new());
        for number in 0..BROKERS {
            let limits = platform.limits.broker;
            let cgroup = limits
                .takes_cgroup()
                .then(|| cgroups.limit(&format!("{name}-broker-{number}"), &limits))
                .transpose()?;
            let site = Site {
                host: order.host.clone(),
                cgroups: cgroup.as_ref().map(Limited::joins).unwrap_or_default(),
                descriptors: limits.descriptors,
                namespace: None,
            };
            limited.push(cgroup);
            brokers.push(Running::start(template, &order.place, &site, ports, stop)?);
        }
        let addresses: Vec<String> = brokers.iter().filter_map(|broker| broker.address(key)).collect();
        builder.gateways_and_hubs(&mut running, &addresses, ports)?;
        let hosts: Vec<&str> =
            addresses.iter().filter_map(|address| address.split_once("://").map(|(_, host)| host)).collect();
        let address = format!("mqtt://{}", hosts.join(","));
        let first = brokers.remove(0);
        let around = Around {
            brokers,
            platform: running,
            limited,
            limits: platform.limits.broker,
            since: (BTreeMap::new(), Vec::new()),
            begun: Instant::now(),
        };
        Ok(Self { running: Some(first), address, pid: None, around: Some(around) })
    }

    /// The use of the machine by each broker of a platform so far: CPU time and how often they had to wait for it.
    fn brokers_used(&self) -> Vec<(f64, u64)> {
        let Some(around) = &self.around else { return Vec::new() };
        let cpu = |pid: u32| cpu_of(pid).unwrap_or_default();
        let throttled = |limited: &Option<Limited>| limited.as_ref().map_or(0, |limited| limited.pressure().0);
        self.pids().map(cpu).zip(around.limited.iter().map(throttled)).collect()
    }

    /// The load begins: from now on the use of the parts of a platform counts.
    pub(super) fn begin_counting(&mut self) {
        let used = self.brokers_used();
        if let Some(around) = &mut self.around {
            around.since = (around.platform.watermarks(), used);
            around.begun = Instant::now();
        }
    }

    /// The resources that the parts of a platform have used since the load began.
    pub(super) fn parts(&self) -> Vec<PartUse> {
        let Some(around) = &self.around else { return Vec::new() };
        let seconds = around.begun.elapsed().as_secs_f64();
        let (parts, before) = &around.since;
        let brokers = self.pids().zip(self.brokers_used()).zip(before).enumerate();
        let used = brokers.map(|(number, ((pid, now), before))| PartUse {
            name: format!("broker-{number}"),
            limits: around.limits,
            cores: (now.0 - before.0) / seconds.max(f64::MIN_POSITIVE),
            memory_peak: peak_of(pid).unwrap_or_default(),
            throttled: now.1.saturating_sub(before.1),
            ..PartUse::default()
        });
        used.chain(around.platform.used(parts, seconds)).collect()
    }

    /// Whether it brings messages to clients by their address.
    pub(super) fn has_addresses(&self) -> bool {
        self.running.as_ref().is_some_and(Running::has_addresses)
    }

    /// The processes of all brokers.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        let first = self.running.as_ref().and_then(Running::pid).or(self.pid);
        let others = self.around.iter().flat_map(|around| around.brokers.iter().filter_map(Running::pid));
        first.into_iter().chain(others)
    }

    pub(super) fn ended_early(&mut self) -> Option<String> {
        if let Some(error) = self.around.as_mut().and_then(|around| around.platform.ended()) {
            return Some(error.to_string());
        }
        let others = self.around.iter_mut().flat_map(|around| &mut around.brokers);
        self.running.iter_mut().chain(others).find_map(|running| {
            running.ended().map(|status| format!("{status}; see {}", running.directory().display()))
        })
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
                watched.set([]);
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
        let mut brokers: Vec<Running> = self.running.take().into_iter().collect();
        let mut cgroups = Vec::new();
        if let Some(Around { brokers: others, platform, limited, .. }) = self.around.take() {
            // Gateways and hubs end before their brokers, and cgroups behind the processes in them.
            drop(platform);
            brokers.extend(others);
            cgroups = limited;
        }
        for mut running in brokers {
            match running.stop() {
                Stopped::InTime | Stopped::Before(_) => {}
                Stopped::Killed => timeline.note("the broker did not stop when asked, and was killed"),
            }
            running.remove_files();
        }
        drop(cgroups);
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
