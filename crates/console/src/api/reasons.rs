//! Reasons as `GET /api/v1/why` shows them.

use tidegate_admin::ReasonEntry;
use tidegate_engine::Reason;

use super::advice::advice;

/// A reason with its text and its remedy.
pub fn reason_entry(reason: Reason) -> ReasonEntry {
    ReasonEntry {
        number: reason.number() as u64,
        label: reason.label().to_owned(),
        text: reason.text().to_owned(),
        code: reason.code() as u8,
        advice: advice(reason).to_owned(),
    }
}
