//! The processes of a cluster: its nodes and the server of its bus.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use super::bus::{NodesBus, empty};
use super::faults::{Faults, NodeFault};
use super::network::{ADVERTISED, Carried, Network, Owner};
use super::observer::Watched;
use super::service::Allowance;
use crate::failure::Failure;
use crate::member::Member;
use crate::ports::Ports;

/// The placeholder of the flags for links between nodes in the command of a node.
const LINKS: &str = "{links}";

fn here(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// The nodes, and their bus.
pub(super) struct Nodes {
    members: Vec<Member>,
    admin: Vec<u16>,
    bus: NodesBus,
    /// Faults of machines and the network, where `{links}` is in the command.
    faults: Option<Faults>,
}

/// How a node reaches others and its bus.
#[derive(Debug)]
struct Wired {
    flags: String,
    /// The ports of the servers of the bus.
    bus: Vec<u16>,
}

impl Wired {
    /// Nothing is carried.
    fn without(bus: Vec<u16>) -> Self {
        Self { flags: String::new(), bus }
    }
}

/// Takes ports for the links of a node, and for its way to each server of the bus, and notes what the network has to carry.
fn wire(number: usize, servers: &[u16], ports: &mut Ports, carried: &mut Vec<Carried>) -> Result<Wired, Failure> {
    let (link, relay) = (ports.next()?, ports.next()?);
    let flags = format!(
        "--set cluster.listen=127.0.0.1:{link} --set cluster.relay=127.0.0.1:{relay} --set cluster.advertise={ADVERTISED}"
    );
    let owner = Owner::Node(number);
    carried.extend([link, relay].map(|port| Carried { at: (ADVERTISED, port).into(), to: here(port), owner }));
    let mut bus = Vec::new();
    for server in servers {
        let own = ports.next()?;
        carried.push(Carried { at: here(own), to: here(*server), owner: Owner::BusOf(number) });
        bus.push(own);
    }
    Ok(Wired { flags, bus })
}

impl Nodes {
    /// Nodes and a bus that were not started.
    pub(super) fn new(
        count: u16,
        command: &str,
        bus_servers: Option<(u16, &str)>,
        lease: u64,
        folder: &Path,
        ports: &mut Ports,
    ) -> Result<Self, Failure> {
        let bus = match bus_servers {
            Some((count, command)) => NodesBus::servers(count, command, folder, ports)?,
            None => NodesBus::Directory(folder.join("bus")),
        };
        let servers = bus.ports();
        let (mut members, mut admin, mut carried) = (Vec::new(), Vec::new(), Vec::new());
        let has_links = command.contains(LINKS);
        for number in 0..usize::from(count) {
            let name = format!("node-{number}");
            let (own, of_admin) = (ports.next()?, ports.next()?);
            let wired =
                if has_links { wire(number, &servers, ports, &mut carried)? } else { Wired::without(servers.clone()) };
            let addresses: Vec<_> = wired.bus.iter().map(|port| format!("127.0.0.1:{port}")).collect();
            let address = match &bus {
                NodesBus::Servers(_) => format!("nats://{}", addresses.join(",")),
                NodesBus::Directory(directory) => format!("embedded://{}", directory.display()),
            };
            let command = command
                .replace(LINKS, &wired.flags)
                .replace("{node}", &name)
                .replace("{bus}", &address)
                .replace("{admin}", &of_admin.to_string())
                .replace("{lease}", &lease.to_string());
            let data = folder.join(&name);
            members.push(Member::new(name, command, own, data)?);
            admin.push(of_admin);
        }
        let mut faults = None;
        if has_links {
            let own = Faults::new(folder, members.len(), Network::start(members.len(), carried)?)?;
            for (number, node) in members.iter_mut().enumerate() {
                node.recipe.environment = own.environment(number, &node.recipe.data);
            }
            faults = Some(own);
        }
        Ok(Self { members, admin, bus, faults })
    }

    /// True if machines and the network can be struck.
    pub(super) fn have_faults(&self) -> bool {
        self.faults.is_some()
    }

    /// True while a node reaches the bus badly or not at all.
    pub(super) fn miss_bus(&self) -> bool {
        !self.has_bus() || self.faults.as_ref().is_some_and(Faults::hinder_bus)
    }

    /// True while a disk is full.
    pub(super) fn have_full_disk(&self) -> bool {
        self.faults.as_ref().is_some_and(Faults::have_full_disk)
    }

    /// Faults that nodes cannot know at once: that another one stands still, or that a link is silent, or a way to the
    /// bus silent or slow. Connections end where a way is cut.
    pub(super) fn allowance(&self) -> Allowance {
        let mut knowing: Vec<usize> = (0..self.count()).filter(|node| self.members[*node].is_frozen()).collect();
        let Some(faults) = &self.faults else { return Allowance::of_silence(!knowing.is_empty(), knowing) };
        if faults.have_silent_link() {
            return Allowance::SilentLink;
        }
        knowing.extend(faults.slow_at_bus());
        Allowance::of_silence(!knowing.is_empty() || faults.have_silent_bus(), knowing)
    }

    /// Begins a fault of a machine or of the network.
    pub(super) fn harm(&mut self, fault: NodeFault, until: Instant) -> Result<(), Failure> {
        self.faults.as_mut().map_or(Ok(()), |faults| faults.strike(fault, until))
    }

    /// The faults since the last call that were over before anything met them.
    pub(super) fn take_unmet(&mut self) -> Vec<NodeFault> {
        self.faults.as_mut().map(Faults::take_unmet).unwrap_or_default()
    }

    /// Checks that faults of machines reach every node that runs.
    ///
    /// # Errors
    /// When a node has not loaded the library.
    pub(super) fn check_reach(&mut self) -> Result<(), Failure> {
        let Some(faults) = &self.faults else { return Ok(()) };
        for node in &mut self.members {
            let Some(process) = &mut node.running else { continue };
            // One that ends meanwhile has nothing loaded.
            let is_blind = !faults.reach(process.pid());
            if is_blind && process.is_alive() {
                return Err(Failure::Blind(format!("{} has not loaded it (a static program?)", node.name)));
            }
        }
        Ok(())
    }

    pub(super) fn count(&self) -> usize {
        self.members.len()
    }

    /// The ports for clients.
    pub(super) fn ports(&self) -> Vec<u16> {
        self.members.iter().map(|node| node.recipe.port).collect()
    }

    /// The port for clients of a node; `None` for a server of the bus.
    pub(super) fn port_of(&self, name: &str) -> Option<u16> {
        self.members.iter().find(|node| node.name == name).map(|node| node.recipe.port)
    }

    /// The nodes that observers ask.
    pub(super) fn watched(&self) -> Vec<Watched> {
        let pairs = self.members.iter().zip(&self.admin);
        pairs.map(|(node, admin)| Watched { name: node.name.clone(), port: node.recipe.port, admin: *admin }).collect()
    }

    /// Starts everything that is due.
    pub(super) fn tend(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        self.bus.tend(now)?;
        self.members.iter_mut().try_for_each(|node| node.tend(now))?;
        let Some(faults) = &mut self.faults else { return Ok(()) };
        for (number, node) in self.members.iter().enumerate() {
            faults.set_alive(number, node.running.is_some());
        }
        faults.tend(now)
    }

    /// True if every process is started and still running, and no fault is in force.
    pub(super) fn are_running(&self) -> bool {
        let are_over = self.faults.as_ref().is_none_or(Faults::are_over);
        are_over && self.bus.is_whole() && self.members.iter().all(Member::is_running)
    }

    /// Kills a process that serves the bus, of several the one with this number; gives its name.
    pub(super) fn kill_bus(&mut self, number: usize, back_at: Instant) -> Result<String, Failure> {
        if let Some(server) = self.bus.chosen(number) {
            server.kill(back_at)?;
            return Ok(server.name.clone());
        }
        let node = match &self.bus {
            NodesBus::Servers(_) => None,
            NodesBus::Directory(directory) => {
                // The lock of the directory has the number of the process.
                let serving = std::fs::read_to_string(directory.join("lock")).unwrap_or_default();
                let pid = |node: &Member| node.running.as_ref().map(|process| process.pid().to_string());
                self.members.iter().position(|node| pid(node).as_deref() == Some(serving.trim()))
            }
        };
        self.kill(node.unwrap_or(0), back_at)
    }

    /// Removes the files of the server of the bus that was killed under this number.
    pub(super) fn wipe_bus(&mut self, number: usize) -> Result<(), Failure> {
        self.bus.chosen(number).map_or(Ok(()), |server| empty(&server.recipe.data))
    }

    /// Removes the files of a node that was killed.
    pub(super) fn lose_disk(&self, node: usize) -> Result<(), Failure> {
        empty(&self.members[node].recipe.data)
    }

    /// False while the server of the bus is away, or half of several.
    pub(super) fn has_bus(&self) -> bool {
        self.bus.has_majority()
    }

    /// How often a process that was struck has returned, or a fault has ended.
    pub(super) fn returned(&self) -> u64 {
        let ended = self.faults.as_ref().map_or(0, |faults| faults.ended);
        ended + self.members.iter().map(|node| node.returned).sum::<u64>()
    }

    /// The nodes, and the servers of the bus where it has some of its own.
    fn processes(&mut self) -> impl Iterator<Item = &mut Member> {
        self.members.iter_mut().chain(self.bus.members_mut())
    }

    /// Kills a node; gives its name.
    pub(super) fn kill(&mut self, node: usize, back_at: Instant) -> Result<String, Failure> {
        self.members[node].kill(back_at)?;
        Ok(self.members[node].name.clone())
    }

    /// Asks a node to end; gives its name. It is started again once it has ended and is due.
    pub(super) fn stop(&mut self, node: usize, back_at: Instant) -> Result<String, Failure> {
        self.members[node].stop(back_at)?;
        Ok(self.members[node].name.clone())
    }

    /// Suspends a node (SIGSTOP); returns its name and its port.
    pub(super) fn freeze(&mut self, node: usize, back_at: Instant) -> Result<(String, u16), Failure> {
        let node = &mut self.members[node];
        node.freeze(back_at)?;
        Ok((node.name.clone(), node.recipe.port))
    }

    /// The last lines of every process.
    pub(super) fn output(&mut self) -> String {
        let mut said = Vec::new();
        for process in self.processes() {
            said.push(process.output());
        }
        said.join(" ")
    }

    /// Ends all nodes, then the bus.
    pub(super) fn terminate(&mut self, limit: Duration) -> Result<(), Failure> {
        for process in self.processes() {
            if let Some(mut process) = process.running.take() {
                process.terminate(limit)?;
            }
        }
        Ok(())
    }
}
