//! Why a message was not delivered, as people and dead letters get it.

/// The field of a dead letter that says why it is one.
pub const REASON_FIELD: &str = "dead_letter_reason";
/// Characters of a reason. Some errors name the value at fault, which may be the whole payload, and a user property of
/// MQTT holds 64 KiB.
const MAX_REASON: usize = 1_000;

/// The reason, cut where it is longer than [`MAX_REASON`].
pub(super) fn shortened(mut why: String) -> String {
    if let Some((end, _)) = why.char_indices().nth(MAX_REASON) {
        why.truncate(end);
        why.push('…');
    }
    why
}
