//! The sizes of shares by measures: the leader hears the loads of all members, and decides on the factors of
//! their weights.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_bus::{Bus, Subscription};
use tidegate_cluster::{Burden, Factor, PARTITIONS, Seen, Table, Weighing, WeighingSettings};
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
/// Members with fewer clients on the average have as many as they have by chance: no share follows them.
const LEAST_CLIENTS: f64 = 100.0;
/// For how long a node that is no member any more keeps its factor: it may be started again.
const EXPECTED: Duration = Duration::from_secs(600);
/// Most nodes that keep their factors while they are no members.
const MOST_EXPECTED: usize = PARTITIONS as usize;

/// A measured amount.
pub(super) enum Scale {
    /// How busy nodes are.
    Load,
    /// Their clients, by a ranking.
    Clients(Box<dyn Ranking>),
}

/// The policy for the sizes of shares.
pub(super) struct WeightPolicy {
    /// `None` where the weights alone decide.
    scale: Option<Scale>,
    settings: WeighingSettings,
}

impl WeightPolicy {
    /// The policy of a configuration.
    ///
    /// # Errors
    /// When the ranking cannot be used.
    pub(super) fn of(cluster: &Cluster, context: &Context) -> Result<Self, tidegate_config::context::WrongKey> {
        // Busyness and free resources waver, and respond to each move: half of a deviation at once.
        let wavering = WeighingSettings {
            start: 0.15,
            stop: 0.05,
            gain: 0.5,
            pause: cluster.balance_pause,
            oldest: OLDEST,
            least_count: None,
            smoothing: SMOOTHING,
        };
        Ok(match cluster.balance {
            Balance::Weight => Self { scale: None, settings: wavering },
            Balance::Load => Self { scale: Some(Scale::Load), settings: wavering },
            Balance::Ranking => {
                let scale = Some(Scale::Clients(tidegate_config::context::ranking_of_nodes(context)?));
                let counted = WeighingSettings { least_count: Some(LEAST_CLIENTS), ..wavering };
                // Ideal numbers by clients alone are exact.
                let exact = WeighingSettings { start: 0.02, stop: 0.005, gain: 1.0, ..counted };
                let is_exact = context.ranking == RankingName::Connections;
                Self { scale, settings: if is_exact { exact } else { counted } }
            }
        })
    }

    /// Whether nodes have to be measured.
    pub(super) fn measures(&self) -> bool {
        self.scale.is_some()
    }

    /// The amounts that nodes have and should have, for their configured weights.
    fn burdens(&self, loads: &[&Load], weight: impl Fn(&str) -> u64) -> BTreeMap<String, Burden> {
        let weights: Vec<f64> = loads.iter().map(|load| number(weight(&load.node))).collect();
        let burdens = match &self.scale {
            None => Vec::new(),
            Some(Scale::Load) => by_load(loads, &weights),
            Some(Scale::Clients(ranking)) => by_clients(&**ranking, loads, &weights),
        };
        loads.iter().map(|load| load.node.clone()).zip(burdens).collect()
    }
}

/// Nodes should be as busy as their weights say, equally for the same weights, if one of them is busy at all.
fn by_load(loads: &[&Load], weights: &[f64]) -> Vec<Burden> {
    let busy: Vec<f64> = loads.iter().map(|load| load.busy()).collect();
    let (sum, all) = (busy.iter().sum::<f64>(), weights.iter().sum::<f64>());
    let is_busy = busy.iter().any(|it| *it >= BUSY);
    let burden = |(has, weight)| Burden { has, wanted: if is_busy { sum * weight / all } else { has } };
    busy.into_iter().zip(weights).map(burden).collect()
}

/// Each node should have its ideal number of clients (CTX-41), multiplied by its weight.
fn by_clients(ranking: &dyn Ranking, loads: &[&Load], weights: &[f64]) -> Vec<Burden> {
    let all = loads.iter().fold(0_u64, |all, load| all.saturating_add(load.clients));
    let shares = ideal_shares(ranking, all, loads.iter().map(|load| Some(load.view())).collect());
    let shares: Vec<_> = shares.iter().zip(weights).map(|(share, weight)| share.map(|it| it * weight)).collect();
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
    policy: WeightPolicy,
    weighing: Weighing,
    /// The subscription to loads, and since when there is one.
    listens: Option<(Subscription, Instant)>,
    /// The bus has refused the last subscription.
    is_refused: bool,
    heard: BTreeMap<String, Heard>,
    looked: Option<Instant>,
    /// Since when this leader knows the present life of each member.
    known: BTreeMap<String, (u64, Instant)>,
    /// Since when nodes with factors are no members.
    away: BTreeMap<String, Instant>,
    /// Members that are not measured. While there is one, no factor changes.
    unmeasured: Vec<String>,
}

impl Weights {
    pub(super) fn new(policy: WeightPolicy) -> Self {
        let (weighing, listens, is_refused, heard) = Default::default();
        let (looked, known, away, unmeasured) = Default::default();
        Self { policy, weighing, listens, is_refused, heard, looked, known, away, unmeasured }
    }

    /// This node leads no more.
    pub(super) fn resign(&mut self) {
        (self.weighing, self.listens, self.is_refused, self.looked) = Default::default();
        self.heard.clear();
        self.known.clear();
        self.away.clear();
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

    /// The nodes that keep their factors although they are no members, or are about to be none: for [`EXPECTED`] after
    /// they have gone, as far as this leader knows.
    pub(super) fn expected(&mut self, now: Instant, table: &Table) -> BTreeSet<String> {
        self.away.retain(|name, _| table.factors.contains_key(name) && !table.lives.contains_key(name));
        let mut expected = BTreeSet::new();
        for name in table.factors.keys() {
            if table.lives.contains_key(name) {
                expected.insert(name.clone());
            } else if self.away.contains_key(name) || self.away.len() < MOST_EXPECTED {
                let since = *self.away.entry(name.clone()).or_insert(now);
                if now.saturating_duration_since(since) < EXPECTED {
                    expected.insert(name.clone());
                }
            }
        }
        expected
    }

    /// The factors that change with the next table; `None` if the present ones stay. `name` is this node's, `since` a
    /// monotonic time.
    pub(super) fn next(
        &mut self,
        bus: &Bus,
        name: &str,
        since: Duration,
        table: &Table,
        seen: &Seen,
    ) -> Option<BTreeMap<String, Factor>> {
        self.hear(table);
        let now = Instant::now();
        if self.looked.is_some_and(|at| now.saturating_duration_since(at) < LOAD_PERIOD) {
            return None;
        }
        self.looked = Some(now);
        if !self.policy.measures() {
            return self.weighing.relax(since, self.policy.settings.pause, table, seen);
        }
        self.listen(bus, name, now, table);
        self.look(now, since, table, seen)
    }

    fn look(&mut self, now: Instant, since: Duration, table: &Table, seen: &Seen) -> Option<BTreeMap<String, Factor>> {
        let is_current = |name: &String, heard: &Heard| {
            table.lives.get(name) == Some(&heard.load.life) && now.saturating_duration_since(heard.at) <= OLDEST
        };
        self.heard.retain(|name, heard| is_current(name, heard));
        let unmeasured = self.without_measure(now, table);
        if !unmeasured.is_empty() && unmeasured != self.unmeasured {
            tracing::warn!(
                nodes = ?unmeasured,
                "shares do not follow measures, since these nodes send none; give all nodes the same cluster.balance"
            );
        }
        self.unmeasured = unmeasured;
        let loads: Vec<&Load> = self.heard.values().map(|heard| &heard.load).collect();
        let burdens = self.policy.burdens(&loads, |name| seen.weight(name));
        let worked = self.weighing.works();
        let next = self.weighing.look(since, &self.policy.settings, table, seen, &burdens);
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

    /// The members that this leader has known for long enough to have heard them, and has not heard.
    fn without_measure(&mut self, now: Instant, table: &Table) -> Vec<String> {
        self.known.retain(|name, (life, _)| table.lives.get(name) == Some(life));
        for (name, life) in &table.lives {
            self.known.entry(name.clone()).or_insert((*life, now));
        }
        let is_late = |since: Instant| now.saturating_duration_since(since) > OLDEST;
        let late = self.known.iter().filter(|(name, (_, since))| is_late(*since) && !self.heard.contains_key(*name));
        late.map(|(name, _)| name.clone()).collect()
    }

    /// Subscribes to the loads of members, again where this node does not hear its own.
    fn listen(&mut self, bus: &Bus, name: &str, now: Instant, table: &Table) {
        let is_old = |since: Instant| now.saturating_duration_since(since) > OLDEST;
        let is_deaf = table.lives.contains_key(name) && !self.heard.contains_key(name);
        if is_deaf && self.listens.as_ref().is_some_and(|(_, since)| is_old(*since)) {
            tracing::debug!("this node does not hear its own load; it subscribes to loads again");
            self.listens = None;
        }
        if self.listens.is_some() {
            return;
        }
        let Ok(subject) = subject() else { return };
        // The leader looks often enough: no message has to wake it.
        match bus.subscribe(subject.into(), Arc::new(|| {})) {
            Ok(subscription) => (self.listens, self.is_refused) = (Some((subscription, now)), false),
            Err(error) if !self.is_refused => {
                self.is_refused = true;
                tracing::warn!(%error, "cannot subscribe to the loads of nodes, so shares do not follow them; retrying");
            }
            Err(_) => {}
        }
    }

    /// Hears the members.
    fn hear(&mut self, table: &Table) {
        let at = Instant::now();
        let messages: Vec<_> = self.listens.iter().flat_map(|(listens, _)| listens.take(AT_ONCE)).collect();
        for message in messages {
            match serde_json::from_slice::<Load>(&message.payload) {
                Ok(load) => self.take(load, at, table),
                Err(error) => tracing::debug!(%error, "a load of a node was skipped"),
            }
        }
    }

    /// Takes note of a load. Loads of nodes and lives that are not in the table are dropped: any process on the bus can
    /// send them.
    fn take(&mut self, load: Load, at: Instant, table: &Table) {
        if table.lives.get(&load.node) == Some(&load.life) {
            let (load, burden) = (load.within_bounds(), Burden::default());
            self.heard.insert(load.node.clone(), Heard { at, load, burden });
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
        let equal = [100.0; 3];
        assert_eq!(has_and_wanted(&by_load(&[&busy, &calm, &idle], &equal)), [[600, 300], [200, 300], [100, 300]]);
        assert_eq!(has_and_wanted(&by_load(&[&calm, &idle], &equal)), [[200, 200], [100, 100]]);
    }

    #[test]
    fn a_weight_multiplies_the_ideal_share_of_a_member() {
        let loads = [load("a", 0.6, 300, 0), load("b", 0.3, 600, 0)];
        let loads = [&loads[0], &loads[1]];
        assert_eq!(has_and_wanted(&by_load(&loads, &[100.0, 200.0])), [[600, 300], [300, 600]]);
        assert_eq!(
            has_and_wanted(&by_clients(&ConnectionsInverse, &loads, &[200.0, 100.0])),
            [[300_000, 600_000], [600_000, 300_000]]
        );
    }

    #[test]
    fn forged_loads_are_dropped_or_bounded() {
        let (table, seen) = pair();
        let mut weights = Weights::new(policy(Balance::Ranking, RankingName::Connections));
        let now = Instant::now();
        weights.take(load("stranger", 0.0, 0, 0), now, &table);
        weights.take(Load { life: 9, ..load("a", 0.0, 0, 0) }, now, &table);
        assert!(weights.heard.is_empty());
        for name in ["a", "b"] {
            weights.take(Load { memory: -3.0, ..load(name, 1e300, u64::MAX, u64::MAX) }, now, &table);
        }
        assert_eq!(weights.look(now, Duration::ZERO, &table, &seen), None);
        let load = &weights.heard["a"].load;
        assert_eq!(has_and_wanted(&[Burden { has: load.cpu, wanted: load.memory }]), [[1_000, 0]]);
    }

    #[test]
    fn a_node_that_is_away_keeps_its_factor_for_a_while() {
        let ((mut table, mut seen), now) = (pair(), Instant::now());
        let mut weights = Weights::new(policy(Balance::Load, RankingName::Connections));
        table.factors.insert("a".to_owned(), Factor(500));
        seen.members.remove("a");
        seen.expected = weights.expected(now, &table);
        let table = decide(&table, &seen).unwrap();
        assert!(!table.lives.contains_key("a") && table.factors.contains_key("a"));
        seen.expected = weights.expected(now, &table);
        assert!(decide(&table, &seen).is_none_or(|next| next.factors.contains_key("a")));
        seen.expected = weights.expected(now + EXPECTED, &table);
        assert!(!decide(&table, &seen).unwrap().factors.contains_key("a"));
    }

    #[test]
    fn a_member_that_has_just_joined_is_not_reported() {
        let ((mut table, seen), now) = (pair(), Instant::now());
        let mut weights = Weights::new(policy(Balance::Load, RankingName::Connections));
        let late = now + OLDEST + Duration::from_secs(1);
        assert_eq!(weights.look(now, Duration::ZERO, &table, &seen), None);
        table.lives.insert("c".to_owned(), 1);
        assert_eq!(weights.look(late, Duration::ZERO, &table, &seen), None);
        assert_eq!(weights.unmeasured(), ["a", "b"]);
        assert_eq!(weights.look(late + OLDEST + Duration::from_secs(1), Duration::ZERO, &table, &seen), None);
        assert_eq!(weights.unmeasured(), ["a", "b", "c"]);
    }

    #[test]
    fn members_should_have_their_ideal_numbers_of_clients() {
        let loads = [load("a", 0.0, 9_000, 100), load("b", 0.0, 0, 200)];
        let burdens = by_clients(&ConnectionsInverse, &[&loads[0], &loads[1]], &[100.0; 2]);
        // If both have the score of their numbers: n * (1 + n) is as the capacity.
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

    /// Runs changes for a number of minutes with these loads for a number of partitions; returns the shares of `a`.
    fn shares(policy: WeightPolicy, minutes: u64, loads: impl Fn(f64) -> [Load; 2]) -> Vec<usize> {
        let ((mut table, mut seen), mut weights) = (pair(), Weights::new(policy));
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
        WeightPolicy::of(&config.cluster, &config.context).unwrap()
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
        let burdens = by_clients(&WeightedResources::default(), &[&a, &b], &[100.0; 2]);
        assert!((burdens[0].has - burdens[0].wanted).abs() <= burdens[0].wanted * 0.15, "{burdens:?}");
    }

    #[test]
    fn measures_of_former_lives_and_old_ones_count_for_nothing() {
        let ((table, seen), mut weights) = (pair(), Weights::new(policy(Balance::Load, RankingName::Connections)));
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
