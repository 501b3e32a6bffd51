//! Levels whose size another controller decides.

use serde_json::{Value, json};

use super::judge::{Judge, LevelDecision, LevelSeen, Wish};
use super::moment::Moment;
use crate::decide::MemoryError;

/// A judge for a level whose size an autoscaler or a person decides. It changes nothing. An adviser computes how many
/// members would suit, which an autoscaler can read as a metric.
#[derive(Default)]
pub struct DecidedElsewhere {
    adviser: Option<Box<dyn Judge>>,
    /// The last advice. It stays while the adviser holds a change back, such as in its cool-down.
    suits: Option<u32>,
}

impl DecidedElsewhere {
    /// A judge that computes the decision of `adviser`.
    pub fn advised_by(adviser: Box<dyn Judge>) -> Self {
        Self { adviser: Some(adviser), suits: None }
    }
}

impl Judge for DecidedElsewhere {
    fn judge(&mut self, seen: &LevelSeen) -> LevelDecision {
        let advice = self.adviser.as_mut().map(|adviser| adviser.judge(seen));
        let details = json!({"rule": "decided-elsewhere", "advice": advice.as_ref().map(|advice| &advice.details)});
        let (load, skew, suits) = advice.map_or((None, None, None), |advice| (advice.load, advice.skew, advice.suits));
        self.suits = suits.or(self.suits).filter(|_| load.is_some());
        let reason = match self.suits {
            Some(suits) => format!("another controller decides their number; {suits} would suit"),
            None => "another controller decides their number".to_owned(),
        };
        LevelDecision { wish: Wish::Hold, load, reason, details, skew, suits: self.suits }
    }

    fn note_action(&mut self, at: Moment) {
        if let Some(adviser) = &mut self.adviser {
            adviser.note_action(at);
        }
    }

    fn memory(&self) -> Option<Value> {
        self.adviser.as_ref()?.memory()
    }

    fn recall(&mut self, memory: &Value) -> Result<(), MemoryError> {
        self.adviser.as_mut().map_or(Ok(()), |adviser| adviser.recall(memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;

    /// Gives these decisions in turn: load, wish, and whether the wish is held back.
    struct ScriptedAdviser(Vec<(Option<f64>, Wish, bool)>);

    impl Judge for ScriptedAdviser {
        fn judge(&mut self, seen: &LevelSeen) -> LevelDecision {
            let (load, wish, held) = self.0.remove(0);
            let suits = (load.is_some() && !held).then(|| super::super::judge::after(seen, wish));
            LevelDecision { wish, load, reason: String::new(), details: Value::Null, skew: None, suits }
        }

        fn note_action(&mut self, _: Moment) {}
    }

    fn seen(serving: u32) -> LevelSeen {
        LevelSeen {
            at: Moment(0),
            level: Level::Broker,
            serving,
            pending: 0,
            leaving: 0,
            elsewhere: 1,
            lead_time: None,
            members: Vec::new(),
        }
    }

    #[test]
    fn advice_stays_while_a_change_is_held_back() {
        let script = vec![
            (None, Wish::Hold, false),
            (Some(0.9), Wish::Grow(2), false),
            // The adviser believes that its change is under way.
            (Some(0.9), Wish::Hold, true),
            (Some(0.6), Wish::Hold, false),
            (Some(0.1), Wish::Shrink(1), false),
            (None, Wish::Hold, false),
        ];
        let mut judge = DecidedElsewhere::advised_by(Box::new(ScriptedAdviser(script)));
        let mut suits = Vec::new();
        for serving in [2, 2, 2, 4, 4, 4] {
            let decision = judge.judge(&seen(serving));
            assert_eq!(decision.wish, Wish::Hold);
            suits.push(decision.suits);
        }
        assert_eq!(suits, [None, Some(4), Some(4), Some(4), Some(3), None]);
        assert_eq!(DecidedElsewhere::default().judge(&seen(2)).suits, None);
    }
}
