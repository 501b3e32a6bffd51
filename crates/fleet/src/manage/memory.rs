//! The memory of policies, for the next manager: windows, counts, seasons, cool-downs and measured lead times.
//!
//! It is not part of the book: without it the fleet works, and only the observations start again.

use std::time::Duration;

use serde_json::{Value, json};

use super::decisions::Decisions;
use crate::level::Level;

impl Decisions {
    /// The memory of the judges, and how long resources took to serve, by level.
    pub(super) fn memory(&self) -> Value {
        let of = |level: &Level| {
            let lead_time = self.lead_times.get(level).map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
            let judge = self.judges.get(level).and_then(|judge| judge.memory());
            (level.name().to_owned(), json!({"lead_time_ms": lead_time, "policy": judge}))
        };
        Value::Object(Level::ALL.iter().map(of).collect())
    }

    /// Restores the memory of an earlier manager; returns descriptions of the parts that could not be restored.
    pub(super) fn recall(&mut self, memory: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        for level in Level::ALL {
            let Some(of) = memory.get(level.name()) else { continue };
            if let Some(time) = of.get("lead_time_ms").and_then(Value::as_u64) {
                self.lead_times.insert(level, Duration::from_millis(time));
            }
            let remembered = of.get("policy").filter(|policy| !policy.is_null());
            if let (Some(remembered), Some(judge)) = (remembered, self.judges.get_mut(&level))
                && let Err(problem) = judge.recall(remembered)
            {
                problems.push(format!("the policy of level {}: {problem}", level.name()));
            }
        }
        problems
    }
}
