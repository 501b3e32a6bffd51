//! The use of the machine by a broker, and by the generator beside it: read from `/proc`, on the time axis of the run.

mod cgroup;
mod network;
mod process;
mod sampler;
mod tree;

pub use cgroup::{Cgroups, LimitError, Limited};
pub use process::{cpu_of, peak_of};
pub use sampler::{Sampled, Sampler, Watched};
