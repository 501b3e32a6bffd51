//! A cluster on a bus: its nodes and its bus are struck in turn while clients come and go at all nodes.

mod nodes;
mod observer;

use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use self::nodes::Nodes;
use self::observer::Observers;
use crate::accounts;
use crate::checks::{self, Look};
use crate::failure::Failure;
use crate::fleet::{Fleet, MemberStrike};
use crate::ledger::{Finding, Findings};
use crate::mortal::BrokerCloses;
use crate::ports::Ports;
use crate::rng::Rng;
use crate::run::Settings;
use crate::workload;
use crate::world::{Mood, World};

/// A node that stands still does so for a part of its lease between these, in percent: most faults of leases lie close
/// to their end.
const FREEZE_PERCENT: std::ops::Range<u64> = 60..130;
/// A process that was killed is away for this long, in milliseconds and in multiples of the lease in percent.
const AWAY_PERCENT: std::ops::Range<u64> = 0..150;
/// How many new clients look at the retained values of a node before it counts as one that gives none.
const VISITS: usize = 3;
/// How long after the end of a lease a partition may stay unserved.
const TAKEOVER: Duration = Duration::from_secs(2);

/// The flags of `tidegate-torture cluster`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClusterArguments {
    /// How many nodes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..10))]
    nodes: u16,
    /// The command that starts a node; {node}, {bus}, {admin}, {port}, {data}, {lease} and {fleet} are filled in.
    #[arg(
        long,
        default_value = "tidegate --node {node} --bus {bus} --set cluster.lease={lease}s --listen 127.0.0.1:{port} --admin 127.0.0.1:{admin} --data {data} --log warn"
    )]
    node_command: String,
    /// The command that starts a server of NATS as the bus, such as `nats-server -c {dir}/bus.conf` with the configuration
    /// that the run writes; {port}, {data} and {dir} are filled in. Without it one of the nodes serves the bus to the others.
    #[arg(long)]
    bus_command: Option<String>,
    /// Starts this number of brokers for members that are orchestrators; {fleet} in --node-command is filled in with a
    /// `--broker NAME=mqtt://...` for each.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..100))]
    brokers: u16,
    /// The command that starts a broker, as for --fleet-broker; of several each is taken in turn.
    #[arg(long, default_value = "tidegate --listen 127.0.0.1:{port} --admin off --data {data}")]
    broker_command: Vec<String>,
    /// The lease of a node, in seconds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..120))]
    lease: u64,
    /// What may happen in a round; may be given several times. All of them when absent.
    #[arg(long, value_enum)]
    strike: Vec<Strike>,
}

/// What happens in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Strike {
    /// kill -9 of a node.
    Kill,
    /// SIGSTOP of a node for about its lease, then SIGCONT.
    Freeze,
    /// SIGTERM of a node.
    Stop,
    /// kill -9 of the bus: of its server, or of the node that serves it.
    Bus,
    /// kill -9 of a broker behind orchestrators; only with --brokers.
    Broker,
}

const ALL: [Strike; 4] = [Strike::Kill, Strike::Freeze, Strike::Stop, Strike::Bus];

/// A run in progress.
struct Rounds {
    settings: Settings,
    strikes: Vec<Strike>,
    lease: Duration,
    world: World,
    nodes: Nodes,
    brokers: Fleet,
    observers: Observers,
    rng: Rng,
    round: u64,
}

/// Plays all rounds and returns the findings.
pub(crate) fn run(settings: Settings, arguments: &ClusterArguments, ports: &mut Ports) -> Result<Findings, Failure> {
    let lease = Duration::from_secs(arguments.lease);
    let mut brokers = Fleet::new(arguments.brokers, &arguments.broker_command, &settings.folder, settings.seed, ports)?;
    brokers.gather(settings.start_limit)?;
    let mut nodes = Nodes::new(
        arguments.nodes,
        &arguments.node_command.replace("{fleet}", &brokers.flags()),
        arguments.bus_command.as_deref(),
        arguments.lease,
        &settings.folder,
        ports,
    )?;
    let mut world = World::new(settings.size, nodes.ports(), settings.seed)?;
    // A message that is sent again through another node may come behind later ones.
    world.ledger.keeps_order = false;
    for mortal in &mut world.mortals {
        mortal.closes = BrokerCloses::ToMoveClients;
    }
    nodes.tend()?;
    let observers = Observers::start(nodes.watched(), lease * 2 + TAKEOVER * 2);
    let rng = Rng::new(settings.seed ^ 0xc105);
    let mut strikes = if arguments.strike.is_empty() { ALL.to_vec() } else { arguments.strike.clone() };
    if arguments.strike.is_empty() && arguments.brokers > 0 {
        strikes.push(Strike::Broker);
    }
    let mut rounds = Rounds { settings, strikes, lease, world, nodes, brokers, observers, rng, round: 0 };
    if !rounds.heal(Mood::Over)? {
        return Err(Failure::Broker(format!("the cluster does not get ready; it said: {}", rounds.nodes.output())));
    }
    while rounds.round < rounds.settings.cycles {
        rounds.round += 1;
        if !rounds.play()? {
            return Ok(rounds.world.ledger.findings);
        }
    }
    if rounds.look()? {
        rounds.nodes.terminate(rounds.settings.start_limit)?;
    }
    Ok(rounds.world.ledger.findings)
}

impl Rounds {
    /// One round. False when the cluster does not get ready any more, so that nothing can follow.
    fn play(&mut self) -> Result<bool, Failure> {
        let load = self.settings.load.as_millis() as u64;
        let before = Duration::from_millis(self.rng.within(load / 10..load + 1));
        self.load(before, Mood::Load)?;
        let strike = self.strikes[self.rng.index(self.strikes.len())];
        self.strike(strike)?;
        let after = Duration::from_millis(self.rng.within(load / 10..load + 1));
        self.load(after, Mood::Load)?;
        let continues = if self.rng.chance(60) { self.look()? } else { true };
        if self.settings.verbose {
            let findings = &self.world.ledger.findings;
            eprintln!(
                "round {:>4} {:<9} sent {:>8} delivered {:>8} found {:>6}",
                self.round,
                format!("{strike:?}"),
                findings.totals.sent,
                findings.totals.delivered,
                findings.total()
            );
        }
        Ok(continues)
    }

    fn strike(&mut self, strike: Strike) -> Result<(), Failure> {
        let lease = self.lease.as_millis() as u64;
        let percent = self.rng.within(if strike == Strike::Freeze { FREEZE_PERCENT } else { AWAY_PERCENT });
        let back_at = Instant::now() + Duration::from_millis(lease * percent / 100);
        let node = self.rng.index(self.nodes.count());
        let name = match strike {
            Strike::Bus => {
                let name = self.nodes.kill_bus(back_at)?;
                if let Some(port) = self.nodes.port_of(&name) {
                    self.world.bury(port);
                }
                name
            }
            Strike::Kill => {
                self.world.bury(self.nodes.ports()[node]);
                self.nodes.kill(node, back_at)?
            }
            Strike::Stop => self.nodes.stop(node, back_at)?,
            Strike::Broker => self.brokers.strike(MemberStrike::Kill)?.unwrap_or_default(),
            Strike::Freeze => {
                let (name, port) = self.nodes.freeze(node, back_at)?;
                // Clients that get no answer leave, some at once and some never within a freeze.
                if self.rng.chance(50) {
                    self.world.leave(port);
                }
                name
            }
        };
        let text = format!("round {}: {strike:?} of {name} for {percent} % of the lease", self.round);
        let clock = self.world.ledger.tick();
        self.world.ledger.trace.mark(clock, text);
        Ok(())
    }

    /// Turns for a time, in which whatever is due returns.
    fn load(&mut self, time: Duration, mood: Mood) -> Result<(), Failure> {
        self.world.wake();
        let begun = Instant::now();
        while begun.elapsed() < time {
            self.turn(mood)?;
        }
        Ok(())
    }

    fn turn(&mut self, mood: Mood) -> Result<(), Failure> {
        self.world.turn(mood)?;
        self.nodes.tend()?;
        self.brokers.tend()?;
        let totals = &mut self.world.ledger.findings.totals;
        totals.ready_checked = self.observers.checked();
        while let Some(text) = self.observers.complaint() {
            let text = format!("round {}: {text}", self.round);
            self.world.ledger.findings.add(Finding::Unserved, text, vec![self.nodes.output()]);
        }
        Ok(())
    }

    /// Waits until every node is ready, under load. False when that takes longer than a start may.
    fn heal(&mut self, mood: Mood) -> Result<bool, Failure> {
        let begun = Instant::now();
        while !(self.nodes.are_running() && self.observers.are_ready()) {
            self.turn(mood)?;
            if begun.elapsed() > self.settings.start_limit {
                let text = format!("round {}: not every node is ready after {:?}", self.round, begun.elapsed());
                self.world.ledger.findings.add(Finding::Restart, text, vec![self.nodes.output()]);
                return Ok(false);
            }
        }
        let totals = &mut self.world.ledger.findings.totals;
        totals.starts += 1;
        totals.slowest_heal_ms = totals.slowest_heal_ms.max(begun.elapsed().as_millis() as u64);
        Ok(true)
    }

    /// Waits until the cluster is whole, lets everything finish, and settles the accounts.
    fn look(&mut self) -> Result<bool, Failure> {
        if !self.heal(Mood::Load)? {
            return Ok(false);
        }
        self.world.wake();
        self.brokers.gather(self.settings.start_limit)?;
        let patience = self.settings.patience;
        let nodes = &mut self.nodes;
        accounts::settle(&mut self.world, self.round, patience, &mut || nodes.tend().map(|()| false))?;
        self.look_at_retained(patience)?;
        let name = format!("prober-{}", self.round);
        checks::subscriptions(&mut self.world, name, patience)?;
        let clock = self.world.ledger.tick();
        self.world.ledger.trace.mark(clock, format!("round {}: accounts settled", self.round));
        Ok(true)
    }

    /// Compares the retained values at each node with the books, and with each other.
    fn look_at_retained(&mut self, patience: Duration) -> Result<(), Failure> {
        let mut seen = Vec::new();
        for place in 0..self.nodes.count() {
            let mut values = None;
            // A node may move a client that has just come, which then connects again.
            for _ in 0..VISITS {
                let name = format!("visitor-{}", self.world.ledger.tick());
                let limit = self.settings.start_limit;
                values = checks::retained(&mut self.world, name, Look::At(place), limit, patience)?;
                if values.is_some() {
                    break;
                }
            }
            if values.is_none() {
                let text = format!("round {}: a new client gets no retained values at node {place}", self.round);
                self.world.ledger.findings.add(Finding::Unanswered, text, vec![self.nodes.output()]);
            }
            seen.extend(values);
        }
        self.world.ledger.compare_retained(&seen, workload::retained_name);
        Ok(())
    }
}
