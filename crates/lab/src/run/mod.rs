//! Runs of a scenario: every case with every broker, so many times, in an order by chance; what is finished is kept, so
//! that an interrupted series goes on where it was.

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
