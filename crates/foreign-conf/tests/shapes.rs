//! Typical configurations of other brokers: each folder of `shapes/` has the files of one, and `expected`.
//!
//! `exit N` is the exit code of the command, `has TEXT` and `lacks TEXT` are about the result, `carried KEY`,
//! `changed KEY` and `refused KEY` about a setting with that key. `may [PORT] CLIENT RIGHTS` is for the test of the binary
//! that starts the result and tries it.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::{Path, PathBuf};

use tidegate_conversion::File;
use tidegate_foreign_conf::{Broker, Converted, convert, recognise};

/// The main files, by which a folder is of a broker.
const MAIN: [(&str, Broker); 6] = [
    ("emqx.conf", Broker::Emqx),
    ("conf/config.xml", Broker::HiveMq),
    ("nanomq.conf", Broker::NanoMq),
    ("rabbitmq.conf", Broker::RabbitMq),
    ("vernemq.conf", Broker::VerneMq),
    ("definitions.json", Broker::RabbitMq),
];

/// The hash of the password `right` in the definitions of RabbitMQ.
const HASH_OF_RIGHT: &str = "$digest-sha256-prefix$AQIDBA==$+ZbB/A53XOuRTPUaE/jW6he2AKCz8RA6p88Ttil0nqM=";

fn shapes() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shapes");
    let mut shapes: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    shapes.sort();
    shapes
}

fn main_file(shape: &Path) -> (PathBuf, Broker) {
    let found = MAIN.into_iter().find(|(name, _)| shape.join(name).exists());
    let (name, broker) = found.unwrap_or_else(|| panic!("{} has no main file", shape.display()));
    (shape.join(name), broker)
}

fn converted(main: &Path, broker: Broker, text: String) -> Converted {
    let folder = main.parent().unwrap().to_owned();
    let read = |name: &str| {
        let named = std::fs::read_to_string(folder.join(name));
        named.or_else(|_| std::fs::read_to_string(folder.join(Path::new(name).file_name().unwrap_or_default())))
    };
    let name = main.file_name().unwrap().to_string_lossy().into_owned();
    let verifies = |password: &str, hash: &str| password == "right" && hash == HASH_OF_RIGHT;
    convert(broker, &File { name, text }, "tidegate.users", &read, &verifies).unwrap()
}

/// An expectation that is not met, with the result.
fn unmet(shape: &Path, converted: &Converted, expected: &str) -> Option<String> {
    let conversion = &converted.conversion;
    let result: Vec<&str> = conversion.toml.lines().filter(|line| !line.starts_with('#')).collect();
    let result = compact(&result.join("\n"));
    let (kind, about) = expected.split_once(' ').unwrap();
    let met = match kind {
        "exit" => conversion.left_out == (about == "3"),
        "has" => result.contains(&compact(about)) || result.replace("\\\"", "\"").contains(&compact(about)),
        "lacks" => {
            // No word of the report may repeat a password, either.
            let secret = ["hidden", "other", "public", "right"].contains(&about);
            let reported = secret && conversion.lines.iter().any(|line| line.value.contains(about));
            !(reported || result.contains(&compact(about)))
        }
        "may" => true,
        outcome => conversion.lines.iter().any(|line| line.key == about && line.outcome.word() == outcome),
    };
    let lines: Vec<String> = conversion
        .lines
        .iter()
        .map(|it| format!("{} {}: {} {}", it.key, it.value, it.outcome.word(), it.why))
        .collect();
    (!met).then(|| {
        format!("{}: {expected}\n{}\n{}", shape.file_name().unwrap().display(), conversion.toml, lines.join("\n"))
    })
}

/// With single spaces.
fn compact(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn typical_configurations_have_the_expected_result() {
    let shapes = shapes();
    let mut wrong = Vec::new();
    for shape in &shapes {
        let (main, broker) = main_file(shape);
        let text = std::fs::read_to_string(&main).unwrap();
        if recognise(&text) != Some(broker) {
            wrong.push(format!("{}: recognised as {:?}", main.display(), recognise(&text)));
        }
        let converted = converted(&main, broker, text);
        let expected = std::fs::read_to_string(shape.join("expected")).unwrap();
        assert!(expected.starts_with("exit "), "{} has to say its exit code first", shape.display());
        wrong.extend(expected.lines().filter_map(|line| unmet(shape, &converted, line)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(shapes.len() >= 60, "{}", shapes.len());
}

#[test]
fn other_files_are_recognised_as_none_of_them() {
    for text in [
        "root:x:0:0:root:/root:/bin/bash\nbin:x:1:1::/bin:/bin/false\n",
        "listener 1883\nallow_anonymous true\nlog_dest file:/var/log/m.log\n",
        "[[listener]]\naddress = \"1883\"\n\n[cluster]\nname = \"a\"\n",
        "{\"defaultACLAccess\": {}, \"clients\": [], \"roles\": []}",
        "<note><to>a</to></note>",
        "",
    ] {
        assert_eq!(recognise(text), None, "{text}");
    }
}

#[test]
fn a_closing_key_never_leaves_an_open_listener() {
    let open = [
        (Broker::Emqx, "listeners.tcp.default.bind = \"127.0.0.1:1883\"\nauthorization.sources = []\n"),
        (Broker::NanoMq, "listeners.tcp.bind = \"127.0.0.1:1883\"\n"),
        (Broker::VerneMq, "listener.tcp.default = 127.0.0.1:1883\nallow_anonymous = on\n"),
    ];
    for (broker, text) in open {
        for key in broker.keys().iter().filter(|key| key.outcome().contains("left out")) {
            let path = key.pattern.replace("**", "x").replace('*', "x");
            let text = format!("{text}{path} = x-value\n");
            let result = converted(Path::new("/nowhere/x.conf"), broker, text);
            assert!(!result.conversion.toml.contains("allow_anonymous = true"), "{path}\n{}", result.conversion.toml);
            assert!(result.conversion.left_out, "{path}");
        }
    }
}

/// A row of the page of each broker.
fn known_row(broker: Broker) -> &'static str {
    match broker {
        Broker::Emqx => "| `listeners.*.*.enable` | carried | yes | with `false` the listener is not in the result |",
        Broker::HiveMq => "| `listeners.*.*.path` | carried | yes | the path in `listener.address` |",
        Broker::NanoMq => "| `listeners.*.certfile` | carried | yes | `listener.certificate` |",
        Broker::RabbitMq => "| `mqtt.listeners.ssl` | carried | yes | `none`: no listener with TLS |",
        Broker::VerneMq => "| `allow_anonymous` | carried | yes | `listener.allow_anonymous` |",
    }
}

#[test]
fn the_page_of_keys_has_a_row_for_each_key() {
    for broker in Broker::ALL {
        let page = broker.key_page();
        assert!(page.contains(&format!("\n## Keys of {}\n", broker.name())), "{page}");
        assert!(page.lines().any(|line| line == known_row(broker)), "{page}");
        assert_eq!(page.lines().filter(|line| line.starts_with("| `")).count(), broker.keys().len(), "{page}");
    }
}
