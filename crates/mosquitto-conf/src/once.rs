//! Lines with which Mosquitto does not start because of an earlier line.

use std::collections::{BTreeMap, BTreeSet};

use crate::lines::Line;
use crate::values::truth;

/// Keys that the broker has once.
const OF_BROKER: &[&str] = &[
    "bind_address",
    "clientid_prefixes",
    "log_timestamp_format",
    "persistence_file",
    "persistence_location",
    "pid_file",
    "user",
];
/// Keys that each listener has once.
const OF_LISTENER: &[&str] = &[
    "bind_interface",
    "cafile",
    "capath",
    "certfile",
    "ciphers",
    "ciphers_tls1.3",
    "crlfile",
    "dhparamfile",
    "http_dir",
    "keyfile",
    "mount_point",
    "psk_hint",
    "tls_engine",
    "tls_version",
];
/// Keys that each bridge has once.
const OF_BRIDGE: &[&str] = &[
    "bridge_alpn",
    "bridge_bind_address",
    "bridge_cafile",
    "bridge_capath",
    "bridge_certfile",
    "bridge_identity",
    "bridge_keyfile",
    "bridge_psk",
    "bridge_tls_version",
    "local_clientid",
    "local_password",
    "local_username",
    "notification_topic",
    "remote_clientid",
    "remote_password",
    "remote_username",
];
/// Keys of access that each listener has once under `per_listener_settings`, else the broker.
const OF_ACCESS: &[&str] = &["acl_file", "auto_id_prefix", "password_file", "psk_file"];
/// Other keys of access.
const ACCESS: &[&str] =
    &["allow_anonymous", "allow_zero_length_clientid", "auth_plugin", "check_retain_source", "plugin"];

/// The owner of a key, by the number of listeners or bridges that were begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Broker,
    Listener(usize),
    Bridge(usize),
}

/// The keys that earlier lines have set.
#[derive(Debug, Default)]
pub(crate) struct Once<'a> {
    listeners: usize,
    bridges: usize,
    /// The last listener and the last bridge of each file; 0 before the first.
    last: BTreeMap<usize, (usize, usize)>,
    has_access: bool,
    seen: BTreeSet<(Owner, &'a str)>,
}

impl<'a> Once<'a> {
    /// Notes a line. Returns why Mosquitto does not start with it.
    pub(crate) fn refusal(&mut self, line: &Line<'a>, per_listener: bool) -> Option<&'static str> {
        let key = match line.key {
            "clientid" => "remote_clientid",
            "username" => "remote_username",
            "password" => "remote_password",
            key => key,
        };
        self.has_access |= OF_ACCESS.contains(&key) || ACCESS.contains(&key);
        if key == "per_listener_settings" && self.has_access && truth(line) == Ok(true) {
            return Some("it has to be before other settings of access");
        }
        let (listener, bridge) = self.last.entry(line.file).or_default();
        let owner = match key {
            "listener" => {
                self.listeners += 1;
                *listener = self.listeners;
                return None;
            }
            "connection" => {
                self.bridges += 1;
                *bridge = self.bridges;
                let is_new = self.seen.insert((Owner::Bridge(0), line.tokens().next().unwrap_or_default()));
                return (!is_new).then_some("a bridge before has this name");
            }
            key if OF_ACCESS.contains(&key) && per_listener => Owner::Listener(*listener),
            key if OF_ACCESS.contains(&key) || OF_BROKER.contains(&key) => Owner::Broker,
            key if OF_LISTENER.contains(&key) => Owner::Listener(*listener),
            key if OF_BRIDGE.contains(&key) => Owner::Bridge(*bridge),
            _ => return None,
        };
        (!self.seen.insert((owner, key))).then_some("a line before sets it, too")
    }
}
