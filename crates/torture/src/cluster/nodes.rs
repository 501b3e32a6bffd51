//! The processes of a cluster: its nodes and the server of its bus.

use std::path::Path;
use std::time::{Duration, Instant};

use super::observer::Watched;
use crate::failure::Failure;
use crate::member::Member;
use crate::ports::Ports;

/// The bytes that NATS may reserve for logs. It reserves the most that each log may take, and without this no more than
/// three quarters of the free disk: three nodes would not start on a disk that has room for all that a run writes.
const BUS_STORE: &str = "1TB";

/// The nodes, and the server of their bus.
pub(super) struct Nodes {
    members: Vec<Member>,
    admin: Vec<u16>,
    bus: Member,
}

/// Writes `bus.conf` for a NATS server, beside the folder of its data.
fn write_bus_configuration(folder: &Path, port: u16) -> Result<(), Failure> {
    let path = folder.join("bus.conf");
    let text = format!(
        "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{}\", max_file_store: {BUS_STORE} }}\n",
        folder.join("bus").display()
    );
    std::fs::write(&path, text).map_err(Failure::file("writing", &path))
}

impl Nodes {
    /// Nodes and a bus that were not started.
    pub(super) fn new(
        count: u16,
        command: &str,
        bus_command: &str,
        lease: u64,
        folder: &Path,
        ports: &mut Ports,
    ) -> Result<Self, Failure> {
        let bus_port = ports.next()?;
        write_bus_configuration(folder, bus_port)?;
        let bus = Member::new("bus".to_owned(), bus_command.to_owned(), bus_port, folder.join("bus"))?;
        let (mut members, mut admin) = (Vec::new(), Vec::new());
        for number in 0..count {
            let name = format!("node-{number}");
            let (own, of_admin) = (ports.next()?, ports.next()?);
            let command = command
                .replace("{node}", &name)
                .replace("{bus}", &format!("nats://127.0.0.1:{bus_port}"))
                .replace("{admin}", &of_admin.to_string())
                .replace("{lease}", &lease.to_string());
            let data = folder.join(&name);
            members.push(Member::new(name, command, own, data)?);
            admin.push(of_admin);
        }
        Ok(Self { members, admin, bus })
    }

    pub(super) fn count(&self) -> usize {
        self.members.len()
    }

    /// Where clients connect.
    pub(super) fn ports(&self) -> Vec<u16> {
        self.members.iter().map(|node| node.recipe.port).collect()
    }

    /// What observers ask.
    pub(super) fn watched(&self) -> Vec<Watched> {
        let pairs = self.members.iter().zip(&self.admin);
        pairs.map(|(node, admin)| Watched { name: node.name.clone(), port: node.recipe.port, admin: *admin }).collect()
    }

    /// Starts everything that is due.
    pub(super) fn tend(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        self.bus.tend(now)?;
        self.members.iter_mut().try_for_each(|node| node.tend(now))
    }

    /// True if every process is started and goes on.
    pub(super) fn are_running(&self) -> bool {
        let mut all = self.members.iter().chain([&self.bus]);
        all.all(Member::is_running)
    }

    /// Kills the bus; gives its name.
    pub(super) fn kill_bus(&mut self, back_at: Instant) -> Result<String, Failure> {
        self.bus.kill(back_at)?;
        Ok(self.bus.name.clone())
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

    /// Stops a node where it stands; gives its name and its port.
    pub(super) fn freeze(&mut self, node: usize, back_at: Instant) -> Result<(String, u16), Failure> {
        let node = &mut self.members[node];
        node.freeze(back_at)?;
        Ok((node.name.clone(), node.recipe.port))
    }

    /// The last lines of every process.
    pub(super) fn output(&mut self) -> String {
        let mut said = Vec::new();
        for process in self.members.iter_mut().chain([&mut self.bus]) {
            said.push(process.output());
        }
        said.join(" ")
    }

    /// Ends all nodes, then the bus.
    pub(super) fn terminate(&mut self, limit: Duration) -> Result<(), Failure> {
        for process in self.members.iter_mut().chain([&mut self.bus]) {
            if let Some(mut process) = process.running.take() {
                process.terminate(limit)?;
            }
        }
        Ok(())
    }
}
