//! Parts of the configuration that need a feature of Cargo, for a program without it.

use tidegate_bus::{Address, AddressError};
use tidegate_node::ListenAddress;

use crate::address::AdminAddress;
use crate::finding::Findings;
use crate::origins::Origins;
use crate::path::KeyPath;
use crate::sections::{Admin, Listener};
use crate::source::Source;
use crate::value::Problem;

/// The problem of the key or section `part`: it needs a feature, and this program was built without that feature.
pub(crate) fn not_built(part: &str, feature: &str) -> Problem {
    Problem::new(format!("{part} needs the feature `{feature}`, and this program was built without it"))
        .hint(format!("take the full program, or build this one with `--features {feature}`"))
}

/// The problem of a bus: its address is wrong, or this program has no client for it.
pub(crate) fn bus_problem(address: &Result<Address, AddressError>) -> Option<Problem> {
    match address {
        Err(error) => Some(Problem::new(error.to_string())),
        Ok(Address::Nats { .. }) if !cfg!(feature = "nats") => Some(not_built("a bus on NATS", "nats")),
        Ok(_) => None,
    }
}

/// Refuses each listener and section whose feature this program lacks.
pub(crate) fn check(listeners: &[Listener], admin: &Admin, origins: &Origins, findings: &mut Findings) {
    for (index, listener) in listeners.iter().enumerate() {
        if let Some((part, feature)) = missing_for(&listener.address) {
            let path = KeyPath { section: "listener", index, key: "address" };
            findings.push(not_built(part, feature), origins.source(&path).clone());
        }
    }
    if !cfg!(feature = "admin") && admin.address != AdminAddress::Off {
        findings.push(not_built("the admin listener", "admin"), origins.source_of("admin", "address").clone());
    }
    let sections = [
        ("cluster", "name", "a node of a cluster", "cluster", cfg!(feature = "cluster")),
        ("cluster", "bus", "a node of a cluster", "cluster", cfg!(feature = "cluster")),
        ("mirror", "bus", "a store on a bus", "cluster", cfg!(feature = "cluster")),
        ("context", "enabled", "a gateway of mobile nodes", "mobile", cfg!(feature = "mobile")),
    ];
    for (section, key, part, feature, is_built) in sections {
        let source = origins.source_of(section, key);
        if !is_built && *source != Source::Default {
            findings.push(not_built(part, feature), source.clone());
        }
    }
}

/// The transport and the feature that a listener needs and this program does not have.
fn missing_for(address: &ListenAddress) -> Option<(&'static str, &'static str)> {
    match address {
        ListenAddress::Http(_) | ListenAddress::Https(_) if !cfg!(feature = "http") => {
            Some(("a listener for HTTP", "http"))
        }
        ListenAddress::Coap(_) | ListenAddress::Coaps(_) if !cfg!(feature = "coap") => {
            Some(("a listener for CoAP", "coap"))
        }
        ListenAddress::Coaps(_) if !cfg!(feature = "dtls") => Some(("a listener for CoAP over DTLS", "dtls")),
        ListenAddress::Quic(_) if !cfg!(feature = "quic") => Some(("a listener for QUIC", "quic")),
        _ => None,
    }
}

#[cfg(all(
    test,
    not(any(feature = "http", feature = "coap", feature = "quic", feature = "cluster", feature = "mobile"))
))]
mod lean_tests {
    use crate::source::FileText;
    use crate::{Config, Inputs};

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
            let file = FileText::new("tidegate.toml", text);
            let found = Config::load(Inputs { file: Some(file), ..Inputs::default() }).unwrap_err().to_string();
            let said = format!("needs the feature `{feature}`, and this program was built without it");
            assert!(found.contains(&said), "{text}: {found}");
        }
    }
}

#[cfg(all(test, not(feature = "nats")))]
mod tests {
    use crate::source::FileText;
    use crate::{Config, Inputs};

    #[test]
    fn a_lean_program_refuses_each_bus_on_nats() {
        for (section, more) in [
            ("[cluster]\nname = 'a'", ""),
            ("[mirror]\nname = 'a'", "[store]\ndirectory = '/tmp/x'\n"),
            ("[context]", ""),
        ] {
            let file = FileText::new("tidegate.toml", format!("{section}\nbus = 'nats://h'\n{more}"));
            let found = Config::load(Inputs { file: Some(file), ..Inputs::default() }).unwrap_err().to_string();
            assert!(found.contains("needs the feature `nats`"), "{section}: {found}");
        }
    }
}
