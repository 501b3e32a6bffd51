//! From a scenario to its cases.

use std::collections::BTreeMap;

use toml::Value;

use super::{Scenario, ScenarioError};
use crate::limits::Limits;
use crate::misspelt;
use crate::network::Network;

/// One combination of a scenario's values.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Its name; unique in its scenario.
    pub name: String,
    /// Its values by name, as text.
    pub values: BTreeMap<String, String>,
    /// The plan of its load, without the target, the sources and the seed.
    pub load: toml::Table,
    /// The limits of the broker.
    pub limits: Limits,
    /// The network that is made for it.
    pub network: Option<Network>,
}

impl Scenario {
    /// All cases, in the order of the file's values.
    ///
    /// # Errors
    /// If two have one name, or a limit is invalid.
    pub fn cases(&self) -> Result<Vec<Case>, ScenarioError> {
        let mut cases: Vec<Case> = Vec::new();
        for values in combinations(&self.variants, &self.matrix) {
            let name = self.case_name(&values);
            let wrong =
                |message: String| ScenarioError::Load { scenario: self.name.clone(), case: name.clone(), message };
            if cases.iter().any(|case| case.name == name) {
                return Err(wrong("two cases have this name; `case` has to name every value that differs".to_owned()));
            }
            let limits = without_none(table(&self.limits, &values))
                .try_into()
                .map_err(|error| wrong(misspelt::of_table("", "limits", &error)))?;
            let network = self.network.as_ref().map(|network| (network, without_none(table(network, &values))));
            // If each value says `none`, there is no network; one without any value is a link on which nothing is
            // changed.
            let network = network.filter(|(all, left)| all.is_empty() || !left.is_empty());
            let network = network.map(|(_, network)| network.try_into::<Network>()).transpose();
            let network = network.map_err(|error| wrong(misspelt::of_table("", "network", &error)))?;
            network.map_or(Ok(()), |network| network.check()).map_err(|error| wrong(error.to_string()))?;
            cases.push(Case {
                name: name.clone(),
                values: values.iter().map(|(name, value)| (name.clone(), plain(value))).collect(),
                load: table(&self.load, &values),
                limits,
                network,
            });
        }
        Ok(cases)
    }

    fn case_name(&self, values: &BTreeMap<String, Value>) -> String {
        match &self.case {
            Some(pattern) => text(pattern, values),
            None if values.is_empty() => "all".to_owned(),
            None => {
                values.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

fn combinations(
    variants: &[BTreeMap<String, Value>],
    matrix: &BTreeMap<String, Vec<Value>>,
) -> Vec<BTreeMap<String, Value>> {
    let mut all = if variants.is_empty() { vec![BTreeMap::new()] } else { variants.to_vec() };
    for (name, values) in matrix {
        all = all
            .into_iter()
            .flat_map(|known: BTreeMap<String, Value>| {
                values.iter().map(move |value| {
                    let mut known = known.clone();
                    known.insert(name.clone(), value.clone());
                    known
                })
            })
            .collect();
    }
    all
}

/// Removes the keys that a case sets to `none`.
fn without_none(mut table: toml::Table) -> toml::Table {
    table.retain(|_, value| value.as_str() != Some("none"));
    table
}

fn table(template: &toml::Table, values: &BTreeMap<String, Value>) -> toml::Table {
    template.iter().map(|(key, value)| (key.clone(), filled(value, values))).collect()
}

/// A text that is one name alone becomes the value with its type; within a longer text, the value is written as text.
fn filled(template: &Value, values: &BTreeMap<String, Value>) -> Value {
    match template {
        Value::String(pattern) => {
            let alone = pattern.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            match alone.and_then(|name| values.get(name)) {
                Some(value) => value.clone(),
                None => Value::String(text(pattern, values)),
            }
        }
        Value::Array(parts) => Value::Array(parts.iter().map(|part| filled(part, values)).collect()),
        Value::Table(parts) => Value::Table(table(parts, values)),
        other => other.clone(),
    }
}

fn text(pattern: &str, values: &BTreeMap<String, Value>) -> String {
    values.iter().fold(pattern.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), &plain(value)))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(text: &str) -> Scenario {
        toml::from_str(&format!("title = 't'\nquestion = 'q'\nmethod = 'm'\n{text}")).unwrap()
    }

    #[test]
    fn each_combination_is_a_case_and_values_keep_their_type() {
        let cases = scenario(
            "case = '{devices} devices, QoS {qos}'\n[matrix]\ndevices = [1, 1000]\nqos = [0, 1]\n\
             [load]\ncount = '{devices}'\ntopic = 'd/{devices}/{client}'\ndeep = [{ qos = '{qos}' }]\n[limits]\ncpus = 0.5",
        )
        .cases()
        .unwrap();
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["1 devices, QoS 0", "1 devices, QoS 1", "1000 devices, QoS 0", "1000 devices, QoS 1"]);
        assert_eq!(cases[2].load["count"], Value::Integer(1000));
        assert_eq!(cases[2].load["topic"], Value::String("d/1000/{client}".to_owned()), "other names are the load's");
        assert_eq!(cases[3].load["deep"][0]["qos"], Value::Integer(1));
        assert_eq!(cases[3].limits.cpus, Some(0.5));
    }

    #[test]
    fn values_of_a_variant_go_together() {
        let cases = scenario(
            "case = '{shape}, {qos}'\n[[variants]]\nshape = 'few'\nclients = 1\n[[variants]]\nshape = 'many'\nclients = 9\n\
             [matrix]\nqos = [0, 1]\n[load]\ncount = '{clients}'",
        )
        .cases()
        .unwrap();
        let seen: Vec<(&str, &Value)> = cases.iter().map(|case| (case.name.as_str(), &case.load["count"])).collect();
        let (one, nine) = (Value::Integer(1), Value::Integer(9));
        assert_eq!(seen, [("few, 0", &one), ("few, 1", &one), ("many, 0", &nine), ("many, 1", &nine)]);
    }

    #[test]
    fn a_scenario_without_a_matrix_has_one_case() {
        let cases = scenario("[load]\na = 1").cases().unwrap();
        assert_eq!((cases.len(), cases[0].name.as_str()), (1, "all"));
    }

    #[test]
    fn a_case_lacks_the_keys_that_are_set_to_none() {
        let cases = scenario(
            "case = '{cpus}, {rate}'\n[[variants]]\ncpus = 'none'\nrate = 'none'\n[[variants]]\ncpus = 0.5\nrate = '1Mbit'\n\
             [load]\na = 1\n[limits]\ncpus = '{cpus}'\n[network]\nrate = '{rate}'",
        )
        .cases()
        .unwrap();
        assert_eq!((cases[0].limits, cases[0].network), (Limits::default(), None));
        assert!(cases[1].limits.cpus == Some(0.5) && cases[1].network.is_some_and(|network| network.rate.is_some()));
        assert_eq!(scenario("[load]\na = 1\n[network]").cases().unwrap()[0].network, Some(Network::default()));
    }

    #[test]
    fn two_cases_of_one_name_are_refused() {
        let twice = scenario("case = 'same'\n[matrix]\na = [1, 2]\n[load]\nx = '{a}'");
        assert!(matches!(twice.cases(), Err(ScenarioError::Load { .. })));
    }
}
