//! NanoMQ: `nanomq.conf`, and the files of users and rules that it includes.

use std::io;

use tidegate_conversion::{File, Setting, Value};

use crate::draft::Draft;
use crate::emqx::take_user;
use crate::entry::Entry;
use crate::hocon;
use crate::keys::{self, Key, broker, changed, closes, every, part, refused};
use crate::listener::{Access, Kind};
use crate::rule::{AccessRule, Action, Rules, everything};
use crate::{ConvertError, Password};

/// Keys by which the file is recognised.
pub(crate) const MARKS: &[&str] = &[
    "auth",
    "auth.*",
    "listeners.tcp",
    "listeners.ssl",
    "listeners.ws",
    "listeners.wss",
    "listeners.tcp.bind",
    "listeners.ssl.bind",
    "listeners.ws.bind",
    "system",
    "http_server",
];

const OPERATION: &str = "the process and its administration are configured in other ways; see docs/operations.md";
const INTEGRATION: &str =
    "rules and connections to other systems are written by hand; see docs/hub.md and docs/bridges.md";

/// Every key that is known; others close all listeners.
pub(crate) const KEYS: &[Key] = &[
    part("listeners.*.bind", "`listener.address`"),
    part("listeners.*.enable", "with `false` the listener is not in the result"),
    part("listeners.*.certfile", "`listener.certificate`"),
    part("listeners.*.keyfile", "`listener.key`"),
    part("listeners.*.cacertfile", "`listener.client_ca` where certificates are asked for"),
    part("listeners.*.verify_peer", "`listener.client_certificate`"),
    part("listeners.*.fail_if_no_peer_cert", "`listener.client_certificate`"),
    part("listeners.*.key_password", "an encrypted key is not read: the listener is left out"),
    part("listeners.**", "a key that is not known leaves the listener out"),
    part("auth.allow_anonymous", "`listener.allow_anonymous`"),
    part("auth.no_match", "the rule behind all others"),
    part("auth.password.**", "the users of the result; their passwords are hashed"),
    part("auth.acl.rules.**", "`access.rules`"),
    part("auth.acl.rules", "an empty list"),
    changed("auth.deny_action", "a denied message is refused and dropped, a client stays connected"),
    changed("auth.cache.**", "decisions are remembered for each topic"),
    part("auth.http_auth.enable", "with `true` all listeners are left out: write an [[auth]] of the kind http by hand"),
    part("auth.http_auth.**", "see `auth.http_auth.enable`"),
    every("mqtt.max_packet_size", "max_packet_size", keys::packet_size, "`listener.max_packet_size`"),
    broker("mqtt.max_mqueue_len", "queue", "max_messages", keys::queued, "`queue.max_messages`"),
    broker("mqtt.max_inflight_window", "limits", "max_inflight", keys::in_flight, "`limits.max_inflight`"),
    changed("mqtt.property_size", "properties are bounded by the packet"),
    changed("mqtt.retry_interval", "messages are sent again when a session is resumed, as MQTT asks"),
    changed("mqtt.keepalive_multiplier", "a client is gone after one and a half times its keep alive"),
    changed("mqtt.keepalive_backoff", "a client is gone after one and a half times its keep alive"),
    changed("mqtt.max_awaiting_rel", "Receive Maximum bounds messages of QoS 2"),
    changed("mqtt.await_rel_timeout", "Receive Maximum bounds messages of QoS 2"),
    changed("mqtt.session.**", "see `[store]`"),
    changed("system.**", OPERATION),
    changed("log.**", "the log goes to standard error; `[log]` sets its level"),
    changed("http_server.**", OPERATION),
    changed("sqlite.**", "see `[store]`"),
    changed("persistence.**", "see `[store]`"),
    changed("plugin.**", OPERATION),
    refused("bridges.**", INTEGRATION),
    refused("webhook.**", INTEGRATION),
    refused("rules.**", INTEGRATION),
    refused("exchange_client.**", INTEGRATION),
    refused("parquet.**", INTEGRATION),
    closes("preset.**", "", "preset sessions are not made"),
];

pub(crate) fn draft(file: &File, read: &dyn Fn(&str) -> io::Result<String>) -> Result<Draft, ConvertError> {
    let entries = hocon::parse(&file.name, &file.text, read)?;
    if !entries.is_empty()
        && !entries.iter().any(|entry| KEYS.iter().any(|key| crate::entry::matches(key.pattern, &entry.path)))
    {
        return Err(ConvertError::NotTheirs("NanoMQ"));
    }
    let mut draft = Draft::new(entries);
    let mut anonymous = true;
    let mut named_users = false;
    draft.default_allow = true;
    for index in draft.apply(KEYS) {
        let entry = draft.report.entries[index].clone();
        match entry.names().as_slice() {
            ["listeners", kind, rest @ ..] => take_listener(&mut draft, index, &entry, kind, &rest.join(".")),
            ["auth", "allow_anonymous"] => match entry.truth() {
                Some(allowed) => anonymous = allowed,
                None => draft.closed_by(index, "it is neither true nor false"),
            },
            ["auth", "no_match"] => match entry.value.as_str() {
                "allow" => {}
                "deny" => draft.default_allow = false,
                _ => draft.closed_by(index, "it is neither allow nor deny"),
            },
            ["auth", "password", name @ ..] => {
                named_users = true;
                draft.users_line.get_or_insert(index);
                take_user(&mut draft, index, &name.join("."), Ok(Password::Plain(entry.value.clone())));
            }
            ["auth", "http_auth", "enable"] if entry.truth() != Some(false) => {
                draft.closed_by(index, "write an [[auth]] of the kind http by hand, see docs/authentication.md");
            }
            ["auth", "http_auth", ..] if draft.report.value("auth.http_auth.enable") != Some("false") => {
                draft.closed_by(index, "write an [[auth]] of the kind http by hand, see docs/authentication.md");
            }
            _ => {}
        }
    }
    take_rules(&mut draft);
    draft.access = match (named_users, anonymous) {
        (true, true) => Access::UsersAndAnonymous,
        (true, false) => Access::Users,
        (false, true) => Access::Everyone,
        (false, false) => Access::Refused("no users are named, and a user name is required".to_owned()),
    };
    if draft.listeners.is_empty() {
        let at = draft.listener("tcp", Kind::Tcp, None);
        let _ = draft.listeners[at].take_place("0.0.0.0:1883", "0.0.0.0");
    }
    Ok(draft)
}

fn take_listener(draft: &mut Draft, index: usize, entry: &Entry, kind: &str, key: &str) {
    let known = match kind {
        "tcp" => Kind::Tcp,
        "ssl" => Kind::Tls,
        "ws" => Kind::WebSocket,
        "wss" => Kind::SecureWebSocket,
        _ => return draft.closed_by(index, "listeners of this kind are not known"),
    };
    let at = draft.listener(kind, known, Some(index));
    let listener = &mut draft.listeners[at];
    let text = || Some((index, entry.value.clone()));
    match key {
        "bind" => {
            let (place, path) = entry.value.split_once('/').unwrap_or((&entry.value, "mqtt"));
            listener.path = format!("/{path}");
            listener.opened_by = Some(index);
            if let Err(why) = listener.take_place(place, "0.0.0.0") {
                draft.closes_listener(index, at, &why);
            }
        }
        "enable" => match entry.truth() {
            Some(enabled) => listener.enabled = enabled,
            None => draft.closes_listener(index, at, "it is neither true nor false"),
        },
        "max_connections" => match keys::connections(entry) {
            Ok((value @ Value::Number(_), _)) => listener.settings.push(Setting::new("max_connections", value, index)),
            _ => draft.closes_listener(index, at, "it is no number"),
        },
        "certfile" => listener.certificate = text(),
        "keyfile" => listener.key = text(),
        "cacertfile" => listener.authorities = text(),
        "verify_peer" => listener.verifies = entry.truth() != Some(false),
        "fail_if_no_peer_cert" => listener.requires = entry.truth() != Some(false),
        "key_password" if entry.value.is_empty() => {}
        _ => draft.closes_listener(index, at, "it restricts access, or it is not known whether it does"),
    }
}

/// The rules in their order: each is an object with a few settings.
fn take_rules(draft: &mut Draft) {
    let mut of: Vec<(String, Vec<usize>)> = Vec::new();
    for (index, entry) in draft.report.entries.iter().enumerate().filter(|(_, entry)| !entry.replaced) {
        if let Some(rest) = entry.path.strip_prefix("auth.acl.rules.") {
            let number = rest.split('.').next().unwrap_or_default().to_owned();
            match of.iter_mut().find(|(other, _)| *other == number) {
                Some((_, indexes)) => indexes.push(index),
                None => of.push((number, vec![index])),
            }
        }
    }
    let mut rules = Rules::default();
    for (_, indexes) in &of {
        take_rule(draft, indexes, &mut rules);
    }
    if let Some((_, first)) = of.first() {
        draft.rules_line = first.first().copied();
        draft.rules = Some(rules);
    }
}

fn take_rule(draft: &mut Draft, indexes: &[usize], rules: &mut Rules) {
    let mut rule = AccessRule { topics: everything(), ..AccessRule::default() };
    let (mut permit, mut lacks) = (None, None);
    for &index in indexes {
        let entry = draft.report.entries[index].clone();
        let key = entry.names().get(4..).unwrap_or_default().join(".");
        let texts = if entry.items.is_empty() { vec![entry.value.clone()] } else { entry.items.clone() };
        match key.as_str() {
            "permit" => match entry.value.as_str() {
                "allow" => permit = Some(true),
                "deny" => permit = Some(false),
                _ => return draft.closed_by(index, "it is neither allow nor deny"),
            },
            "username" => rule.users = texts,
            "clientid" => rule.clients = texts,
            "action" => match entry.value.as_str() {
                "pubsub" => {}
                "publish" => rule.action = Action::Publish,
                "subscribe" => rule.action = Action::Subscribe,
                _ => return draft.closed_by(index, "it is no action that is known"),
            },
            "topics" => {
                rule.topics =
                    texts.iter().map(|topic| topic.replace("%u", "${username}").replace("%c", "${clientid}")).collect();
            }
            _ => lacks = Some(index),
        }
    }
    let Some(allow) = permit else {
        return indexes.first().into_iter().for_each(|index| draft.closed_by(*index, "the rule does not say `permit`"));
    };
    rule.allow = allow;
    // `#` means all of them in a rule that denies. A rule that allows is kept to this very name.
    if !allow {
        for names in [&mut rule.users, &mut rule.clients] {
            if names.iter().any(|name| name == "#") {
                names.clear();
            }
        }
    } else if rule.users.iter().chain(&rule.clients).any(|name| name.ends_with('*')) {
        lacks = lacks.or(indexes.first().copied());
    }
    match lacks {
        Some(index) if allow => draft.report.refused(index, "this condition is not asked: its topics are not allowed"),
        Some(index) => {
            draft.report.refused(index, "this condition is not asked: the rule denies to everybody");
            rule.users.clear();
            rule.clients.clear();
            rules.0.push(rule);
        }
        None => rules.0.push(rule),
    }
}
