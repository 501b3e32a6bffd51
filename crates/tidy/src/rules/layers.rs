//! The crates that each crate may use: lower crates never import higher ones.

use std::process::Command;

use serde_json::Value;

use crate::Violation;
use crate::tree::{TreeError, run_program};

/// The crates that one crate may use.
struct Layer {
    name: &'static str,
    /// Our crates that it may use.
    ours: Vec<&'static str>,
    /// Our crates that its tests may use, too.
    tests: Vec<&'static str>,
    /// Crates of others that it may use; `None` for a crate at the edge, where `cargo deny` is the only judge.
    others: Option<Vec<&'static str>>,
}

/// The layers: a crate, our crates that it may use, further ones for its tests, and crates of others for a pure crate. A
/// row continues on indented lines. A new crate gets a row here and one in ARCHITECTURE.md.
const LAYERS: &str = "\
panics: | others
mqtt: | others memchr thiserror
engine: mqtt | tests random | others hashbrown memchr slab thiserror zeroize
admin: setting-file units
x509:
client: setting-file mqtt x509 pipe
bridge: client
connections: | others tokio
pipe:
setting-file:
hub: units panics random client connections context bus
visitor: client
http: client units connections visitor
coap: setting-file client visitor
node: setting-file proc mqtt x509 engine store pipe | tests random client mirror bus
store: random
auth: setting-file panics
acl: document mqtt
mosquitto-db: mqtt engine | others thiserror
conversion: units | others
mosquitto-conf: conversion | others serde serde_json thiserror
foreign-conf: conversion | others data-encoding roxmltree serde_json thiserror
fleet: setting-file plot proc random document units admin
dns: setting-file panics
bus: setting-file panics units | tests random
cluster: | tests random | others serde serde_json thiserror
mirror: store bus | tests random
meter: mirror
context: document panics bus
console: proc admin connections engine node store auth context
conformance: random mqtt
process: proc terminal
logging: panics units terminal
certificates:
mqtt-cli: random units mqtt client terminal process certificates
config: setting-file proc document units mqtt engine node store bus auth acl cluster context client bridge hub process logging
    certificates mosquitto-conf mirror
admin-cli: document units admin terminal
fleet-cli: random document units panics admin admin-cli client fleet dns logging process terminal
units:
document: setting-file units
plot:
random: | others
proc: | others rustix
placement: engine
identity: setting-file context mirror store mqtt engine node auth acl config
config-cli: document admin auth config conversion engine foreign-conf identity mosquitto-conf terminal
access-cli: proc acl auth mqtt certificates config config-cli identity terminal | tests client
store-cli: store engine node mosquitto-db meter identity config process terminal
administration: proc admin console panics engine node bus store meter config identity
reload: admin console acl engine node config identity logging
gateway: proc administration console context bus engine mqtt node config config-cli process logging terminal
connectors: proc administration admin admin-cli console bridge hub engine mqtt node placement config config-cli
    process logging terminal
cluster-node: proc administration admin console bus cluster config context engine identity mirror node placement
    process store | tests document
tidegate: cluster-node connectors gateway reload administration store-cli access-cli config-cli identity placement
    units fleet-cli admin-cli config mqtt-cli certificates logging process panics mqtt engine store bus mirror meter
    cluster auth acl node admin client console fleet dns context bridge hub http coap visitor terminal conversion
    foreign-conf mosquitto-conf mosquitto-db | tests conformance
torture: proc random mqtt client
fuzz: random mqtt node coap
lab: plot proc random document units mqtt client coap conformance terminal
terminal: | others clap
tidy:
";

/// Reads the layers.
fn layers() -> Vec<Layer> {
    let mut rows: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in LAYERS.lines() {
        match (line.split_once(':'), rows.last_mut()) {
            (Some((name, rest)), _) => rows.push((name, rest.split_ascii_whitespace().collect())),
            (None, Some((_, words))) => words.extend(line.split_ascii_whitespace()),
            (None, None) => {}
        }
    }
    let layer = |(name, words): (&'static str, Vec<&'static str>)| {
        let mut parts = words.split(|word| *word == "|");
        let mut layer =
            Layer { name, ours: parts.next().unwrap_or_default().to_vec(), tests: Vec::new(), others: None };
        for part in parts {
            match part.split_first() {
                Some((&"tests", names)) => layer.tests = names.to_vec(),
                Some((&"others", names)) => layer.others = Some(names.to_vec()),
                _ => panic!("a part of layer `{name}` begins with neither `tests` nor `others`"),
            }
        }
        layer
    };
    rows.into_iter().map(layer).collect()
}

/// Asks Cargo for the packages of the workspace.
///
/// # Errors
/// When Cargo cannot be run or says something else than JSON.
pub fn metadata() -> Result<Value, TreeError> {
    let command = "cargo metadata";
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let output = run_program(command, &mut cargo)?;
    serde_json::from_slice(&output).map_err(|source| TreeError::NoJson { command, source })
}

/// Dependencies that point upwards, or that a pure crate may not have.
pub fn violations(metadata: &Value) -> Vec<Violation> {
    let (mut found, layers) = (Vec::new(), layers());
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = short(package["name"].as_str().unwrap_or_default());
        let manifest = format!("crates/{name}/Cargo.toml");
        let Some(layer) = layers.iter().find(|layer| layer.name == name) else {
            let advice = format!("crate `{name}` has no layer; add it to LAYERS in crates/tidy/src/rules/layers.rs");
            found.push(Violation::new(&manifest, 0, advice));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            if let Some(advice) = judge(layer, dependency) {
                found.push(Violation::new(&manifest, 0, advice));
            }
        }
    }
    found
}

fn judge(layer: &Layer, dependency: &Value) -> Option<String> {
    let full = dependency["name"].as_str().unwrap_or_default();
    let (used, test) = (short(full), dependency["kind"] == "dev");
    if dependency["path"].is_string() {
        let allowed = layer.ours.contains(&used) || (test && layer.tests.contains(&used));
        return (!allowed).then(|| {
            format!("`{}` may not use `{used}`: move the shared part down, or hand it in through a trait", layer.name)
        });
    }
    let allowed = test || layer.others.as_ref().is_none_or(|names| names.contains(&full));
    (!allowed).then(|| {
        format!("the pure crate `{}` may not use `{full}`: write the few lines, or argue for it in LAYERS", layer.name)
    })
}

fn short(package: &str) -> &str {
    package.strip_prefix("tidegate-").unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(name: &str, dependency: &Value) -> usize {
        violations(&json!({ "packages": [{ "name": name, "dependencies": [dependency] }] })).len()
    }

    #[test]
    fn an_upward_dependency_is_caught() {
        assert_eq!(with("tidegate-mqtt", &json!({ "name": "tidegate-engine", "path": "x", "kind": null })), 1);
        assert_eq!(with("tidegate-engine", &json!({ "name": "tidegate-mqtt", "path": "x", "kind": null })), 0);
    }

    #[test]
    fn a_test_may_use_more_crates_than_its_crate() {
        assert_eq!(with("tidegate-node", &json!({ "name": "tidegate-client", "path": "x", "kind": null })), 1);
        assert_eq!(with("tidegate-node", &json!({ "name": "tidegate-client", "path": "x", "kind": "dev" })), 0);
    }

    #[test]
    fn a_pure_crate_with_a_runtime_is_caught() {
        assert_eq!(with("tidegate-engine", &json!({ "name": "tokio", "kind": null })), 1);
        assert_eq!(with("tidegate-console", &json!({ "name": "tokio", "kind": null })), 0);
    }

    #[test]
    fn a_crate_without_a_layer_is_caught() {
        assert_eq!(violations(&json!({ "packages": [{ "name": "tidegate-new", "dependencies": [] }] })).len(), 1);
    }
}
