//! Runs of a scenario: every case with every broker, with repetitions, in random order; finished runs are kept, so that
//! an interrupted series resumes.

mod broker;
mod carry;
mod execute;
mod kept;
mod limited;
mod plan;
mod progress;
mod series;

pub use kept::KeptError;
pub use plan::plan_of;
pub use progress::{Live, Report, Said};
pub use series::{Order, RunError, run};
