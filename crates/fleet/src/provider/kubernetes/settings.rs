//! The section `[kubernetes]` of a fleet file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::level::Level;
use crate::provider::process::{Login, login};
use tidegate_document::Keys;

/// The section `[kubernetes]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The namespace; `None` is that of the service account, or of the kubeconfig's context.
    pub namespace: Option<String>,
    /// The kubeconfig; `None` is the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; `None` is its current one.
    pub context: Option<String>,
    /// The suffix of service names, such as `cluster.local`.
    pub cluster_domain: String,
    /// The StatefulSets, by level.
    pub sets: BTreeMap<Level, SetSettings>,
}

/// The sections `[kubernetes.brokers]` and `[kubernetes.orchestrators]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSettings {
    /// The name of the StatefulSet; it is the template of its pods, too.
    pub stateful_set: String,
    /// The container whose CPU counts; `None` is the first one.
    pub container: Option<String>,
    /// The MQTT port of pods.
    pub port: u16,
    /// The port of the admin API of orchestrators.
    pub admin_port: Option<u16>,
    /// Whether another controller decides the number of pods.
    pub decided_elsewhere: bool,
    /// The login of the fleet at these brokers; `None` is anonymous.
    pub login: Option<Login>,
}

impl Settings {
    /// Reads the section.
    pub(crate) fn read(keys: &mut Keys<'_>) -> Self {
        let brokers = keys.table("brokers", |keys| SetSettings::read(Level::Broker, keys));
        let orchestrators = keys.table("orchestrators", |keys| SetSettings::read(Level::Orchestrator, keys));
        let sets = [(Level::Broker, brokers), (Level::Orchestrator, orchestrators)];
        let sets: BTreeMap<_, _> = sets.into_iter().filter_map(|(level, set)| Some((level, set?))).collect();
        if sets.is_empty() {
            let hint = "write [kubernetes.orchestrators] with stateful_set = \"tidegate-orchestrator\"";
            keys.refuse("brokers", "and `orchestrators` name no StatefulSet", hint);
        }
        Self {
            namespace: name("namespace", keys),
            kubeconfig: keys.text("kubeconfig").map(PathBuf::from),
            context: keys.text("context"),
            cluster_domain: name("cluster_domain", keys).unwrap_or_else(|| "cluster.local".to_owned()),
            sets,
        }
    }

    /// The same with files named relative to a directory.
    pub(crate) fn below(mut self, directory: &Path) -> Self {
        self.kubeconfig = self.kubeconfig.map(|file| directory.join(file));
        for login in self.sets.values_mut().filter_map(|set| set.login.as_mut()) {
            login.password_file = directory.join(&login.password_file);
        }
        self
    }
}

impl SetSettings {
    fn read(level: Level, keys: &mut Keys<'_>) -> Option<Self> {
        let example = format!("\"tidegate-{level}\"");
        let stateful_set = keys.need("stateful_set", &example, |keys, key| name(key, keys));
        let port = port("port", keys).unwrap_or(1883);
        let admin_port = match level {
            Level::Broker => None,
            Level::Orchestrator => Some(self::port("admin_port", keys).unwrap_or(18083)),
        };
        let login = match level {
            Level::Broker => keys.table("login", login),
            Level::Orchestrator => None,
        };
        let container = name("container", keys);
        let deciders = [("manager", false), ("other", true)];
        let decided_elsewhere = keys.word("scaled_by", &deciders).unwrap_or(false);
        Some(Self { stateful_set: stateful_set?, container, port, admin_port, decided_elsewhere, login })
    }
}

/// Names of Kubernetes become part of paths and host names.
fn name(key: &str, keys: &mut Keys<'_>) -> Option<String> {
    let text = keys.text(key)?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    if text.len() <= 253 && text.bytes().all(plain) {
        return Some(text);
    }
    keys.refuse(key, "is no name of Kubernetes", "write at most 253 of a-z, 0-9, `-` and `.`");
    None
}

fn port(key: &str, keys: &mut Keys<'_>) -> Option<u16> {
    keys.number(key, 1..=65_535).and_then(|port| u16::try_from(port).ok())
}
