//! The differences of access rules.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_acl::{RuleId, Rules};
use tidegate_node::NodeHandle;

use tidegate_config::Config;
use tidegate_config::path::KeyPath;
use tidegate_identity::access::{self, Names};

use tidegate_config::reload::{PrepareError, Prepared, Reloadable};

/// The rules of `[access]`. When they are wrong, or a file is missing, those in force stay (CVE-2018-12550).
pub struct AccessRules {
    node: NodeHandle,
    names: Names,
    running: Arc<Mutex<Option<Arc<Rules>>>>,
}

impl AccessRules {
    /// Of this node, which was started with these names and rules.
    pub fn new(node: NodeHandle, names: Names, rules: Option<Arc<Rules>>) -> Self {
        Self { node, names, running: Arc::new(Mutex::new(rules)) }
    }
}

struct NewRules {
    node: NodeHandle,
    names: Names,
    rules: Option<Arc<Rules>>,
    running: Arc<Mutex<Option<Arc<Rules>>>>,
}

/// Rules that are written in full; further ones are only counted.
const TOLD: usize = 10;

/// The rules of both that the other has not, each with its place.
fn differences(old: Option<&Rules>, new: Option<&Rules>) -> Vec<String> {
    let mut told = Vec::new();
    for (change, of, other) in [("no longer", old, new), ("new", new, old)] {
        let mut known = texts(other);
        let mut count = 0;
        for rule in rules_of(of) {
            if let Some(left) = known.get_mut(&*rule.text).filter(|left| **left > 0) {
                *left -= 1;
                continue;
            }
            count += 1;
            if count <= TOLD {
                told.push(format!("{change}: {rule}"));
            }
        }
        if count > TOLD {
            told.push(format!("{change}: {} more rules", count - TOLD));
        }
    }
    told
}

fn rules_of(rules: Option<&Rules>) -> impl Iterator<Item = &tidegate_acl::RuleRef> {
    rules.into_iter().flat_map(|rules| (0..).map(RuleId).map_while(|id| rules.rule(id)))
}

/// The number of times each rule is there: a moved rule is not a new one.
fn texts(rules: Option<&Rules>) -> BTreeMap<&str, usize> {
    let mut texts = BTreeMap::new();
    for rule in rules_of(rules) {
        *texts.entry(&*rule.text).or_default() += 1;
    }
    texts
}

impl Reloadable for AccessRules {
    fn name(&self) -> &'static str {
        "access rules"
    }

    fn takes(&self, key: &KeyPath) -> bool {
        key.section == "access"
    }

    fn prepare(&self, new: &Config) -> Result<Box<dyn Prepared>, PrepareError> {
        let rules = access::load(new).map_err(|error| error.to_string())?;
        let (node, names, running) = (self.node.clone(), self.names.with_tenants(new), Arc::clone(&self.running));
        Ok(Box::new(NewRules { node, names, rules, running }))
    }
}

impl Prepared for NewRules {
    fn commit(self: Box<Self>) -> Vec<String> {
        let factory = self.rules.clone().map(|rules| access::factory(rules, self.names.clone()));
        if let Err(error) = self.node.set_access(factory.as_ref()) {
            // The request is in its inbox all the same, before later ones.
            tracing::warn!(%error, "new access rules apply on that shard later");
        }
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let told = differences(running.as_deref(), self.rules.as_deref());
        *running = self.rules;
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Rules {
        let mut builder = tidegate_acl::RulesBuilder::new();
        builder.mosquitto_file("acl", text.as_bytes()).unwrap();
        builder.build(tidegate_acl::Effect::Deny)
    }

    #[test]
    fn new_and_removed_rules_are_named_and_moved_ones_are_not() {
        let (old, new) = (rules("topic write a\ntopic read b\n"), rules("topic read c\n\ntopic read b\n"));
        let told = differences(Some(&old), Some(&new));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("no longer: acl:1: ") && told[1].starts_with("new: acl:1: "), "{told:?}");
        assert_eq!(differences(Some(&new), Some(&new)), Vec::<String>::new());
        let many = (0..30).map(|n| format!("topic read t{n}")).collect::<Vec<_>>().join("\n");
        let told = differences(None, Some(&rules(&many)));
        assert_eq!((told.len(), told[10].as_str()), (11, "new: 20 more rules"));
    }
}
