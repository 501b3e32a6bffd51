//! How many of the normative statements of MQTT a broker holds, by the conformance suite, and which not.

use serde::Serialize;
use tidegate_conformance::{CaseOutcome, Options, Report, Unreachable, Version, run};

use crate::load::plan::Target;

/// The results of the suite.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conformance {
    /// The score of each version that the broker speaks.
    pub scores: Vec<VersionScore>,
    /// Cases that failed.
    pub failed: Vec<FailedCase>,
    /// How long the suite took, in seconds.
    pub seconds: f64,
}

/// Normative statements of one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VersionScore {
    /// The version, such as `5.0`.
    pub version: String,
    /// Statements for which a case passed and none failed.
    pub held: usize,
    /// Statements for which a case failed.
    pub broken: usize,
    /// Number of statements that were not tried, since the broker lacks their feature.
    pub skipped: usize,
}

/// A case that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedCase {
    /// Its name.
    pub case: String,
    /// The version it ran in.
    pub version: String,
    /// Its statements, such as `MQTT-3.1.2-5`.
    pub statements: Vec<String>,
    /// The expected answer and the actual one.
    #[serde(rename = "what")]
    pub fault: String,
}

/// Runs the suite.
pub(super) fn check(target: &Target) -> Result<Conformance, Unreachable> {
    let place = if target.host.contains(':') { format!("[{}]", target.host) } else { target.host.clone() };
    let mut options = Options::new(format!("{place}:{}", target.port));
    if let Some(credentials) = &target.credentials {
        options.user_name = Some(credentials.username.clone());
        options.password = Some(credentials.password.clone());
    }
    run(&options).map(|report| told(&report))
}

fn told(report: &Report) -> Conformance {
    let versions = [Version::V311, Version::V5];
    let scores = versions.map(|version| {
        let score = report.score(version);
        VersionScore { version: version.to_string(), held: score.held, broken: score.broken, skipped: score.skipped }
    });
    let failed = report.failures().map(|result| FailedCase {
        case: result.case.name.to_owned(),
        version: result.version.to_string(),
        statements: result.case.statements(result.version).iter().map(ToString::to_string).collect(),
        fault: match &result.outcome {
            CaseOutcome::Failed { fault, .. } => fault.clone(),
            CaseOutcome::Passed | CaseOutcome::Skipped(_) => String::new(),
        },
    });
    Conformance {
        scores: scores.into_iter().filter(|score| score.held + score.broken > 0).collect(),
        failed: failed.collect(),
        seconds: report.duration.as_secs_f64(),
    }
}
