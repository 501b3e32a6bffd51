//! The strikes of each round: a strike follows from the seed alone, so that a seed repeats it.

use std::ops::Range;
use std::time::Duration;

use clap::ValueEnum;

use crate::rng::Rng;

/// A node that stands still does so for a part of its lease between these, in percent: most faults of leases lie close
/// to their end.
const FREEZE_PERCENT: Range<u64> = 60..130;
/// A process that was killed is away for this long, in percent of the lease.
const AWAY_PERCENT: Range<u64> = 0..150;
/// A way of the network, a disk or a clock is wrong for this long: some times longer than the 5 s after which nodes give
/// up a silent link.
const WRONG_PERCENT: Range<u64> = 20..300;
/// How strong a fault is, from 0 to this.
pub(super) const STRENGTH: u32 = 1_000;
/// Percentage of rounds that end with a look at the books.
const LOOK_PERCENT: u64 = 60;

/// The strike of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Strike {
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
    /// kill -9 of the server of the bus, which loses its disk; only with --bus-command.
    BusWiped,
    /// kill -9 of a node, which loses its disk.
    DiskLost,
    /// Files of a node cannot grow.
    DiskFull,
    /// Each write and sync of a node takes some time longer.
    DiskSlow,
    /// The wall clock of a node is put up to two hours forward or back, and later right again.
    ClockStep,
    /// Two nodes do not reach each other.
    LinkCut,
    /// The network between two nodes carries little.
    LinkSlow,
    /// A node does not reach the bus; only with --bus-command.
    BusCut,
    /// The network between a node and the bus carries little; only with --bus-command.
    BusSlow,
}

/// The strikes of every cluster.
const ALWAYS: [Strike; 5] = [Strike::Kill, Strike::Freeze, Strike::Stop, Strike::Bus, Strike::DiskLost];

/// The parts of a run that can be struck.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Equipment {
    /// A server of the bus.
    pub(super) server: bool,
    /// Brokers behind orchestrators.
    pub(super) brokers: bool,
    /// Nodes whose machine and network can be struck.
    pub(super) machines: bool,
}

impl Strike {
    /// All strikes that a run has the equipment for.
    pub(super) fn all(equipment: Equipment) -> Vec<Self> {
        let Equipment { server, brokers, machines } = equipment;
        let more = [
            (Self::BusWiped, server),
            (Self::Broker, brokers),
            (Self::DiskFull, machines),
            (Self::DiskSlow, machines),
            (Self::ClockStep, machines),
            (Self::LinkCut, machines),
            (Self::LinkSlow, machines),
            (Self::BusCut, machines && server),
            (Self::BusSlow, machines && server),
        ];
        let more = more.into_iter().filter_map(|(strike, is_there)| is_there.then_some(strike));
        ALWAYS.into_iter().chain(more).collect()
    }

    /// How long it lasts, in percent of the lease.
    fn percent(self) -> Range<u64> {
        match self {
            Self::Freeze => FREEZE_PERCENT,
            Self::Kill | Self::Stop | Self::Bus | Self::Broker | Self::BusWiped | Self::DiskLost => AWAY_PERCENT,
            _ => WRONG_PERCENT,
        }
    }

    /// True where another strike at the same time may lose acknowledged messages, by the book: the cluster is whole before
    /// it and after it.
    pub(super) fn stands_alone(self) -> bool {
        matches!(self, Self::BusWiped | Self::DiskLost | Self::DiskFull)
    }
}

/// One round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RoundPlan {
    /// Load before the strike.
    pub(super) before: Duration,
    pub(super) strike: Strike,
    /// How long the strike lasts, in percent of the lease.
    pub(super) percent: u64,
    /// The place of the node that is struck.
    pub(super) node: usize,
    /// The place of the node at the other end of a link.
    pub(super) other: usize,
    /// How strong a fault of a disk or a clock is, below [`STRENGTH`].
    pub(super) strength: u32,
    /// Clients leave a node that stands still; a way that is cut is silent.
    pub(super) is_quiet: bool,
    /// Load after the strike.
    pub(super) after: Duration,
    /// The books are looked at.
    pub(super) looks: bool,
}

impl RoundPlan {
    /// The next round of a cluster with this many nodes, and at most `load` before and after its strike.
    pub(super) fn draw(rng: &mut Rng, strikes: &[Strike], nodes: usize, load: Duration) -> Self {
        let load = load.as_millis() as u64;
        let moment = |rng: &mut Rng| Duration::from_millis(rng.within(load / 10..load + 1));
        let before = moment(rng);
        let strike = strikes[rng.index(strikes.len())];
        let node = rng.index(nodes);
        Self {
            before,
            strike,
            percent: rng.within(strike.percent()),
            node,
            other: (node + 1 + rng.index(nodes - 1)) % nodes,
            strength: rng.within(0..u64::from(STRENGTH)) as u32,
            is_quiet: rng.chance(50),
            after: moment(rng),
            looks: rng.chance(LOOK_PERCENT) || strike.stands_alone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Equipment = Equipment { server: true, brokers: true, machines: true };

    fn plans(seed: u64) -> Vec<RoundPlan> {
        let (mut rng, strikes) = (Rng::new(seed), Strike::all(ALL));
        (0..400).map(|_| RoundPlan::draw(&mut rng, &strikes, 3, Duration::from_secs(1))).collect()
    }

    #[test]
    fn a_seed_repeats_its_rounds() {
        assert_eq!(plans(7), plans(7));
        assert_ne!(plans(7), plans(8));
    }

    #[test]
    fn each_strike_and_each_node_comes() {
        let plans = plans(1);
        for strike in Strike::value_variants() {
            assert!(plans.iter().any(|plan| plan.strike == *strike), "{strike:?}");
        }
        assert!((0..3).all(|node| plans.iter().any(|plan| plan.node == node)));
        assert!(plans.iter().all(|plan| plan.node != plan.other && plan.other < 3));
        assert!(plans.iter().all(|plan| plan.looks || !plan.strike.stands_alone()));
    }

    #[test]
    fn a_run_has_the_strikes_of_its_equipment() {
        let strikes = Strike::all(Equipment::default());
        assert_eq!(strikes, ALWAYS);
        let without_server = Strike::all(Equipment { server: false, ..ALL });
        assert!(without_server.contains(&Strike::LinkCut) && !without_server.contains(&Strike::BusCut));
    }
}
