//! The observation as it is.

use super::{Evaluated, Evaluator};

/// `l(o) = c(o)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

impl Evaluator for Raw {
    fn observe(&mut self, observed: f64) -> Evaluated {
        Evaluated::Load(observed)
    }

    fn describe(&self) -> String {
        "as observed".to_owned()
    }
}
