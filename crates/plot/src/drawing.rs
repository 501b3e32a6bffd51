//! The elements of a drawing.

use crate::markup::{escape, put};
use crate::series::{colour, dashes};
use crate::style::file_style;

/// Width of a letter of a label, in units of the drawing.
pub(crate) const LETTER: f64 = 6.5;

/// The end of a text at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The first letter.
    Start,
    /// The middle.
    Middle,
    /// The last letter.
    End,
}

impl Anchor {
    fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// A drawing that grows by an element with each call. Positions count from the upper left corner.
#[derive(Clone, Debug)]
pub struct Drawing {
    width: f64,
    height: f64,
    body: String,
}

impl Drawing {
    /// An empty drawing.
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// Units of the drawing across.
    pub fn width(&self) -> f64 {
        self.width
    }

    /// A text.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &str) {
        self.classed("", at, anchor, text);
    }

    /// A text that stands out.
    pub fn strong(&mut self, at: (f64, f64), anchor: Anchor, text: &str) {
        self.classed(" class=\"strong\"", at, anchor, text);
    }

    /// The title.
    pub fn title(&mut self, at: (f64, f64), anchor: Anchor, text: &str) {
        self.classed(" class=\"title\"", at, anchor, text);
    }

    /// A text that is read upwards.
    pub fn upwards(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        self.classed(&format!(" transform=\"rotate(-90 {x:.1} {y:.1})\""), (x, y), anchor, text);
    }

    fn classed(&mut self, attributes: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let (anchor, text) = (anchor.word(), escape(text));
        put!(self.body, "<text{attributes} x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
    }

    /// A straight line of a class of the style.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        put!(self.body, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
    }

    /// A line of a class of the style, with a text that a viewer shows when it is pointed at.
    pub(crate) fn explained(&mut self, class: &str, from: (f64, f64), to: (f64, f64), text: &str) {
        self.line(class, from, to);
        self.body.truncate(self.body.len() - "/>".len());
        put!(self.body, "><title>{}</title></line>", escape(text));
    }

    /// A line through points in the colour and the dashes of a series. One point becomes a disc, as a line through it is
    /// invisible.
    pub fn curve(&mut self, series: usize, points: &[(f64, f64)]) {
        match points {
            [] => {}
            [(x, y)] => {
                put!(self.body, "<circle class=\"f{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>", colour(series));
            }
            _ => {
                put!(self.body, "<polyline class=\"curve c{}\"{} points=\"", colour(series), dashes(series));
                self.points(points);
            }
        }
    }

    /// A grey surface within a line.
    pub fn shade(&mut self, line: &[(f64, f64)]) {
        self.body.push_str("<polygon class=\"shade\" points=\"");
        self.points(line);
    }

    /// Ends an element whose last attribute has points.
    fn points(&mut self, points: &[(f64, f64)]) {
        for (x, y) in points {
            put!(self.body, "{x:.1},{y:.1} ");
        }
        self.body.push_str("\"/>");
    }

    /// A grey rectangle: the upper left corner and the size.
    pub(crate) fn shaded(&mut self, (x, y): (f64, f64), (width, height): (f64, f64)) {
        put!(
            self.body,
            "<rect class=\"shade\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
    }

    /// A rectangle in the colour of a series: the upper left corner and the size. A viewer shows `text` when it is pointed at.
    pub(crate) fn bar(&mut self, series: usize, (x, y): (f64, f64), (width, height): (f64, f64), text: &str) {
        let class = colour(series);
        put!(
            self.body,
            "<rect class=\"f{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\">"
        );
        put!(self.body, "<title>{}</title></rect>", escape(text));
    }

    /// The element for a page that has [`page_style`](crate::page_style). `label` names it for readers who do not see it.
    pub fn embedded(self, label: &str) -> String {
        let Self { width, height, body } = self;
        format!(
            "<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">{body}</svg>",
            escape(label)
        )
    }

    /// A complete SVG file.
    pub fn file(self) -> String {
        let Self { width, height, body } = self;
        let body = body.replace("/><", "/>\n<");
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\">\n{}\
             <rect class=\"paper\" width=\"{width:.0}\" height=\"{height:.0}\"/>\n{body}\n</svg>\n",
            file_style()
        )
    }
}

/// The width of a text, about.
#[expect(clippy::cast_precision_loss, reason = "a few letters")]
pub(crate) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}
