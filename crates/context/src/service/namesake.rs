//! Two gateways of one name are taken for two lives of one: the manager hears the newer one only, and nodes of both are taken for those of one.
//! Nobody but they can tell the operator.

use std::time::{Duration, Instant};

/// Time between two lines of the log about it.
const QUIET: Duration = Duration::from_secs(60);
/// Characters of the other one's address that a line shows.
const SHOWN_CHARACTERS: usize = 64;

/// When it was told last.
#[derive(Debug, Default)]
pub(super) struct Namesakes(Option<Instant>);

impl Namesakes {
    /// Another gateway has come that has this one's name.
    pub(super) fn note(&mut self, name: &str, address: &str) {
        if self.is_due(Instant::now()) {
            let other: String = address.chars().take(SHOWN_CHARACTERS).collect();
            let todo = "give each gateway a name of its own: context.name";
            tracing::warn!(name, other, todo, "another gateway on the bus has this one's name, and is taken for it");
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|told| now.saturating_duration_since(told) >= QUIET);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_a_minute_however_many_come() {
        let (mut namesakes, start) = (Namesakes::default(), Instant::now());
        let told = (0..=60).filter(|second| namesakes.is_due(start + Duration::from_secs(*second)));
        assert_eq!(told.collect::<Vec<_>>(), [0, 60]);
    }
}
