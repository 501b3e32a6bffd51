//! Plots as SVG, for an HTML page that has [`page_style`] or as a file with its own style. Colours only help: lines differ by
//! their dashes and bars by their labels.

mod axis;
mod bars;
mod drawing;
mod frame;
mod legend;
mod lines;
mod markup;
mod number;
mod ratios;
mod series;
mod style;

pub use axis::{Axis, Scale, Tick};
pub use bars::{Bars, Group};
pub use drawing::{Anchor, Drawing};
pub use frame::Frame;
pub use legend::{Key, legend};
pub use lines::{Curve, Mark, lines};
pub use markup::escape;
pub use number::{factor, shown};
pub use ratios::{Bar, ratios};
pub use style::page_style;
