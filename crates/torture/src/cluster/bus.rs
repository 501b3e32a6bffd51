//! The bus of a cluster: servers of NATS, or a directory that one of the nodes serves to the others.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::failure::Failure;
use crate::member::Member;
use crate::ports::Ports;

/// The bytes that NATS may reserve for logs. It reserves the most that each log may take, and without this no more than
/// three quarters of the free disk: three nodes would not start on a disk that has room for all that a run writes.
const BUS_STORE: &str = "1TB";

/// The bus of the nodes.
pub(super) enum NodesBus {
    /// Servers of their own, which are one cluster.
    Servers(Vec<Member>),
    /// A directory, which one of the nodes serves to the others.
    Directory(PathBuf),
}

/// A server of NATS and where it listens: for nodes, and for the other servers.
struct NatsServer {
    folder: PathBuf,
    name: String,
    port: u16,
    route: u16,
}

impl NatsServer {
    /// Writes `bus.conf`, beside the folder of its data. Servers announce no addresses, since nodes reach them through the rig.
    fn write_configuration(&self, all: &[Self]) -> Result<(), Failure> {
        let path = self.folder.join("bus.conf");
        let Self { name, port, route, folder } = self;
        let store = folder.join("bus");
        let mut text = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{}\", max_file_store: {BUS_STORE} }}\n",
            store.display()
        );
        if all.len() > 1 {
            let routes: Vec<_> = all.iter().map(|other| format!("\"nats://127.0.0.1:{}\"", other.route)).collect();
            let routes = routes.join(", ");
            let listen = format!("listen: \"127.0.0.1:{route}\", no_advertise: true, routes: [{routes}]");
            text = format!("{text}server_name: {name}\ncluster {{ name: torture, {listen} }}\n");
        }
        std::fs::write(&path, text).map_err(Failure::file("writing", &path))
    }
}

/// Empties a folder.
pub(super) fn empty(folder: &Path) -> Result<(), Failure> {
    std::fs::remove_dir_all(folder).map_err(Failure::file("removing", folder))?;
    std::fs::create_dir_all(folder).map_err(Failure::file("creating", folder))
}

impl NodesBus {
    /// Servers that were not started, each with `bus.conf` in a folder of its own where there are several.
    pub(super) fn servers(count: u16, command: &str, folder: &Path, ports: &mut Ports) -> Result<Self, Failure> {
        let mut all = Vec::new();
        for number in 0..count {
            let name = if count > 1 { format!("bus-{number}") } else { "bus".to_owned() };
            let folder = if count > 1 { folder.join(&name) } else { folder.to_owned() };
            std::fs::create_dir_all(&folder).map_err(Failure::file("creating", &folder))?;
            let (port, route) = (ports.next()?, if count > 1 { ports.next()? } else { 0 });
            all.push(NatsServer { folder, name, port, route });
        }
        let mut members = Vec::new();
        for server in &all {
            server.write_configuration(&all)?;
            let data = server.folder.join("bus");
            members.push(Member::new(server.name.clone(), command.to_owned(), server.port, data)?);
        }
        Ok(Self::Servers(members))
    }

    fn members(&self) -> &[Member] {
        match self {
            Self::Servers(servers) => servers,
            Self::Directory(_) => &[],
        }
    }

    /// The processes of its own.
    pub(super) fn members_mut(&mut self) -> &mut [Member] {
        match self {
            Self::Servers(servers) => servers,
            Self::Directory(_) => &mut [],
        }
    }

    /// The ports of its servers.
    pub(super) fn ports(&self) -> Vec<u16> {
        self.members().iter().map(|server| server.recipe.port).collect()
    }

    /// Starts the servers that are due.
    pub(super) fn tend(&mut self, now: Instant) -> Result<(), Failure> {
        self.members_mut().iter_mut().try_for_each(|server| server.tend(now))
    }

    /// True if no server is away.
    pub(super) fn is_whole(&self) -> bool {
        self.members().iter().all(Member::is_running)
    }

    /// False while not more than half of its servers run. A bus in a directory has another server when one dies.
    pub(super) fn has_majority(&self) -> bool {
        let running = self.members().iter().filter(|server| server.is_running()).count();
        self.members().is_empty() || 2 * running > self.members().len()
    }

    /// The server that a strike at the bus meets, by a number of the plan.
    pub(super) fn chosen(&mut self, number: usize) -> Option<&mut Member> {
        let count = self.members().len().max(1);
        self.members_mut().get_mut(number % count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bus_of_three_servers_bears_the_death_of_one() {
        let folder = std::env::temp_dir().join(format!("tidegate-torture-servers-{}", std::process::id()));
        let mut ports = Ports::take(1, 10).unwrap();
        let mut bus = NodesBus::servers(3, "sleep 60", &folder, &mut ports).unwrap();
        let text = std::fs::read_to_string(folder.join("bus-1/bus.conf")).unwrap();
        assert!(text.contains("server_name: bus-1") && text.matches("nats://").count() == 3, "{text}");
        let now = Instant::now();
        bus.tend(now).unwrap();
        let later = now + std::time::Duration::from_secs(60);
        for (number, has_majority) in [(4, true), (2, false)] {
            bus.chosen(number).unwrap().kill(later).unwrap();
            assert!(!bus.is_whole());
            assert_eq!(bus.has_majority(), has_majority);
        }
        drop(bus);
        empty(&folder).unwrap();
        std::fs::remove_dir(folder).unwrap();
    }
}
