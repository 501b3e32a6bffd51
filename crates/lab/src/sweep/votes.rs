//! The outcome of all repetitions of one rate.

use std::fmt;

use super::Kept;

/// How many repetitions of a rate held, and how many did not. One in which the generator was at its limit says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Votes {
    /// Runs that held.
    pub held: u32,
    /// Runs that did not.
    pub broke: u32,
    /// The reason of the last repetition that did not hold or was invalid.
    pub why: String,
}

impl Votes {
    pub(super) fn of(judged: impl Iterator<Item = Kept>) -> Self {
        let (mut votes, mut unknown) = (Self::default(), String::new());
        for kept in judged {
            match kept {
                Kept::Yes => votes.held += 1,
                Kept::No(why) => {
                    votes.broke += 1;
                    votes.why = why;
                }
                Kept::Unknown(why) => unknown = why,
            }
        }
        if votes.broke == 0 {
            votes.why = unknown;
        }
        votes
    }

    /// Whether the rate holds by the majority of repetitions. `None` if none is valid.
    pub fn holds(&self) -> Option<bool> {
        (self.held + self.broke > 0).then_some(self.held > self.broke)
    }

    /// True if further repetitions, up to this number, cannot change that.
    pub fn are_decided(&self, repeat: u32) -> bool {
        self.held * 2 > repeat || self.broke * 2 >= repeat
    }

    /// Whether repetitions say different things.
    pub const fn disagree(&self) -> bool {
        self.held > 0 && self.broke > 0
    }
}

impl fmt::Display for Votes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {}", self.held, self.held + self.broke)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn votes(text: &str) -> Votes {
        Votes::of(text.chars().map(|said| match said {
            'y' => Kept::Yes,
            'n' => Kept::No("slow".to_owned()),
            _ => Kept::Unknown("busy".to_owned()),
        }))
    }

    #[test]
    fn the_majority_decides_and_abstentions_do_not_count() {
        let expected = [
            ("y", Some(true)),
            ("yyn", Some(true)),
            ("yn", Some(false)),
            ("?n", Some(false)),
            ("?y", Some(true)),
            ("??", None),
            ("", None),
        ];
        for (said, holds) in expected {
            assert_eq!(votes(said).holds(), holds, "{said}");
        }
        assert_eq!((votes("?").why.as_str(), votes("n?").why.as_str()), ("busy", "slow"));
    }

    #[test]
    fn repetitions_end_when_the_rest_cannot_change_the_majority() {
        for (said, repeat, decided) in [
            ("y", 1, true),
            ("y", 3, false),
            ("yy", 3, true),
            ("yn", 3, false),
            ("nn", 3, true),
            ("n", 2, true),
            ("y?", 3, false),
        ] {
            assert_eq!(votes(said).are_decided(repeat), decided, "{said} of {repeat}");
        }
        assert!(votes("yyn").disagree() && !votes("yy?").disagree());
        assert_eq!(votes("yyn").to_string(), "2 of 3");
    }
}
