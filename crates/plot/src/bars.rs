//! Bars side by side or on each other, as a file.

use crate::axis::{Axis, Scale};
use crate::drawing::{Anchor, Drawing, width};
use crate::frame::Frame;
use crate::legend::Key;
use crate::number::shown;

/// Narrowest drawing. More bars than it has room for make it wider.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 62.0;
const MARGIN: f64 = 16.0;
/// Share of the place of a group that its bars take.
const FILLED: f64 = 0.8;
/// Units of the frame from top to bottom.
const HEIGHT: f64 = 240.0;
/// A narrower bar has its value written upwards.
const LABEL: f64 = 34.0;
/// Least distance between two bars: the height of a row of text, so that values written upwards do not overlap.
const PITCH: f64 = 14.0;

/// The bars above one label.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The text below; behind a comma it may continue in a second row.
    pub label: String,
    /// The value of each series, in their order; `None` leaves the place empty.
    pub values: Vec<Option<f64>>,
}

/// Groups of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// The text above.
    pub title: String,
    /// The name of the groups.
    pub x: String,
    /// The unit of the values.
    pub y: String,
    /// The names of the series.
    pub series: Vec<String>,
    /// The groups from left to right.
    pub groups: Vec<Group>,
    /// True if the values of a group stand on each other, false if side by side.
    pub stacked: bool,
}

impl Bars {
    /// The file.
    pub fn draw(&self) -> String {
        let entries: Vec<(Key, &str)> =
            self.series.iter().enumerate().map(|(series, name)| (Key::Bar(series), name.as_str())).collect();
        let right = self.right();
        // Once without paper, for the height of the legend.
        let legend = Key::draw(&entries, (LEFT, 40.0), &mut Drawing::new(right + MARGIN, 0.0));
        let (top, bottom) = (40.0 + legend, 40.0 + legend + HEIGHT);
        let mut drawing = Drawing::new(right + MARGIN, bottom + 52.0);
        drawing.title((f64::midpoint(0.0, right + MARGIN), 20.0), Anchor::Middle, &self.title);
        Key::draw(&entries, (LEFT, 40.0), &mut drawing);
        let x = Axis::exact(0.0, float(self.groups.len().max(1)), LEFT, right);
        // Labels above the highest bars want room.
        let most = self.groups.iter().map(|group| self.height(group) * if self.stacked { 1.0 } else { 1.12 });
        let frame = Frame { x, y: Axis::over(most, Scale::Linear, bottom, top) };
        frame.grid(&mut drawing);
        for (place, group) in self.groups.iter().enumerate() {
            self.group(float(place), group, &frame, &mut drawing);
        }
        frame.bottom(&mut drawing);
        frame.names("", &self.y, &mut drawing);
        drawing.text((f64::midpoint(LEFT, right), bottom + 44.0), Anchor::Middle, &self.x);
        drawing.file()
    }

    /// Bars side by side in a group.
    fn bars_of_group(&self) -> f64 {
        if self.stacked { 1.0 } else { float(self.series.len().max(1)) }
    }

    /// The right end of the axis.
    fn right(&self) -> f64 {
        let slot = self.bars_of_group() * PITCH / FILLED;
        (LEFT + slot * float(self.groups.len())).max(WIDTH - MARGIN)
    }

    fn height(&self, group: &Group) -> f64 {
        let values = group.values.iter().flatten();
        if self.stacked { values.sum() } else { values.copied().fold(0.0, f64::max) }
    }

    fn group(&self, place: f64, group: &Group, frame: &Frame, drawing: &mut Drawing) {
        let slot = (self.right() - LEFT) / float(self.groups.len().max(1));
        let each = slot * FILLED / self.bars_of_group();
        let left = LEFT + slot * (place + 0.1);
        let mut floor = 0.0;
        for (series, (name, value)) in self.series.iter().zip(&group.values).enumerate() {
            let Some(value) = value else { continue };
            let x = if self.stacked { left } else { left + float(series) * each };
            // A value below zero has only its label.
            let (y, base) = (frame.y.place(floor + value.max(0.0)), frame.y.place(floor));
            let text = format!("{}, {name}: {}", group.label, shown(*value));
            drawing.bar(series, (x, y), (each * 0.94, base - y), &text);
            let centre = x + each * 0.47;
            if self.stacked {
                floor += value;
            } else if each >= LABEL {
                drawing.text((centre, y - 3.0), Anchor::Middle, &shown(*value));
            } else {
                drawing.upwards((centre + 3.5, y - 3.0), Anchor::Start, &shown(*value));
            }
        }
        for (row, part) in rows(&group.label, slot).into_iter().enumerate() {
            let y = frame.y.start + 15.0 + 12.0 * float(row);
            drawing.text((LEFT + slot * (place + 0.5), y), Anchor::Middle, part);
        }
    }
}

/// A label in one row, or in two behind its first comma where one is wider than its place.
fn rows(label: &str, room: f64) -> Vec<&str> {
    match label.split_once(", ") {
        Some((first, rest)) if width(label) >= room => vec![first, rest],
        _ => vec![label],
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few bars")]
fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(stacked: bool) -> String {
        let group = |label: &str, values: [Option<f64>; 2]| Group { label: label.to_owned(), values: values.to_vec() };
        let groups = vec![group("one", [Some(30.0), Some(70.0)]), group("two", [None, Some(50.0)])];
        let (title, x, y) = ("Times".to_owned(), "runs".to_owned(), "seconds".to_owned());
        Bars { title, x, y, series: vec!["first".to_owned(), "second".to_owned()], groups, stacked }.draw()
    }

    fn heights(svg: &str) -> Vec<f64> {
        let bars = svg.split("<rect class=\"f").skip(3).filter_map(|rest| rest.split("height=\"").nth(1));
        bars.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn heights_are_in_proportion_and_a_missing_value_has_no_bar() {
        for stacked in [false, true] {
            let svg = bars(stacked);
            let heights = heights(&svg);
            assert_eq!(heights.len(), 3, "{svg}");
            assert!((heights[0] / heights[1] - 3.0 / 7.0).abs() < 0.01, "{heights:?}");
            assert!(svg.contains("one, second: 70") && svg.contains(">seconds</text>"), "{svg}");
            assert!((heights[0] + heights[1] - HEIGHT).abs() < 0.2 || !stacked, "{heights:?}");
        }
    }

    #[test]
    fn many_bars_keep_their_distance() {
        let mut many = Bars {
            title: String::new(),
            x: String::new(),
            y: String::new(),
            series: vec!["one".to_owned(); 8],
            groups: vec![Group { label: String::new(), values: vec![Some(1.0); 8] }; 6],
            stacked: false,
        };
        assert!((many.right() - LEFT) * FILLED / 48.0 >= PITCH);
        assert!(many.draw().contains(&format!("viewBox=\"0 0 {} ", many.right() + MARGIN)));
        many.groups.truncate(1);
        assert!((many.right() + MARGIN - WIDTH).abs() < f64::EPSILON);
    }

    #[test]
    fn a_wide_label_is_broken_behind_its_comma() {
        assert_eq!(rows("mosquitto, SLA 10", 60.0), ["mosquitto", "SLA 10"]);
        assert_eq!(rows("mosquitto, SLA 10", 600.0), ["mosquitto, SLA 10"]);
    }
}
