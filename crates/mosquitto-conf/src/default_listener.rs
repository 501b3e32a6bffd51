//! The listener of keys before the first `listener`, which Mosquitto opens only for some of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::lines::Line;

/// Keys of the default listener, also below a `listener`.
pub(crate) const PLACE: &[&str] = &["port", "mqtt_port", "bind_address"];

/// Keys that open it with any value.
const ANY_VALUE: &[&str] = &[
    "bind_address",
    "bind_interface",
    "cafile",
    "capath",
    "certfile",
    "ciphers",
    "ciphers_tls1.3",
    "crlfile",
    "dhparamfile",
    "keyfile",
    "mount_point",
    "mqtt_port",
    "port",
    "psk_hint",
    "socket_domain",
    "tls_engine",
    "tls_engine_kpass_sha1",
];
/// Keys that open it with `true`.
const TRUE: &[&str] =
    &["require_certificate", "use_identity_as_username", "use_subject_as_username", "use_username_as_clientid"];
/// Keys that open it under `per_listener_settings`.
const PER_LISTENER: &[&str] = &["auth_plugin", "password_file", "plugin", "psk_file"];

/// Whether Mosquitto opens the default listener because of this line; `None` if it does not ask for it.
fn opens(line: &Line<'_>, per_listener: bool) -> Option<bool> {
    let word = line.word();
    match line.key {
        key if ANY_VALUE.contains(&key) => Some(true),
        key if TRUE.contains(&key) => Some(["true", "1"].contains(&word)),
        key if PER_LISTENER.contains(&key) => per_listener.then_some(true),
        "allow_zero_length_clientid" => per_listener.then_some(["false", "0"].contains(&word)),
        "max_connections" => (!word.is_empty()).then_some(!word.starts_with('-')),
        "max_qos" | "maximum_qos" => Some(word != "2"),
        "protocol" => (!word.is_empty()).then_some(word != "mqtt"),
        "tls_keyform" => Some(word == "engine"),
        _ => None,
    }
}

/// The first line that makes Mosquitto open the default listener beside others.
pub(crate) fn opener(lines: &[Line<'_>], per_listener: bool) -> Option<usize> {
    // Each file begins with the default listener.
    let mut left = BTreeSet::new();
    let mut opened = BTreeMap::new();
    for (index, line) in lines.iter().enumerate() {
        if line.key == "listener" {
            left.insert(line.file);
        } else if PLACE.contains(&line.key) || !left.contains(&line.file) {
            match opens(line, per_listener) {
                Some(true) => _ = opened.entry(line.key.replace("maximum_qos", "max_qos")).or_insert(index),
                Some(false) => _ = opened.remove(&line.key.replace("maximum_qos", "max_qos")),
                None => {}
            }
        }
    }
    opened.into_values().min()
}
