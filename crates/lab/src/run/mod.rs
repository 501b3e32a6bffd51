//! Runs of a scenario: every case with every broker, with repetitions, in random order; finished runs are kept, so that
//! an interrupted series resumes.

mod broker;
mod carry;
mod execute;
mod kept;
mod limited;
mod order;
mod plan;
mod progress;
mod series;
mod task;

pub use kept::KeptError;
pub use order::Order;
pub use plan::plan_of;
pub use progress::{Live, Report, Said};
pub use series::{RunError, run};
