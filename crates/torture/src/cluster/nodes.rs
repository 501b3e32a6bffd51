//! The processes of a cluster: its nodes and the server of its bus.

use std::path::Path;
use std::time::{Duration, Instant};

use super::observer::Watched;
use crate::broker::{Broker, Recipe, free_port};
use crate::failure::Failure;

/// A process that is started again when it is due.
struct Process {
    name: String,
    recipe: Recipe,
    running: Option<Broker>,
    /// When it is started again, or goes on where it stands still.
    back_at: Instant,
    is_frozen: bool,
}

/// The nodes, and the server of their bus.
pub(super) struct Nodes {
    members: Vec<Process>,
    admin: Vec<u16>,
    bus: Process,
}

impl Process {
    fn new(name: String, command: String, port: u16, folder: &Path) -> Result<Self, Failure> {
        let data = folder.join(&name);
        std::fs::create_dir_all(&data).map_err(Failure::file("creating", &data))?;
        let recipe = Recipe { command, port, data, environment: Vec::new() };
        Ok(Self { name, recipe, running: None, back_at: Instant::now(), is_frozen: false })
    }

    /// Starts it, or lets it go on, when it is due.
    fn tend(&mut self, now: Instant) -> Result<(), Failure> {
        if self.running.as_mut().is_some_and(|process| process.ended().is_some()) {
            // One that ends by itself, such as a node that has lost its lease, is started again at once.
            self.running = None;
        }
        if self.back_at > now {
            return Ok(());
        }
        match &self.running {
            None => self.running = Some(self.recipe.start()?),
            Some(process) if self.is_frozen => process.thaw()?,
            Some(_) => {}
        }
        self.is_frozen = false;
        Ok(())
    }

    fn kill(&mut self, back_at: Instant) -> Result<(), Failure> {
        if let Some(mut process) = self.running.take() {
            process.kill()?;
        }
        self.back_at = back_at;
        Ok(())
    }
}

impl Nodes {
    /// Nodes and a bus that were not started; ports follow `port`.
    pub(super) fn new(
        count: u16,
        command: &str,
        bus_command: &str,
        lease: u64,
        folder: &Path,
        port: u16,
    ) -> Result<Self, Failure> {
        let mut last = port;
        let mut next = || -> Result<u16, Failure> {
            last = free_port(u64::from(last) - 20_000 + 1)?;
            Ok(last)
        };
        let bus_port = next()?;
        let bus = Process::new("bus".to_owned(), bus_command.to_owned(), bus_port, folder)?;
        let (mut members, mut admin) = (Vec::new(), Vec::new());
        for number in 0..count {
            let name = format!("node-{number}");
            let (own, of_admin) = (next()?, next()?);
            let command = command
                .replace("{node}", &name)
                .replace("{bus}", &format!("nats://127.0.0.1:{bus_port}"))
                .replace("{admin}", &of_admin.to_string())
                .replace("{lease}", &lease.to_string());
            members.push(Process::new(name, command, own, folder)?);
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
        all.all(|process| process.running.is_some() && !process.is_frozen)
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
        let node = &mut self.members[node];
        if let Some(process) = &node.running {
            process.ask_to_end()?;
        }
        node.back_at = back_at;
        Ok(node.name.clone())
    }

    /// Stops a node where it stands; gives its name and its port.
    pub(super) fn freeze(&mut self, node: usize, back_at: Instant) -> Result<(String, u16), Failure> {
        let node = &mut self.members[node];
        if let Some(process) = &node.running {
            process.freeze()?;
            node.is_frozen = true;
        }
        node.back_at = back_at;
        Ok((node.name.clone(), node.recipe.port))
    }

    /// The last lines of every process.
    pub(super) fn output(&mut self) -> String {
        let mut said = Vec::new();
        for process in self.members.iter_mut().chain([&mut self.bus]) {
            let lines = process.running.as_mut().map(Broker::output).unwrap_or_default();
            let last = lines.len().saturating_sub(5);
            said.push(format!("[{}] {}", process.name, lines[last..].join(" / ")));
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
