//! The order of runs: by chance, so that what drifts with time (heat, neighbours, caches) does not fall on one broker
//! alone; from a seed, so that it can be had again.

use tidegate_random::SplitMix64;

/// The indices below `len` in an order that a seed decides.
pub fn shuffled(len: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    let mut series = SplitMix64::new(seed);
    for place in (1..len).rev() {
        let below = place as u64 + 1;
        let chosen = usize::try_from(series.below(below)).unwrap_or(0);
        order.swap(place, chosen);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_everything_once_and_depends_on_the_seed_alone() {
        let one = shuffled(50, 7);
        let mut sorted = one.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
        assert_eq!(one, shuffled(50, 7));
        assert_ne!(one, shuffled(50, 8));
        assert!(shuffled(0, 1).is_empty());
    }
}
