//! Cycles: start, look, load, fault, and again.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::accounts;
use crate::broker::{Broker, NotUp, Recipe};
use crate::checks::{self, Look};
use crate::failure::Failure;
use crate::fleet::{Fleet, MemberStrike};
use clap::ValueEnum;

use crate::ledger::{Finding, Findings};
use crate::power::Power;
use crate::rng::Rng;
use crate::world::{Mood, Size, World};

/// The broker under test is suspended for this time, in milliseconds.
const FROZEN: std::ops::Range<u64> = 100..4_000;

/// The fault of the broker at the end of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// `kill -9`: the system keeps written data.
    Kill,
    /// The power fails: unsynced data may be gone, in part or in whole.
    Power,
    /// SIGTERM: a graceful stop.
    Terminate,
    /// `kill -9` of a broker of the fleet.
    Member,
    /// SIGSTOP of a broker of the fleet, then SIGCONT.
    FreezeMember,
    /// SIGSTOP of the broker or orchestrator, then SIGCONT.
    Freeze,
    /// `kill -9` of the orchestrator and of a broker of the fleet.
    Both,
}

impl Fault {
    /// Whether it strikes a broker behind an orchestrator.
    pub(crate) fn is_for_a_fleet(self) -> bool {
        matches!(self, Self::Member | Self::FreezeMember | Self::Both)
    }

    /// Whether the broker under test lives on in the next cycle.
    fn spares_the_broker(self) -> bool {
        matches!(self, Self::Member | Self::FreezeMember | Self::Freeze)
    }

    /// The fault in its place where the broker under test has to end.
    fn that_ends(self) -> Self {
        match self {
            Self::Member | Self::FreezeMember => Self::Both,
            Self::Freeze => Self::Kill,
            other => other,
        }
    }
}

/// How a disk misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiskFault {
    /// Writes fail with EIO now and then.
    WriteError,
    /// Syncs fail with EIO now and then.
    SyncError,
    /// Writes take only a part of their data.
    ShortWrite,
    /// The disk is full for a while.
    Full,
}

impl DiskFault {
    /// The text for the preload library.
    fn words(self, rng: &mut Rng) -> String {
        match self {
            Self::WriteError => format!("write_eio={} ", rng.within(5..300)),
            Self::SyncError => format!("sync_eio={} ", rng.within(5..300)),
            Self::ShortWrite => format!("short={} ", rng.within(20..2000)),
            Self::Full => {
                format!("enospc_after={} enospc_for={} ", rng.within(5_000..2_000_000), rng.within(1..400))
            }
        }
    }
}

/// The settings of a run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) cycles: u64,
    pub(crate) seed: u64,
    /// One of these is chosen for each cycle.
    pub(crate) faults: Vec<Fault>,
    /// Longest load of one cycle.
    pub(crate) load: Duration,
    pub(crate) size: Size,
    /// The time without news after which missing messages count as lost.
    pub(crate) patience: Duration,
    /// How long a start may take.
    pub(crate) start_limit: Duration,
    /// The folder of all files; the broker's data is in `data` below it.
    pub(crate) folder: PathBuf,
    /// How the disk misbehaves in every second cycle.
    pub(crate) disk_faults: Vec<DiskFault>,
    /// Says what happens on standard error.
    pub(crate) verbose: bool,
}

/// A run in progress.
pub(crate) struct Run {
    pub(crate) settings: Settings,
    pub(crate) recipe: Recipe,
    pub(crate) world: World,
    power: Option<Power>,
    rng: Rng,
    cycle: u64,
    /// The process id of the last broker.
    pid: u32,
    /// The brokers behind it, where it is an orchestrator.
    fleet: Fleet,
    /// The broker, where the last cycle has left it running.
    running: Option<Broker>,
}

/// Runs all cycles and returns the findings.
pub(crate) fn run(settings: Settings, command: String, port: u16, fleet: Fleet) -> Result<Findings, Failure> {
    let mut run = Run::new(settings, command, port)?;
    run.fleet = fleet;
    run.world.ledger.keeps_order = !run.settings.faults.iter().any(|fault| fault.is_for_a_fleet());
    run.fleet.gather(run.settings.start_limit)?;
    while run.cycle < run.settings.cycles {
        run.cycle += 1;
        if !run.cycle()? {
            return Ok(run.world.ledger.findings);
        }
    }
    run.last()?;
    Ok(run.world.ledger.findings)
}

impl Run {
    /// Clients that are all away, and a broker that was not started.
    pub(crate) fn new(settings: Settings, command: String, port: u16) -> Result<Self, Failure> {
        let recipe = Recipe { command, port, data: settings.folder.join("data"), environment: Vec::new() };
        let world = World::new(settings.size, vec![recipe.port], settings.seed)?;
        let rng = Rng::new(settings.seed ^ 0x5eed);
        let watched = settings.faults.contains(&Fault::Power) || !settings.disk_faults.is_empty();
        let power = if watched { Some(Power::new(&settings.folder, &recipe.data)?) } else { None };
        let fleet = Fleet::none();
        Ok(Self { settings, recipe, world, power, rng, cycle: 0, pid: 0, fleet, running: None })
    }

    /// One cycle. False when the broker does not come up any more, so that nothing can follow.
    fn cycle(&mut self) -> Result<bool, Failure> {
        let fault = self.settings.faults[self.rng.index(self.settings.faults.len())];
        if self.running.is_none() && self.rng.chance(10) {
            self.fall_while_starting(fault)?;
        }
        if self.running.is_none() && !self.settings.disk_faults.is_empty() && self.cycle > 1 && self.rng.chance(50) {
            self.misbehave()?;
            return Ok(true);
        }
        let running = self.running.take();
        let Some(mut broker) = (if running.is_some() { running } else { self.start()? }) else {
            return Ok(false);
        };
        if self.cycle == 1 || self.rng.chance(60) {
            self.look(&mut broker)?;
        }
        self.load(&mut broker)?;
        if fault.spares_the_broker() {
            match fault {
                Fault::Freeze => self.freeze(&broker)?,
                Fault::FreezeMember => self.strike_member(MemberStrike::Freeze)?,
                _ => self.strike_member(MemberStrike::Kill)?,
            }
            self.load(&mut broker)?;
            self.running = Some(broker);
        } else {
            self.strike(fault, &mut broker)?;
        }
        self.report(&format!("{fault:?}"));
        Ok(true)
    }

    /// The last start, after which everything must be as promised.
    fn last(&mut self) -> Result<(), Failure> {
        let running = self.running.take();
        let broker = if running.is_some() { running } else { self.start()? };
        if let Some(mut broker) = broker {
            self.look(&mut broker)?;
            broker.terminate(self.settings.start_limit)?;
            self.world.aftermath()?;
        }
        Ok(())
    }

    fn mark(&mut self, text: String) {
        self.world.ledger.note_strike();
        let clock = self.world.ledger.tick();
        self.world.ledger.trace.mark_strike(clock, text);
    }

    /// A broker of the fleet dies or is suspended; it returns under the load that follows.
    fn strike_member(&mut self, strike: MemberStrike) -> Result<(), Failure> {
        if let Some(name) = self.fleet.strike(strike)? {
            self.mark(format!("cycle {}: {strike:?} of {name} of the fleet", self.cycle));
        }
        Ok(())
    }

    /// The broker under test is suspended for a time, and clients wait.
    fn freeze(&mut self, broker: &Broker) -> Result<(), Failure> {
        let time = Duration::from_millis(self.rng.within(FROZEN));
        self.mark(format!("cycle {}: the broker stands still for {time:?}", self.cycle));
        broker.freeze()?;
        let begun = Instant::now();
        while begun.elapsed() < time {
            self.world.turn(Mood::Load)?;
            self.fleet.tend()?;
        }
        broker.thaw()?;
        self.world.ledger.note_strike();
        Ok(())
    }

    /// A start that is cut short: what recovery does must bear that, too.
    fn fall_while_starting(&mut self, fault: Fault) -> Result<(), Failure> {
        let mut broker = self.launch(None)?;
        let lives = Duration::from_micros(self.rng.within(0..40_000));
        while broker.started.elapsed() < lives {
            self.world.turn(Mood::Over)?;
        }
        self.mark(format!("cycle {}: {fault:?} while starting", self.cycle));
        let fault = if fault == Fault::Terminate || fault.spares_the_broker() { Fault::Kill } else { fault };
        self.strike(fault, &mut broker)
    }

    /// Load on a faulty disk. The broker may refuse and may give up, but it must keep acknowledged messages.
    fn misbehave(&mut self) -> Result<(), Failure> {
        let mut words = format!("seed={} ", self.rng.within(1..1 << 40));
        for fault in &self.settings.disk_faults {
            if self.settings.disk_faults.len() == 1 || self.rng.chance(60) {
                words += &fault.words(&mut self.rng);
            }
        }
        self.mark(format!("cycle {}: the disk misbehaves: {words}", self.cycle));
        let mut broker = self.launch(Some(&words))?;
        if broker.wait_until_listening(self.recipe.port, self.settings.start_limit).is_ok() {
            self.check_library(&mut broker)?;
            self.load(&mut broker)?;
        } else {
            self.world.ledger.findings.totals.gave_up += 1;
        }
        let fault = self.settings.faults[self.rng.index(self.settings.faults.len())];
        self.strike(fault.that_ends(), &mut broker)?;
        let met = self.power.as_ref().map_or(Ok(0), Power::faults)?;
        self.world.ledger.findings.totals.count_fault(met > 0);
        self.report(&words);
        Ok(())
    }

    /// Checks that the preload library, if one is needed, sees what the broker does.
    fn check_library(&self, broker: &mut Broker) -> Result<(), Failure> {
        self.power.as_ref().map_or(Ok(()), |power| power.check(broker))
    }

    /// Starts the process, on a disk that misbehaves as the words say.
    pub(crate) fn launch(&mut self, faults: Option<&str>) -> Result<Broker, Failure> {
        if let Some(power) = &mut self.power {
            power.prepare()?;
            self.recipe.environment = power.environment(faults);
        }
        let broker = self.recipe.start()?;
        self.pid = broker.pid();
        Ok(broker)
    }

    /// Starts the broker and compares the retained values. `None` when it does not come up.
    pub(crate) fn start(&mut self) -> Result<Option<Broker>, Failure> {
        let mut broker = self.launch(None)?;
        self.mark(format!("cycle {}: started", self.cycle));
        let begun = broker.started;
        let mut took = self.settings.start_limit.as_millis() as u64;
        let wrong = match broker.wait_until_listening(self.recipe.port, self.settings.start_limit) {
            Err(NotUp::Ended(status)) => Some(format!("the broker ended with {status}")),
            Err(NotUp::TooSlow) => Some("the port does not answer".to_owned()),
            Ok(()) => {
                took = begun.elapsed().as_millis() as u64;
                self.check_library(&mut broker)?;
                (!self.greet()?).then(|| "a new client gets no answer".to_owned())
            }
        };
        if let Some(wrong) = wrong {
            let output = broker.output();
            if self.cycle <= 1 && self.world.ledger.findings.totals.starts == 0 {
                return Err(Failure::Broker(format!("{wrong}; it said: {}", output.join(" / "))));
            }
            let text = format!("cycle {}: {wrong} after {took} ms", self.cycle);
            self.world.ledger.findings.add(Finding::Restart, text, output);
            return Ok(None);
        }
        let totals = &mut self.world.ledger.findings.totals;
        totals.starts += 1;
        totals.slowest_start_ms = totals.slowest_start_ms.max(took);
        Ok(Some(broker))
    }

    /// Lets a new client look at the retained values. False when it gets no answer.
    pub(crate) fn greet(&mut self) -> Result<bool, Failure> {
        let name = format!("visitor-{}", self.world.ledger.tick());
        let (limit, patience) = (self.settings.start_limit, self.settings.patience);
        Ok(checks::retained(&mut self.world, &name, Look::Anywhere, limit, patience)?.is_some())
    }

    /// Lets everything finish, and settles the accounts.
    pub(crate) fn look(&mut self, broker: &mut Broker) -> Result<(), Failure> {
        self.fleet.gather(self.settings.start_limit)?;
        self.world.wake();
        let patience = self.settings.patience;
        accounts::settle(&mut self.world, self.cycle, patience, &mut || Ok(broker.ended().is_some()))?;
        accounts::try_service(&mut self.world, self.cycle, patience)?;
        self.mark(format!("cycle {}: accounts settled", self.cycle));
        Ok(())
    }

    /// Load until the moment of the fault: after a time, or after a number of bytes, or when the broker ends.
    pub(crate) fn load(&mut self, broker: &mut Broker) -> Result<(), Failure> {
        self.world.wake();
        let load = self.settings.load.as_micros() as u64;
        let mut time = Duration::from_micros(self.rng.within(load / 20..load + 1));
        let mut bytes = u64::MAX;
        if self.rng.chance(50) {
            time = self.settings.load;
            bytes = self.world.bytes() + self.rng.within(1_000..load / 2 + 2_000);
        }
        let begun = Instant::now();
        while begun.elapsed() < time && self.world.bytes() < bytes {
            self.world.turn(Mood::Load)?;
            self.fleet.tend()?;
            if broker.ended().is_some() {
                self.world.ledger.findings.totals.gave_up += 1;
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn strike(&mut self, fault: Fault, broker: &mut Broker) -> Result<(), Failure> {
        self.mark(format!("cycle {}: {fault:?}", self.cycle));
        if fault.is_for_a_fleet() {
            self.strike_member(MemberStrike::Kill)?;
        }
        match fault {
            Fault::Member | Fault::FreezeMember | Fault::Freeze => {}
            Fault::Kill | Fault::Power | Fault::Both => broker.kill()?,
            Fault::Terminate => {
                let begun = Instant::now();
                if !broker.terminate(self.settings.start_limit)? {
                    let text = format!("cycle {}: SIGTERM did not end the broker in {:?}", self.cycle, begun.elapsed());
                    self.world.ledger.findings.add(Finding::Restart, text, broker.output());
                }
            }
        }
        self.world.aftermath()?;
        if let (Fault::Power, Some(power)) = (fault, &mut self.power) {
            let outage = power.fail(self.pid, &mut self.rng)?;
            let text = format!(
                "cycle {}: the disk kept {}, {} of {} operations undone",
                self.cycle, outage.style, outage.undone, outage.unsafe_operations
            );
            self.world.ledger.findings.totals.undone += outage.undone as u64;
            self.mark(text);
        }
        Ok(())
    }

    fn report(&self, fault: &str) {
        if self.settings.verbose {
            let findings = &self.world.ledger.findings;
            eprintln!(
                "cycle {:>4} {fault:<9} sent {:>8} delivered {:>8} found {:>6}",
                self.cycle,
                findings.totals.sent,
                findings.totals.delivered,
                findings.total()
            );
        }
    }
}
