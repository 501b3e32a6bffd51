//! The survey's criteria (MID-02 to MID-36) as a table. Cells come from a probe, or name the scenario that measures the
//! criterion.

mod list;
mod probed;
mod text;

use serde::Serialize;

pub use list::{CRITERIA, Criterion};
pub use text::{list, markdown, plain};

use crate::priority::{Asked, CheckError};
use crate::probe::{self, Finding};
use crate::results::Found;

/// The name and version of the output of `--json`.
pub const SCHEMA: &str = "tidegate-lab/criteria/1";
/// The title of a run's findings, by which the report recognises them.
pub const TITLE: &str = "The criteria of the survey (MID-02 to MID-36)";

/// The source of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// A probe has tried it.
    Probe,
    /// A scenario measures it.
    Scenario,
    /// It is not known.
    Unknown,
}

impl By {
    /// The word in tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Scenario => "scenario",
            Self::Unknown => "not known",
        }
    }
}

/// The answer for one criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Known {
    /// The criterion's id.
    pub id: &'static str,
    /// In a few words; empty when it is not known.
    pub text: String,
    /// Its criterion.
    pub by: By,
    /// The scenario's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The answers for one broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Judged {
    /// The broker.
    pub name: String,
    /// At least one entry for each criterion, in their order.
    pub known: Vec<Known>,
}

/// All answers for a broker, from the findings of a probe, if there are some.
pub fn judge(name: &str, findings: Option<&[Finding]>) -> Judged {
    let mut known = Vec::new();
    for criterion in &CRITERIA {
        let before = known.len();
        let found = findings.and_then(|findings| criterion.probed.and_then(|say| say(findings)));
        known.extend(found.map(|text| Known { id: criterion.id, text, by: By::Probe, source: None }));
        if let Some(scenario) = criterion.measured_by {
            let text = format!("measured by {scenario}");
            known.push(Known { id: criterion.id, text, by: By::Scenario, source: Some(scenario.to_owned()) });
        }
        if known.len() == before {
            known.push(Known { id: criterion.id, text: String::new(), by: By::Unknown, source: None });
        }
    }
    Judged { name: name.to_owned(), known }
}

/// Probes a broker, if it supports MQTT, and returns all answers as a table.
///
/// # Errors
/// When it does not answer.
pub(crate) fn found(asked: &Asked) -> Result<Vec<Found>, CheckError> {
    let findings = if asked.by_mqtt { Some(probe::findings(&asked.target)?) } else { None };
    let judged = judge(&asked.peer, findings.as_deref());
    let title = |id: &str| CRITERIA.iter().find(|criterion| criterion.id == id).map_or("", |criterion| criterion.title);
    let row = |known: &Known| {
        let (id, by) = (known.id.to_owned(), known.by.word().to_owned());
        vec![id, title(known.id).to_owned(), known.text.clone(), by, known.source.clone().unwrap_or_default()]
    };
    Ok(vec![Found {
        title: TITLE.to_owned(),
        columns: ["Id", "Criterion", "Answer", "By", "Source"].map(str::to_owned).to_vec(),
        rows: judged.known.iter().map(row).collect(),
        notes: vec![if asked.by_mqtt {
            "Answers of a probe are from this broker as the lab configures it".to_owned()
        } else {
            "It was not probed, since it is not spoken to by MQTT".to_owned()
        }],
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Answer, How};

    #[test]
    fn every_criterion_has_an_answer_and_its_source() {
        let findings = [Finding { group: "g", id: "delayed", title: "t", answer: Answer::No, how: How::Tried }];
        let judged = judge("unknown-broker", Some(&findings));
        for criterion in &CRITERIA {
            assert!(judged.known.iter().any(|known| known.id == criterion.id), "{}", criterion.id);
        }
        let by = |id: &str| judged.known.iter().find(|known| known.id == id).map(|known| known.by);
        assert_eq!(
            (by("MID-17"), by("MID-10"), by("MID-33")),
            (Some(By::Probe), Some(By::Scenario), Some(By::Unknown))
        );
    }

    #[test]
    fn the_criteria_agree_with_the_survey() {
        let ids: Vec<String> = (2..=36).map(|number| format!("MID-{number:02}")).collect();
        assert!(CRITERIA.iter().map(|criterion| criterion.id).eq(ids.iter().map(String::as_str)));
    }

    #[test]
    fn a_measured_criterion_names_a_scenario() {
        let library = crate::scenario::Library::shipped().unwrap();
        for name in CRITERIA.iter().filter_map(|criterion| criterion.measured_by).flat_map(|names| names.split(" and "))
        {
            assert!(library.get(name).is_ok(), "{name}");
        }
    }
}
