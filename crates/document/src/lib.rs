//! TOML files written by people: configurations, fleets, rules, groups, prices, scenarios. They are read key by key, or
//! as a type that derives its keys; each mistake is reported with its place and remedy.

mod file;
mod finding;
mod keys;
mod typed;
mod value;

pub use file::{FileText, LineColumn, MAX_FILE_BYTES, ReadError, SyntaxFault, read_bounded};
pub use finding::{Finding, Findings};
pub use keys::Keys;
pub use typed::with_suggestion;
pub use value::float;

/// Tables and values as the parser gives them, for [`FileText::parse`] and [`Keys::value`].
pub use toml::Spanned;
pub use toml::de::{DeTable as Table, DeValue as Value};
