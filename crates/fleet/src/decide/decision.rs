//! Decisions about a level.

use serde_json::{Value, json};

use super::{Explanation, Level};

/// A change of the number of resources of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// No change.
    Hold,
    /// So many more, 1 or more.
    Grow(u32),
    /// So many fewer, 1 or more.
    Shrink(u32),
}

impl Change {
    /// From `from` resources to `to`.
    pub fn between(from: u32, to: u32) -> Self {
        match to.abs_diff(from) {
            0 => Self::Hold,
            by if to > from => Self::Grow(by),
            by => Self::Shrink(by),
        }
    }

    /// The name in JSON: `hold`, `grow` or `shrink`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Grow(_) => "grow",
            Self::Shrink(_) => "shrink",
        }
    }

    /// The number of resources; 0 for no change.
    pub const fn count(self) -> u32 {
        match self {
            Self::Hold => 0,
            Self::Grow(count) | Self::Shrink(count) => count,
        }
    }
}

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
