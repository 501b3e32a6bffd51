#![expect(clippy::float_cmp, reason = "the numbers are exact in binary")]

use super::*;

fn point(seconds: u64, demand: f64) -> Point {
    Point { time: Duration::from_secs(seconds), demand, serving: 1, full: false }
}

#[test]
fn the_median_is_in_the_middle() {
    assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    assert_eq!(median(Vec::new()), 0.0);
}

#[test]
fn only_an_unbroken_rise_is_one() {
    assert_eq!(steady_rise(&[point(0, 1.0), point(10, 2.0), point(20, 4.0)]), 0.1);
    assert_eq!(steady_rise(&[point(0, 1.0), point(10, 2.0), point(20, 1.9)]), 0.0);
    assert_eq!(steady_rise(&[point(0, 1.0), point(10, 2.0)]), 0.0);
}
