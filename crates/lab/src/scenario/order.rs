//! The order of runs: by chance, so that what drifts with time (heat, neighbours, caches) does not fall on one broker
//! alone; from a seed, so that it can be had again.

/// The indices below `len` in an order that a seed decides.
pub fn shuffled(len: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    let mut state = seed;
    for place in (1..len).rev() {
        let below = place as u64 + 1;
        let chosen = usize::try_from(next(&mut state) % below).unwrap_or(0);
        order.swap(place, chosen);
    }
    order
}

/// `SplitMix64`: small, and good enough for an order.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
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
