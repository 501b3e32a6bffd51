//! Errors in bridges before anything is started.

use std::net::IpAddr;

use tidegate_node::HostPort;

use super::settings::BridgeConfigError;
use crate::finding::Findings;
use crate::origins::Origins;
use crate::path::KeyPath;
use crate::sections::Listener;
use crate::sections::bridge::Bridge;
use crate::value::Problem;

/// Bridges that a broker may have.
const MAX_BRIDGES: usize = 64;

/// Checks the keys of bridges together.
pub fn check(bridges: &[Bridge], listeners: &[Listener], origins: &Origins, findings: &mut Findings) {
    for (index, bridge) in bridges.iter().enumerate() {
        let before = bridges.get(..index).unwrap_or_default();
        for (key, problem) in problems(bridge, before, listeners) {
            let path = KeyPath { section: "bridge", index, key };
            findings.push(problem, origins.source(&path).clone());
        }
    }
}

/// Whether the files that bridges name can be used.
pub fn check_files(bridges: &[Bridge]) -> impl Iterator<Item = Result<(), BridgeConfigError>> {
    bridges.iter().map(Bridge::check_files)
}

/// The error in a bridge, and its key; the bridges `before` it are valid.
fn problems(bridge: &Bridge, before: &[Bridge], listeners: &[Listener]) -> Vec<(&'static str, Problem)> {
    let mut found = Vec::new();
    if bridge.name.is_empty() {
        let problem = Problem::new("a bridge without a name");
        found.push(("name", problem.hint("give it one: name = \"cloud\"")));
    }
    if before.iter().any(|other| other.name == bridge.name) {
        found.push(("name", Problem::new(format!("two bridges have the name `{}`", bridge.name))));
    }
    if before.len() == MAX_BRIDGES {
        found.push(("name", Problem::new(format!("a broker has at most {MAX_BRIDGES} bridges"))));
    }
    if let Err(error) = bridge.place() {
        found.push(("broker", Problem::new(error.to_string())));
    }
    if let Err(error) = bridge.routes() {
        found.push(("topics", Problem::new(error.to_string())));
    }
    if let Err(error) = bridge.listener_of(listeners) {
        found.push(("local_listener", Problem::new(error.to_string())));
    }
    found.extend(loops(bridge, before, listeners).map(|problem| ("topics", problem)));
    for (one, other, name, missing) in [
        (&bridge.certificate, &bridge.key, "certificate", "key"),
        (&bridge.key, &bridge.certificate, "key", "certificate"),
    ] {
        let given = |path: &Option<String>| path.as_ref().is_some_and(|path| !path.is_empty());
        if given(one) && !given(other) {
            found.push((
                name,
                Problem::new(format!("`bridge.{name}` is of use only with `bridge.{missing}`: set both")),
            ));
        }
    }
    found
}

/// Messages that would go round, as far as the configuration alone shows it.
fn loops(bridge: &Bridge, before: &[Bridge], listeners: &[Listener]) -> Option<Problem> {
    let (Ok(place), Ok(routes)) = (bridge.place(), bridge.routes()) else { return None };
    let hint = "use prefixes or topics that differ";
    if let Some(line) = routes.keeps_names().filter(|_| leads_here(&place.at, listeners)) {
        let said =
            format!("the bridge leads to this broker itself, and `{line}` carries messages to names that it carries");
        return Some(Problem::new(said).hint(hint));
    }
    for other in before {
        let (Ok(its_place), Ok(its_routes)) = (other.place(), other.routes()) else { continue };
        let pair = routes.loop_with(&its_routes).or_else(|| its_routes.loop_with(&routes));
        if let Some((out, back)) = pair.filter(|_| its_place.at == place.at) {
            let said = format!(
                "messages go round: the bridge `{}` leads to the same broker, and of `{out}` and `{back}` one brings back what the other carries away",
                other.name
            );
            return Some(Problem::new(said).hint(hint));
        }
    }
    None
}

/// Whether an address is that of a listener of this broker, by its text.
fn leads_here(at: &HostPort, listeners: &[Listener]) -> bool {
    let address = at.host.parse::<IpAddr>();
    let is_loopback = at.host == "localhost" || address.as_ref().is_ok_and(IpAddr::is_loopback);
    let is_it = |listener: &HostPort| {
        let listens_at = listener.host.parse::<IpAddr>();
        let everywhere = listens_at.as_ref().is_ok_and(IpAddr::is_unspecified);
        let at_loopback = listener.host == "localhost" || listens_at.as_ref().is_ok_and(IpAddr::is_loopback);
        listener.port == at.port && (listener.host == at.host || is_loopback && (everywhere || at_loopback))
    };
    listeners.iter().filter_map(|listener| listener.address.host_port()).any(is_it)
}

#[cfg(test)]
mod tests {
    use crate::source::FileText;
    use crate::{Config, Inputs};

    fn findings(text: &str) -> String {
        let inputs = Inputs { file: Some(FileText::new("tidegate.toml", text)), ..Inputs::default() };
        Config::load(inputs).map_or_else(|findings| findings.to_string(), |_| String::new())
    }

    #[test]
    fn a_bridge_needs_a_name_a_broker_and_topics() {
        let right = "[[bridge]]\nname = \"a\"\nbroker = \"mqtt://h:1\"\ntopics = \"t/#\"\n";
        assert_eq!(findings(right), "");
        let second = right.replace("\"a\"", "\"b\"");
        assert_eq!(findings(&format!("{right}{}", second.replace("t/#", "t/# in 0 back/"))), "", "under another name");
        assert_eq!(findings(&format!("{right}{}", second.replace("h:1", "i:1").replace("t/#", "t/# in"))), "");
        assert_eq!(findings(&right.replace("h:1", "localhost:1883").replace("t/#", "t/# out 0 here/ there/")), "");
        for (text, part) in [
            ("[[bridge]]\nbroker = \"mqtt://h:1\"\ntopics = \"t/#\"\n", "a bridge without a name"),
            ("[[bridge]]\nname = \"a\"\ntopics = \"t/#\"\n", "no address of a broker"),
            ("[[bridge]]\nname = \"a\"\nbroker = \"ws://h:1\"\ntopics = \"t/#\"\n", "mqtt:// or mqtts://"),
            ("[[bridge]]\nname = \"a\"\nbroker = \"mqtt://h:1\"\n", "needs topics"),
            ("[[bridge]]\nname = \"a\"\nbroker = \"mqtt://h:1\"\ntopics = \"t up\"\n", "write out, in or both"),
            (&format!("{right}local_listener = \"web\"\n"), "no listener `web`"),
            (&format!("{right}key = \"k\"\n"), "only with `bridge.certificate`"),
            (&right.replace("mqtt://h:1", "mqtt://localhost:1883"), "leads to this broker itself"),
            (&format!("{right}{}", right.replace("\"a\"", "\"b\"").replace("t/#", "t/a in")), "messages go round"),
            (&format!("{right}{right}"), "two bridges have the name `a`"),
        ] {
            let found = findings(text);
            assert!(found.contains(part), "{text}: {found}");
        }
    }
}
