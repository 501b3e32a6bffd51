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

/// The name of the listener that pipelines of a tenant come in by; the default tenant has no name.
pub fn hub_listener(tenant: &str) -> String {
    if tenant.is_empty() { HUB_LISTENER.to_owned() } else { format!("{HUB_LISTENER}/{tenant}") }
}

/// Whether a listener of this name is for pipelines.
pub fn is_hub_listener(name: &str) -> bool {
    name.strip_prefix(HUB_LISTENER).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
