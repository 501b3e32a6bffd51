//! The configuration and the environment of a pod, as the Helm chart renders them, with the paths and ports of a test.

use std::path::PathBuf;
use std::process::Command;

use crate::broker::Folder;

/// The paths of a pod's volumes, and the files of the test in their place.
const VOLUMES: [(&str, &str); 6] = [
    ("/etc/tidegate/tls/tls.crt", "certs/server.pem"),
    ("/etc/tidegate/tls/tls.key", "certs/server.key"),
    ("/etc/tidegate/users/passwords", "users"),
    ("/etc/tidegate/admin/token", TOKEN),
    ("/etc/tidegate/cluster/secret", "secret"),
    ("/var/lib/tidegate", "data"),
];
/// The file with the token of the admin API.
pub(super) const TOKEN: &str = "token";

/// The chart's output for the orchestrators of a fleet.
pub(super) struct Rendered {
    /// The text of `tidegate.toml`.
    configuration: String,
    /// The variables of the container.
    environment: Vec<(String, String)>,
}

impl Rendered {
    /// Renders it with all values that concern orchestrators: these rules, the address of a bus, and more configuration.
    pub(super) fn new(folder: &Folder, bus: &str, rules: &str, more: &str) -> Self {
        let variable = |name: &str, value: &str| serde_json::json!({ "name": name, "value": value });
        let values = serde_json::json!({
            "mode": "fleet",
            "websocket": true,
            "tls": { "existingSecret": "certificate", "keepPlain": true },
            "auth": { "existingSecret": "passwords" },
            "rules": rules,
            "bus": { "address": bus },
            "cluster": { "networks": ["127.0.0.0/8"] },
            "fleet": { "orchestrators": { "min": 2, "max": 2 } },
            "env": [
                variable("TIDEGATE__CLUSTER__LEASE", "2s"),
                variable("TIDEGATE__CLUSTER__SETTLE", "0"),
                variable("TIDEGATE__MIRROR__MAX_BYTES", "256MiB"),
            ],
            "config": more,
        });
        let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let helm = std::env::var_os("HELM").map_or_else(|| root.join("target/servers/bin/helm"), PathBuf::from);
        let values = folder.write("values.json", &values.to_string());
        let mut command = Command::new(helm);
        command.args(["template", "sea", "--values", &values]).arg(root.join("deploy/helm/tidegate"));
        let ended = command.output().expect("helm, which `./test` installs");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        let text = String::from_utf8(ended.stdout).unwrap();
        let set = document(&text, "StatefulSet", "sea-tidegate");
        let map = document(&text, "ConfigMap", "sea-tidegate");
        Self { configuration: block(map, "tidegate.toml: |"), environment: environment(set) }
    }

    /// The configuration of a member with a data directory of this name, whose admin API has this port.
    pub(super) fn configuration(&self, folder: &Folder, data: &str, admin: u16) -> String {
        let here = |text: String, (there, file): (&str, &str)| {
            let file = if file == "data" { data } else { file };
            text.replace(there, &folder.file(file))
        };
        let text = VOLUMES.into_iter().fold(self.configuration.clone(), here);
        on_loopback(&text.replace("0.0.0.0:18083", &format!("127.0.0.1:{admin}")), "0.0.0.0:")
    }

    /// The environment of a member of this name.
    pub(super) fn environment(&self, name: &str) -> Vec<(String, String)> {
        let here = |(variable, value): &(String, String)| {
            let value = value.replace("$(POD_NAME)", name).replace("$(POD_IP)", "127.0.0.1");
            let any_port = if value.starts_with("127.0.0.1:") { "127.0.0.1:0".to_owned() } else { value };
            (variable.clone(), any_port)
        };
        self.environment.iter().map(here).collect()
    }
}

/// The text with any free port of this machine for each address behind this prefix.
fn on_loopback(text: &str, prefix: &str) -> String {
    let mut parts = text.split(prefix);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "127.0.0.1:0" + part.trim_start_matches(|it: char| it.is_ascii_digit()))
}

/// A document by its kind and name.
fn document<'a>(text: &'a str, kind: &str, name: &str) -> &'a str {
    let is_it = |document: &&str| {
        document.contains(&format!("\nkind: {kind}\n")) && document.contains(&format!("\n  name: {name}\n"))
    };
    text.split("\n---\n").find(is_it).unwrap_or_else(|| panic!("no {kind} {name}: {text}"))
}

/// The text of a literal block below this key.
fn block(document: &str, key: &str) -> String {
    let mut lines = document.lines().skip_while(|line| line.trim() != key);
    let indent = lines.next().unwrap_or_else(|| panic!("no {key}: {document}")).find(key).unwrap() + 2;
    let lines = lines.take_while(|line| line.trim().is_empty() || line.len() - line.trim_start().len() >= indent);
    lines.map(|line| line.get(indent..).unwrap_or_default().to_owned() + "\n").collect()
}

/// The variables of a container that have a value.
fn environment(document: &str) -> Vec<(String, String)> {
    let lines = document.lines().map(str::trim).skip_while(|line| *line != "env:").take_while(|line| *line != "ports:");
    let (mut variables, mut last) = (Vec::new(), String::new());
    for line in lines {
        let line = line.trim_start_matches("- ").trim_matches(['{', '}']);
        let (name, value) = line.split_once(", value: ").unwrap_or((line, ""));
        let name = name.strip_prefix("name: ");
        let value = line.strip_prefix("value: ").unwrap_or(value).trim_matches('"');
        last = name.map_or(last, str::to_owned);
        if !value.is_empty() {
            variables.push((last.clone(), value.to_owned()));
        }
    }
    variables
}
