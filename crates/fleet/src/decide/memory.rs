//! The memory of a decider, which outlives a restart of the manager.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Decider;
use super::decider::LastAction;

/// Why a memory was not restored: the decider starts again.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// It was remembered by another policy, or from other observations.
    #[error("it was remembered by {found}, and this is {expected}; observations start again")]
    Other {
        /// The policy that saved it.
        found: String,
        /// The policy that shall restore it.
        expected: String,
    },
    /// It is malformed.
    #[error("it cannot be understood ({0}); observations start again")]
    Strange(#[from] serde_json::Error),
}

#[derive(Serialize, Deserialize)]
struct Memory {
    by: String,
    observed: Option<Duration>,
    last_action: Option<LastAction>,
    remembered: Value,
}

impl Decider {
    /// The origin of a memory. It is useless for another interval or other signals. Thresholds, windows and factors may
    /// change.
    fn by(&self) -> String {
        format!("{} every {:?} of {:?}", self.name, self.settings.interval, self.settings.signals)
    }

    /// The memory: the policy's state (windows, counts, seasons), and the time of the last action.
    ///
    /// # Errors
    /// When it cannot be encoded.
    pub fn memory(&self) -> Result<Value, MemoryError> {
        let (observed, last_action) = (self.observed, self.last_action);
        let memory = Memory { by: self.by(), observed, last_action, remembered: self.policy.memory()? };
        Ok(serde_json::to_value(memory)?)
    }

    /// Restores the memory of an earlier decider. An action noted here counts if it is newer than the memory.
    ///
    /// # Errors
    /// When it is another policy's, or malformed; then nothing changes.
    pub fn recall(&mut self, memory: &Value) -> Result<(), MemoryError> {
        let memory = Memory::deserialize(memory)?;
        if memory.by != self.by() {
            return Err(MemoryError::Other { found: memory.by, expected: self.by() });
        }
        self.policy.recall(memory.remembered)?;
        self.observed = memory.observed;
        let newer = |action: &LastAction| memory.observed.is_none_or(|observed| action.ended > observed);
        self.last_action = self.last_action.filter(newer).or(memory.last_action);
        Ok(())
    }
}
