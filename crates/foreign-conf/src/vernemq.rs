//! VerneMQ: `vernemq.conf`, `vmq.passwd` and `vmq.acl`.

use std::io;

use tidegate_conversion::{File, Setting};

use crate::draft::{Draft, Report};
use crate::emqx::take_user;
use crate::entry::{Entry, lines};
use crate::hash::PasswordError;
use crate::keys::{self, Key, broker, changed, closes, every, part, refused};
use crate::listener::{Access, Kind};
use crate::rule::{AccessRule, Action, Rules};
use crate::{ConvertError, Password};

/// Keys by which the file is recognised.
pub(crate) const MARKS: &[&str] = &[
    "accept_eula",
    "nodename",
    "listener.tcp.*",
    "listener.ssl.*",
    "listener.ws.*",
    "listener.wss.*",
    "listener.vmq.*",
    "plugins.*",
    "vmq_acl.*",
    "vmq_passwd.*",
];

const OPERATION: &str = "the cluster, the process and its administration are configured in other ways; see docs/operations.md and docs/cluster.md";
const SPLIT: &str = "see docs/cluster.md: while a node is absent, its clients wait or are refused";
const PLUGIN: &str = "this plugin may decide about access, and is not carried: write an [[auth]] by hand";

/// Every key that is known; others close all listeners.
pub(crate) const KEYS: &[Key] = &[
    part("allow_anonymous", "`listener.allow_anonymous`"),
    part("listener.**", "keys of `[[listener]]`; one that restricts and has no counterpart leaves the listener out"),
    part("plugins.vmq_passwd", "`[[auth]]` with the users of `vmq_passwd.password_file`"),
    part(
        "plugins.vmq_acl",
        "`access.rules` with the rules of `vmq_acl.acl_file`; without it nothing may be published or subscribed to, as in VerneMQ",
    ),
    part("vmq_passwd.password_file", "the users of the result"),
    part("vmq_acl.acl_file", "`access.rules`"),
    changed("vmq_passwd.password_reload_interval", "see `tidegate reload`"),
    changed("vmq_acl.acl_reload_interval", "see `tidegate reload`"),
    changed("plugins.vmq_bridge", "bridges are written by hand; see docs/bridges.md"),
    closes("plugins.vmq_diversity", "off", PLUGIN),
    closes("plugins.vmq_webhooks", "off", PLUGIN),
    closes("plugins.**", "off", PLUGIN),
    every("max_message_size", "max_packet_size", keys::packet_size, "`listener.max_packet_size`"),
    broker("max_inflight_messages", "limits", "max_inflight", keys::in_flight, "`limits.max_inflight`"),
    broker("max_offline_messages", "queue", "max_messages", keys::queued, "`queue.max_messages`"),
    changed("max_online_messages", "`queue.max_messages` holds for all clients; see `max_offline_messages`"),
    every("topic_alias_max_client", "topic_alias_maximum", keys::aliases, "`listener.topic_alias_maximum`"),
    changed("topic_alias_max_broker", "see `listener.topic_alias_maximum_out`"),
    changed("receive_max_client", "see `limits.max_inflight`"),
    changed("receive_max_broker", "see `limits.max_inflight`"),
    changed("persistent_client_expiration", "see `limits.max_session_expiry`"),
    changed("retry_interval", "messages are sent again when a session is resumed, as MQTT asks"),
    changed("shared_subscription_policy", "see `shared.strategy`"),
    changed("shared_subscription_timeout_action", "see `[shared]`"),
    changed("max_message_rate", "see `limits`"),
    changed("max_last_will_delay", "a will is delayed as its client asks"),
    changed("suppress_lwt_on_session_takeover", "a will is published as the standard says"),
    changed("queue_deliver_mode", "a message is delivered to the one connection of a session"),
    changed("queue_type", "queues are in the order of arrival"),
    changed("coordinate_registrations", SPLIT),
    changed("allow_register_during_netsplit", SPLIT),
    changed("allow_publish_during_netsplit", SPLIT),
    changed("allow_subscribe_during_netsplit", SPLIT),
    changed("allow_unsubscribe_during_netsplit", SPLIT),
    closes("allow_multiple_sessions", "off", "a client id has one session"),
    closes("upgrade_outgoing_qos", "off", "a message is delivered at the lower of the two QoS"),
    refused("max_client_id_size", "client ids are bounded by the packet"),
    changed("systree_enabled", "`$SYS` is published while a client subscribes to it"),
    changed("systree_interval", "see `sys.interval`"),
    changed("graphite_*", "see /metrics"),
    changed("accept_eula", OPERATION),
    changed("nodename", OPERATION),
    changed("distributed_cookie", OPERATION),
    changed("metadata_plugin", OPERATION),
    changed("default_reg_view", OPERATION),
    changed("reg_views", OPERATION),
    changed("outgoing_clustering_buffer_size", OPERATION),
    changed("remote_enqueue_timeout", OPERATION),
    changed("sysmon_interval", OPERATION),
    changed("message_store", "see `[store]`"),
    changed("leveldb.**", "see `[store]`"),
    changed("vmq_swc.**", OPERATION),
    changed("vmq_bridge.**", "bridges are written by hand; see docs/bridges.md"),
    changed("vmq_diversity.**", "says nothing without `plugins.vmq_diversity`"),
    changed("vmq_webhooks.**", "says nothing without `plugins.vmq_webhooks`"),
    changed("log.**", "the log goes to standard error; `[log]` sets its level"),
    changed("erlang.**", OPERATION),
    changed("http_module.**", OPERATION),
    changed("tracer.**", OPERATION),
    changed("http_modules", OPERATION),
];

/// Options of a listener, or of all of a kind.
const OPTIONS: &[&str] = &[
    "max_connections",
    "nr_of_acceptors",
    "mountpoint",
    "proxy_protocol",
    "proxy_protocol_use_cn_as_username",
    "allowed_protocol_versions",
    "allow_anonymous_override",
    "cafile",
    "certfile",
    "keyfile",
    "crlfile",
    "depth",
    "ciphers",
    "eccs",
    "require_certificate",
    "use_identity_as_username",
    "tls_version",
    "support_elliptic_curves",
    "psk_support",
    "pskfile",
    "psk_identity_hint",
    "buffer_sizes",
    "tcp_listen_options",
    "max_connection_lifetime",
    "forward_connection_opts",
    "keyfile_password",
    "tls_handshake_timeout",
];

pub(crate) fn draft(file: &File, read: &dyn Fn(&str) -> io::Result<String>) -> Result<Draft, ConvertError> {
    let entries = lines(&file.name, &file.text);
    if !entries.is_empty()
        && !entries.iter().any(|entry| KEYS.iter().any(|key| crate::entry::matches(key.pattern, &entry.path)))
    {
        return Err(ConvertError::NotTheirs("VerneMQ"));
    }
    let mut draft = Draft::new(entries);
    let parts = draft.apply(KEYS);
    // Listeners first: options of a kind hold for all its listeners, named before or behind.
    for &index in &parts {
        let entry = draft.report.entries[index].clone();
        if let ["listener", kind, name] = entry.names().as_slice()
            && !OPTIONS.contains(name)
        {
            open(&mut draft, index, &entry, kind, name);
        }
    }
    if draft.listeners.is_empty() {
        let at = draft.listener("tcp.default", Kind::Tcp, None);
        let _ = draft.listeners[at].take_place("127.0.0.1:1883", "127.0.0.1");
    }
    for &index in &parts {
        let entry = draft.report.entries[index].clone();
        match entry.names().as_slice() {
            ["listener", "vmq" | "vmqs" | "http" | "https", ..] => draft.report.changed(index, OPERATION),
            ["listener", _, option] if !OPTIONS.contains(option) => {}
            ["listener", option] | ["listener", _, option] | ["listener", _, _, option] => {
                of_listeners(&mut draft, index, &entry, option);
            }
            ["listener", _, _, ..] if entry.names().len() > 4 => {
                draft.closed_by(index, "it is not known whether this restricts access");
            }
            _ => {}
        }
    }
    take_users(&mut draft, read);
    take_names(&mut draft);
    take_rules(&mut draft, read);
    Ok(draft)
}

fn open(draft: &mut Draft, index: usize, entry: &Entry, kind: &str, name: &str) {
    let known = match kind {
        "tcp" => Kind::Tcp,
        "ssl" => Kind::Tls,
        "ws" => Kind::WebSocket,
        "wss" => Kind::SecureWebSocket,
        "vmq" | "vmqs" | "http" | "https" => return,
        _ => return draft.closed_by(index, "listeners of this kind are not known"),
    };
    let at = draft.listener(&format!("{kind}.{name}"), known, Some(index));
    if let Err(why) = draft.listeners[at].take_place(&entry.value, "0.0.0.0") {
        draft.closes_listener(index, at, &why);
    }
}

/// An option of one listener, of all of a kind, or of all. Of those with the same name the narrowest one holds, wherever
/// it stands.
fn of_listeners(draft: &mut Draft, index: usize, entry: &Entry, option: &str) {
    for at in 0..draft.listeners.len() {
        let name = draft.listeners[at].name.clone();
        let kind = name.split('.').next().unwrap_or_default();
        let paths =
            [format!("listener.{name}.{option}"), format!("listener.{kind}.{option}"), format!("listener.{option}")];
        if paths.iter().find_map(|path| draft.report.find(path)) == Some(index) {
            of_listener(draft, index, entry, at, option);
        }
    }
}

fn of_listener(draft: &mut Draft, index: usize, entry: &Entry, at: usize, option: &str) {
    let listener = &mut draft.listeners[at];
    let text = || Some((index, entry.value.clone()));
    let on = entry.truth();
    match option {
        "cafile" => listener.authorities = text(),
        "certfile" => listener.certificate = text(),
        "keyfile" => listener.key = text(),
        "crlfile" => listener.revoked = text(),
        "require_certificate" => {
            listener.verifies = on != Some(false);
            listener.requires = listener.verifies;
        }
        "use_identity_as_username" => listener.names_users = on != Some(false),
        "max_connections" => match keys::connections(entry) {
            Ok((value, _)) => {
                listener.settings.retain(|other| other.key != "max_connections");
                listener.settings.push(Setting::new("max_connections", value, index));
            }
            Err(why) => draft.closes_listener(index, at, &why),
        },
        "allow_anonymous_override" if on == Some(true) => listener.access = Some(Access::Everyone),
        "allow_anonymous_override" | "psk_support" | "proxy_protocol" | "proxy_protocol_use_cn_as_username"
            if on == Some(false) => {}
        "mountpoint" if ["", "\"\"", "off"].contains(&entry.value.as_str()) => {}
        "allowed_protocol_versions"
            if ["3", "4", "5"].iter().all(|it| entry.value.split([',', ' ']).any(|word| word == *it)) => {}
        "nr_of_acceptors"
        | "buffer_sizes"
        | "tcp_listen_options"
        | "forward_connection_opts"
        | "tls_handshake_timeout" => {
            draft.report.changed(index, "the system's values hold for sockets");
        }
        "depth" if !listener.kind.is_secure() => draft.report.changed(index, "says nothing without TLS"),
        "ciphers" | "eccs" | "tls_version" | "support_elliptic_curves" => {
            draft.report.changed(
                index,
                "only versions, ciphers and certificates that are safe are accepted, and this cannot be changed",
            );
        }
        "pskfile" | "psk_identity_hint" => draft.report.changed(index, "says nothing without `psk_support`"),
        _ => draft.closes_listener(index, at, "it restricts access, or it is not known whether it does"),
    }
}

/// Without `allow_anonymous` VerneMQ asks a client whose certificate names its user for a password, too.
fn take_names(draft: &mut Draft) {
    if draft.access == Access::Everyone {
        return;
    }
    let why = "a client cannot be asked for a certificate with its name and for a password, too";
    for at in 0..draft.listeners.len() {
        if let Some(index) = draft.listeners[at].opened_by.filter(|_| draft.listeners[at].names_users) {
            draft.closes_listener(index, at, why);
        }
    }
}

fn is_on(report: &Report, path: &str, default: bool) -> bool {
    report.find(path).map_or(default, |index| report.entries[index].truth() != Some(false))
}

fn take_users(draft: &mut Draft, read: &dyn Fn(&str) -> io::Result<String>) {
    let anonymous = match draft.report.find("allow_anonymous") {
        Some(index) if draft.report.entries[index].truth().is_none() => {
            draft.closed_by(index, "it is neither on nor off");
            false
        }
        Some(index) => draft.report.entries[index].truth() == Some(true),
        None => false,
    };
    let file = draft.report.find("vmq_passwd.password_file");
    let path = file.map_or_else(|| "vmq.passwd".to_owned(), |index| draft.report.entries[index].value.clone());
    let text = if is_on(&draft.report, "plugins.vmq_passwd", true) { Some(read(&path)) } else { None };
    draft.users_line = file.or(draft.report.find("plugins.vmq_passwd"));
    match text {
        Some(Ok(text)) => {
            for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                let (name, hash) = line.trim_end().split_once(':').unwrap_or((line, ""));
                let index = draft.report.add(Entry::text(&path, number + 1, &format!("user {name}"), ""));
                // VerneMQ takes the part behind the second `$` for SHA-512, whatever the first part is.
                let known = hash.split('$').count() == 4 && hash.starts_with("$6$");
                let password =
                    if known { Ok(Password::Hash(hash.to_owned())) } else { Err(PasswordError::Form("$6$")) };
                take_user(draft, index, name, password);
            }
        }
        // Without the file VerneMQ knows no users.
        Some(Err(error)) if !anonymous => {
            if let Some(index) = file {
                draft.report.refused(index, &format!("cannot read {path}, so no client gets in: {error}"));
            } else {
                draft.left_out = true;
                draft.notes.push(format!("{path} is not beside this file, so no client gets in"));
            }
        }
        _ => {}
    }
    draft.access = match (draft.users.is_empty(), anonymous) {
        (true, true) => Access::Everyone,
        (false, true) => Access::UsersAndAnonymous,
        (false, false) => Access::Users,
        (true, false) => Access::Refused("no users are known, and allow_anonymous is not on".to_owned()),
    };
}

fn take_rules(draft: &mut Draft, read: &dyn Fn(&str) -> io::Result<String>) {
    draft.default_allow = false;
    let file = draft.report.find("vmq_acl.acl_file");
    draft.rules_line = file.or(draft.report.find("plugins.vmq_acl"));
    if !is_on(&draft.report, "plugins.vmq_acl", true) {
        return;
    }
    let path = file.map_or_else(|| "vmq.acl".to_owned(), |index| draft.report.entries[index].value.clone());
    match (read(&path), file) {
        (Ok(text), _) => {
            let rules = acl(draft, &path, &text);
            draft.rules = Some(rules);
        }
        (Err(error), Some(index)) => {
            draft.report.refused(index, &format!("cannot read {path}, so everything is denied: {error}"));
        }
        (Err(_), None) => {
            draft.left_out = true;
            draft.notes.push(format!("{path} is not beside this file, so everything is denied"));
        }
    }
}

/// The rules of `vmq.acl`. All of them allow: those before the first `user` to everybody.
fn acl(draft: &mut Draft, file: &str, text: &str) -> Rules {
    let mut rules = Rules::default();
    let mut user: Option<String> = None;
    let mut stopped = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        let index = draft.report.add(Entry::text(file, number + 1, key, rest));
        if stopped {
            draft.report.refused(index, "VerneMQ stops reading at an earlier line: it allows nothing");
            continue;
        }
        if key == "user" {
            user = Some(rest.trim().to_owned());
            continue;
        }
        let (action, topic) = match rest.split_once(' ') {
            Some(("read", topic)) => (Action::Subscribe, topic),
            Some(("write", topic)) => (Action::Publish, topic),
            _ => (Action::All, rest),
        };
        let topic = topic.trim();
        let mut rule = AccessRule { allow: true, action, ..AccessRule::default() };
        match key {
            "topic" if user.as_ref().is_some_and(|name| name.is_empty() || name.ends_with('*')) => {
                draft.report.refused(index, "its user's name would stand for others: it is not allowed");
                continue;
            }
            "topic" => {
                rule.users.extend(user.clone());
                rule.topics.push(topic.to_owned());
            }
            "pattern" if topic.split('/').any(|level| level == "%m") => {
                draft.report.refused(index, "there are no mount points: it is not allowed");
                continue;
            }
            "pattern" => {
                let level = |level: &str| match level {
                    "%u" => "${username}".to_owned(),
                    "%c" => "${clientid}".to_owned(),
                    level => level.to_owned(),
                };
                rule.topics.push(topic.split('/').map(level).collect::<Vec<_>>().join("/"));
            }
            _ => {
                // The rest of the file is not in force.
                stopped = true;
                draft.report.refused(index, "VerneMQ cannot read this line and stops here: it allows nothing");
                continue;
            }
        }
        rules.0.push(rule);
    }
    rules
}
