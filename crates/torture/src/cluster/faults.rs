//! Faults of the machines and of the network of nodes, each with its end.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::network::{Network, Way, WayState, source_of};
use crate::failure::Failure;
use crate::power;

/// The library's source; it is built where it is used, for the C library that is there.
const SOURCE: &str = include_str!("../../preload/strikes.c");

/// A fault of a machine or of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeFault {
    /// Whether files of a node cannot grow.
    Full(usize, bool),
    /// Each write and sync of a node takes this number of milliseconds longer.
    Slow(usize, u64),
    /// The wall clock of a node is this number of seconds ahead.
    Clock(usize, i64),
    /// A way is not open.
    Way(Way, WayState),
}

impl NodeFault {
    /// The state of the same thing without a fault.
    fn end(self) -> Self {
        match self {
            Self::Full(node, _) => Self::Full(node, false),
            Self::Slow(node, _) => Self::Slow(node, 0),
            Self::Clock(node, _) => Self::Clock(node, 0),
            Self::Way(Way::Link(one, other), _) => Self::Way(Way::Link(one.min(other), one.max(other)), WayState::Open),
            Self::Way(way, _) => Self::Way(way, WayState::Open),
        }
    }
}

/// The machine of a node: a file that its preload library reads.
#[derive(Debug)]
struct Machine {
    path: PathBuf,
    file: File,
    full: u64,
    slow_ms: u64,
    clock_s: i64,
}

impl Machine {
    fn new(path: PathBuf) -> Result<Self, Failure> {
        let file = File::create(&path).map_err(Failure::file("creating", &path))?;
        let machine = Self { path, file, full: 0, slow_ms: 0, clock_s: 0 };
        machine.tell()?;
        Ok(machine)
    }

    /// Writes the state for the library, in its order.
    fn tell(&self) -> Result<(), Failure> {
        let [full, slow, clock] = [self.full.to_ne_bytes(), self.slow_ms.to_ne_bytes(), self.clock_s.to_ne_bytes()];
        let all = [full, slow, clock].concat();
        self.file.write_all_at(&all, 0).map_err(Failure::file("writing", &self.path))
    }
}

/// All faults of a cluster that are in force.
#[derive(Debug)]
pub(super) struct Faults {
    library: PathBuf,
    machines: Vec<Machine>,
    network: Network,
    in_force: Vec<(Instant, NodeFault)>,
    /// How many have ended.
    pub(super) ended: u64,
}

impl Faults {
    /// No faults. The library and the files of machines are in the folder.
    pub(super) fn new(folder: &Path, nodes: usize, network: Network) -> Result<Self, Failure> {
        let folder = folder.canonicalize().map_err(Failure::file("finding", folder))?;
        let library = power::build(&folder, "strikes", SOURCE)?;
        let machines = (0..nodes).map(|node| Machine::new(folder.join(format!("machine-{node}"))));
        let machines = machines.collect::<Result<_, _>>()?;
        Ok(Self { library, machines, network, in_force: Vec::new(), ended: 0 })
    }

    /// The variables for the environment of a node whose files are in `data`.
    pub(super) fn environment(&self, node: usize, data: &Path) -> Vec<(String, String)> {
        let pairs = [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("TIDEGATE_TORTURE_DIR", data.display().to_string()),
            ("TIDEGATE_TORTURE_STRIKES", self.machines[node].path.display().to_string()),
            ("TIDEGATE_TORTURE_SOURCE", source_of(node).to_string()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }

    /// Begins a fault, in the place of one of the same kind at the same place.
    pub(super) fn strike(&mut self, fault: NodeFault, until: Instant) -> Result<(), Failure> {
        self.in_force.retain(|(_, earlier)| earlier.end() != fault.end());
        self.in_force.push((until, fault));
        self.apply(fault)
    }

    /// Ends the faults that are due.
    pub(super) fn tend(&mut self, now: Instant) -> Result<(), Failure> {
        let (due, in_force): (Vec<_>, Vec<_>) = self.in_force.iter().copied().partition(|(until, _)| now >= *until);
        self.in_force = in_force;
        self.ended += due.len() as u64;
        due.into_iter().try_for_each(|(_, fault)| self.apply(fault.end()))
    }

    /// True if no fault is in force.
    pub(super) fn are_over(&self) -> bool {
        self.in_force.is_empty()
    }

    /// True while a way of the network carries nothing.
    pub(super) fn have_silence(&self) -> bool {
        self.in_force.iter().any(|(_, fault)| matches!(fault, NodeFault::Way(_, WayState::Silent)))
    }

    /// True while a node reaches the bus badly or not at all.
    pub(super) fn hinder_bus(&self) -> bool {
        self.in_force.iter().any(|(_, fault)| matches!(fault, NodeFault::Way(Way::Bus(_), _)))
    }

    /// Tells the network whether the process of a node is there.
    pub(super) fn set_alive(&self, node: usize, is_alive: bool) {
        self.network.set_alive(node, is_alive);
    }

    fn apply(&mut self, fault: NodeFault) -> Result<(), Failure> {
        let node = match fault {
            NodeFault::Way(way, state) => {
                self.network.strike(way, state);
                return Ok(());
            }
            NodeFault::Full(node, _) | NodeFault::Slow(node, _) | NodeFault::Clock(node, _) => node,
        };
        let machine = &mut self.machines[node];
        match fault {
            NodeFault::Full(_, is_full) => machine.full = u64::from(is_full),
            NodeFault::Slow(_, time) => machine.slow_ms = time,
            NodeFault::Clock(_, ahead) => machine.clock_s = ahead,
            NodeFault::Way(..) => {}
        }
        machine.tell()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_program_meets_the_faults_of_its_machine() {
        let folder = std::env::temp_dir().join(format!("tidegate-torture-faults-{}", std::process::id()));
        let data = folder.join("data");
        std::fs::create_dir_all(&data).unwrap();
        let mut faults = Faults::new(&folder, 2, Network::start(2, Vec::new()).unwrap()).unwrap();
        let run = |faults: &Faults, command: &str| {
            let environment = faults.environment(1, &data.canonicalize().unwrap());
            Command::new("sh").args(["-c", command]).current_dir(&data).envs(environment).output().unwrap()
        };
        let year = |faults: &Faults| String::from_utf8(run(faults, "date -u +%Y").stdout).unwrap();
        let (begun, later) = (Instant::now(), Instant::now() + Duration::from_secs(60));
        let right = year(&faults);
        assert!(run(&faults, "echo kept >file").status.success());
        faults.strike(NodeFault::Full(1, true), later).unwrap();
        faults.strike(NodeFault::Clock(1, 400 * 366 * 86_400), later).unwrap();
        assert!(!run(&faults, "echo more >>file").status.success(), "a file cannot grow");
        assert!(run(&faults, "echo more >../file").status.success(), "another folder has room");
        assert_ne!(year(&faults), right);
        faults.tend(begun).unwrap();
        assert!(!faults.are_over());
        faults.tend(later).unwrap();
        assert!(faults.are_over() && faults.ended == 2);
        assert!(run(&faults, "echo more >>file").status.success());
        assert_eq!(year(&faults), right);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_fault_takes_the_place_of_the_one_before() {
        let folder = std::env::temp_dir().join(format!("tidegate-torture-place-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut faults = Faults::new(&folder, 3, Network::start(3, Vec::new()).unwrap()).unwrap();
        let now = Instant::now();
        let later = now + Duration::from_secs(60);
        faults.strike(NodeFault::Way(Way::Link(0, 2), WayState::Cut), now).unwrap();
        faults.strike(NodeFault::Way(Way::Link(2, 0), WayState::Slow), later).unwrap();
        faults.tend(now).unwrap();
        assert!(!faults.are_over(), "the second one lasts");
        assert_eq!(source_of(1), Ipv4Addr::new(127, 0, 0, 11));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
