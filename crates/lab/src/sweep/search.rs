//! The choice of the next rate.

/// A search for the greatest rate that holds: doubled as long as it does, then halved in between by equal factors.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    next: u64,
    most: u64,
    held: Option<u64>,
    broke: Option<u64>,
    /// The ratio of the lowest failed rate to the highest that held that is close enough.
    close: f64,
}

impl Search {
    /// Begins with a rate and goes no higher than another.
    pub fn new(from: u64, most: u64, close: f64) -> Self {
        let from = from.max(1);
        Self { next: from, most: most.max(from), held: None, broke: None, close: close.max(1.01) }
    }

    /// The rate to try; `None` when the search is over.
    pub fn next(&self) -> Option<u64> {
        match (self.held, self.broke) {
            (Some(held), _) if held >= self.most => None,
            (Some(held), Some(broke)) if ratio(broke, held) <= self.close || broke <= held + 1 => None,
            (None, Some(broke)) if broke <= 1 => None,
            _ => Some(self.next),
        }
    }

    /// Takes in whether the rate that was tried has held.
    pub fn tell(&mut self, held: bool) {
        if held {
            self.held = Some(self.next);
        } else {
            self.broke = Some(self.next);
        }
        self.next = match (self.held, self.broke) {
            (Some(held), Some(broke)) => between(held, broke),
            (Some(held), None) => held.saturating_mul(2).min(self.most),
            (None, Some(broke)) => (broke / 4).max(1),
            (None, None) => self.next,
        };
    }

    /// The greatest rate that held.
    pub fn held(&self) -> Option<u64> {
        self.held
    }

    /// The least rate that did not.
    pub fn broke(&self) -> Option<u64> {
        self.broke
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates are shown with three digits")]
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b.max(1) as f64
}

#[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "rates are positive and far below 2^52")]
fn between(held: u64, broke: u64) -> u64 {
    let middle = (held as f64 * broke as f64).sqrt();
    // Three digits say enough of a rate, and read well.
    let unit = 10_f64.powf((middle.log10() - 2.0).floor().max(0.0));
    ((middle / unit).round() * unit).clamp(held as f64 + 1.0, (broke - 1).max(held + 1) as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(limit: u64, mut search: Search) -> (Search, u32) {
        let mut steps = 0;
        while let Some(rate) = search.next() {
            search.tell(rate <= limit);
            steps += 1;
            assert!(steps < 60, "{search:?}");
        }
        (search, steps)
    }

    #[test]
    fn the_limit_is_found_from_below_and_from_above() {
        for limit in [3, 17, 999, 12_345, 1_000_000] {
            let (found, _) = search(limit, Search::new(1000, 10_000_000, 1.1));
            let (held, broke) = (found.held().unwrap(), found.broke().unwrap());
            assert!(held <= limit && limit < broke, "{limit}: {held} and {broke}");
            assert!(ratio(broke, held) <= 1.1 || broke == held + 1, "{limit}: {held} and {broke}");
        }
    }

    #[test]
    fn a_broker_that_holds_everything_ends_the_search_at_the_top() {
        let (found, steps) = search(u64::MAX, Search::new(1000, 9000, 1.1));
        assert_eq!((found.held(), found.broke(), steps), (Some(9000), None, 5));
    }

    #[test]
    fn one_that_holds_nothing_ends_it_at_the_bottom() {
        assert_eq!(search(0, Search::new(1000, 9000, 1.1)).0.held(), None);
    }
}
