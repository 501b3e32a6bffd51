//! Token buckets: a long-term rate of events, and a burst.

use tidegate_engine::Millis;

/// A rate of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Times per second in the long run; 0 is no limit.
    pub per_second: u32,
    /// Times at once after a quiet while; 0 is as many as come in a second.
    pub burst: u32,
}

impl Rate {
    /// No limit.
    pub const UNLIMITED: Self = Self { per_second: 0, burst: 0 };

    /// Whether this limits anything.
    pub fn is_limited(self) -> bool {
        self.per_second != 0
    }

    /// The size of a full bucket, in thousandths of a token.
    fn full(self) -> u64 {
        let burst = if self.burst == 0 { self.per_second } else { self.burst };
        u64::from(burst) * TOKEN
    }
}

/// A token. A bucket gains a rate's thousandths per millisecond, so counting in thousandths keeps it exact.
const TOKEN: u64 = 1000;

/// A bucket of tokens, full at first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TokenBucket {
    /// Thousandths of tokens that are missing.
    missing: u64,
    at: Millis,
}

impl TokenBucket {
    /// Takes a token, if there is one.
    pub(crate) fn take(&mut self, now: Millis, rate: Rate) -> bool {
        if !rate.is_limited() {
            return true;
        }
        let gained = now.since(self.at).saturating_mul(u64::from(rate.per_second));
        self.missing = self.missing.saturating_sub(gained);
        self.at = self.at.max(now);
        let allowed = self.missing + TOKEN <= rate.full();
        if allowed {
            self.missing += TOKEN;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let rate = Rate { per_second: 10, burst: 3 };
        let mut bucket = TokenBucket::default();
        let taken: Vec<bool> = (0..5).map(|_| bucket.take(Millis(1000), rate)).collect();
        assert_eq!(taken, [true, true, true, false, false]);
        assert!(!bucket.take(Millis(1099), rate));
        assert!(bucket.take(Millis(1100), rate));
        assert!(!bucket.take(Millis(1100), rate));
    }

    #[test]
    fn no_rate_is_no_limit_and_a_stopped_clock_adds_nothing() {
        let mut bucket = TokenBucket::default();
        assert!((0..10_000).all(|_| bucket.take(Millis(0), Rate::UNLIMITED)));
        let rate = Rate { per_second: 1, burst: 0 };
        assert!(bucket.take(Millis(5), rate));
        assert!(!bucket.take(Millis(4), rate));
        assert!(!bucket.take(Millis(5), rate));
    }

    proptest! {
        /// Over any time, no more passes than the burst and the rate.
        #[test]
        fn a_bucket_never_gives_more_than_its_rate(
            steps in prop::collection::vec(0_u64..400, 1..300), per_second in 1_u32..50, burst in 0_u32..20,
        ) {
            let rate = Rate { per_second, burst };
            let mut bucket = TokenBucket::default();
            let mut now = Millis(1000);
            let mut passed = 0_u64;
            for step in steps {
                now = now.plus(step);
                passed += u64::from(bucket.take(now, rate));
                let allowed = rate.full() + now.since(Millis(1000)) * u64::from(per_second);
                prop_assert!(passed * TOKEN <= allowed);
            }
        }
    }
}
