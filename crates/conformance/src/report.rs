//! The outcomes of a run, by case and by statement.

use crate::case::Case;
use crate::version::Version;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseOutcome {
    /// The broker did as the specification says.
    Passed,
    /// It did not.
    Failed {
        /// The expected and the received behaviour.
        fault: String,
        /// The packets of the case in hexadecimal, oldest first.
        conversation: String,
    },
    /// The broker lacks a feature that the case needs; the text names it.
    Skipped(String),
}

/// The outcome of one case in one version.
#[derive(Clone, Debug)]
pub struct Result {
    /// The case.
    pub case: &'static Case,
    /// The version that it ran in.
    pub version: Version,
    /// The result.
    pub outcome: CaseOutcome,
    /// How long it took.
    pub duration: Duration,
}

impl Result {
    /// The failure with its statements and packets, or the reason of a skip; empty when the case passed.
    pub fn explain(&self) -> String {
        let Self { case, version, .. } = self;
        match &self.outcome {
            CaseOutcome::Passed => String::new(),
            CaseOutcome::Skipped(why) => format!("skipped {} (MQTT {version}): {why}\n", case.name),
            CaseOutcome::Failed { fault, conversation } => {
                let statements = case.statements(*version).join(", ");
                let mut text = format!("FAILED {} (MQTT {version})\n  {fault}\n", case.name);
                if !statements.is_empty() {
                    let _ = writeln!(text, "  statements: {statements}");
                }
                for line in conversation.lines() {
                    let _ = writeln!(text, "    {line}");
                }
                text
            }
        }
    }
}

/// How the statements of one version fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Statements for which a case passed and none failed.
    pub held: usize,
    /// Statements for which a case failed.
    pub broken: usize,
    /// Statements whose cases were all skipped.
    pub skipped: usize,
}

/// All outcomes of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The address of the broker.
    pub broker: String,
    /// One entry for each case and version, sorted by them.
    pub results: Vec<Result>,
    /// How long the run took.
    pub duration: Duration,
}

impl Report {
    /// Whether nothing failed.
    pub fn is_success(&self) -> bool {
        self.failures().next().is_none()
    }

    /// The results that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Result> {
        self.results.iter().filter(|result| matches!(result.outcome, CaseOutcome::Failed { .. }))
    }

    /// The score of the statements of one version.
    pub fn score(&self, version: Version) -> Score {
        let mut score = Score::default();
        for state in self.statements(version).into_values() {
            match state {
                Some(true) => score.held += 1,
                Some(false) => score.broken += 1,
                None => score.skipped += 1,
            }
        }
        score
    }

    /// For each statement with a case: held, broken, or not tried.
    fn statements(&self, version: Version) -> BTreeMap<&'static str, Option<bool>> {
        let mut states = BTreeMap::new();
        for result in self.results.iter().filter(|result| result.version == version) {
            for statement in result.case.statements(version) {
                let state = states.entry(*statement).or_insert(None);
                match result.outcome {
                    CaseOutcome::Passed => *state = state.or(Some(true)),
                    CaseOutcome::Failed { .. } => *state = Some(false),
                    CaseOutcome::Skipped(_) => {}
                }
            }
        }
        states
    }

    /// A table of areas, and the score of statements.
    pub fn summary(&self) -> String {
        let mut areas: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
        for result in &self.results {
            let area = result.case.name.split('.').next().unwrap_or_default();
            let [passed, failed, skipped] = areas.entry(area).or_default();
            match result.outcome {
                CaseOutcome::Passed => *passed += 1,
                CaseOutcome::Failed { .. } => *failed += 1,
                CaseOutcome::Skipped(_) => *skipped += 1,
            }
        }
        let mut text = format!("{:22} {:>7} {:>7} {:>7}\n", "area", "passed", "failed", "skipped");
        let mut total = [0; 3];
        for (area, counts) in &areas {
            let _ = writeln!(text, "{area:22} {:7} {:7} {:7}", counts[0], counts[1], counts[2]);
            for (sum, count) in total.iter_mut().zip(counts) {
                *sum += count;
            }
        }
        let _ = writeln!(text, "{:22} {:7} {:7} {:7}", "total", total[0], total[1], total[2]);
        let _ = writeln!(text);
        for version in [Version::V311, Version::V5] {
            let Score { held, broken, skipped } = self.score(version);
            if held + broken + skipped > 0 {
                let _ = writeln!(
                    text,
                    "MQTT {version:5} statements with a case: {held} held, {broken} broken, {skipped} not tried"
                );
            }
        }
        let _ = writeln!(text, "{} in {:.1} s", self.broker, self.duration.as_secs_f32());
        text
    }
}
