//! Charts of figures that were measured elsewhere, from a description in JSON to files.

use std::path::PathBuf;

use serde::Deserialize;
use tidegate_plot::{Anchor, Axis, Bars, Drawing, Frame, Group, Key, Scale};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = WIDTH - 16.0;
/// Units of a frame from top to bottom.
const HEIGHT: f64 = 240.0;

/// A chart and its file.
#[derive(Clone, Debug, Deserialize)]
pub struct Chart {
    /// The file, relative to the description.
    pub file: PathBuf,
    title: String,
    /// The name of the horizontal axis.
    x: String,
    /// The name of the vertical axis.
    y: String,
    #[serde(flatten)]
    shape: Shape,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    /// Each value holds until the next point.
    Steps(Vec<Line>),
    Lines(Vec<Line>),
    /// Side by side.
    Bars(Values),
    /// On each other.
    Stacked(Values),
}

#[derive(Clone, Debug, Deserialize)]
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

#[derive(Clone, Debug, Deserialize)]
struct Values {
    series: Vec<String>,
    /// A label with the value of each series.
    groups: Vec<(String, Vec<Option<f64>>)>,
}

/// A chart that would not show its values.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    /// Values without a name and a colour.
    #[error("group `{group}` has {values} values for {series} series")]
    Values {
        /// The label of the group.
        group: String,
        /// Its values.
        values: usize,
        /// The series of the chart.
        series: usize,
    },
    /// A point outside of the axes.
    #[error("line `{line}` has the point ({x}, {y}), and the axes begin at 0")]
    Negative {
        /// The name of the line.
        line: String,
        /// The point's place on the horizontal axis.
        x: f64,
        /// The point's place on the vertical axis.
        y: f64,
    },
}

impl Chart {
    /// The text of the file.
    ///
    /// # Errors
    /// When values would be left out or drawn in another place.
    pub fn draw(&self) -> Result<String, ChartError> {
        match &self.shape {
            Shape::Steps(lines) => self.curves(lines, Frame::steps),
            Shape::Lines(lines) => self.curves(lines, Frame::curve),
            Shape::Bars(values) => self.bars(values, false),
            Shape::Stacked(values) => self.bars(values, true),
        }
    }

    fn bars(&self, values: &Values, stacked: bool) -> Result<String, ChartError> {
        let series = values.series.len();
        if let Some((group, values)) = values.groups.iter().find(|(_, values)| values.len() != series) {
            return Err(ChartError::Values { group: group.clone(), values: values.len(), series });
        }
        let group = |(label, values): &(String, Vec<_>)| Group { label: label.clone(), values: values.clone() };
        let bars = Bars {
            title: self.title.clone(),
            x: self.x.clone(),
            y: self.y.clone(),
            series: values.series.clone(),
            groups: values.groups.iter().map(group).collect(),
            stacked,
        };
        Ok(bars.draw())
    }

    fn curves(
        &self,
        lines: &[Line],
        draw: fn(&Frame, usize, &[(f64, f64)], &mut Drawing),
    ) -> Result<String, ChartError> {
        for line in lines {
            if let Some(&(x, y)) = line.points.iter().find(|(x, y)| *x < 0.0 || *y < 0.0) {
                return Err(ChartError::Negative { line: line.name.clone(), x, y });
            }
        }
        let entries: Vec<(Key, &str)> =
            lines.iter().enumerate().map(|(series, line)| (Key::Line(series), line.name.as_str())).collect();
        let top = 40.0 + Key::draw(&entries, (LEFT, 40.0), &mut Drawing::new(WIDTH, 0.0));
        let points = || lines.iter().flat_map(|line| &line.points);
        let end = points().map(|(x, _)| *x).fold(0.0, f64::max);
        let x = Axis::exact(0.0, if end > 0.0 { end } else { 1.0 }, LEFT, RIGHT);
        let frame = Frame { x, y: Axis::over(points().map(|(_, y)| *y), Scale::Linear, top + HEIGHT, top) };
        let mut drawing = Drawing::new(WIDTH, top + HEIGHT + 44.0);
        drawing.title((WIDTH / 2.0, 20.0), Anchor::Middle, &self.title);
        Key::draw(&entries, (LEFT, 40.0), &mut drawing);
        frame.named(&self.x, &self.y, &mut drawing);
        for (series, line) in lines.iter().enumerate() {
            draw(&frame, series, &line.points, &mut drawing);
        }
        Ok(drawing.file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(shape: &str) -> Result<String, ChartError> {
        let text = format!(r#"{{"file": "a.svg", "title": "A & B", "x": "seconds", "y": "brokers", {shape}}}"#);
        serde_json::from_str::<Chart>(&text).unwrap().draw()
    }

    #[test]
    fn a_chart_that_would_hide_values_is_refused() {
        for (shape, problem) in [
            (r#""bars": {"series": ["a"], "groups": [["g", [1, 2]]]}"#, "group `g` has 2 values for 1 series"),
            (r#""stacked": {"series": ["a"], "groups": [["g", []]]}"#, "group `g` has 0 values for 1 series"),
            (r#""lines": [{"name": "l", "points": [[0, 1], [1, -2]]}]"#, "line `l` has the point (1, -2)"),
            (r#""steps": [{"name": "l", "points": [[-1, 2]]}]"#, "line `l` has the point (-1, 2)"),
        ] {
            let error = drawn(shape).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn each_shape_of_a_chart_is_drawn() {
        let lines = r#"[{"name": "one", "points": [[0, 1], [2, 3]]}, {"name": "two", "points": [[0, 2], [2, 4]]}]"#;
        let values = r#"{"series": ["one", "two"], "groups": [["here", [1, null]], ["there", [2, 3]]]}"#;
        for (shape, value, element, count) in [
            ("lines", lines, "<polyline", 4),
            ("steps", lines, "<polyline", 4),
            ("bars", values, "<rect class=\"f", 5),
            ("stacked", values, "<rect class=\"f", 5),
        ] {
            let svg = drawn(&format!("\"{shape}\": {value}")).unwrap();
            assert!(svg.starts_with("<svg xmlns") && svg.contains("A &amp; B") && svg.contains(">two</text>"), "{svg}");
            assert_eq!(svg.matches(element).count(), count, "{shape}: {svg}");
        }
    }
}
