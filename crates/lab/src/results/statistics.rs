//! Numbers of a few repetitions: their middle, their spread, and whether two sets of them differ.

/// The middle one; the mean of the two middle ones when their number is even. `None` without numbers.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => sorted.get(middle).copied(),
        _ => Some(f64::midpoint(*sorted.get(middle - 1)?, *sorted.get(middle)?)),
    }
}

/// The least and the greatest. `None` without numbers.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    Some((finite().reduce(f64::min)?, finite().reduce(f64::max)?))
}

/// The two-sided test of Mann and Whitney: the probability that two sets of numbers differ by at least this much when
/// nothing distinguishes them. Exact, by counting every way in which the ranks can fall; ties are counted half. `None`
/// when either set is empty, or when there are too many ways to count (more than 24 numbers), where the normal
/// approximation is taken.
pub fn mann_whitney(first: &[f64], second: &[f64]) -> Option<f64> {
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let statistic = wins(first, second);
    let (m, n) = (first.len(), second.len());
    let centre = product(m, n) / 2.0;
    let distance = (statistic - centre).abs();
    if m + n > 24 {
        return Some(normal_tail(distance, m, n));
    }
    let ways = ways_of_sums(m, n);
    let all: f64 = ways.iter().sum();
    #[expect(clippy::cast_precision_loss, reason = "at most 144 wins")]
    let extreme: f64 = ways
        .iter()
        .enumerate()
        .filter(|(wins, _)| (*wins as f64 - centre).abs() + 1e-9 >= distance)
        .map(|(_, ways)| ways)
        .sum();
    Some((extreme / all).min(1.0))
}

/// The least probability that this number of values on each side can show: with fewer than four on each side no
/// difference can be called one at 5 %.
pub fn least_probability(m: usize, n: usize) -> f64 {
    let ways = ways_of_sums(m, n);
    let all: f64 = ways.iter().sum();
    if all > 0.0 { (2.0 / all).min(1.0) } else { 1.0 }
}

/// How often a number of the first set is above one of the second; equal ones count half.
fn wins(first: &[f64], second: &[f64]) -> f64 {
    let score = |a: f64, b: f64| match a.total_cmp(&b) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Less => 0.0,
    };
    first.iter().map(|a| second.iter().map(|b| score(*a, *b)).sum::<f64>()).sum()
}

/// The number of ways in which `m` values among `m + n` win, by the number of wins.
fn ways_of_sums(m: usize, n: usize) -> Vec<f64> {
    // ways[j][u]: j numbers placed, u wins so far; each number wins against 0 to n others, in ascending order.
    let most = m * n;
    let mut ways = vec![vec![0.0; most + 1]; m + 1];
    ways[0][0] = 1.0;
    for below in 0..=n {
        let mut next = ways.clone();
        for placed in 1..=m {
            for wins in below..=most {
                next[placed][wins] = ways[placed][wins] + next[placed - 1][wins - below];
            }
        }
        ways = next;
    }
    ways.swap_remove(m)
}

#[expect(clippy::cast_precision_loss, reason = "numbers of repetitions are small")]
fn product(m: usize, n: usize) -> f64 {
    m as f64 * n as f64
}

fn normal_tail(distance: f64, m: usize, n: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "numbers of repetitions are small")]
    let deviation = (product(m, n) * (m + n + 1) as f64 / 12.0).sqrt();
    // The complementary error function by the formula 7.1.26 of Abramowitz and Stegun, right to 1.5e-7.
    let z = (distance - 0.5).max(0.0) / deviation / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let poly =
        t * (0.254_829_592 + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    (poly * (-z * z).exp()).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_even_number_lies_between() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(range(&[2.0, 1.0, f64::NAN]), Some((1.0, 2.0)));
    }

    #[test]
    fn the_exact_test_agrees_with_published_tables() {
        // Two of 252 ways are as far apart as five against five can be.
        let far = mann_whitney(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]).unwrap();
        assert!((far - 2.0 / 252.0).abs() < 1e-12, "{far}");
        // U = 2 with five and five: p = 0.0317 in the tables.
        let near = mann_whitney(&[1.0, 2.0, 3.0, 4.0, 8.0], &[5.0, 6.5, 8.5, 9.0, 10.0]).unwrap();
        assert!((near - 0.0317).abs() < 1e-3, "{near}");
        let same = mann_whitney(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]).unwrap();
        assert!((same - 1.0).abs() < 1e-12, "{same}");
        assert_eq!(mann_whitney(&[], &[1.0]), None);
    }

    #[test]
    fn three_against_three_can_show_nothing_at_five_percent() {
        assert!((least_probability(3, 3) - 0.1).abs() < 1e-12);
        assert!(least_probability(4, 4) < 0.05);
    }

    #[test]
    fn the_approximation_meets_the_exact_test() {
        let (first, second): (Vec<f64>, Vec<f64>) =
            ((0..12).map(f64::from).collect(), (5..17).map(f64::from).collect());
        let exact = mann_whitney(&first, &second).unwrap();
        let approximate = normal_tail((wins(&first, &second) - 72.0).abs(), 12, 12);
        assert!((exact - approximate).abs() < 0.01, "{exact} against {approximate}");
    }
}
