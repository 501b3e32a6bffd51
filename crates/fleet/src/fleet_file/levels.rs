//! The sections [brokers] and [orchestrators].

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::SlaSection;
use crate::decide::PolicyName;
use crate::level::Level;
use crate::load::SignalSettings;
use crate::manage::{LevelSettings, Victim};
use crate::provider::attached::Attached;
use crate::provider::process::{Hosts, ListenRange, Template, refuse_relay};
use tidegate_document::Keys;

/// The settings of a section.
pub(super) struct LevelSection {
    pub(super) settings: LevelSettings,
    pub(super) policy: Option<PolicyName>,
    pub(super) signals: Option<SignalSettings>,
    pub(super) place: ListenRange,
    pub(super) routing: String,
    pub(super) admin_token: Option<PathBuf>,
    pub(super) attached: Vec<Attached>,
}

/// How orchestrators choose a broker.
const ROUTING: &[(&str, &str)] =
    &[("round-robin", "round-robin"), ("topic-hash", "topic-hash"), ("least-loaded", "least-loaded")];

impl LevelSection {
    /// The settings if the file has no such section.
    pub(super) fn of(level: Level, sla: &SlaSection) -> Self {
        let bounds = sla.sla.bounds(level);
        let template = match level {
            Level::Broker => "tidegate",
            Level::Orchestrator => "orchestrator",
        };
        Self {
            settings: LevelSettings {
                initial: bounds.least(),
                most: bounds.most(),
                least: bounds.least(),
                cores: 1.0,
                templates: vec![(template.to_owned(), 1)],
                victim: Victim::LastAdded,
                stack: None,
                decided_elsewhere: false,
            },
            policy: None,
            signals: None,
            place: ListenRange::default(),
            routing: "topic-hash".to_owned(),
            admin_token: None,
            attached: Vec::new(),
        }
    }
}

pub(super) fn read(
    level: Level,
    sla: &SlaSection,
    templates: &BTreeMap<String, Template>,
    keys: &mut Keys<'_>,
) -> Option<LevelSection> {
    let mut section = LevelSection::of(level, sla);
    let settings = &mut section.settings;
    let range = u64::from(settings.least)..=u64::from(settings.most);
    if let Some(initial) = keys.number("initial", range) {
        settings.initial = u32::try_from(initial).ok()?;
    }
    settings.cores = keys.fraction("cpu", 0.01..=1024.0).unwrap_or(settings.cores);
    let victims = [("last-added", Victim::LastAdded), ("least-loaded", Victim::LeastLoaded)];
    settings.victim = keys.word("scale_in", &victims).unwrap_or_default();
    if let Some(weights) = weights(keys) {
        check_templates(level, &weights, templates, keys);
        settings.templates = weights;
    }
    let policies: Vec<(&str, PolicyName)> = PolicyName::ALL.iter().map(|policy| (policy.name(), *policy)).collect();
    section.policy = keys.word("policy", &policies);
    section.signals = keys.table("signals", |keys| Some(super::policy::signals(Some(level), keys)));
    read_host(&mut section, keys);
    if let Some(text) = keys.text("ports") {
        match ports(&text) {
            Ok(ports) => section.place.ports = ports,
            Err(problem) => {
                let problem = format!("must be FIRST-LAST with FIRST <= LAST: {problem}");
                keys.refuse("ports", &problem, "write, for example, ports = \"21000-21999\"");
            }
        }
    }
    if level == Level::Orchestrator {
        section.routing = keys.word("routing", ROUTING).map_or(section.routing, str::to_owned);
        section.admin_token = keys.text("admin_token_file").map(PathBuf::from);
    }
    section.attached = keys.tables("attached", |keys| attached(level, keys));
    check_apart(&section.attached, keys);
    check_ports(&section, sla.sla.most_of(level), templates, keys);
    Some(section)
}

/// A range of ports is large enough for the largest number of processes at one address. Attached members count for the
/// bounds of the level, and take no port.
fn check_ports(section: &LevelSection, most: u32, templates: &BTreeMap<String, Template>, keys: &mut Keys<'_>) {
    if !keys.has("ports") {
        return;
    }
    let used = section.settings.templates.iter().filter_map(|(name, _)| templates.get(name));
    let of_process = used.map(|template| template.ports.len()).min().unwrap_or_default();
    let attached = u32::try_from(section.attached.len()).unwrap_or(u32::MAX);
    let started = most.saturating_sub(attached).max(1);
    let processes = if section.place.hosts.limit().is_some() { 1 } else { started };
    let needed = of_process.saturating_mul(usize::try_from(processes).unwrap_or(usize::MAX));
    let ports = section.place.ports.len();
    if ports < needed {
        let problem = format!("has {ports} ports, and as many processes as `max` allows at one address need {needed}");
        keys.refuse("ports", &problem, "widen the range, or lower `max` in `[sla]`");
    }
}

/// `host`: a name or an address, or a range with an address for each process.
fn read_host(section: &mut LevelSection, keys: &mut Keys<'_>) {
    let Some(text) = keys.text("host") else { return };
    match text.parse::<Hosts>() {
        Ok(hosts) if hosts.limit().is_some_and(|limit| limit < section.settings.most) => {
            let problem = format!("has fewer addresses than the most members of the level, {}", section.settings.most);
            keys.refuse("host", &problem, "widen the range, or lower `max` in `[sla]`");
        }
        Ok(hosts) => section.place.hosts = hosts,
        Err(error) => keys.refuse("host", &error.to_string(), "write, for example, host = \"127.0.0.2-127.0.0.9\""),
    }
}

/// Levels whose ranges overlap have one address for each process of both.
pub(super) fn check_hosts(brokers: &LevelSection, orchestrators: &LevelSection, keys: &mut Keys<'_>) {
    let most = brokers.settings.most.saturating_add(orchestrators.settings.most);
    let limit = brokers.place.hosts.limit_with(&orchestrators.place.hosts);
    if let Some(limit) = limit.filter(|limit| *limit < most) {
        let problem = format!(
            "`host` overlaps that of brokers, and both together have {limit} addresses for at most {most} members"
        );
        keys.refuse("orchestrators", &problem, "write ranges that do not overlap, or widen them");
    }
}

/// `template = "a"`, or `templates = { a = 2, b = 1 }`.
fn weights(keys: &mut Keys<'_>) -> Option<Vec<(String, u32)>> {
    if let Some(template) = keys.text("template") {
        return Some(vec![(template, 1)]);
    }
    let weights = keys.table("templates", |keys| {
        let names = keys.names();
        let weight = |name: String| {
            let weight = keys.number(&name, 1..=1000)?;
            Some((name, u32::try_from(weight).ok()?))
        };
        Some(names.into_iter().filter_map(weight).collect::<Vec<_>>())
    });
    if weights.as_ref().is_some_and(Vec::is_empty) {
        keys.refuse(
            "templates",
            "names no template",
            "write, for example, templates = { mosquitto = 1, rabbitmq = 1 }",
        );
    }
    weights
}

fn check_templates(
    level: Level,
    weights: &[(String, u32)],
    templates: &BTreeMap<String, Template>,
    keys: &mut Keys<'_>,
) {
    let key = if keys.has("template") { "template" } else { "templates" };
    for (name, _) in weights {
        match templates.get(name) {
            Some(template) if template.level == level => {}
            Some(template) => {
                let problem = format!("names `{name}`, which makes a {}", template.level);
                keys.refuse(key, &problem, &format!("name one that makes a {level}"));
            }
            None => {
                let of_level = templates.values().filter(|template| template.level == level);
                let known: Vec<&str> = of_level.map(|template| template.name.as_str()).collect();
                let hint = format!("known: {}; or describe it in [templates.{name}]", known.join(", "));
                keys.refuse(key, &format!("names the unknown template `{name}`"), &hint);
            }
        }
    }
}

/// Why a text is no range of ports.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum PortRangeError {
    /// It is not two ports.
    #[error("{0:?} has no `-`")]
    NoDash(String),
    /// One of them is no port.
    #[error("{0:?} is no port from 1 to 65535")]
    Port(String),
    /// The first one is larger than the last one.
    #[error("{0} comes after {1}")]
    Order(u16, u16),
}

fn ports(text: &str) -> Result<RangeInclusive<u16>, PortRangeError> {
    let (first, last) = text.split_once('-').ok_or_else(|| PortRangeError::NoDash(text.to_owned()))?;
    let port = |text: &str| {
        let port = text.trim().parse::<u16>().ok().filter(|port| *port > 0);
        port.ok_or_else(|| PortRangeError::Port(text.to_owned()))
    };
    let (first, last) = (port(first)?, port(last)?);
    if first <= last { Ok(first..=last) } else { Err(PortRangeError::Order(first, last)) }
}

/// A resource that is attached twice would get its share twice.
fn check_apart(attached: &[Attached], keys: &mut Keys<'_>) {
    for (index, one) in attached.iter().enumerate() {
        let place = |it: &Attached| (it.mqtt.0.to_ascii_lowercase(), it.mqtt.1);
        let before = || attached.iter().take(index);
        if before().any(|other| other.name == one.name) {
            keys.refuse("attached", &format!("has two named `{}`", one.name), "give each a name of its own");
        } else if let Some(other) = before().find(|other| place(other) == place(one)) {
            let (host, port) = &one.mqtt;
            let problem = format!("has `{}` and `{}` both at mqtt://{host}:{port}", other.name, one.name);
            keys.refuse("attached", &problem, "attach each once");
        } else if before().any(|other| one.admin.is_some() && other.admin == one.admin) {
            keys.refuse("attached", &format!("has two with the admin address of `{}`", one.name), "attach each once");
        }
    }
}

fn attached(level: Level, keys: &mut Keys<'_>) -> Option<Attached> {
    let name = keys.need("name", "\"mosquitto-a\"", Keys::text);
    let address = keys.need("address", "\"mqtt://192.0.2.1:1883\"", Keys::text);
    let admin = match level {
        Level::Broker => None,
        Level::Orchestrator => Some(keys.need("admin", "\"http://127.0.0.1:18083\"", Keys::text)?),
    };
    refuse_relay(keys);
    let (name, address) = (name?, address?);
    let parsed = match name.parse() {
        Ok(name) => name,
        Err(error) => {
            keys.refuse("name", &format!("is wrong: {error}"), "write, for example, name = \"mosquitto-a\"");
            return None;
        }
    };
    let secure = level == Level::Broker && address.starts_with("mqtts://");
    let at = address.strip_prefix(if secure { "mqtts://" } else { "mqtt://" });
    let Some((host, port)) =
        at.and_then(|rest| rest.rsplit_once(':')).and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)))
    else {
        let hint = "write, for example, address = \"mqtt://192.0.2.1:1883\"; brokers may have mqtts:// for TLS";
        keys.refuse("address", "must be mqtt://HOST:PORT", hint);
        return None;
    };
    Some(Attached { name: parsed, level, mqtt: (host, port), secure, admin })
}

#[cfg(test)]
mod tests {
    use super::ports;

    #[test]
    fn an_invalid_range_of_ports_is_refused_with_the_fault() {
        assert_eq!(ports("1883 - 1890"), Ok(1883..=1890));
        let problems = [
            ("1883", "has no `-`"),
            ("1890-1883", "1890 comes after 1883"),
            ("0-5", "\"0\" is no port"),
            ("1-70000", "\"70000\" is no port from 1 to 65535"),
        ];
        for (text, problem) in problems {
            assert!(ports(text).is_err_and(|error| error.to_string().contains(problem)), "{text}");
        }
    }
}
