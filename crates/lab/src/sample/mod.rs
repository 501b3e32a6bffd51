//! What a broker, and the generator beside it, use of the machine: read from `/proc`, on the time axis of the run.

mod cgroup;
mod network;
mod process;
mod sampler;
mod tree;

pub use cgroup::{Cgroups, LimitError, Limited};
pub use sampler::{Sampled, Sampler, Watched};
