//! Lines that several commands show.

use std::fmt::Write;

use serde_json::Value;

use crate::local::text_of;

/// An action with its steps, as `status` and `history` show it.
pub(super) fn show_action(text: &mut String, action: &Value) {
    let targets: Vec<String> = action["targets"].as_array().into_iter().flatten().map(text_of).collect();
    let _ = writeln!(
        text,
        "action {}: {} of {}{}: {}",
        action["number"],
        text_of(&action["action"]),
        targets.join(", "),
        action.get("outcome").map(|outcome| format!(", {}", text_of(outcome))).unwrap_or_default(),
        text_of(&action["reason"])
    );
    for step in action["steps"].as_array().into_iter().flatten() {
        let under_way = if step["ended_ms"].is_null() { " so far" } else { "" };
        let _ =
            writeln!(text, "  {:<10} {} ms{under_way}{}", text_of(&step["step"]), step["took_ms"], note(&step["note"]));
    }
}

/// The hottest resource of a level, as `status` and `explain` show it.
pub(super) fn show_skew(text: &mut String, skew: &Value) {
    if !skew.is_null() {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  hottest {} with a load of {}, the mean is {}",
            text_of(&skew["hottest"]),
            percent(&skew["load"]),
            percent(&skew["mean"])
        );
    }
}

/// A remark in parentheses, or nothing.
pub(super) fn note(note: &Value) -> String {
    match note.as_str() {
        None | Some("") => String::new(),
        Some(_) => format!("  ({})", text_of(note)),
    }
}

/// A fraction as a percentage, `-` where it is not known.
pub(super) fn percent(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |part| format!("{:.0}%", part * 100.0))
}
