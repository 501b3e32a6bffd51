//! Decisions about a level.

use serde_json::{Value, json};

use super::{Change, Explanation, Level};

/// A decision about a level, with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// About which level.
    pub level: Level,
    /// The change.
    pub change: Change,
    /// The reason in one sentence, for people.
    pub reason: String,
    /// The reason in parts.
    pub explanation: Explanation,
}

impl Decision {
    /// As an object: `level`, `change`, `count`, `reason`, `explanation`.
    pub fn to_json(&self) -> Value {
        json!({
            "level": self.level.name(),
            "change": self.change.name(),
            "count": self.change.count(),
            "reason": self.reason,
            "explanation": self.explanation.to_json(),
        })
    }
}
