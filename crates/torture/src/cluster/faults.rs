//! Faults of the machines and of the network of nodes, each with its end.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::network::{Network, Way, WayState, source_of};
use crate::failure::Failure;
use crate::power;

/// The source of the library: each machine builds it for its own C library.
const SOURCE: &str = include_str!("../../preload/strikes.c");

/// Bytes of a number in the file of a machine.
const NUMBER: u64 = 8;
/// Offset of the library's counts in that file: three numbers of the rig come first.
const COUNTS_AT: u64 = 3 * NUMBER;

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
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.map_err(Failure::file("creating", &path))?;
        file.set_len(COUNTS_AT + 3 * NUMBER).map_err(Failure::file("writing", &path))?;
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

    /// The calls of the program that met a fault of this kind so far, as the library has counted them.
    fn met(&self, count: Count) -> Result<u64, Failure> {
        let mut bytes = [0; NUMBER as usize];
        let at = COUNTS_AT + NUMBER * count as u64;
        self.file.read_exact_at(&mut bytes, at).map_err(Failure::file("reading", &self.path))?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

/// The counts of the library, in its order.
#[derive(Clone, Copy, Debug)]
enum Count {
    Refused,
    Slowed,
    Shifted,
}

/// A fault with its end.
#[derive(Debug)]
struct InForce {
    until: Instant,
    fault: NodeFault,
    /// The count when it began, see [`Faults::met`].
    met_before: u64,
}

/// All faults of a cluster that are in force.
#[derive(Debug)]
pub(super) struct Faults {
    library: PathBuf,
    machines: Vec<Machine>,
    network: Network,
    in_force: Vec<InForce>,
    /// How many have ended.
    pub(super) ended: u64,
    /// Faults that were over before anything met them, not taken yet.
    unmet: Vec<NodeFault>,
}

impl Faults {
    /// No faults. The library and the files of machines are in the folder.
    pub(super) fn new(folder: &Path, nodes: usize, network: Network) -> Result<Self, Failure> {
        let folder = folder.canonicalize().map_err(Failure::file("finding", folder))?;
        let library = power::build(&folder, "strikes", SOURCE)?;
        let machines = (0..nodes).map(|node| Machine::new(folder.join(format!("machine-{node}"))));
        let machines = machines.collect::<Result<_, _>>()?;
        Ok(Self { library, machines, network, in_force: Vec::new(), ended: 0, unmet: Vec::new() })
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
        self.end(|earlier| earlier.fault.end() == fault.end())?;
        let met_before = self.met(fault)?;
        self.in_force.push(InForce { until, fault, met_before });
        self.apply(fault)
    }

    /// Ends the faults that are due.
    ///
    /// # Errors
    /// When the network does not know who connects, so that faults of ways would not come.
    pub(super) fn tend(&mut self, now: Instant) -> Result<(), Failure> {
        if let Some(from) = self.network.stranger() {
            return Err(Failure::Stranger(from));
        }
        let due = self.end(|fault| now >= fault.until)?;
        self.ended += due.len() as u64;
        due.into_iter().try_for_each(|fault| self.apply(fault.end()))
    }

    /// Takes faults off the list, and notes each that nothing has met.
    fn end(&mut self, is_over: impl Fn(&InForce) -> bool) -> Result<Vec<NodeFault>, Failure> {
        let (over, in_force) = std::mem::take(&mut self.in_force).into_iter().partition(is_over);
        self.in_force = in_force;
        let over: Vec<InForce> = over;
        for ended in &over {
            if self.met(ended.fault)? == ended.met_before {
                self.unmet.push(ended.fault);
            }
        }
        Ok(over.into_iter().map(|ended| ended.fault).collect())
    }

    /// The calls of the program, or attempts to carry something, that met faults of this kind at this place so far.
    fn met(&self, fault: NodeFault) -> Result<u64, Failure> {
        let (node, count) = match fault {
            NodeFault::Full(node, _) => (node, Count::Refused),
            NodeFault::Slow(node, _) => (node, Count::Slowed),
            NodeFault::Clock(node, _) => (node, Count::Shifted),
            NodeFault::Way(way, _) => return Ok(self.network.hindered(way)),
        };
        self.machines[node].met(count)
    }

    /// The faults since the last call that were over before anything met them.
    pub(super) fn take_unmet(&mut self) -> Vec<NodeFault> {
        std::mem::take(&mut self.unmet)
    }

    /// True if a process, which serves, has loaded the library: else no fault of its machine would come.
    pub(super) fn reach(&self, pid: u32) -> bool {
        power::is_loaded(&self.library, pid)
    }

    /// True if no fault is in force.
    pub(super) fn are_over(&self) -> bool {
        self.in_force.is_empty()
    }

    /// True while the disk of a node is full.
    pub(super) fn have_full_disk(&self) -> bool {
        self.in_force.iter().any(|fault| matches!(fault.fault, NodeFault::Full(..)))
    }

    /// True while a link between two nodes carries nothing and keeps its connections.
    pub(super) fn have_silent_link(&self) -> bool {
        self.in_force.iter().any(|fault| matches!(fault.fault, NodeFault::Way(Way::Link(..), WayState::Silent)))
    }

    /// True while the way of a node to the bus carries nothing and keeps its connections: it finds this out by its lease.
    pub(super) fn have_silent_bus(&self) -> bool {
        self.in_force.iter().any(|fault| matches!(fault.fault, NodeFault::Way(Way::Bus(_), WayState::Silent)))
    }

    /// The nodes whose way to the bus is slow.
    pub(super) fn slow_at_bus(&self) -> impl Iterator<Item = usize> {
        self.in_force.iter().filter_map(|fault| match fault.fault {
            NodeFault::Way(Way::Bus(node), WayState::Slow) => Some(node),
            _ => None,
        })
    }

    /// True while a node reaches the bus badly or not at all.
    pub(super) fn hinder_bus(&self) -> bool {
        self.in_force.iter().any(|fault| matches!(fault.fault, NodeFault::Way(Way::Bus(_), _)))
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
    use std::process::{Command, Output};
    use std::time::Duration;

    use super::*;

    /// Two machines, and programs on the second one.
    struct TestMachines {
        folder: PathBuf,
        data: PathBuf,
        faults: Faults,
        later: Instant,
    }

    impl TestMachines {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("tidegate-torture-{name}-{}", std::process::id()));
            let data = folder.join("data");
            std::fs::create_dir_all(&data).unwrap();
            let faults = Faults::new(&folder, 2, Network::start(2, Vec::new()).unwrap()).unwrap();
            let data = data.canonicalize().unwrap();
            Self { folder, data, faults, later: Instant::now() + Duration::from_secs(60) }
        }

        fn run(&self, command: &str) -> Output {
            let environment = self.faults.environment(1, &self.data);
            Command::new("sh").args(["-c", command]).current_dir(&self.data).envs(environment).output().unwrap()
        }

        fn year(&self) -> String {
            String::from_utf8(self.run("date -u +%Y").stdout).unwrap()
        }
    }

    impl Drop for TestMachines {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn a_program_meets_the_faults_of_its_machine() {
        let mut bench = TestMachines::new("faults");
        let (begun, later) = (Instant::now(), bench.later);
        let right = bench.year();
        assert!(bench.run("echo kept >file").status.success());
        bench.faults.strike(NodeFault::Full(1, true), later).unwrap();
        bench.faults.strike(NodeFault::Clock(1, 400 * 366 * 86_400), later).unwrap();
        assert!(!bench.run("echo more >>file").status.success(), "a file cannot grow");
        assert!(bench.run("echo more >../file").status.success(), "another folder has room");
        assert_ne!(bench.year(), right);
        bench.faults.tend(begun).unwrap();
        assert!(!bench.faults.are_over());
        bench.faults.tend(later).unwrap();
        assert!(bench.faults.are_over() && bench.faults.ended == 2);
        assert!(bench.run("echo more >>file").status.success());
        assert_eq!(bench.year(), right);
        assert_eq!(bench.faults.take_unmet(), [], "both were met");
    }

    #[test]
    fn a_full_disk_has_no_room_in_a_hole() {
        let mut bench = TestMachines::new("hole");
        let write = |bench: &TestMachines, at: u64| {
            bench.run(&format!("dd if=/dev/zero of=file conv=notrunc bs=4096 count=1 seek={at}"))
        };
        assert!(bench.run("truncate -s 1M file && fallocate -l 64K reserved && echo text >small").status.success());
        assert!(write(&bench, 3).status.success());
        bench.faults.strike(NodeFault::Full(1, true), bench.later).unwrap();
        assert!(write(&bench, 3).status.success(), "the block is there");
        for hole in [2, 4, 255] {
            assert!(!write(&bench, hole).status.success(), "block {hole} is a hole");
        }
        let reserved = "dd if=/dev/zero of=reserved conv=notrunc bs=4096 count=16";
        assert!(bench.run(reserved).status.success(), "reserved blocks are there");
        assert!(!bench.run("cp small copy").status.success());
        assert_eq!(bench.faults.machines[1].met(Count::Refused).unwrap(), 4);
    }

    #[test]
    fn a_fault_that_nothing_met_is_noted() {
        let mut bench = TestMachines::new("unmet");
        let begun = Instant::now();
        bench.faults.strike(NodeFault::Full(0, true), bench.later).unwrap();
        bench.faults.strike(NodeFault::Slow(1, 1), bench.later).unwrap();
        assert!(bench.run("echo kept >file").status.success());
        bench.faults.tend(begun).unwrap();
        assert_eq!((bench.faults.take_unmet(), bench.faults.have_full_disk()), (Vec::new(), true));
        bench.faults.tend(bench.later).unwrap();
        assert_eq!((bench.faults.take_unmet(), bench.faults.have_full_disk()), (vec![NodeFault::Full(0, true)], false));
        assert_eq!(bench.faults.take_unmet(), []);
    }

    #[test]
    fn a_program_without_the_library_is_recognised() {
        let bench = TestMachines::new("blind");
        let start = |environment| {
            let mut command = Command::new("sleep");
            command.arg("60").envs::<Vec<(String, String)>, _, _>(environment).spawn().unwrap()
        };
        let mut with = start(bench.faults.environment(1, &bench.data));
        let mut without = start(Vec::new());
        // The program takes the place of the copy of this process a little after its start.
        while !bench.faults.reach(with.id()) && matches!(with.try_wait(), Ok(None)) {
            std::thread::yield_now();
        }
        assert!(bench.faults.reach(with.id()) && !bench.faults.reach(without.id()));
        for child in [&mut with, &mut without] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn the_library_refuses_settings_that_it_cannot_follow() {
        let bench = TestMachines::new("settings");
        for (name, value) in [
            ("TIDEGATE_TORTURE_SOURCE", "node-1"),
            ("TIDEGATE_TORTURE_STRIKES", "/nothing/there"),
            ("TIDEGATE_TORTURE_DIR", "/nothing/there"),
        ] {
            let environment = bench.faults.environment(1, &bench.data);
            let said = Command::new("sleep").arg("0").envs(environment).env(name, value).output().unwrap();
            assert!(!said.status.success() && String::from_utf8_lossy(&said.stderr).contains(name), "{said:?}");
        }
    }

    #[test]
    fn only_a_fault_that_others_cannot_see_needs_time() {
        let mut bench = TestMachines::new("silence");
        let at =
            |faults: &Faults| (faults.have_silent_link(), faults.have_silent_bus(), faults.slow_at_bus().collect());
        for (way, state, expected) in [
            (Way::Link(0, 1), WayState::Cut, (false, false, Vec::new())),
            (Way::Bus(1), WayState::Cut, (false, false, Vec::new())),
            (Way::Bus(1), WayState::Slow, (false, false, vec![1])),
            (Way::Bus(1), WayState::Silent, (false, true, Vec::new())),
            (Way::Link(0, 1), WayState::Slow, (false, true, Vec::new())),
            (Way::Link(0, 1), WayState::Silent, (true, true, Vec::new())),
        ] {
            bench.faults.strike(NodeFault::Way(way, state), bench.later).unwrap();
            assert_eq!(at(&bench.faults), expected, "{way:?} {state:?}");
        }
    }

    #[test]
    fn a_fault_takes_the_place_of_the_one_before() {
        let mut bench = TestMachines::new("place");
        let now = Instant::now();
        bench.faults.strike(NodeFault::Way(Way::Link(0, 1), WayState::Cut), now).unwrap();
        bench.faults.strike(NodeFault::Way(Way::Link(1, 0), WayState::Slow), bench.later).unwrap();
        bench.faults.tend(now).unwrap();
        assert!(!bench.faults.are_over(), "the second one lasts");
        assert_eq!(source_of(1), Ipv4Addr::new(127, 0, 0, 11));
    }
}
