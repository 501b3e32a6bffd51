//! Values over time.

use crate::axis::{Axis, Scale};
use crate::drawing::{Anchor, Drawing};
use crate::frame::Frame;
use crate::number::shown;

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 508.0;
const TOP: f64 = 38.0;
/// Letters of events stand in two rows, this far apart at least in one.
const LETTER: f64 = 11.0;
const BOTTOM: f64 = 196.0;
/// Points of a curve: more than one for two units of the drawing cannot be seen.
const POINTS: usize = 240;

/// The values of one broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The number of the series, for its colour and dashes.
    pub series: usize,
    /// Seconds and values.
    pub points: Vec<(f64, f64)>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Seconds.
    pub at: f64,
    /// In a few words.
    pub event: String,
}

/// Curves over seconds, with the events. `unit` is above the vertical axis.
pub fn lines(label: &str, unit: &str, scale: Scale, curves: &[Curve], marks: &[Mark]) -> String {
    let points = || curves.iter().flat_map(|curve| curve.points.iter());
    let end = points().map(|(at, _)| *at).chain(marks.iter().map(|mark| mark.at)).fold(1.0, f64::max);
    let x = Axis::exact(0.0, end, LEFT, RIGHT);
    let frame = Frame { x, y: Axis::over(points().map(|(_, value)| *value), scale, BOTTOM, TOP) };
    let mut drawing = Drawing::new(WIDTH, HEIGHT);
    drawing.text((LEFT, 11.0), Anchor::Start, unit);
    frame.grid(&mut drawing);
    frame.ticks(&mut drawing);
    drawing.text((RIGHT, BOTTOM + 30.0), Anchor::End, "seconds");
    events(marks, &frame.x, &mut drawing);
    for curve in curves {
        frame.curve(curve.series, &thinned(&curve.points), &mut drawing);
    }
    frame.bottom(&mut drawing);
    drawing.embedded(label)
}

/// A line down at each event, with its letter.
fn events(marks: &[Mark], x: &Axis, drawing: &mut Drawing) {
    // The room for the next letter of each row.
    let mut free = [f64::NEG_INFINITY; 2];
    for (mark, name) in marks.iter().zip(('a'..='z').cycle()) {
        let place = x.place(mark.at);
        let row = usize::from(free[0] > place && free[1] < free[0]);
        let letter = place.max(free[row]);
        free[row] = letter + LETTER;
        let text = format!("{} s: {}", shown(mark.at), mark.event);
        drawing.explained("event", (place, TOP), (place, BOTTOM), &text);
        let y = TOP - if row == 1 { 14.0 } else { 3.0 };
        drawing.strong((letter, y), Anchor::Middle, &name.to_string());
    }
}

/// At most [`POINTS`] points: each is the mean of the points in its interval.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let finite: Vec<(f64, f64)> = points.iter().copied().filter(|(_, value)| value.is_finite()).collect();
    let together = finite.len().div_ceil(POINTS).max(1);
    finite
        .chunks(together)
        .map(|chunk| {
            #[expect(clippy::cast_precision_loss, reason = "a few points")]
            let count = chunk.len() as f64;
            let sum = chunk.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
            (sum.0 / count, sum.1 / count)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_unit_its_curve_and_its_events() {
        let curve = Curve { series: 1, points: vec![(0.0, 0.0), (10.0, 100.0)] };
        let mark = Mark { at: 5.0, event: "broker <killed>".to_owned() };
        let svg = lines("Throughput", "messages/s", Scale::Linear, &[curve], &[mark]);
        assert!(svg.contains("messages/s") && svg.contains("broker &lt;killed&gt;"));
        assert!(svg.contains("points=\"58.0,196.0 508.0,38.0 \""), "{svg}");
        assert!(svg.contains("stroke-dasharray=\"7 3\""), "dashes tell the line apart in black and white");
    }

    #[test]
    fn one_point_is_seen_and_letters_do_not_lie_on_each_other() {
        let curve = Curve { series: 2, points: vec![(1.0, 5.0)] };
        let marks = [1.0, 1.01, 9.0].map(|at| Mark { at, event: "x".to_owned() });
        let svg = lines("Throughput", "messages/s", Scale::Linear, &[curve], &marks);
        assert!(svg.contains("<circle class=\"f2\""), "{svg}");
        assert_eq!((svg.matches("y=\"35.0\"").count(), svg.matches("y=\"24.0\"").count()), (2, 1), "{svg}");
    }

    #[test]
    fn letters_of_many_events_at_once_have_room() {
        let curve = Curve { series: 0, points: vec![(0.0, 0.0), (100.0, 1.0)] };
        let marks = [10.0, 10.1, 10.2, 10.3, 10.4, 20.0].map(|at| Mark { at, event: "x".to_owned() });
        let svg = lines("Throughput", "messages/s", Scale::Linear, &[curve], &marks);
        let mut rows: std::collections::BTreeMap<&str, Vec<f64>> = std::collections::BTreeMap::new();
        for letter in svg.split("<text class=\"strong\" x=\"").skip(1) {
            let mut parts = letter.split('"');
            let (x, y) = (parts.next().unwrap(), parts.nth(1).unwrap());
            rows.entry(y).or_default().push(x.parse().unwrap());
        }
        assert_eq!(rows.values().map(Vec::len).sum::<usize>(), marks.len());
        for row in rows.values() {
            assert!(row.windows(2).all(|two| two[1] - two[0] >= LETTER - 0.1), "{rows:?}");
        }
    }

    #[test]
    fn a_long_curve_is_thinned_to_means() {
        let points: Vec<(f64, f64)> = (0..POINTS as u32 * 2).map(|at| (f64::from(at), f64::from(at % 2))).collect();
        let thin = thinned(&points);
        assert_eq!(thin.len(), POINTS);
        assert!(thin.iter().all(|(_, value)| (value - 0.5).abs() < 1e-9));
    }
}
