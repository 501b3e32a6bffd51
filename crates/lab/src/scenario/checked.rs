//! Whether every case of a file is a load that can be run: found out before anything is started.

use tidegate_units::suggestion::nearest;
use toml::{Table, Value};

use super::{Case, Scenario, ScenarioError};
use crate::load::LoadPlan;
use crate::load::plan::PlanError;
use crate::misspelt;

/// The keys of `[load]` that a scenario with a `check` reads.
const OF_A_CHECK: &str = "protocol";

/// The cases of a file are invalid.
#[derive(Debug, thiserror::Error)]
pub(super) enum CaseError {
    /// The cases cannot be made.
    #[error(transparent)]
    Cases(#[from] Box<ScenarioError>),
    /// The name of a case has a placeholder without a value.
    #[error("`case` has `{{{name}}}`, which is no name of the matrix or of a variant{hint}")]
    OpenName { name: String, hint: String },
    /// A key of `[load]` that a scenario with a `check` does not read.
    #[error("in `load`: a scenario with a `check` has no `{key}`; only `{OF_A_CHECK}` is read")]
    NotOfCheck { key: String },
    /// `[load]` cannot be read; where and why.
    #[error("{0}")]
    Load(String),
    /// The load of a case cannot be carried out.
    #[error("the case `{case}`: {error}")]
    Plan { case: String, error: PlanError },
    /// A platform takes neither.
    #[error("a scenario with a `platform` has no `{key}`: its parts have limits of their own, and are not killed")]
    NotOfPlatform { key: &'static str },
    /// A value that nothing uses.
    #[error("`{name}` of the matrix or a variant is used nowhere: write {{{name}}} in its place")]
    Unused { name: String },
}

impl Scenario {
    /// Finds the first thing in the file's text that would stop a run, or be passed over in silence.
    ///
    /// # Errors
    /// With the line if it is known.
    pub(super) fn checked(&self, text: &str) -> Result<(), CaseError> {
        self.names_are_used(text)?;
        if self.platform.is_some() {
            let other = [
                ("limits", !self.limits.is_empty()),
                ("network", self.network.is_some()),
                ("events", !self.events.is_empty()),
            ];
            if let Some((key, _)) = other.into_iter().find(|(_, is_there)| *is_there) {
                return Err(CaseError::NotOfPlatform { key });
            }
        }
        let cases = self.cases().map_err(Box::new)?;
        cases.iter().try_for_each(|case| self.case_is_a_load(case, text))
    }

    fn case_is_a_load(&self, case: &Case, text: &str) -> Result<(), CaseError> {
        if let Some(open) = placeholder(&case.name) {
            let near = nearest(open, case.values.keys().map(String::as_str));
            let hint = near.map_or_else(String::new, |name| format!(": did you mean `{{{name}}}`?"));
            return Err(CaseError::OpenName { name: open.to_owned(), hint });
        }
        if self.check.is_some() {
            let other = case.load.keys().find(|key| *key != OF_A_CHECK);
            return other.map_or(Ok(()), |key| Err(CaseError::NotOfCheck { key: key.clone() }));
        }
        let mut load = case.load.clone();
        load.insert("target".to_owned(), Value::Table(nowhere()));
        let mut plan: LoadPlan =
            load.try_into().map_err(|error| CaseError::Load(misspelt::of_table(text, "load", &error)))?;
        plan.processes = plan.processes.max(plan.processes_needed());
        plan.validate().map_err(|error| CaseError::Plan { case: case.name.clone(), error })
    }

    /// A value that nothing uses makes cases that are all the same.
    fn names_are_used(&self, text: &str) -> Result<(), CaseError> {
        let names = self.matrix.keys().chain(self.variants.iter().flat_map(|variant| variant.keys()));
        for name in names {
            if !text.contains(&format!("{{{name}}}")) {
                return Err(CaseError::Unused { name: name.clone() });
            }
        }
        Ok(())
    }
}

fn placeholder(name: &str) -> Option<&str> {
    let (_, rest) = name.split_once('{')?;
    rest.split_once('}').map(|(inside, _)| inside)
}

/// A target that only makes a plan whole.
fn nowhere() -> Table {
    [("host", Value::String("localhost".to_owned())), ("port", Value::Integer(1883))]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
