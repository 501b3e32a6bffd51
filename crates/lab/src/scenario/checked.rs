//! Whether every case of a file is a load that can be run: found out before anything is started.

use toml::{Table, Value};

use super::{Case, Scenario};
use crate::load::LoadPlan;
use crate::misspelt;

/// The keys of `[load]` that a scenario with a `check` reads.
const OF_A_CHECK: &str = "protocol";

impl Scenario {
    /// Finds the first thing in the file's text that would stop a run, or be passed over in silence.
    ///
    /// # Errors
    /// Text for people, with the line if it is known.
    pub(super) fn checked(&self, text: &str) -> Result<(), String> {
        self.names_are_used(text)?;
        let cases = self.cases().map_err(|error| error.to_string())?;
        cases.iter().try_for_each(|case| self.case_is_a_load(case, text))
    }

    fn case_is_a_load(&self, case: &Case, text: &str) -> Result<(), String> {
        if let Some(open) = placeholder(&case.name) {
            let near = misspelt::nearest(open, case.values.keys().map(String::as_str));
            let hint = near.map_or_else(String::new, |name| format!(": did you mean `{{{name}}}`?"));
            return Err(format!("`case` has `{{{open}}}`, which is no name of the matrix or of a variant{hint}"));
        }
        if self.check.is_some() {
            let other = case.load.keys().find(|key| *key != OF_A_CHECK);
            return other.map_or(Ok(()), |key| {
                Err(format!("in `load`: a scenario with a `check` has no `{key}`; only `{OF_A_CHECK}` is read"))
            });
        }
        let mut load = case.load.clone();
        load.insert("target".to_owned(), Value::Table(nowhere()));
        let mut plan: LoadPlan = load.try_into().map_err(|error| misspelt::of_table(text, "load", &error))?;
        plan.processes = plan.processes.max(plan.processes_needed());
        plan.validate().map_err(|error| format!("the case `{}`: {error}", case.name))
    }

    /// A value that nothing uses makes cases that are all the same.
    fn names_are_used(&self, text: &str) -> Result<(), String> {
        let names = self.matrix.keys().chain(self.variants.iter().flat_map(|variant| variant.keys()));
        for name in names {
            if !text.contains(&format!("{{{name}}}")) {
                return Err(format!(
                    "`{name}` of the matrix or a variant is used nowhere: write {{{name}}} where it stands"
                ));
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
