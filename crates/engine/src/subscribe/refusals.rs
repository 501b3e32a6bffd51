//! Why some filters of a SUBSCRIBE or UNSUBSCRIBE are refused, as one text: there is one Reason String for all of them.

use std::fmt::Write;

use crate::events::reason::Reason;

/// Refusals that are written in full; further ones are only counted.
const TOLD: usize = 8;
/// Characters of a filter that are repeated.
const FILTER_CHARS: usize = 64;

/// The refusals with their reasons, if the client wants reason strings.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    wanted: bool,
    /// Whether there is only one filter, which need not be named.
    single: bool,
    refused: usize,
    text: String,
}

impl Refusals {
    /// No refusals yet, for this number of filters; `wanted` is true if the client wants reason strings.
    pub(crate) fn new(wanted: bool, filters: usize) -> Self {
        Self { wanted, single: filters == 1, ..Self::default() }
    }

    /// One more.
    pub(crate) fn add(&mut self, filter: &str, reason: Reason) {
        if !self.wanted {
            return;
        }
        self.refused += 1;
        if self.single {
            self.text.push_str(reason.text());
        } else if self.refused <= TOLD {
            let shown: String = filter.chars().take(FILTER_CHARS).collect();
            let between = if self.text.is_empty() { "" } else { "; " };
            // Writing to a text does not fail.
            let _ = write!(self.text, "{between}{shown}: {}", reason.text());
        } else if self.refused == TOLD + 1 {
            self.text.push_str("; and more");
        }
    }

    /// The Reason String, unless it is empty.
    pub(crate) fn text(&self) -> Option<&str> {
        Some(self.text.as_str()).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_filter_needs_no_name_and_many_are_not_all_named() {
        let mut refusals = Refusals::new(true, 1);
        assert_eq!(refusals.text(), None);
        refusals.add("a", Reason::NotAuthorized);
        assert_eq!(refusals.text(), Some(Reason::NotAuthorized.text()));

        let mut refusals = Refusals::new(true, 20);
        for n in 0..20 {
            refusals.add(&format!("{}{n}", "x".repeat(100)), Reason::NotAuthorized);
        }
        let text = refusals.text().unwrap_or_default();
        assert!(text.ends_with("; and more") && text.len() < 1200, "{text}");
        assert_eq!(text.matches(Reason::NotAuthorized.text()).count(), TOLD);
    }

    #[test]
    fn without_problem_information_no_text_is_made() {
        let mut refusals = Refusals::new(false, 1);
        refusals.add("a", Reason::NotAuthorized);
        assert_eq!(refusals.text(), None);
    }
}
