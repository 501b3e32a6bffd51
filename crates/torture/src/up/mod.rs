//! A fleet that `tidegate up` has started: its manager, its orchestrators and its brokers are killed in turn while clients
//! work at the orchestrators.

mod children;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use self::children::{FleetProcess, Level};
use crate::accounts;
use crate::checks;
use crate::failure::Failure;
use crate::ledger::{Finding, Findings};
use crate::member::Member;
use crate::mortal::BrokerCloses;
use crate::ports::Ports;
use crate::rng::Rng;
use crate::run::Settings;
use crate::world::{Mood, World};

/// How long a manager that was killed is away, in milliseconds.
const AWAY: std::ops::Range<u64> = 0..3_000;
/// Brokers and orchestrators of the fleet.
const BROKERS: u16 = 2;
const ORCHESTRATORS: u16 = 2;
/// Ports of each level; each process takes two, and a new broker may come before the old one has left.
const BROKER_PORTS: usize = 20;
const ORCHESTRATOR_PORTS: usize = 8;
/// Between two questions to the manager.
const PAUSE: Duration = Duration::from_millis(250);
/// The fleet is whole when the manager has said so for this long: it may not have noticed a death yet.
const CALM: Duration = Duration::from_secs(2);
/// Percentage of rounds that end with a look at the books.
const LOOK_PERCENT: u64 = 60;

/// The flags of `tidegate-torture up`.
#[derive(Clone, Debug, Args)]
pub(crate) struct UpArguments {
    /// The command that starts the fleet of {dir}/fleet.toml, which the run writes.
    #[arg(long, default_value = "tidegate up {dir}/fleet.toml")]
    command: String,
    /// A strike of the rounds; may be given several times. All strikes when absent.
    #[arg(long, value_enum)]
    strike: Vec<UpStrike>,
}

/// The `kill -9` of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum UpStrike {
    /// The manager; it is started again after 0 to 3 s.
    Manager,
    /// An orchestrator, which the manager starts again.
    Orchestrator,
    /// A broker, which the manager replaces.
    Broker,
    /// All processes at once; the manager is started again after 0 to 3 s.
    Machine,
}

/// A run in progress. Its fleet is killed with it.
struct UpRun {
    settings: Settings,
    strikes: Vec<UpStrike>,
    world: World,
    manager: Member,
    /// The state directory of the fleet.
    state: PathBuf,
    api: u16,
    rng: Rng,
    round: u64,
}

/// Plays all rounds and returns the findings.
pub(crate) fn run(settings: Settings, arguments: &UpArguments, ports: &mut Ports) -> Result<Findings, Failure> {
    let api = ports.next()?;
    let brokers = next_range(ports, BROKER_PORTS)?;
    let orchestrators = next_range(ports, ORCHESTRATOR_PORTS)?;
    let folder = settings.folder.clone();
    let state = folder.join("state");
    write_fleet(&folder.join("fleet.toml"), &state, api, [&brokers, &orchestrators])?;
    let mut manager = Member::new("manager".to_owned(), arguments.command.clone(), api, folder.join("manager"))?;
    // Fleets claim ports by files in the folder for temporary files, which outlive a run that kills its fleet.
    let claims = folder.join("claims");
    std::fs::create_dir_all(&claims).map_err(Failure::file("creating", &claims))?;
    manager.recipe.environment = vec![("TMPDIR".to_owned(), claims.display().to_string())];
    // An orchestrator has a port for clients, then one for its administration.
    let at: Vec<u16> = orchestrators.iter().copied().step_by(2).take(usize::from(ORCHESTRATORS)).collect();
    let mut world = World::new(settings.size, at, settings.seed)?;
    // A message that is sent again through another orchestrator may come behind later ones.
    world.ledger.keeps_order = false;
    for mortal in &mut world.mortals {
        mortal.closes = BrokerCloses::ToMoveClients;
    }
    let all = UpStrike::value_variants();
    let strikes = if arguments.strike.is_empty() { all.to_vec() } else { arguments.strike.clone() };
    let rng = Rng::new(settings.seed ^ 0x0f1e);
    let mut run = UpRun { settings, strikes, world, manager, state, api, rng, round: 0 };
    if !run.heal(Mood::Over)? || !run.listens_where_clients_connect() {
        return Err(Failure::Broker(format!("the fleet does not get ready; it said: {}", run.manager.output())));
    }
    run.world.ledger.findings.totals.slowest_heal_ms = 0;
    while run.round < run.settings.cycles {
        run.round += 1;
        if !run.play()? {
            return Ok(std::mem::take(&mut run.world.ledger.findings));
        }
    }
    if run.look()? {
        run.terminate()?;
    }
    Ok(std::mem::take(&mut run.world.ledger.findings))
}

/// The next ports of a run, beside each other.
fn next_range(ports: &mut Ports, count: usize) -> Result<Vec<u16>, Failure> {
    let range: Result<Vec<u16>, Failure> = (0..count).map(|_| ports.next()).collect();
    let range = range?;
    let are_beside = range.windows(2).all(|pair| matches!(pair, [one, other] if one + 1 == *other));
    if are_beside { Ok(range) } else { Err(Failure::Broker(format!("the ports {range:?} are no range"))) }
}

/// Writes the fleet file.
fn write_fleet(path: &Path, state: &Path, api: u16, [brokers, orchestrators]: [&[u16]; 2]) -> Result<(), Failure> {
    let range = |ports: &[u16]| format!("{}-{}", ports.first().unwrap_or(&0), ports.last().unwrap_or(&0));
    let text = format!(
        "[fleet]\nname = \"torture\"\ndirectory = \"{}\"\ninterval = \"1s\"\napi_port = {api}\n\
         [sla]\nbrokers = {{ min = {BROKERS}, max = {BROKERS} }}\norchestrators = {{ min = {ORCHESTRATORS}, max = {ORCHESTRATORS} }}\n\
         [brokers]\nports = \"{}\"\n[orchestrators]\nports = \"{}\"\n",
        state.display(),
        range(brokers),
        range(orchestrators)
    );
    std::fs::write(path, text).map_err(Failure::file("writing", path))
}

impl UpRun {
    /// One round. False when the fleet does not get whole any more, so that nothing can follow.
    fn play(&mut self) -> Result<bool, Failure> {
        let load = self.settings.load.as_millis() as u64;
        let before = Duration::from_millis(self.rng.within(load / 10..load + 1));
        self.load(before)?;
        let strike = self.strikes[self.rng.index(self.strikes.len())];
        let away = Duration::from_millis(self.rng.within(AWAY));
        let name = self.strike(strike, away)?;
        let after = Duration::from_millis(self.rng.within(load / 10..load + 1));
        self.load(after)?;
        let continues = if self.rng.chance(LOOK_PERCENT) { self.look()? } else { true };
        if self.settings.verbose {
            let findings = &self.world.ledger.findings;
            let (sent, delivered, found) = (findings.totals.sent, findings.totals.delivered, findings.total());
            let event = format!("{strike:?} {name}");
            eprintln!("round {:>4} {event:<30} sent {sent:>8} delivered {delivered:>8} found {found:>6}", self.round);
        }
        Ok(continues)
    }

    /// The processes of the fleet of a level that run.
    fn running(&self, level: Level) -> Vec<FleetProcess> {
        let all = children::processes(&self.state);
        all.into_iter().filter(|process| process.level == level && process.is_alive()).collect()
    }

    /// Kills, and gives the names of the processes.
    fn strike(&mut self, strike: UpStrike, away: Duration) -> Result<String, Failure> {
        let back_at = Instant::now() + away;
        let mut struck = match strike {
            UpStrike::Manager => Vec::new(),
            UpStrike::Orchestrator => self.running(Level::Orchestrator),
            UpStrike::Broker => self.running(Level::Broker),
            UpStrike::Machine => children::processes(&self.state),
        };
        if strike != UpStrike::Machine && !struck.is_empty() {
            struck = vec![struck.swap_remove(self.rng.index(struck.len()))];
        }
        let mut is_met = !struck.is_empty();
        if matches!(strike, UpStrike::Manager | UpStrike::Machine) {
            is_met |= self.manager.is_running();
            self.manager.kill(back_at)?;
        }
        for process in &struck {
            if process.level == Level::Orchestrator {
                self.world.bury(process.port);
            }
            process.kill()?;
        }
        self.world.ledger.findings.totals.count_fault(is_met);
        self.world.ledger.note_strike();
        let names: Vec<&str> = struck.iter().map(|process| process.name.as_str()).collect();
        let names = names.join(" ");
        let clock = self.world.ledger.tick();
        let text = format!("round {}: {strike:?} {names}, the manager for {away:?} if it is struck", self.round);
        self.world.ledger.trace.mark_strike(clock, text);
        Ok(names)
    }

    fn load(&mut self, time: Duration) -> Result<(), Failure> {
        self.world.wake();
        let begun = Instant::now();
        while begun.elapsed() < time {
            self.world.turn(Mood::Load)?;
            self.manager.tend(Instant::now())?;
        }
        Ok(())
    }

    /// True if the manager and all processes run, and the manager says that all serve.
    fn is_whole(&self) -> bool {
        let count = |level| self.running(level).len();
        self.manager.is_running()
            && count(Level::Broker) == usize::from(BROKERS)
            && count(Level::Orchestrator) == usize::from(ORCHESTRATORS)
            && children::status(self.api)
                .is_some_and(|status| children::is_whole(&status, u64::from(BROKERS), u64::from(ORCHESTRATORS)))
    }

    /// True if the orchestrators took the ports that clients connect to.
    fn listens_where_clients_connect(&self) -> bool {
        let mut own: Vec<u16> = self.running(Level::Orchestrator).iter().map(|process| process.port).collect();
        // Either of them may have started first.
        own.sort_unstable();
        own == self.world.ports
    }

    /// Waits until the fleet is whole for a while, under load. False when that takes longer than a start may.
    fn heal(&mut self, mood: Mood) -> Result<bool, Failure> {
        let begun = Instant::now();
        let (mut asked, mut whole_since) = (begun, None);
        loop {
            self.world.turn(mood)?;
            self.manager.tend(Instant::now())?;
            if asked.elapsed() >= PAUSE {
                asked = Instant::now();
                whole_since = self.is_whole().then(|| whole_since.unwrap_or(asked));
            }
            if whole_since.is_some_and(|since: Instant| since.elapsed() >= CALM) {
                break;
            }
            if begun.elapsed() > self.settings.start_limit {
                let text = format!("round {}: the fleet is not whole after {:?}", self.round, begun.elapsed());
                let said = self.manager.output();
                self.world.ledger.findings.add(Finding::Restart, text, vec![said]);
                return Ok(false);
            }
        }
        self.world.ledger.note_strike();
        let totals = &mut self.world.ledger.findings.totals;
        totals.starts += 1;
        let time = begun.elapsed().saturating_sub(CALM);
        totals.slowest_heal_ms = totals.slowest_heal_ms.max(time.as_millis() as u64);
        Ok(true)
    }

    /// Waits until the fleet is whole, lets everything finish, and settles the accounts.
    fn look(&mut self) -> Result<bool, Failure> {
        if !self.heal(Mood::Load)? {
            return Ok(false);
        }
        self.world.wake();
        let patience = self.settings.patience;
        let manager = &mut self.manager;
        let mut tend = || manager.tend(Instant::now()).map(|()| false);
        accounts::settle(&mut self.world, self.round, patience, &mut tend)?;
        self.look_at_retained(patience)?;
        accounts::try_service(&mut self.world, self.round, patience)?;
        if std::mem::take(&mut self.manager.gave_up) > 0 {
            let text = format!("round {}: the manager ended without a signal", self.round);
            let said = self.manager.output();
            self.world.ledger.findings.add(Finding::Restart, text, vec![said]);
        }
        let clock = self.world.ledger.tick();
        self.world.ledger.trace.mark_strike(clock, format!("round {}: accounts settled", self.round));
        Ok(true)
    }

    /// Compares the retained values at each orchestrator with the books, and with each other.
    fn look_at_retained(&mut self, patience: Duration) -> Result<(), Failure> {
        let (limits, round) = ((self.settings.start_limit, patience), self.round);
        checks::retained_everywhere(&mut self.world, 0..usize::from(ORCHESTRATORS), limits, |place| {
            (format!("round {round}: a new client gets no retained values at {place}"), Vec::new())
        })
    }

    /// SIGTERM of the manager ends the fleet.
    fn terminate(&mut self) -> Result<(), Failure> {
        let Some(mut process) = self.manager.running.take() else { return Ok(()) };
        let has_ended = process.terminate(self.settings.start_limit)?;
        let left = children::processes(&self.state).into_iter().filter(FleetProcess::is_alive);
        let left: Vec<String> = left.map(|process| process.name).collect();
        if !has_ended || !left.is_empty() {
            let text = format!("SIGTERM did not end the fleet, processes left: {left:?}");
            self.world.ledger.findings.add(Finding::Restart, text, process.output());
        }
        Ok(())
    }
}

impl Drop for UpRun {
    fn drop(&mut self) {
        // First the manager, which would start others.
        self.manager.running = None;
        for process in children::processes(&self.state) {
            let _ = process.kill();
        }
    }
}
