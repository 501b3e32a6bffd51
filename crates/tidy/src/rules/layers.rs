//! Which crate may use which: lower crates never import higher ones.

use std::process::Command;

use serde_json::Value;

use crate::Violation;
use crate::tree::{TreeError, run_program};

/// The crates that one crate may use.
struct Layer {
    name: &'static str,
    /// Our crates that it may use.
    ours: &'static [&'static str],
    /// Our crates that its tests may use, too.
    tests: &'static [&'static str],
    /// Crates of others that it may use; `None` for a crate at the edge, where `cargo deny` is the only judge.
    others: Option<&'static [&'static str]>,
}

/// The layers. A new crate gets a line here and one in ARCHITECTURE.md.
const LAYERS: &[Layer] = &[
    Layer { name: "panics", ours: &[], tests: &[], others: Some(&[]) },
    Layer { name: "mqtt", ours: &[], tests: &[], others: Some(&["memchr", "thiserror"]) },
    Layer {
        name: "engine",
        ours: &["mqtt"],
        tests: &["random"],
        others: Some(&["hashbrown", "memchr", "slab", "thiserror", "zeroize"]),
    },
    Layer { name: "admin", ours: &[], tests: &[], others: None },
    Layer { name: "client", ours: &["mqtt"], tests: &[], others: None },
    Layer { name: "bridge", ours: &["client"], tests: &[], others: None },
    Layer { name: "connections", ours: &[], tests: &[], others: Some(&["tokio"]) },
    Layer {
        name: "hub",
        ours: &["units", "panics", "random", "client", "connections", "context", "bus"],
        tests: &[],
        others: None,
    },
    Layer { name: "visitor", ours: &[], tests: &[], others: Some(&["tokio", "thiserror"]) },
    Layer { name: "http", ours: &["client", "units", "connections", "visitor"], tests: &[], others: None },
    Layer { name: "coap", ours: &["client", "visitor"], tests: &[], others: None },
    Layer {
        name: "node",
        ours: &["mqtt", "engine", "store"],
        tests: &["random", "client", "mirror", "bus"],
        others: None,
    },
    Layer { name: "store", ours: &["random"], tests: &[], others: None },
    Layer { name: "auth", ours: &["panics"], tests: &[], others: None },
    Layer { name: "acl", ours: &["units", "mqtt"], tests: &[], others: None },
    Layer { name: "mosquitto-db", ours: &["mqtt", "engine"], tests: &[], others: Some(&["thiserror"]) },
    Layer { name: "conversion", ours: &[], tests: &[], others: Some(&[]) },
    Layer {
        name: "mosquitto-conf",
        ours: &["conversion"],
        tests: &[],
        others: Some(&["serde", "serde_json", "thiserror"]),
    },
    Layer {
        name: "foreign-conf",
        ours: &["conversion"],
        tests: &[],
        others: Some(&["data-encoding", "roxmltree", "serde_json", "thiserror"]),
    },
    Layer { name: "fleet", ours: &["random", "units", "admin"], tests: &[], others: None },
    Layer { name: "dns", ours: &["panics"], tests: &[], others: None },
    Layer { name: "bus", ours: &["panics"], tests: &["random"], others: None },
    Layer { name: "cluster", ours: &[], tests: &["random"], others: Some(&["serde", "serde_json", "thiserror"]) },
    Layer { name: "mirror", ours: &["store", "bus"], tests: &["random"], others: None },
    Layer { name: "meter", ours: &["mirror"], tests: &[], others: None },
    Layer { name: "context", ours: &["panics", "bus"], tests: &[], others: None },
    Layer { name: "console", ours: &["admin", "connections", "engine"], tests: &[], others: None },
    Layer { name: "conformance", ours: &["random", "mqtt"], tests: &[], others: None },
    Layer { name: "process", ours: &["terminal"], tests: &[], others: None },
    Layer { name: "logging", ours: &["panics", "terminal"], tests: &[], others: None },
    Layer { name: "certificates", ours: &[], tests: &[], others: None },
    Layer {
        name: "mqtt-cli",
        ours: &["random", "mqtt", "client", "terminal", "process", "certificates"],
        tests: &[],
        others: None,
    },
    Layer {
        name: "config",
        ours: &[
            "units",
            "mqtt",
            "engine",
            "node",
            "store",
            "bus",
            "auth",
            "acl",
            "cluster",
            "context",
            "client",
            "bridge",
            "hub",
            "process",
            "logging",
            "certificates",
            "mosquitto-conf",
            "mirror",
        ],
        tests: &[],
        others: None,
    },
    Layer { name: "admin-cli", ours: &["units", "admin", "terminal"], tests: &[], others: None },
    Layer {
        name: "fleet-cli",
        ours: &[
            "random",
            "units",
            "panics",
            "admin",
            "admin-cli",
            "client",
            "fleet",
            "dns",
            "logging",
            "process",
            "terminal",
        ],
        tests: &[],
        others: None,
    },
    Layer { name: "units", ours: &[], tests: &[], others: None },
    Layer { name: "random", ours: &[], tests: &[], others: Some(&[]) },
    Layer { name: "placement", ours: &["engine"], tests: &[], others: None },
    Layer {
        name: "identity",
        ours: &["context", "mirror", "store", "mqtt", "engine", "node", "auth", "acl", "config"],
        tests: &[],
        others: None,
    },
    Layer {
        name: "config-cli",
        ours: &[
            "admin",
            "auth",
            "config",
            "conversion",
            "engine",
            "foreign-conf",
            "identity",
            "mosquitto-conf",
            "terminal",
        ],
        tests: &[],
        others: None,
    },
    Layer {
        name: "access-cli",
        ours: &["acl", "auth", "mqtt", "certificates", "config", "config-cli", "identity", "terminal"],
        tests: &["client"],
        others: None,
    },
    Layer {
        name: "store-cli",
        ours: &["store", "engine", "node", "mosquitto-db", "meter", "identity", "config", "process", "terminal"],
        tests: &[],
        others: None,
    },
    Layer {
        name: "administration",
        ours: &["admin", "console", "panics", "engine", "node", "bus", "store", "meter", "config", "identity"],
        tests: &[],
        others: None,
    },
    Layer {
        name: "reload",
        ours: &["admin", "console", "acl", "engine", "node", "config", "identity", "logging"],
        tests: &[],
        others: None,
    },
    Layer {
        name: "gateway",
        ours: &[
            "administration",
            "console",
            "context",
            "bus",
            "engine",
            "mqtt",
            "node",
            "config",
            "config-cli",
            "process",
            "logging",
            "terminal",
        ],
        tests: &[],
        others: None,
    },
    Layer {
        name: "connectors",
        ours: &[
            "administration",
            "admin",
            "admin-cli",
            "console",
            "bridge",
            "hub",
            "engine",
            "mqtt",
            "node",
            "placement",
            "config",
            "config-cli",
            "process",
            "logging",
            "terminal",
        ],
        tests: &[],
        others: None,
    },
    Layer {
        name: "cluster-node",
        ours: &[
            "administration",
            "admin",
            "console",
            "bus",
            "cluster",
            "config",
            "context",
            "engine",
            "identity",
            "mirror",
            "node",
            "placement",
            "process",
            "store",
        ],
        tests: &[],
        others: None,
    },
    Layer {
        name: "tidegate",
        ours: &[
            "cluster-node",
            "connectors",
            "gateway",
            "reload",
            "administration",
            "store-cli",
            "access-cli",
            "config-cli",
            "identity",
            "placement",
            "units",
            "fleet-cli",
            "admin-cli",
            "config",
            "mqtt-cli",
            "certificates",
            "logging",
            "process",
            "panics",
            "mqtt",
            "engine",
            "store",
            "bus",
            "mirror",
            "meter",
            "cluster",
            "auth",
            "acl",
            "node",
            "admin",
            "client",
            "console",
            "fleet",
            "dns",
            "context",
            "bridge",
            "hub",
            "http",
            "coap",
            "visitor",
            "terminal",
            "conversion",
            "foreign-conf",
            "mosquitto-conf",
            "mosquitto-db",
        ],
        tests: &["conformance"],
        others: None,
    },
    Layer { name: "torture", ours: &["random", "mqtt", "client"], tests: &[], others: None },
    Layer {
        name: "lab",
        ours: &["random", "units", "mqtt", "client", "coap", "conformance", "terminal"],
        tests: &[],
        others: None,
    },
    Layer { name: "terminal", ours: &[], tests: &[], others: Some(&["clap"]) },
    Layer { name: "tidy", ours: &[], tests: &[], others: None },
];

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
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = short(package["name"].as_str().unwrap_or_default());
        let manifest = format!("crates/{name}/Cargo.toml");
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == name) else {
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
    let allowed = test || layer.others.is_none_or(|names| names.contains(&full));
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
