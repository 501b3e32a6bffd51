//! The reference of all reasons with their remedies. `tidegate manual reasons` prints it, and answers contain the remedies.

use tidegate_engine::Reason;

const PAGE: &str = include_str!("reasons.txt");

/// All reasons as a table in Markdown: number, name, code of MQTT 5, text, remedy.
pub fn page() -> &'static str {
    PAGE
}

/// The advice for a reason; empty where the page has none.
pub(crate) fn advice(reason: Reason) -> &'static str {
    let number = reason.number().to_string();
    let mut rows = PAGE.lines().filter_map(|line| line.strip_prefix("| "));
    let row = rows.find(|row| row.split(" | ").next() == Some(number.as_str()));
    row.and_then(|row| row.trim_end().trim_end_matches('|').trim_end().split(" | ").nth(4)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_advice_and_each_can_be_read_alone() {
        for reason in Reason::ALL {
            let advice = advice(*reason);
            assert!(advice.ends_with('.') && !advice.contains(" | "), "{reason:?}: {advice:?}");
            assert!(!advice.starts_with("As above"), "{reason:?}: {advice:?}");
        }
        assert_eq!(advice(Reason::BadCredentials), "Correct the credentials.");
    }
}
