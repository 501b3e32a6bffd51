//! A cluster on a bus: its nodes and its bus are struck in turn while clients come and go at all nodes.

mod bus;
mod faults;
mod network;
mod nodes;
mod observer;
mod partition;
mod plan;
#[cfg(test)]
mod planted;
mod prober;
mod service;

use std::time::{Duration, Instant};

use clap::Args;

use self::faults::NodeFault;
use self::network::{Way, WayState};
use self::nodes::Nodes;
use self::observer::Observers;
use self::partition::PARTITIONS;
use self::plan::{Equipment, RoundPlan, STRENGTH, Strike};
use self::service::Allowance;
use crate::accounts;
use crate::checks;
use crate::failure::Failure;
use crate::fleet::{Fleet, MemberStrike};
use crate::ledger::{Finding, Findings};
use crate::mortal::BrokerCloses;
use crate::ports::Ports;
use crate::rng::Rng;
use crate::run::Settings;
use crate::world::{Mood, World};

/// A cluster is whole before and after a strike that stands alone when it was so for this long.
const CALM: Duration = Duration::from_secs(2);
/// The longest time that a write or sync of a slow disk takes longer, in milliseconds.
const SLOWEST_DISK_MS: u64 = 300;
/// The largest step of a clock, in seconds.
const LARGEST_STEP_S: i64 = 7_200;
/// How long after the end of a lease a partition may stay unserved.
const TAKEOVER: Duration = Duration::from_secs(2);

/// The flags of `tidegate-torture cluster`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClusterArguments {
    /// How many nodes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..10))]
    nodes: u16,
    /// The command that starts a node; {node}, {bus}, {admin}, {port}, {data}, {lease} and {fleet} are filled in, and
    /// {links} with the addresses for links between nodes, which the rig carries. Without {links} no machine and no link
    /// is struck. Small files make its store do all that it does with large ones.
    #[arg(
        long,
        default_value = "tidegate --node {node} --bus {bus} --set cluster.lease={lease}s --set store.segment_size=1MiB --set store.merge_at=4MiB --set addresses.enabled=true {links} --listen 127.0.0.1:{port} --admin 127.0.0.1:{admin} --data {data} --log warn"
    )]
    node_command: String,
    /// The command that starts a server of NATS as the bus, such as `nats-server -c {dir}/bus.conf` with the configuration
    /// that the run writes; {port}, {data} and {dir} are filled in. Without it one of the nodes serves the bus to the others.
    #[arg(long)]
    bus_command: Option<String>,
    /// How many servers of NATS are the bus, as one cluster; each has its configuration in a folder of its own.
    #[arg(long, default_value_t = 1, requires = "bus_command", value_parser = clap::value_parser!(u16).range(1..=5))]
    bus_servers: u16,
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
    /// A strike that may happen in a round; may be given several times. All that this cluster has when absent.
    #[arg(long, value_enum)]
    strike: Vec<Strike>,
    /// How many of the 1,024 partitions are asked each second whether they are served; chosen by the seed.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=i64::from(PARTITIONS)))]
    probes: u16,
}

impl ClusterArguments {
    /// The command that starts a node.
    pub(crate) fn node_command(&self) -> &str {
        &self.node_command
    }
}

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
    /// Ends of strikes that the observers know of.
    returned: u64,
}

/// Plays all rounds and returns the findings.
pub(crate) fn run(settings: Settings, arguments: &ClusterArguments, ports: &mut Ports) -> Result<Findings, Failure> {
    let lease = Duration::from_secs(arguments.lease);
    let mut brokers = Fleet::new(arguments.brokers, &arguments.broker_command, &settings.folder, settings.seed, ports)?;
    brokers.gather(settings.start_limit)?;
    let mut nodes = Nodes::new(
        arguments.nodes,
        &arguments.node_command.replace("{fleet}", &brokers.flags()),
        arguments.bus_command.as_deref().map(|command| (arguments.bus_servers, command)),
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
    let mut rng = Rng::new(settings.seed ^ 0xc105);
    let observers = Observers::start(&nodes.watched(), arguments.probes, lease + TAKEOVER, &mut rng.fork(1))?;
    let strikes = strikes(arguments, nodes.have_faults())?;
    let mut rounds = Rounds { settings, strikes, lease, world, nodes, brokers, observers, rng, round: 0, returned: 0 };
    if !rounds.heal(Mood::Over, Duration::ZERO)? {
        return Err(Failure::Broker(format!("the cluster does not get ready; it said: {}", rounds.nodes.output())));
    }
    rounds.nodes.check_reach()?;
    // The first start is no heal, and no partition was served before it.
    rounds.observers.forget_longest();
    rounds.world.ledger.findings.totals.slowest_heal_ms = 0;
    while rounds.round < rounds.settings.cycles {
        rounds.round += 1;
        if !rounds.play()? {
            return Ok(rounds.world.ledger.findings);
        }
    }
    if rounds.look()? {
        rounds.note_observed()?;
        rounds.nodes.terminate(rounds.settings.start_limit)?;
    }
    Ok(rounds.world.ledger.findings)
}

/// The strikes of a run.
fn strikes(arguments: &ClusterArguments, machines: bool) -> Result<Vec<Strike>, Failure> {
    let server = arguments.bus_command.is_some();
    let equipment = Equipment { server, brokers: arguments.brokers > 0, machines };
    let all = Strike::all(equipment);
    if let Some(strike) = arguments.strike.iter().find(|strike| !all.contains(strike)) {
        return Err(Failure::Strike(format!("{strike:?}")));
    }
    Ok(if arguments.strike.is_empty() { all } else { arguments.strike.clone() })
}

/// The fault of a machine or of the network that a plan has.
fn fault(plan: &RoundPlan) -> NodeFault {
    let cut = if plan.is_quiet { WayState::Silent } else { WayState::Cut };
    let link = Way::Link(plan.node, plan.other);
    match plan.strike {
        Strike::DiskSlow => {
            let time = SLOWEST_DISK_MS * u64::from(plan.strength + 1) / u64::from(STRENGTH);
            NodeFault::Slow(plan.node, time.max(1))
        }
        Strike::ClockStep => {
            let farthest = (LARGEST_STEP_S * i64::from(plan.strength) / i64::from(STRENGTH)).max(1);
            NodeFault::Clock(plan.node, if plan.is_quiet { -farthest } else { farthest })
        }
        Strike::LinkCut => NodeFault::Way(link, cut),
        Strike::LinkSlow => NodeFault::Way(link, WayState::Slow),
        Strike::BusCut => NodeFault::Way(Way::Bus(plan.node), cut),
        Strike::BusSlow => NodeFault::Way(Way::Bus(plan.node), WayState::Slow),
        _ => NodeFault::Full(plan.node, true),
    }
}

impl Rounds {
    /// One round. False when the cluster does not get ready any more, so that nothing can follow.
    fn play(&mut self) -> Result<bool, Failure> {
        let plan = RoundPlan::draw(&mut self.rng, &self.strikes, self.nodes.count(), self.settings.load);
        self.load(plan.before, Mood::Load)?;
        let stands_alone = plan.strike.stands_alone();
        if stands_alone && !self.heal(Mood::Load, CALM)? {
            return Ok(false);
        }
        self.strike(&plan)?;
        self.load(plan.after, Mood::Load)?;
        if stands_alone && !self.heal(Mood::Load, CALM)? {
            return Ok(false);
        }
        let continues = if plan.looks { self.look()? } else { true };
        if self.settings.verbose {
            let findings = &self.world.ledger.findings;
            eprintln!(
                "round {:>4} {:<9} of {} {:>3} % sent {:>8} delivered {:>8} found {:>6}",
                self.round,
                format!("{:?}", plan.strike),
                plan.node,
                plan.percent,
                findings.totals.sent,
                findings.totals.delivered,
                findings.total()
            );
        }
        Ok(continues)
    }

    fn strike(&mut self, plan: &RoundPlan) -> Result<(), Failure> {
        let lease = self.lease.as_millis() as u64;
        let back_at = Instant::now() + Duration::from_millis(lease * plan.percent / 100);
        let name = match plan.strike {
            Strike::Bus | Strike::BusWiped => {
                let name = self.nodes.kill_bus(plan.node, back_at)?;
                if plan.strike == Strike::BusWiped {
                    self.nodes.wipe_bus(plan.node)?;
                }
                if let Some(port) = self.nodes.port_of(&name) {
                    self.world.bury(port);
                }
                name
            }
            Strike::Kill | Strike::DiskLost => {
                self.world.bury(self.nodes.ports()[plan.node]);
                let name = self.nodes.kill(plan.node, back_at)?;
                if plan.strike == Strike::DiskLost {
                    self.nodes.lose_disk(plan.node)?;
                }
                name
            }
            Strike::Stop => self.nodes.stop(plan.node, back_at)?,
            Strike::Broker => self.brokers.strike(MemberStrike::Kill)?.unwrap_or_default(),
            Strike::Freeze => {
                let (name, port) = self.nodes.freeze(plan.node, back_at)?;
                // Clients that get no answer leave, some at once and some never within a freeze.
                if plan.is_quiet {
                    self.world.leave(port);
                }
                name
            }
            _ => {
                let fault = fault(plan);
                self.nodes.harm(fault, back_at)?;
                self.world.ledger.findings.totals.faults += 1;
                format!("{fault:?}")
            }
        };
        self.observers.disturb();
        self.world.ledger.note_strike();
        let text = format!("round {}: {:?} of {name} for {} % of the lease", self.round, plan.strike, plan.percent);
        let clock = self.world.ledger.tick();
        self.world.ledger.trace.mark_strike(clock, text);
        Ok(())
    }

    /// Turns for a time. Clients and processes whose return is due return meanwhile.
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
        self.note_unmet();
        let returned = self.nodes.returned();
        if returned != self.returned {
            self.returned = returned;
            self.observers.disturb();
            self.world.ledger.note_strike();
        }
        // Orchestrators keep each message, so they take none without a disk.
        let keeps_all = self.brokers.is_there();
        let cannot_keep = !self.nodes.has_bus() || keeps_all && self.nodes.have_full_disk();
        self.observers.excuse(self.round == 0 || cannot_keep);
        self.observers.allow(&match self.nodes.allowance() {
            _ if keeps_all && self.nodes.miss_bus() => Allowance::AwaitsBus,
            Allowance::None if keeps_all => Allowance::Keeps,
            allowance => allowance,
        });
        self.note_observed()
    }

    /// Counts faults that nothing has met: their rounds have tried nothing.
    fn note_unmet(&mut self) {
        for fault in self.nodes.take_unmet() {
            self.world.ledger.findings.totals.unmet += 1;
            if self.settings.verbose {
                eprintln!("round {:>4} nothing has met {fault:?}", self.round);
            }
        }
    }

    /// Takes over what the observers have seen.
    fn note_observed(&mut self) -> Result<(), Failure> {
        let sums = self.observers.sums();
        let totals = &mut self.world.ledger.findings.totals;
        totals.probes_answered = sums.answered;
        totals.ready_seconds = sums.ready_seconds;
        totals.longest_unserved_ms = sums.longest.as_millis() as u64;
        totals.overdue_ms = sums.overdue.as_millis() as u64;
        totals.stood_still = sums.stood_still;
        totals.stood_still_ms = sums.stalled.as_millis() as u64;
        while let Some((finding, text)) = self.observers.complaint()? {
            let text = format!("round {}: {text}", self.round);
            self.world.ledger.findings.add(finding, text, vec![self.nodes.output()]);
        }
        Ok(())
    }

    /// Waits until every node is ready and serves, under load, and for a while without an interruption: nodes may not have
    /// noticed a fault yet. False when that takes longer than a start may.
    fn heal(&mut self, mood: Mood, calm: Duration) -> Result<bool, Failure> {
        let begun = Instant::now();
        let mut whole_since = None;
        loop {
            let now = Instant::now();
            let is_whole = self.nodes.are_running() && self.observers.are_ready();
            whole_since = is_whole.then(|| whole_since.unwrap_or(now));
            if whole_since.is_some_and(|since| now >= since + calm) {
                break;
            }
            self.turn(mood)?;
            if begun.elapsed() > self.settings.start_limit {
                let text = format!("round {}: not every node is ready after {:?}", self.round, begun.elapsed());
                self.world.ledger.findings.add(Finding::Restart, text, vec![self.nodes.output()]);
                return Ok(false);
            }
        }
        let totals = &mut self.world.ledger.findings.totals;
        totals.starts += 1;
        let time = begun.elapsed().saturating_sub(calm);
        totals.slowest_heal_ms = totals.slowest_heal_ms.max(time.as_millis() as u64);
        Ok(true)
    }

    /// Waits until the cluster is whole, lets everything finish, and settles the accounts.
    fn look(&mut self) -> Result<bool, Failure> {
        if !self.heal(Mood::Load, Duration::ZERO)? {
            return Ok(false);
        }
        self.world.wake();
        self.brokers.gather(self.settings.start_limit)?;
        let patience = self.settings.patience;
        let nodes = &mut self.nodes;
        accounts::settle(&mut self.world, self.round, patience, &mut || nodes.tend().map(|()| false))?;
        self.look_at_retained(patience)?;
        accounts::try_service(&mut self.world, self.round, patience)?;
        let clock = self.world.ledger.tick();
        self.world.ledger.trace.mark_strike(clock, format!("round {}: accounts settled", self.round));
        Ok(true)
    }

    /// Compares the retained values at each node with the books, and with each other.
    fn look_at_retained(&mut self, patience: Duration) -> Result<(), Failure> {
        let (limits, nodes, round) = ((self.settings.start_limit, patience), &mut self.nodes, self.round);
        let all = 0..nodes.count();
        checks::retained_everywhere(&mut self.world, all, limits, |place| {
            (format!("round {round}: a new client gets no retained values at node {place}"), vec![nodes.output()])
        })
    }
}
