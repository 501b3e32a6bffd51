//! A fleet by `tidegate up` whose orchestrators have a template of their own, with everything at once. Its broker is a
//! machine.

use super::member::Member;
use crate::machines::Cloud;
use crate::up::{Fleet, resolve};

/// The ports of an orchestrator beside those for MQTT and the admin API, by the schemes of their listeners.
const PORTS: [(&str, &str); 3] = [("tls", "mqtts://"), ("web", "ws://"), ("quic", "quic://")];

/// The fleet file: a broker on a machine, two orchestrators with this configuration, and a name for them.
pub(super) fn file(configuration: &str, bus: &str) -> String {
    format!(
        r#"[fleet]
name = "test"
interval = "200ms"
check = "50ms"
bus = "{bus}"
[sla]
brokers = {{ min = 1, max = 1 }}
orchestrators = {{ min = 2, max = 2 }}
[orchestrators]
template = "everything"
[machines]
allocate = ["sh", "cloud.sh", "allocate", "{{fleet}}", "{{name}}", "{{size}}"]
list = ["sh", "cloud.sh", "list", "{{fleet}}"]
release = ["sh", "cloud.sh", "release", "{{fleet}}", "{{name}}"]
[machines.brokers]
size = "small"
[dns]
name = "fleet.example"
listen = "127.0.0.1:0"
[templates.everything]
level = "orchestrator"
command = "{{exe}}"
args = [
  "orchestrator", "--config", "{{dir}}/member.toml", "--node", "{{name}}", "--admin", "{{host}}:{{port.admin}}",
  "--data", "{{dir}}/data", "--log", "warn", "--set", "cluster.lease=6s", "--set", "mirror.max_bytes=256MiB",
]
ports = ["mqtt", "admin", "tls", "web", "quic"]
address = "mqtt://{{host}}:{{port}}"
admin = "http://{{host}}:{{port.admin}}"
probe = {{ kind = "http", port = "admin", path = "/api/v1/cluster", timeout = "1s" }}
stop = {{ signal = "TERM", limit = "60s" }}
[templates.everything.files]
"member.toml" = """
{configuration}"""
[templates.everything.environment]
TIDEGATE__CLUSTER__BUS = "{{bus}}"
TIDEGATE__CLUSTER__SHARE = "when-asked"
TIDEGATE__CLUSTER__SETTLE = "0"
"#
    )
}

/// A fleet with a name server.
pub(super) struct Named {
    cloud: Cloud,
    fleet: Fleet,
    dns: String,
}

impl Drop for Named {
    /// The manager would make the machines again that the cloud removes.
    fn drop(&mut self) {
        self.fleet.end();
    }
}

impl Named {
    /// Starts the fleet of this file.
    pub(super) fn start(text: &str) -> Self {
        let mut fleet = Fleet::new();
        let cloud = Cloud::new(&fleet.folder);
        let file = fleet.folder.write("fleet.toml", text);
        let line = fleet.start(&["up", &file]);
        let dns = line.split_whitespace().find_map(|word| word.strip_prefix("dns=")).unwrap().to_owned();
        Self { cloud, fleet, dns }
    }

    /// The orchestrators, at the address that the name has, when all of them serve and this number was healed.
    pub(super) fn members(&self, healed: u64) -> Vec<Member> {
        self.fleet.status_when("healing", |status| status["totals"]["healed"] == healed);
        let status = self.fleet.sized(1, 2);
        let host = resolve(&self.dns).map(|byte| byte.to_string()).join(".");
        let directory = status["manager"]["directory"].as_str().unwrap();
        let resources = status["levels"]["orchestrator"]["resources"].as_array().unwrap();
        let member = |resource: &serde_json::Value| {
            let text = |key: &str| resource[key].as_str().unwrap();
            let file = format!("{directory}/resources/{}/member.toml", text("name"));
            let configuration = std::fs::read_to_string(file).unwrap();
            let others = PORTS.map(|(name, scheme)| listener(&configuration, name).replace("mqtt://", scheme));
            let addresses = [text("address").to_owned(), format!("admin={}", text("admin"))];
            let addresses: Vec<String> = addresses.into_iter().chain(others).collect();
            assert!(addresses.iter().all(|address| address.contains(&format!("//{host}:"))), "{addresses:?}");
            Member::of_another(resource["pid"].as_u64().unwrap(), &addresses)
        };
        resources.iter().map(member).collect()
    }

    /// The broker behind the orchestrators.
    pub(super) fn broker(&self) -> Member {
        let status = self.fleet.status();
        let broker = &status["levels"]["broker"]["resources"][0];
        assert_eq!((&broker["template"], &broker["pid"]), (&"machine".into(), &serde_json::Value::Null));
        let id = self.cloud.process_of(broker["name"].as_str().unwrap());
        Member::of_another(id, &[broker["address"].as_str().unwrap().to_owned()])
    }
}

/// The address of a listener of a configuration.
fn listener(configuration: &str, name: &str) -> String {
    let table: toml::Table = configuration.parse().unwrap();
    let listeners = table["listener"].as_array().unwrap();
    let found = listeners.iter().find(|listener| listener["name"].as_str() == Some(name)).unwrap();
    found["address"].as_str().unwrap().to_owned()
}
