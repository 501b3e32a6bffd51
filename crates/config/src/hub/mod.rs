//! The sections `[[pipeline]]` and `[[sink]]`.

#[cfg(not(feature = "pipelines"))]
mod absent;
#[cfg(feature = "pipelines")]
mod age;
#[cfg(feature = "pipelines")]
mod check;
#[cfg(feature = "pipelines")]
mod circles;
#[cfg(feature = "pipelines")]
mod client_ids;
#[cfg(feature = "pipelines")]
mod error;
#[cfg(feature = "pipelines")]
mod files;
#[cfg(feature = "pipelines")]
mod hub_sections;
#[cfg(feature = "pipelines")]
mod keys;
#[cfg(feature = "pipelines")]
mod sasl;
#[cfg(feature = "pipelines")]
mod settings;
#[cfg(feature = "pipelines")]
mod sinks;
#[cfg(feature = "pipelines")]
mod topics;
#[cfg(feature = "pipelines")]
mod way;

#[cfg(not(feature = "pipelines"))]
pub use absent::{check_files, store_warning};
#[cfg(feature = "pipelines")]
pub use check::{NoStoreError, check, check_kept, store_warning};
#[cfg(feature = "pipelines")]
pub use client_ids::is_client_of;
#[cfg(feature = "pipelines")]
pub use error::PipelineError;
#[cfg(feature = "pipelines")]
pub use files::check_files;
#[cfg(feature = "pipelines")]
pub use settings::{OnBus, histories};
#[cfg(feature = "pipelines")]
pub(crate) use settings::{filters, overflow_rules};
#[cfg(feature = "pipelines")]
pub use way::Way;

/// The folder of archives in the data directory.
pub const ARCHIVES: &str = "hub";

/// The beginning of client ids of the hub.
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

/// The process whose files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesOf {
    /// None: all files of the configuration are.
    Configuration,
    /// A broker. With `hub.bus` it has the dead letters of its pipelines only.
    Broker,
    /// A process of the hub.
    Hub,
}
