//! Why a scenario cannot be run.

use std::io;
use std::path::PathBuf;

use tidegate_document::Findings;

use crate::misspelt::meant;

/// Why a scenario cannot be read or made into plans.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Nothing has the name.
    #[error("no scenario is called `{name}`{}; there are {}", meant(name, known), known.join(", "))]
    Unknown {
        /// The requested name.
        name: String,
        /// All there are.
        known: Vec<String>,
    },
    /// A file that is no scenario.
    #[error("the scenario {path} is wrong: {message}")]
    Wrong {
        /// The file.
        path: String,
        /// The place and the reason.
        message: String,
    },
    /// A file with a wrong key or value.
    #[error("{0}")]
    Syntax(Findings),
    /// A case with an invalid load.
    #[error("the case `{case}` of `{scenario}` is no load: {message}")]
    Load {
        /// The scenario.
        scenario: String,
        /// The case.
        case: String,
        /// Why.
        message: String,
    },
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}
