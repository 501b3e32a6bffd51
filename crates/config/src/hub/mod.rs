//! The sections `[[pipeline]]` and `[[sink]]`.

mod check;
mod error;
mod settings;
mod sinks;

pub use check::{NoStoreError, check, check_kept};
pub use error::PipelineError;
pub use settings::{OnBus, Way};

/// What client ids of the hub begin with.
pub const CLIENT_PREFIX: &str = tidegate_engine::HUB_CLIENT_PREFIX;

/// The name of the listener that pipelines of a broker come in by.
pub const HUB_LISTENER: &str = "tidegate-hub";
