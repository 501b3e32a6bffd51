//! The scenarios in the binary, and in a directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tidegate_document::FileText;

use super::{Scenario, ScenarioError};

/// A scenario by its name, from its file.
macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),*]
    };
}

/// In the order of `lab list`.
const SHIPPED: &[(&str, &str)] = shipped![
    "smoke",
    "pi-ladder",
    "pi-many-to-many",
    "pi-barrier",
    "lavva-1",
    "lavva-2",
    "lavva-3",
    "lavva-4",
    "middleware-throughput",
    "middleware-count",
    "middleware-protocols",
    "middleware-one-second",
    "middleware-latency",
    "middleware-scalability",
    "middleware-footprint",
    "middleware-stress",
    "middleware-criteria",
    "middleware-priority",
    "middleware-queue",
    "middleware-patterns",
    "middleware-pipeline",
    "middleware-survey",
    "middleware-dynamic-subscribers",
    "contextnet-inbound",
    "contextnet-outbound",
    "contextnet-both",
    "contextnet-processing",
    "contextnet-points",
    "contextnet-kill",
    "suite-connection",
    "suite-fan-out",
    "suite-point-to-point",
    "suite-shared",
    "churn",
    "reconnect-storm",
    "takeover",
    "retained-flood",
    "slow-readers",
    "kill-restart",
    "cluster",
    "network",
];

/// All scenarios by name.
#[derive(Clone, Debug)]
pub struct Library {
    scenarios: Vec<Scenario>,
}

impl Library {
    /// Those in the binary.
    ///
    /// # Errors
    /// Never with the shipped ones: a test reads them all.
    pub fn shipped() -> Result<Self, ScenarioError> {
        let read = |(name, text): &(&str, &str)| parse(name, text, &format!("scenarios/{name}.toml"));
        Ok(Self { scenarios: SHIPPED.iter().map(read).collect::<Result<_, _>>()? })
    }

    /// The scenarios in the binary, and the files `*.toml` of a directory, which replace scenarios with their name.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn with_directory(directory: Option<&Path>) -> Result<Self, ScenarioError> {
        let mut library = Self::shipped()?;
        let Some(directory) = directory else { return Ok(library) };
        let failed = |source| ScenarioError::Io { path: directory.to_owned(), source };
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == "toml")
                && let Some(name) = path.file_stem().and_then(|name| name.to_str())
            {
                files.insert(name.to_owned(), path);
            }
        }
        for (name, path) in files {
            let text = fs::read_to_string(&path).map_err(|source| ScenarioError::Io { path: path.clone(), source })?;
            let scenario = read(&name, &text, &path.display().to_string())?;
            library.scenarios.retain(|known| known.name != name);
            library.scenarios.push(scenario);
        }
        Ok(library)
    }

    /// One by name, or by the path of its file.
    ///
    /// # Errors
    /// If it does not exist; the error names all scenarios.
    pub fn get(&self, name: &str) -> Result<Scenario, ScenarioError> {
        if let Some(scenario) = self.scenarios.iter().find(|scenario| scenario.name == name) {
            return Ok(scenario.clone());
        }
        let path = Path::new(name);
        if path.extension().is_some_and(|extension| extension == "toml") {
            let text =
                fs::read_to_string(path).map_err(|source| ScenarioError::Io { path: path.to_owned(), source })?;
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or(name);
            return read(stem, &text, name);
        }
        let known = self.scenarios.iter().map(|scenario| scenario.name.clone()).collect();
        Err(ScenarioError::Unknown { name: name.to_owned(), known })
    }

    /// All of them.
    pub fn all(&self) -> &[Scenario] {
        &self.scenarios
    }
}

/// Reads a user's file: every case of it is checked, so that an error is found before its turn.
fn read(name: &str, text: &str, path: &str) -> Result<Scenario, ScenarioError> {
    let scenario = parse(name, text, path)?;
    scenario
        .checked(text)
        .map_err(|error| ScenarioError::Wrong { path: path.to_owned(), message: error.to_string() })?;
    Ok(scenario)
}

fn parse(name: &str, text: &str, path: &str) -> Result<Scenario, ScenarioError> {
    let mut scenario: Scenario = FileText::new(path, text).deserialize().map_err(ScenarioError::Syntax)?;
    name.clone_into(&mut scenario.name);
    Ok(scenario)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::plan::{ClientGroup, Role};
    use crate::run::plan_of;

    #[test]
    fn every_case_of_every_scenario_is_a_load_that_can_be_run() {
        for scenario in Library::shipped().unwrap().all() {
            assert!(
                scenario.check.is_some() || !scenario.measures.is_empty(),
                "{} does not say why it matters",
                scenario.name
            );
            for case in scenario.cases().unwrap().into_iter().filter(|_| scenario.check.is_none()) {
                assert!(!case.load.is_empty(), "{} has no load", scenario.name);
                for factor in [1.0, 0.01] {
                    let plan = plan_of(scenario, &case, "mqtt://127.0.0.1:1883", 1, factor).unwrap();
                    plan.validate().unwrap_or_else(|error| panic!("{}, {}: {error}", scenario.name, case.name));
                }
            }
        }
    }

    #[test]
    fn applications_with_work_to_do_have_it() {
        let scenario = Library::shipped().unwrap().get("contextnet-processing").unwrap();
        let case = scenario.cases().unwrap().into_iter().find(|case| case.name.starts_with("5000")).unwrap();
        let plan = plan_of(&scenario, &case, "mqtt://127.0.0.1:1883", 1, 1.0).unwrap();
        let works = |group: &ClientGroup| matches!(group.role, Role::Relay { work_us: 5_000, .. });
        assert!(plan.groups.iter().any(works));
    }

    #[test]
    fn shipped_scenarios_obey_the_rules_for_others() {
        for (name, text) in SHIPPED {
            read(name, text, name).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn an_unknown_word_is_reported_with_line_and_suggestion() {
        let smoke = include_str!("../../scenarios/contextnet-processing.toml");
        // Each with the expected words of the error.
        let wrong = [
            ("work-us =", "work_us =", "did you mean `work-us`?"),
            ("from =", "form =", "did you mean `from`?"),
            ("filters =", "filter =", "did you mean `filters`?"),
            ("duration_ms =", "duration-ms =", "did you mean `duration_ms`?"),
            ("title =", "titel =", "did you mean `title`?"),
            ("role.relay]", "role.relays]", "did you mean `relay`?"),
        ];
        for (right, misspelt, answer) in wrong {
            let at = smoke.find(right).unwrap_or_else(|| panic!("{right} is not in the file"));
            let text = format!("{}{misspelt}{}", &smoke[..at], &smoke[at + right.len()..]);
            let number = smoke[..at].matches('\n').count() + 1;
            let lines = [format!("line {number}"), format!("x.toml:{number}:")];
            let error = read("x", &text, "x.toml").unwrap_err().to_string();
            assert!(
                error.contains("x.toml") && lines.iter().any(|line| error.contains(line)) && error.contains(answer),
                "{misspelt} ({number}): {error}"
            );
        }
    }

    #[test]
    fn an_unused_or_misnamed_value_is_reported() {
        let file = |case: &str, count: &str| {
            format!(
                "title = 't'\nquestion = 'q'\nmethod = 'm'\ncase = '{case}'\n[matrix]\nreaders = [1, 2]\n[load]\nduration_ms = 1\n\
                 [[load.groups]]\nname = 'a'\ncount = {count}\nrole = 'idle'\n"
            )
        };
        assert!(read("x", &file("{readers}", "'{readers}'"), "x").is_ok());
        let error = |case, count| read("x", &file(case, count), "x").unwrap_err().to_string();
        assert!(error("all", "1").contains("used nowhere"));
        assert!(error("{reader}, {readers}", "1").contains("did you mean `{readers}`?"));
        assert!(error("{readers}", "'{reader}'").contains("line 11"), "a number that stays a text has its line");
    }

    #[test]
    fn every_file_in_the_folder_is_shipped() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        assert_eq!(fs::read_dir(folder).unwrap().count(), SHIPPED.len());
    }

    #[test]
    fn a_reference_belongs_to_a_case_that_there_is() {
        for scenario in Library::shipped().unwrap().all() {
            let cases = scenario.cases().unwrap();
            for reference in scenario.references.iter().filter(|reference| !reference.case.is_empty()) {
                let known = cases.iter().any(|case| case.name == reference.case);
                assert!(known, "{}: no case is called `{}`", scenario.name, reference.case);
            }
        }
    }

    #[test]
    fn a_name_that_is_unknown_is_answered_by_those_there_are() {
        let error = Library::shipped().unwrap().get("smok").unwrap_err().to_string();
        assert!(error.contains("did you mean `smoke`?"), "{error}");
    }
}
