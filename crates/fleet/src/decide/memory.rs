//! What a decider remembers, over a restart of whoever asks it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Decider;
use super::decider::LastAction;

/// Why something remembered is not taken up: the decider begins anew.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// It was remembered by another policy, or from other observations.
    #[error("it was remembered by {found}, and this is {expected}; observations count anew")]
    Other {
        /// Who remembered it.
        found: String,
        /// Who is asked to take it up.
        expected: String,
    },
    /// It does not say what it should.
    #[error("it cannot be understood ({0}); observations count anew")]
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
    /// Whose memory it is: what is remembered means something else at another interval or of other signals. Thresholds,
    /// windows and factors may change.
    fn by(&self) -> String {
        format!("{} every {:?} of {:?}", self.name, self.settings.interval, self.settings.signals)
    }

    /// What it remembers: of the policy (windows, counts, seasons), and when something was done last.
    ///
    /// # Errors
    /// When it cannot be told.
    pub fn memory(&self) -> Result<Value, MemoryError> {
        let (observed, last_action) = (self.observed, self.last_action);
        let memory = Memory { by: self.by(), observed, last_action, remembered: self.policy.memory()? };
        Ok(serde_json::to_value(memory)?)
    }

    /// Takes up what a decider before this one has remembered. An action that this one has been told of counts, if it
    /// is newer than all of that.
    ///
    /// # Errors
    /// When it was remembered by another policy, or cannot be understood; nothing is taken up then.
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
