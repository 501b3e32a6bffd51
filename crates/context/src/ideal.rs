//! How many nodes each gateway should have (`CTX-41`, `CTX-43`): `In(X) = n * W(X) / sum of all W`, made whole by the
//! largest remainder, so that the sum stays n.

use crate::ranking::{GatewayView, Ranking};
use crate::real::{real, whole};

/// The ideal numbers of nodes for the scores of all gateways, in their order. `None` is a gateway that shall have no
/// nodes: an inactive or a draining one.
///
/// A negative or infinite score counts as 0. When all scores are 0, all gateways have the same share. Without a gateway
/// that accepts nodes, all numbers and their sum are 0.
pub fn ideal_numbers(nodes: u64, scores: &[Option<f64>]) -> Vec<u64> {
    let weight = |score: &Option<f64>| score.map(|score| if score.is_finite() { score.max(0.0) } else { 0.0 });
    let mut weights: Vec<Option<f64>> = scores.iter().map(weight).collect();
    // Scaled by the largest, so that no sum overflows.
    let largest = weights.iter().flatten().copied().fold(0.0, f64::max);
    for weight in weights.iter_mut().flatten() {
        *weight = if largest > 0.0 { *weight / largest } else { 1.0 };
    }
    let total: f64 = weights.iter().flatten().sum();
    if weights.iter().flatten().next().is_none() {
        return vec![0; scores.len()];
    }
    let exact: Vec<f64> = weights.iter().map(|weight| real(nodes) * weight.unwrap_or_default() / total).collect();
    let mut ideal: Vec<u64> = exact.iter().map(|share| whole(share.floor()).min(nodes)).collect();
    let mut order: Vec<usize> = (0..scores.len()).filter(|place| weights[*place].is_some_and(|w| w > 0.0)).collect();
    let remainder = |place: usize| exact[place] - exact[place].floor();
    order.sort_by(|a, b| remainder(*b).total_cmp(&remainder(*a)).then(a.cmp(b)));
    settle(nodes, &mut ideal, &order);
    ideal
}

/// Adds the remaining nodes to the gateways with the largest remainders, or removes the excess of rounding.
fn settle(nodes: u64, ideal: &mut [u64], order: &[usize]) {
    // Rounding may have brought each near the greatest number.
    let nodes = u128::from(nodes);
    let mut sum: u128 = ideal.iter().map(|ideal| u128::from(*ideal)).sum();
    for place in order.iter().cycle().take_while(|_| !order.is_empty()) {
        match sum.cmp(&nodes) {
            std::cmp::Ordering::Less => {
                ideal[*place] += 1;
                sum += 1;
            }
            std::cmp::Ordering::Greater if ideal[*place] > 0 => {
                ideal[*place] -= 1;
                sum -= 1;
            }
            std::cmp::Ordering::Greater => {}
            std::cmp::Ordering::Equal => return,
        }
    }
}

/// Most steps towards ideal numbers that agree with themselves.
const MAX_STEPS: usize = 24;

/// The share of all nodes that each gateway should have, with the scores that it would have with these nodes.
///
/// Scores that fall with the number of nodes need damping. Otherwise the formula would send most nodes to the emptiest
/// gateway, and back once they have arrived. Each step goes half of the way, so that even `1 / nodes` converges.
pub fn ideal_shares(ranking: &dyn Ranking, nodes: u64, mut views: Vec<Option<GatewayView>>) -> Vec<Option<f64>> {
    let total = real(nodes);
    let mut held: Vec<f64> = views.iter().flatten().map(|view| real(view.nodes)).collect();
    // Nodes of gateways that go away are dealt out as well.
    let here: f64 = held.iter().sum();
    let takers = real(held.len().max(1) as u64);
    for held in &mut held {
        *held += (total - here) / takers;
    }
    for _ in 0..MAX_STEPS {
        for (view, held) in views.iter_mut().flatten().zip(&held) {
            view.nodes = whole(held.round());
        }
        let scores: Vec<f64> = views.iter().flatten().map(|view| finite(ranking.score(view))).collect();
        let sum: f64 = scores.iter().sum();
        let mut farthest = 0.0_f64;
        for (held, score) in held.iter_mut().zip(&scores) {
            let share = if sum > 0.0 && sum.is_finite() { score / sum } else { 1.0 / takers };
            let step = (total * share - *held) / 2.0;
            *held += step;
            farthest = farthest.max(step.abs());
        }
        if farthest < 0.25 {
            break;
        }
    }
    let mut held = held.into_iter().map(|held| if total > 0.0 { held / total } else { 1.0 / takers });
    views.iter().map(|view| view.as_ref().and_then(|_| held.next())).collect()
}

/// A finite score that is not negative.
pub(crate) fn finite(score: f64) -> f64 {
    if score.is_finite() { score.max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_largest_remainders_get_the_remaining_nodes() {
        assert_eq!(ideal_numbers(10, &[Some(1.0), Some(1.0), Some(1.0)]), [4, 3, 3]);
        assert_eq!(ideal_numbers(100, &[Some(0.5), Some(0.3), Some(0.2)]), [50, 30, 20]);
        assert_eq!(ideal_numbers(7, &[Some(1.0), Some(2.0), Some(4.0)]), [1, 2, 4]);
        assert_eq!(ideal_numbers(8, &[Some(1.0), Some(2.0), Some(4.0)]), [1, 2, 5]);
    }

    #[test]
    fn the_greatest_number_of_nodes_is_dealt_out() {
        for members in [1, 2, 3, 7] {
            let ideal = ideal_numbers(u64::MAX, &vec![Some(1.0); members]);
            assert_eq!(ideal.into_iter().map(u128::from).sum::<u128>(), u128::from(u64::MAX));
        }
    }

    #[test]
    fn without_any_score_all_are_equal() {
        assert_eq!(ideal_numbers(9, &[Some(0.0), Some(0.0), Some(f64::NAN)]), [3, 3, 3]);
    }

    #[test]
    fn one_gateway_has_all_and_one_that_goes_none() {
        assert_eq!(ideal_numbers(9, &[Some(0.1)]), [9]);
        assert_eq!(ideal_numbers(9, &[Some(0.1), None, None]), [9, 0, 0]);
        assert_eq!(ideal_numbers(9, &[None, None]), [0, 0]);
        assert!(ideal_numbers(9, &[]).is_empty());
    }

    fn score() -> impl Strategy<Value = Option<f64>> {
        prop_oneof![
            1 => Just(None),
            1 => Just(Some(0.0)),
            1 => Just(Some(f64::INFINITY)),
            1 => Just(Some(f64::MAX)),
            1 => Just(Some(f64::MIN_POSITIVE)),
            6 => (-1.0_f64..1e6).prop_map(Some),
        ]
    }

    proptest! {
        #[test]
        fn the_sum_stays_n(nodes in 0_u64..2_000_000, scores in proptest::collection::vec(score(), 0..40)) {
            let ideal = ideal_numbers(nodes, &scores);
            let takers = scores.iter().flatten().count();
            prop_assert_eq!(ideal.iter().sum::<u64>(), if takers > 0 { nodes } else { 0 });
            for (score, ideal) in scores.iter().zip(&ideal) {
                prop_assert!(score.is_some() || *ideal == 0);
            }
        }

        #[test]
        fn no_gateway_is_more_than_one_node_off(nodes in 0_u64..100_000, scores in proptest::collection::vec(0.001_f64..100.0, 1..20)) {
            let total: f64 = scores.iter().sum();
            let given: Vec<_> = scores.iter().copied().map(Some).collect();
            for (score, ideal) in scores.iter().zip(ideal_numbers(nodes, &given)) {
                let exact = real(nodes) * score / total;
                prop_assert!((real(ideal) - exact).abs() < 1.0 + 1e-6, "{} instead of {}", ideal, exact);
            }
        }
    }
}
