//! The sizes of shares by measures: the leader hears the loads of all members, and decides on the factors of
//! their weights.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_bus::{Bus, Subscription};
use tidegate_cluster::{Burden, Factor, Seen, Table, Weighing, WeighingSettings};
use tidegate_config::sections::cluster::{Balance, Cluster};
use tidegate_config::sections::context::{Context, RankingName};
use tidegate_context::ranking::Ranking;
use tidegate_context::{ideal_numbers, ideal_shares};

use super::load::{LOAD_PERIOD, Load, subject};

/// A measure that is older counts for nothing.
const OLDEST: Duration = LOAD_PERIOD.saturating_mul(3);
/// Measures that are taken at once.
const AT_ONCE: usize = 4_096;
/// A node that is less busy than this has no load that is worth a move, 0 to 1.
const BUSY: f64 = 0.3;
/// How much of a new measure enters the average.
const SMOOTHING: f64 = 0.1;

/// A measured amount.
pub(super) enum Scale {
    /// How busy nodes are.
    Load,
    /// Their clients, by a ranking.
    Clients(Box<dyn Ranking>),
}

/// What decides the sizes of shares.
pub(super) struct WeightPolicy {
    scale: Scale,
    settings: WeighingSettings,
}

impl WeightPolicy {
    /// The policy of a configuration; `None` where the weights alone decide.
    ///
    /// # Errors
    /// When the ranking cannot be used.
    pub(super) fn of(cluster: &Cluster, context: &Context) -> Result<Option<Self>, tidegate_config::context::WrongKey> {
        // Busyness and free resources waver, and respond to each move: half of a deviation at once.
        let wavering =
            WeighingSettings { start: 0.15, stop: 0.05, gain: 0.5, pause: cluster.balance_pause, smoothing: SMOOTHING };
        Ok(match cluster.balance {
            Balance::Weight => None,
            Balance::Load => Some(Self { scale: Scale::Load, settings: wavering }),
            Balance::Ranking => {
                let scale = Scale::Clients(tidegate_config::context::ranking(context)?);
                // Ideal numbers by clients alone are exact.
                let exact = WeighingSettings { start: 0.02, stop: 0.005, gain: 1.0, ..wavering };
                let is_exact = context.ranking == RankingName::Connections;
                Some(Self { scale, settings: if is_exact { exact } else { wavering } })
            }
        })
    }

    /// The amounts that nodes have and should have.
    fn burdens(&self, loads: &[&Load]) -> BTreeMap<String, Burden> {
        let burdens = match &self.scale {
            Scale::Load => by_load(loads),
            Scale::Clients(ranking) => by_clients(&**ranking, loads),
        };
        loads.iter().map(|load| load.node.clone()).zip(burdens).collect()
    }
}

/// All nodes should be equally busy, if one of them is busy at all.
fn by_load(loads: &[&Load]) -> Vec<Burden> {
    let busy: Vec<f64> = loads.iter().map(|load| load.busy()).collect();
    let mean = busy.iter().sum::<f64>() / busy.iter().map(|_| 1.0).sum::<f64>();
    let is_busy = busy.iter().any(|it| *it >= BUSY);
    busy.into_iter().map(|has| Burden { has, wanted: if is_busy { mean } else { has } }).collect()
}

/// Each node should have its ideal number of clients (CTX-41).
fn by_clients(ranking: &dyn Ranking, loads: &[&Load]) -> Vec<Burden> {
    let all = loads.iter().map(|load| load.clients).sum();
    let shares = ideal_shares(ranking, all, loads.iter().map(|load| Some(load.view())).collect());
    let ideal = ideal_numbers(all, &shares);
    let burden = |(load, ideal): (&&Load, u64)| Burden { has: number(load.clients), wanted: number(ideal) };
    loads.iter().zip(ideal).map(burden).collect()
}

#[expect(clippy::cast_precision_loss, reason = "numbers of clients are far below 2^52")]
fn number(count: u64) -> f64 {
    count as f64
}

/// A load that was heard, and the amounts that follow from it.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    at: Instant,
    pub(super) load: Load,
    pub(super) burden: Burden,
}

/// The leader's part.
pub(super) struct Weights {
    policy: Option<WeightPolicy>,
    weighing: Weighing,
    listens: Option<Subscription>,
    heard: BTreeMap<String, Heard>,
    looked: Option<Instant>,
    /// When this node began to listen.
    began: Option<Instant>,
    /// Members that are not measured. While there is one, no factor changes.
    unmeasured: Vec<String>,
}

impl Weights {
    pub(super) fn new(policy: Option<WeightPolicy>) -> Self {
        let (weighing, heard, unmeasured) = Default::default();
        Self { policy, weighing, listens: None, heard, looked: None, began: None, unmeasured }
    }

    /// This node leads no more.
    pub(super) fn resign(&mut self) {
        (self.weighing, self.listens, self.looked, self.began) = Default::default();
        self.heard.clear();
        self.unmeasured.clear();
    }

    /// The loads of members, as far as this node leads and has heard them.
    pub(super) fn heard(&self) -> &BTreeMap<String, Heard> {
        &self.heard
    }

    /// Members without a measure, as far as this node leads and has listened for long enough.
    pub(super) fn unmeasured(&self) -> &[String] {
        &self.unmeasured
    }

    /// The factors of the next table; `None` if the present ones stay. `since` is a monotonic time.
    pub(super) fn next(
        &mut self,
        bus: &Bus,
        since: Duration,
        table: &Table,
        seen: &Seen,
    ) -> Option<BTreeMap<String, Factor>> {
        let Some(_) = self.policy else {
            // Factors of a former configuration.
            return (!table.factors.is_empty()).then(BTreeMap::new);
        };
        self.listen(bus);
        let now = Instant::now();
        if self.looked.is_some_and(|at| now.saturating_duration_since(at) < LOAD_PERIOD) {
            return None;
        }
        self.looked = Some(now);
        self.look(now, since, table, seen)
    }

    fn look(&mut self, now: Instant, since: Duration, table: &Table, seen: &Seen) -> Option<BTreeMap<String, Factor>> {
        let policy = self.policy.as_ref()?;
        let is_current = |name: &String, heard: &Heard| {
            table.lives.get(name) == Some(&heard.load.life) && now.saturating_duration_since(heard.at) <= OLDEST
        };
        self.heard.retain(|name, heard| is_current(name, heard));
        let has_listened = now.saturating_duration_since(*self.began.get_or_insert(now)) > OLDEST;
        let unmeasured = table.lives.keys().filter(|name| has_listened && !self.heard.contains_key(*name));
        let unmeasured: Vec<String> = unmeasured.cloned().collect();
        if !unmeasured.is_empty() && unmeasured != self.unmeasured {
            tracing::warn!(
                nodes = ?unmeasured,
                "shares do not follow measures, since these nodes send none; give all nodes the same cluster.balance"
            );
        }
        self.unmeasured = unmeasured;
        let loads: Vec<&Load> = self.heard.values().map(|heard| &heard.load).collect();
        let burdens = policy.burdens(&loads);
        let worked = self.weighing.works();
        let next = self.weighing.look(since, &policy.settings, table, seen, &burdens);
        if next.is_some() && !worked {
            tracing::info!("shares of the partitions change, since members are off the loads that they should have");
        }
        for (name, burden) in burdens {
            if let Some(heard) = self.heard.get_mut(&name) {
                heard.burden = burden;
            }
        }
        next
    }

    /// Hears the members.
    fn listen(&mut self, bus: &Bus) {
        // The leader looks often enough: no message has to wake it.
        let listen = || bus.subscribe(subject().ok()?.into(), Arc::new(|| {})).ok();
        self.listens = self.listens.take().or_else(listen);
        let at = Instant::now();
        for message in self.listens.iter().flat_map(|listens| listens.take(AT_ONCE)) {
            match serde_json::from_slice::<Load>(&message.payload) {
                Ok(load) => {
                    let burden = Burden::default();
                    self.heard.insert(load.node.clone(), Heard { at, load, burden });
                }
                Err(error) => tracing::debug!(%error, "a load of a node was skipped"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_cluster::{Advert, PARTITIONS, Sighting, decide};
    use tidegate_context::ranking::{ConnectionsInverse, WeightedResources};

    fn load(node: &str, cpu: f64, clients: u64, capacity: u64) -> Load {
        Load { node: node.to_owned(), life: 1, cpu, clients, capacity, ..Load::default() }
    }

    fn has_and_wanted(burdens: &[Burden]) -> Vec<[i64; 2]> {
        let thousandths = |amount: f64| (amount * 1_000.0).round() as i64;
        burdens.iter().map(|it| [thousandths(it.has), thousandths(it.wanted)]).collect()
    }

    #[test]
    fn members_should_be_equally_busy_if_one_is_busy() {
        let [busy, calm, idle] = [0.6, 0.2, 0.1].map(|cpu| load("a", cpu, 0, 0));
        assert_eq!(has_and_wanted(&by_load(&[&busy, &calm, &idle])), [[600, 300], [200, 300], [100, 300]]);
        assert_eq!(has_and_wanted(&by_load(&[&calm, &idle])), [[200, 200], [100, 100]]);
    }

    #[test]
    fn members_should_have_their_ideal_numbers_of_clients() {
        let loads = [load("a", 0.0, 9_000, 100), load("b", 0.0, 0, 200)];
        let burdens = by_clients(&ConnectionsInverse, &[&loads[0], &loads[1]]);
        // Where both have the score of their numbers: n * (1 + n) is as the capacity.
        assert_eq!(has_and_wanted(&burdens), [[9_000_000, 3_728_000], [0, 5_272_000]]);
    }

    /// A table of these members, which have half of the partitions each.
    fn pair() -> (Table, Seen) {
        let mut seen = Seen { may_bury: true, may_move: true, may_balance: true, ..Seen::default() };
        for name in ["a", "b"] {
            seen.members.insert(name.to_owned(), Sighting { life: 1, settled: true });
            seen.adverts.insert(name.to_owned(), Advert { life: 1, ..Advert::default() });
        }
        (decide(&Table::default(), &seen).unwrap(), seen)
    }

    /// Runs changes for so many minutes with these loads for a number of partitions; returns the shares of `a`.
    fn shares(policy: WeightPolicy, minutes: u64, loads: impl Fn(f64) -> [Load; 2]) -> Vec<usize> {
        let ((mut table, mut seen), mut weights) = (pair(), Weights::new(Some(policy)));
        let mut shares = Vec::new();
        for look in 0..minutes * 12 {
            let now = Instant::now();
            let count = table.of("a").len();
            for load in loads(f64::from(u16::try_from(count).unwrap()) / f64::from(PARTITIONS)) {
                weights.heard.insert(load.node.clone(), Heard { at: now, load, burden: Burden::default() });
            }
            seen.factors = weights.look(now, Duration::from_secs(look * 5), &table, &seen);
            while let Some(next) = decide(&table, &seen) {
                for it in &next.moves {
                    seen.adverts.get_mut(&it.to).unwrap().arrived.insert(it.id);
                }
                table = next;
            }
            if shares.last() != Some(&table.of("a").len()) {
                shares.push(table.of("a").len());
            }
        }
        shares
    }

    fn policy(balance: Balance, ranking: RankingName) -> WeightPolicy {
        let mut config = tidegate_config::Config::default();
        (config.cluster.balance, config.context.ranking) = (balance, ranking);
        WeightPolicy::of(&config.cluster, &config.context).unwrap().unwrap()
    }

    #[test]
    fn a_member_of_half_the_size_gets_half_of_the_partitions() {
        let busy = |share: f64| [load("a", share * 0.9, 0, 0), load("b", (1.0 - share) * 0.45, 0, 0)];
        let shares = shares(policy(Balance::Load, RankingName::Connections), 60, busy);
        let last = *shares.last().unwrap();
        assert!((325..=365).contains(&last) && shares.is_sorted_by(|one, next| one > next), "{shares:?}");
    }

    #[test]
    fn rankings_that_respond_to_moves_do_not_swing() {
        let used = |share: f64| [load("a", share, 1_000, 0), load("b", (1.0 - share) * 0.4, 1_000, 0)];
        let of = |share: f64| {
            let [mut a, mut b] = used(share);
            a.clients = ((share * 10_000.0) as i64).unsigned_abs();
            b.clients = 10_000 - a.clients;
            [a, b]
        };
        let shares = shares(policy(Balance::Ranking, RankingName::Resources), 60, of);
        assert!(shares.is_sorted_by(|one, next| one > next) && shares.len() < 12, "{shares:?}");
        let [a, b] = of(f64::from(u16::try_from(*shares.last().unwrap()).unwrap()) / 1_024.0);
        let burdens = by_clients(&WeightedResources::default(), &[&a, &b]);
        assert!((burdens[0].has - burdens[0].wanted).abs() <= burdens[0].wanted * 0.15, "{burdens:?}");
    }

    #[test]
    fn measures_of_former_lives_and_old_ones_count_for_nothing() {
        let ((table, seen), mut weights) =
            (pair(), Weights::new(Some(policy(Balance::Load, RankingName::Connections))));
        let now = Instant::now();
        let late = now + OLDEST + Duration::from_secs(1);
        let heard = |life| Heard { at: now, load: Load { life, ..load("a", 0.9, 0, 0) }, burden: Burden::default() };
        for (life, at, left) in [(1, now, 1), (7, now, 0), (1, late, 0)] {
            weights.heard.insert("a".to_owned(), heard(life));
            assert_eq!(weights.look(at, Duration::ZERO, &table, &seen), None);
            assert_eq!(weights.heard.len(), left, "life {life}");
        }
        assert_eq!(weights.unmeasured(), ["a", "b"], "they are named once the leader has listened for a while");
        weights.resign();
        assert_eq!(weights.look(late, Duration::ZERO, &table, &seen), None);
        assert!(weights.unmeasured().is_empty());
    }
}
