//! The description of a kind of broker: its program, its files, its readiness, its stop.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use tidegate_document::FileText;

use super::PeerError;
use super::readiness::Kind;
use crate::span::Span;

/// The templates in the binary.
const SHIPPED: &[(&str, &str)] = &[
    ("aedes", include_str!("../../peers/aedes.toml")),
    ("artemis", include_str!("../../peers/artemis.toml")),
    ("gateways", include_str!("../../peers/gateways.toml")),
    ("gateways-kafka", include_str!("../../peers/gateways-kafka.toml")),
    ("gateways-nats", include_str!("../../peers/gateways-nats.toml")),
    ("gateways-managed", include_str!("../../peers/gateways-managed.toml")),
    ("gateways-managed-kafka", include_str!("../../peers/gateways-managed-kafka.toml")),
    ("gateways-unmanaged", include_str!("../../peers/gateways-unmanaged.toml")),
    ("hivemq", include_str!("../../peers/hivemq.toml")),
    ("kafka", include_str!("../../peers/kafka.toml")),
    ("libcoap", include_str!("../../peers/libcoap.toml")),
    ("mercure", include_str!("../../peers/mercure.toml")),
    ("mochi", include_str!("../../peers/mochi.toml")),
    ("mosquitto", include_str!("../../peers/mosquitto.toml")),
    ("mosquitto-poll", include_str!("../../peers/mosquitto-poll.toml")),
    ("nats", include_str!("../../peers/nats.toml")),
    ("nexus", include_str!("../../peers/nexus.toml")),
    ("qpid", include_str!("../../peers/qpid.toml")),
    ("rabbitmq", include_str!("../../peers/rabbitmq.toml")),
    ("rabbitmq-http", include_str!("../../peers/rabbitmq-http.toml")),
    ("rumqttd", include_str!("../../peers/rumqttd.toml")),
    ("tidegate", include_str!("../../peers/tidegate.toml")),
    ("tidegate-cluster-1", include_str!("../../peers/tidegate-cluster-1.toml")),
    ("tidegate-cluster-2", include_str!("../../peers/tidegate-cluster-2.toml")),
    ("tidegate-cluster-3", include_str!("../../peers/tidegate-cluster-3.toml")),
    ("tidegate-cluster-kafka-1", include_str!("../../peers/tidegate-cluster-kafka-1.toml")),
    ("tidegate-cluster-kafka-2", include_str!("../../peers/tidegate-cluster-kafka-2.toml")),
    ("tidegate-cluster-kafka-3", include_str!("../../peers/tidegate-cluster-kafka-3.toml")),
    ("tidegate-store", include_str!("../../peers/tidegate-store.toml")),
    ("tidegate-quic", include_str!("../../peers/tidegate-quic.toml")),
    ("tidegate-priority", include_str!("../../peers/tidegate-priority.toml")),
];

/// One kind of broker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// Its name: that of the file.
    #[serde(skip)]
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// Its programming language.
    pub language: String,
    /// Its protocols, such as `mqtt-3.1.1`.
    pub protocols: Vec<String>,
    /// Whether it brings messages to clients by their address (`ctx/to/node/...`).
    #[serde(default)]
    pub(super) addresses_nodes: bool,
    /// Notes about its results.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Names in `PATH` or paths of the program, with placeholders.
    pub(super) command: Vec<String>,
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    /// Files in its directory, by name.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    /// Names of the ports that it needs; the first one is also `{port}`.
    pub(super) ports: Vec<String>,
    /// The addresses for clients of each protocol, such as `mqtt` to `mqtt://{host}:{port}`.
    pub(super) addresses: BTreeMap<String, String>,
    /// One of these has to be there beside its program, which does not say so alone: files and directories, and programs
    /// in `PATH`.
    #[serde(default)]
    pub(super) installed: Vec<String>,
    /// Commands that run before it and have to end, such as a command that formats a directory.
    #[serde(default)]
    pub(super) prepare: Vec<Vec<String>>,
    pub(super) ready: Ready,
    #[serde(default)]
    pub(super) stop: StopHow,
    pub(super) version: Version,
    #[serde(default)]
    pub(super) install: Option<Install>,
}

/// Its readiness.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ready {
    pub(super) kind: Kind,
    /// The name of the port that is asked.
    pub(super) port: String,
    /// The readiness of further nodes, which is needed too.
    #[serde(default)]
    pub(super) also: Vec<String>,
    /// Time after which it is given up.
    pub(super) limit: Span,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StopHow {
    /// Time after the signal TERM until it is killed.
    pub(super) limit: Span,
}

impl Default for StopHow {
    fn default() -> Self {
        Self { limit: Span(std::time::Duration::from_secs(10)) }
    }
}

/// How its version is found.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Version {
    /// The version that the installation pins, where the program does not print one.
    #[serde(default)]
    pub(super) fixed: Option<String>,
    /// A command whose output has the version.
    #[serde(default)]
    pub(super) command: Vec<String>,
    /// The text before the version in that output.
    #[serde(default)]
    pub(super) after: String,
}

/// Its installation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Install {
    /// Programs that the steps need, and what to do when they are missing.
    #[serde(default)]
    pub(super) needs: Vec<String>,
    /// Files that the steps read, written to `{install}` first.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    /// Commands, run in `{install}` one after the other.
    #[serde(default)]
    pub(super) steps: Vec<Vec<String>>,
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    /// Said where there are no steps, or where something is missing.
    #[serde(default)]
    pub(super) hint: String,
}

impl Template {
    /// A warning about the figures of Tidegate where the lab was built without optimisations: the broker beside it is
    /// then of the same kind.
    pub fn slow_build(&self) -> Option<&'static str> {
        (self.is_tidegate() && cfg!(debug_assertions)).then_some(
            "Tidegate was built without optimisations and is several times slower than after `cargo build --release`: \
             do not compare its figures",
        )
    }

    /// True if the peer runs the broker that belongs to this program.
    fn is_tidegate(&self) -> bool {
        self.command.iter().any(|part| part.contains("{exe}") || part.contains("{lab}"))
    }

    /// The error if all alternatives of a requirement are missing, with the remedy.
    pub(super) fn missing(&self, alternatives: Vec<String>) -> PeerError {
        let is_manual = |install: &Install| install.steps.is_empty() && !install.hint.is_empty();
        let next = match self.install.as_ref().filter(|install| is_manual(install)) {
            Some(install) => install.hint.clone(),
            None if self.is_tidegate() => "`cargo build --release` builds it beside this program".to_owned(),
            None => format!("`tidegate lab peers install {}` installs it where it can", self.name),
        };
        PeerError::Missing { peer: self.name.clone(), alternatives, next }
    }

    /// The address for a load: the requested one, that of MQTT, or the only one. A
    /// broker may have one of its own for MQTT 5.
    pub fn address_for(&self, by: Option<&str>, v5: bool) -> &str {
        let wanted = by.or((v5 && self.addresses.contains_key("mqtt5")).then_some("mqtt5")).unwrap_or("mqtt");
        let known = self.addresses.get_key_value(wanted).or_else(|| self.addresses.first_key_value());
        known.map_or("mqtt", |(name, _)| name)
    }

    /// The scheme of one of its addresses.
    pub fn scheme_of(&self, address: &str) -> Option<&str> {
        self.addresses.get(address)?.split_once("://").map(|(scheme, _)| scheme)
    }

    fn parse(name: &str, text: &str, path: &str) -> Result<Self, PeerError> {
        let wrong = |message: String| PeerError::Template { path: path.to_owned(), message };
        let mut template: Self = FileText::new(path, text).deserialize().map_err(PeerError::Syntax)?;
        name.clone_into(&mut template.name);
        let mut asked = std::iter::once(&template.ready.port).chain(&template.ready.also);
        if let Some(unknown) = asked.find(|port| !template.ports.contains(port)) {
            return Err(wrong(format!("ready asks `{unknown}`, which ports does not name")));
        }
        if template.command.is_empty() {
            return Err(wrong("command names no program".to_owned()));
        }
        Ok(template)
    }
}

/// All templates by name.
#[derive(Clone, Debug)]
pub struct Catalogue {
    templates: BTreeMap<String, Template>,
}

impl Catalogue {
    /// Those in the binary.
    ///
    /// # Errors
    /// Never with the templates that are shipped: a test reads them all.
    pub fn shipped() -> Result<Self, PeerError> {
        let mut templates = BTreeMap::new();
        for (name, text) in SHIPPED {
            templates.insert((*name).to_owned(), Template::parse(name, text, &format!("peers/{name}.toml"))?);
        }
        Ok(Self { templates })
    }

    /// The templates in the binary, and the files `*.toml` of a directory, which replace templates with their name.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn with_directory(directory: Option<&Path>) -> Result<Self, PeerError> {
        let mut catalogue = Self::shipped()?;
        let Some(directory) = directory else { return Ok(catalogue) };
        let entries = fs::read_dir(directory).map_err(PeerError::io("read", directory))?;
        for entry in entries {
            let path = entry.map_err(PeerError::io("read", directory))?.path();
            let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let text = fs::read_to_string(&path).map_err(PeerError::io("read", &path))?;
            let template = Template::parse(name, &text, &path.display().to_string())?;
            catalogue.templates.insert(name.to_owned(), template);
        }
        Ok(catalogue)
    }

    /// One by name.
    ///
    /// # Errors
    /// If it does not exist; the error names all templates.
    pub fn get(&self, name: &str) -> Result<&Template, PeerError> {
        self.templates.get(name).ok_or_else(|| PeerError::Unknown {
            name: name.to_owned(),
            known: self.templates.keys().cloned().collect(),
        })
    }

    /// All of them, by name.
    pub fn all(&self) -> impl Iterator<Item = &Template> {
        self.templates.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_that_is_shipped_can_be_read() {
        let catalogue = Catalogue::shipped().unwrap();
        assert_eq!(catalogue.all().count(), SHIPPED.len());
        for template in catalogue.all() {
            assert!(!template.addresses.is_empty(), "{} has no address", template.name);
            let version = &template.version;
            assert!(version.fixed.is_some() == version.command.is_empty(), "{}: one way to its version", template.name);
        }
    }

    #[test]
    fn an_unoptimised_build_of_tidegate_is_warned_about() {
        let catalogue = Catalogue::shipped().unwrap();
        let told = |name: &str| catalogue.get(name).unwrap().slow_build().is_some();
        assert_eq!(
            ["tidegate", "gateways", "mosquitto"].map(told),
            [cfg!(debug_assertions), cfg!(debug_assertions), false]
        );
    }

    #[test]
    fn every_file_in_the_folder_is_shipped() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let files = fs::read_dir(folder)
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "toml"));
        assert_eq!(files.count(), SHIPPED.len());
    }

    #[test]
    fn a_key_that_is_unknown_is_refused_with_its_place() {
        let text = SHIPPED[0].1.replace("title =", "titel =");
        let error = Template::parse("x", &text, "x.toml").unwrap_err().to_string();
        let said = ["x.toml:1:1", "titel", "did you mean `title`?"];
        assert!(said.iter().all(|part| error.contains(part)), "{error}");
    }
}
