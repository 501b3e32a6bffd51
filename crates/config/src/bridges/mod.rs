//! The sections `[[bridge]]`.

mod check;
mod settings;

pub use check::{check, check_files};
pub use settings::BridgeConfigError;
