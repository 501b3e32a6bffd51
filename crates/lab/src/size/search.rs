//! The choice of the next configuration, without any run.

/// A configuration: brokers that share the devices evenly, each with the same limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Candidate {
    /// Brokers.
    pub brokers: u32,
    /// CPU time of each, in thousandths of a core.
    pub millicores: u32,
    /// Memory of each, in MiB.
    pub mebibytes: u32,
}

/// Prices of resources, in any currency and time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// A core.
    pub core: f64,
    /// A GiB of memory.
    pub gibibyte: f64,
    /// A broker, without its cores and its memory.
    pub broker: f64,
}

impl Candidate {
    /// The shards that fit the cores of a broker: one for each core that it has in part or in full.
    pub const fn shards(self) -> u32 {
        let shards = self.millicores.div_ceil(1_000);
        if shards == 0 { 1 } else { shards }
    }

    /// Its price.
    pub fn cost(self, prices: Prices) -> f64 {
        let one = f64::from(self.millicores) / 1e3 * prices.core + f64::from(self.mebibytes) / 1024.0 * prices.gibibyte;
        f64::from(self.brokers) * (one + prices.broker)
    }

    /// Whether it has at least as much of everything as another one.
    const fn has_all_of(self, other: Self) -> bool {
        self.brokers >= other.brokers && self.millicores >= other.millicores && self.mebibytes >= other.mebibytes
    }
}

/// A search for the cheapest candidate that holds. A candidate with less of everything than a failed candidate does not
/// hold either, and a candidate that costs more than a successful candidate is not tried.
#[derive(Clone, Debug)]
pub struct SizeSearch {
    /// The undecided ones, the cheapest first.
    open: Vec<Candidate>,
    prices: Prices,
    best: Option<Candidate>,
}

impl SizeSearch {
    /// All combinations of these numbers.
    pub fn new(brokers: &[u32], millicores: &[u32], mebibytes: &[u32], prices: Prices) -> Self {
        let with_memory =
            |brokers, millicores| mebibytes.iter().map(move |&mebibytes| Candidate { brokers, millicores, mebibytes });
        let with_cores = |brokers| millicores.iter().flat_map(move |&millicores| with_memory(brokers, millicores));
        let mut open: Vec<Candidate> = brokers.iter().flat_map(|&brokers| with_cores(brokers)).collect();
        open.sort_by(|a, b| a.cost(prices).total_cmp(&b.cost(prices)).then(a.cmp(b)));
        open.dedup();
        Self { open, prices, best: None }
    }

    /// The candidate to try: the middle one by cost of the candidates that may be the cheapest. `None` when the search is over.
    pub fn next(&self) -> Option<Candidate> {
        self.open.get(self.open.len().saturating_sub(1) / 2).copied()
    }

    /// Takes in whether a candidate held.
    pub fn tell(&mut self, tried: Candidate, held: bool) {
        let (prices, cost) = (self.prices, tried.cost(self.prices));
        if held {
            self.open.retain(|other| other.cost(prices) < cost);
            self.best = Some(tried);
        } else {
            self.open.retain(|other| !tried.has_all_of(*other));
        }
    }

    /// The cheapest candidate that held so far.
    pub const fn best(&self) -> Option<Candidate> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PRICES: Prices = Prices { core: 1.0, gibibyte: 0.25, broker: 0.1 };
    const BROKERS: [u32; 3] = [1, 2, 4];
    const CORES: [u32; 6] = [50, 100, 200, 400, 800, 1_600];
    const MEMORY: [u32; 5] = [16, 32, 64, 128, 256];

    /// A model of a platform: each broker needs CPU time for its messages and memory for its devices.
    fn holds(candidate: Candidate, devices: u32, rate: u32) -> bool {
        let (share, rate) = (devices.div_ceil(candidate.brokers), rate);
        candidate.millicores >= 20 + share * rate / 20 && candidate.mebibytes >= 8 + share / 40
    }

    /// The result of a search, and its steps.
    fn found(devices: u32, rate: u32) -> (Option<Candidate>, usize) {
        let mut search = SizeSearch::new(&BROKERS, &CORES, &MEMORY, PRICES);
        let mut steps = 0;
        while let Some(candidate) = search.next() {
            search.tell(candidate, holds(candidate, devices, rate));
            steps += 1;
        }
        (search.best(), steps)
    }

    #[test]
    fn few_runs_find_a_size() {
        let (best, steps) = found(1_000, 1);
        assert_eq!(best, Some(Candidate { brokers: 1, millicores: 100, mebibytes: 64 }));
        assert!(steps <= 12, "{steps} of 90");
    }

    #[test]
    fn nothing_is_found_where_nothing_holds() {
        assert_eq!(found(1_000_000, 10).0, None);
        assert_eq!(SizeSearch::new(&[], &[], &[], PRICES).next(), None);
    }

    #[test]
    fn shards_fit_the_cores() {
        let shards = |millicores| Candidate { brokers: 1, millicores, mebibytes: 1 }.shards();
        assert_eq!([1, 1_000, 1_001, 4_000].map(shards), [1, 1, 2, 4]);
    }

    proptest! {
        #[test]
        fn no_cheaper_candidate_holds(devices in 1_u32..20_000, rate in 1_u32..8) {
            let (best, _) = found(devices, rate);
            let all = BROKERS.iter().flat_map(|&brokers| {
                CORES.iter().flat_map(move |&millicores| {
                    MEMORY.iter().map(move |&mebibytes| Candidate { brokers, millicores, mebibytes })
                })
            });
            let holding = all.filter(|candidate| holds(*candidate, devices, rate));
            let least = holding.map(|it| it.cost(PRICES)).min_by(f64::total_cmp);
            prop_assert_eq!(best.map(|it| it.cost(PRICES)), least);
        }
    }
}
