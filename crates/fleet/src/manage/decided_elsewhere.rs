//! Levels whose size another controller decides.

use serde_json::json;

use super::judge::{Judge, LevelSeen, Verdict, Wish};
use super::moment::Moment;

/// A judge for a level whose size is an autoscaler's business, or a person's: it never wants anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecidedElsewhere;

impl Judge for DecidedElsewhere {
    fn judge(&mut self, _: &LevelSeen) -> Verdict {
        let reason = "another controller decides their number".to_owned();
        Verdict { wish: Wish::Hold, load: None, reason, details: json!({"rule": "decided-elsewhere"}), skew: None }
    }

    fn note_action(&mut self, _: Moment) {}
}
