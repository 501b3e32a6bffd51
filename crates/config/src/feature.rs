//! Parts of the configuration that need a feature of Cargo, for a program without it.

use tidegate_bus::{Address, AddressError};
use tidegate_node::ListenAddress;

use crate::Config;
use crate::address::AdminAddress;
use crate::finding::Findings;
use crate::origins::Origins;
use crate::path::KeyPath;
use crate::source::Source;
use crate::value::Problem;

/// The features that parts of the configuration need, each with true if this program was built with it.
const FEATURES: [(&str, bool); 9] = [
    ("admin", cfg!(feature = "admin")),
    ("cluster", cfg!(feature = "cluster")),
    ("coap", cfg!(feature = "coap")),
    ("dtls", cfg!(feature = "dtls")),
    ("http", cfg!(feature = "http")),
    ("mobile", cfg!(feature = "mobile")),
    ("nats", cfg!(feature = "nats")),
    ("pipelines", cfg!(feature = "pipelines")),
    ("quic", cfg!(feature = "quic")),
];

/// True if this program was built with the feature of this name.
pub(crate) fn is_built(feature: &str) -> bool {
    FEATURES.contains(&(feature, true))
}

/// The problem of the key or section `part`: it needs a feature, and this program was built without that feature.
fn not_built(part: &str, feature: &str) -> Problem {
    Problem::new(format!("{part} needs the feature `{feature}`, and this program was built without it"))
        .hint(format!("take the full program, or build this one with `--features {feature}`"))
}

/// The problem of a bus whose address is wrong.
pub(crate) fn bus_problem(address: &Result<Address, AddressError>) -> Option<Problem> {
    address.as_ref().err().map(|error| Problem::new(error.to_string()))
}

/// Refuses each listener and section whose feature this program lacks; `has` is true for the features that it has.
pub(crate) fn check(config: &Config, has: fn(&str) -> bool, findings: &mut Findings) {
    let Config { listeners, admin, origins, .. } = config;
    for (index, listener) in listeners.iter().enumerate() {
        if let Some((part, feature)) = missing_for(&listener.address, has) {
            let path = KeyPath { section: "listener", index, key: "address" };
            findings.push(not_built(part, feature), origins.source(&path).clone());
        }
    }
    if !has("admin") && admin.address != AdminAddress::Off {
        findings.push(not_built("the admin listener", "admin"), origins.source_of("admin", "address").clone());
    }
    let sections = [
        ("cluster", "name", "a node of a cluster", "cluster"),
        ("cluster", "bus", "a node of a cluster", "cluster"),
        ("mirror", "bus", "a store on a bus", "cluster"),
        ("context", "enabled", "a gateway of mobile nodes", "mobile"),
        ("hub", "bus", "hub.bus", "pipelines"),
    ];
    for (section, key, part, feature) in sections {
        let source = origins.source_of(section, key);
        if !has(feature) && *source != Source::Default {
            findings.push(not_built(part, feature), source.clone());
        }
    }
    if !has("nats") {
        let Config { cluster, mirror, context, .. } = config;
        refuse_nats([("cluster", &cluster.bus), ("mirror", &mirror.bus), ("context", &context.bus)], origins, findings);
    }
    if !has("pipelines") {
        let Config { pipelines, hub_sources, sinks, .. } = config;
        let counts = [("pipeline", pipelines.len()), ("source", hub_sources.len()), ("sink", sinks.len())];
        refuse_pipelines(counts, origins, findings);
    }
}

/// Refuses each bus on NATS, of these sections.
fn refuse_nats(buses: [(&'static str, &Option<String>); 3], origins: &Origins, findings: &mut Findings) {
    for (section, bus) in buses {
        if let Some(Ok(Address::Nats { .. })) = bus.as_deref().map(str::parse) {
            findings.push(not_built("a bus on NATS", "nats"), origins.source_of(section, "bus").clone());
        }
    }
}

/// Refuses the sections of the hub; `counts` has the number of each.
fn refuse_pipelines(counts: [(&'static str, usize); 3], origins: &Origins, findings: &mut Findings) {
    for (section, count) in counts {
        for index in 0..count {
            let source = origins.source(&KeyPath { section, index, key: "name" }).clone();
            findings.push(not_built(&format!("[[{section}]]"), "pipelines"), source);
        }
    }
}

/// The transport and the feature that a listener needs and this program does not have.
fn missing_for(address: &ListenAddress, has: fn(&str) -> bool) -> Option<(&'static str, &'static str)> {
    let needed: &[_] = match address {
        ListenAddress::Http(_) | ListenAddress::Https(_) => &[("a listener for HTTP", "http")],
        ListenAddress::Coap(_) => &[("a listener for CoAP", "coap")],
        ListenAddress::Coaps(_) => &[("a listener for CoAP", "coap"), ("a listener for CoAP over DTLS", "dtls")],
        ListenAddress::Quic(_) => &[("a listener for QUIC", "quic")],
        _ => &[],
    };
    needed.iter().copied().find(|(_, feature)| !has(feature))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::loading::Loading;
    use crate::overrides::Flags;
    use crate::source::FileText;

    /// The findings of a program with none of the features but these.
    fn refused(text: &str, has: fn(&str) -> bool) -> String {
        let file = FileText::new("tidegate.toml", text);
        let (config, mut findings) = Loading::new(Some(file)).read(&[], &Flags::default());
        assert!(findings.is_empty(), "{text}: {findings}");
        check(&config, has, &mut findings);
        findings.to_string()
    }

    #[test]
    fn a_lean_program_refuses_each_part_that_it_lacks() {
        for (text, feature) in [
            ("[[listener]]\naddress = 'http://127.0.0.1:1'", "http"),
            ("[[listener]]\naddress = 'coap://127.0.0.1:1'", "coap"),
            ("[[listener]]\naddress = 'quic://127.0.0.1:1'", "quic"),
            ("[cluster]\nname = 'a'\nbus = 'embedded:///tmp/x'", "cluster"),
            ("[mirror]\nname = 'a'\nbus = 'embedded:///tmp/x'", "cluster"),
            ("[context]\nenabled = true", "mobile"),
            ("[admin]\naddress = '127.0.0.1:1'", "admin"),
        ] {
            let found = refused(text, |_| false);
            let said = format!("needs the feature `{feature}`, and this program was built without it");
            assert!(found.contains(&said), "{text}: {found}");
        }
    }

    #[test]
    fn dtls_is_a_feature_beside_coap() {
        let found = refused("[[listener]]\naddress = 'coaps://127.0.0.1:1'", |feature| feature != "dtls");
        assert!(found.contains("a listener for CoAP over DTLS needs the feature `dtls`"), "{found}");
    }

    #[test]
    fn a_lean_program_refuses_each_bus_on_nats() {
        for section in ["[cluster]\nname = 'a'", "[mirror]\nname = 'a'", "[context]"] {
            let found = refused(&format!("{section}\nbus = 'nats://h'\n"), |feature| feature != "nats");
            assert!(found.contains("needs the feature `nats`"), "{section}: {found}");
        }
    }

    #[test]
    fn a_lean_program_refuses_each_section_of_the_hub() {
        let text =
            "[[pipeline]]\nname = 'p'\nfrom = ['a']\nto = ['s']\n[[sink]]\nname = 's'\n[hub]\nbus = 'nats://h'\n";
        let found = refused(text, |feature| feature != "pipelines");
        for (key, line) in [("[[pipeline]]", 2), ("[[sink]]", 6), ("hub.bus", 8)] {
            let said = format!("{key} needs the feature `pipelines`, and this program was built without it");
            assert!(found.contains(&said) && found.contains(&format!("tidegate.toml:{line}:")), "{found}");
        }
    }
}
