//! The outcome of a reload: for the log, for people and for scripts.

use std::fmt;

use tidegate_admin::Reloaded;

use crate::difference::Change;

/// The outcome of a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The new configuration is in force.
    Applied {
        /// The parts that have read their files again.
        parts: Vec<&'static str>,
        /// The differences in files, a line for each.
        files: Vec<String>,
        /// The keys that have changed.
        changes: Vec<Change>,
    },
    /// It is wrong, and everything stays as it was.
    Refused {
        /// Why.
        problem: String,
    },
}

impl Outcome {
    /// Writes it into the log.
    pub fn log(&self) {
        match self {
            Self::Refused { problem } => {
                tracing::error!(
                    problem = problem.trim(),
                    "the new configuration is invalid; the old one stays in force"
                );
            }
            Self::Applied { parts, files, changes } => {
                tracing::info!(parts = parts.join(", "), changes = changes.len(), "reloaded");
                for file in files {
                    tracing::info!(file, "file changed");
                }
                for change in changes {
                    let (old, new) = change.values();
                    let key = change.key;
                    if change.live {
                        tracing::info!(%key, old, new, "changed");
                    } else {
                        tracing::warn!(%key, old, new, "changed, but needs a restart");
                    }
                }
            }
        }
    }

    /// Whether the new configuration is in force.
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied { .. })
    }

    /// For scripts.
    pub fn to_answer(&self) -> Reloaded {
        let (files, changes) = match self {
            Self::Refused { .. } => (Vec::new(), Vec::new()),
            Self::Applied { files, changes, .. } => (files.clone(), changes.iter().map(change).collect()),
        };
        Reloaded { applied: self.is_applied(), text: self.to_string(), files, changes, ..Reloaded::default() }
    }
}

fn change(change: &Change) -> tidegate_admin::Change {
    let (old, new) = change.values();
    tidegate_admin::Change { key: change.key.to_string(), old, new, needs_restart: !change.live }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { problem } => {
                writeln!(f, "refused, and everything stays as it was:\n{}", problem.trim_end())
            }
            Self::Applied { parts, files, changes } => {
                writeln!(f, "reloaded: {}", parts.join(", "))?;
                for line in files {
                    writeln!(f, "{line}")?;
                }
                if changes.is_empty() {
                    writeln!(f, "no key of the configuration has changed")?;
                }
                for change in changes {
                    let (old, new) = change.values();
                    let restart = if change.live { "" } else { "  (needs a restart)" };
                    writeln!(f, "{}: {old} -> {new}{restart}", change.key)?;
                }
                Ok(())
            }
        }
    }
}
