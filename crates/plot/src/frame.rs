//! Two axes in a drawing, and values between them.

use crate::axis::Axis;
use crate::drawing::{Anchor, Drawing, width};

/// Two axes. The ends of the axes are the edges of the frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// From left to right.
    pub x: Axis,
    /// From the bottom to the top.
    pub y: Axis,
}

impl Frame {
    /// The position of a pair of values.
    pub(crate) fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.place(x), self.y.place(y))
    }

    /// Lines across at each tick of the vertical axis, labelled at the left.
    pub fn grid(&self, drawing: &mut Drawing) {
        for tick in &self.y.ticks {
            let y = self.y.place(tick.value);
            drawing.line("grid", (self.x.start, y), (self.x.end, y));
            drawing.text((self.x.start - 6.0, y + 3.5), Anchor::End, &tick.label);
        }
    }

    /// The ticks of the horizontal axis, with labels below.
    pub fn ticks(&self, drawing: &mut Drawing) {
        let bottom = self.y.start;
        for tick in &self.x.ticks {
            let x = self.x.place(tick.value);
            drawing.line("axis", (x, bottom), (x, bottom + 4.0));
            // A label that is wider than the margin would be cut off.
            let is_cut = x + width(&tick.label) / 2.0 > drawing.width();
            drawing.text((x, bottom + 16.0), if is_cut { Anchor::End } else { Anchor::Middle }, &tick.label);
        }
    }

    /// The line below everything.
    pub fn bottom(&self, drawing: &mut Drawing) {
        drawing.line("axis", (self.x.start, self.y.start), (self.x.end, self.y.start));
    }

    /// Grid, ticks, and the names of both axes beside them: the frame of a file.
    pub fn named(&self, x_name: &str, y_name: &str, drawing: &mut Drawing) {
        self.grid(drawing);
        self.ticks(drawing);
        self.bottom(drawing);
        self.names(x_name, y_name, drawing);
    }

    pub(crate) fn names(&self, x_name: &str, y_name: &str, drawing: &mut Drawing) {
        let centre = f64::midpoint(self.x.start, self.x.end);
        drawing.text((centre, self.y.start + 34.0), Anchor::Middle, x_name);
        drawing.upwards((14.0, f64::midpoint(self.y.start, self.y.end)), Anchor::Middle, y_name);
    }

    /// A line through points.
    pub fn curve(&self, series: usize, points: &[(f64, f64)], drawing: &mut Drawing) {
        let points: Vec<(f64, f64)> = points.iter().map(|point| self.place(*point)).collect();
        drawing.curve(series, &points);
    }

    /// A line in which each value holds until the next point; the last holds until the right edge.
    pub fn steps(&self, series: usize, points: &[(f64, f64)], drawing: &mut Drawing) {
        let mut line: Vec<(f64, f64)> = Vec::new();
        for (x, y) in points.iter().map(|point| self.place(*point)) {
            match line.last() {
                #[expect(clippy::float_cmp, reason = "the same value has the same position")]
                Some((_, before)) if *before == y => {}
                Some((_, before)) => {
                    let before = *before;
                    line.extend([(x, before), (x, y)]);
                }
                None => line.push((x, y)),
            }
        }
        line.extend(line.last().map(|(_, y)| (self.x.end, *y)));
        drawing.curve(series, &line);
    }

    /// A grey surface from the bottom to the points.
    pub fn shade(&self, points: &[(f64, f64)], drawing: &mut Drawing) {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
        let mut line = vec![(self.x.place(first.0), self.y.start)];
        line.extend(points.iter().map(|point| self.place(*point)));
        line.push((self.x.place(last.0), self.y.start));
        drawing.shade(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Scale;

    #[test]
    fn a_step_holds_until_the_next_point_and_the_edge() {
        let frame =
            Frame { x: Axis::exact(0.0, 10.0, 0.0, 100.0), y: Axis::over([4.0].into_iter(), Scale::Linear, 40.0, 0.0) };
        let mut drawing = Drawing::new(100.0, 40.0);
        frame.steps(0, &[(0.0, 1.0), (3.0, 1.0), (5.0, 2.0)], &mut drawing);
        let svg = drawing.embedded("");
        assert!(svg.contains("points=\"0.0,30.0 50.0,30.0 50.0,20.0 100.0,20.0 \""), "{svg}");
    }
}
