//! Scenarios: measurements as data.
//!
//! A scenario is a TOML file. Its `[load]` is a [`LoadPlan`](crate::load::LoadPlan) without the fields that a run adds
//! (the target, the sources, the seed); its `[matrix]` makes many cases of it, one for each combination, whose values
//! replace `{name}` anywhere in `[load]` and `[limits]`.

mod board;
mod checked;
mod error;
mod matrix;
mod model;
mod order;
mod scale;
mod shipped;

pub use board::{BOARDS, Board};
pub use error::ScenarioError;
pub use matrix::Case;
pub use model::{Action, Check, Event, Reference, Scenario};
pub use order::shuffled;
pub use scale::scaled;
pub use shipped::Library;
