//! EMQX 5: `emqx.conf`, the bootstrap file of its built-in users, and `acl.conf`.

mod acl;
mod authenticator;
mod http;
mod jwt;
mod scram;
mod users;

use std::io;

use tidegate_conversion::{File, Setting};

use crate::ConvertError;
use crate::draft::Draft;
use crate::entry::Entry;
use crate::hocon;
use crate::keys::{self, Key, broker, changed, closes, every, part, refused};
use crate::listener::{Access, Kind};
use crate::rule::Rules;

pub(crate) use users::take_user;

use authenticator::Authenticator;

/// Keys by which the file is recognised.
pub(crate) const MARKS: &[&str] = &[
    "node",
    "node.*",
    "cluster.name",
    "cluster.discovery_strategy",
    "dashboard",
    "dashboard.*",
    "authorization",
    "authorization.*",
    "authentication",
    "listeners.tcp.*",
    "listeners.ssl.*",
    "listeners.ws.*",
    "listeners.wss.*",
    "listeners.quic.*",
];

/// The folder of the configuration, in the words of EMQX.
const ETC: &str = "${EMQX_ETC_DIR}";

const OPERATION: &str = "the administration, the cluster and the process are configured in other ways; see docs/operations.md and docs/cluster.md";
const LISTENER: &str = "a key of `[[listener]]`";
const TLS: &str = "only versions, ciphers and certificates that are safe are accepted, and this cannot be changed";
const INTEGRATION: &str =
    "rules and connections to other systems are written by hand; see docs/hub.md and docs/bridges.md";
const IDENTITY: &str = "names from certificates are carried for each listener where they are the common name";

/// Every key that is known; others close all listeners.
pub(crate) const KEYS: &[Key] = &[
    part("listeners.*.*.bind", "`listener.address`"),
    part("listeners.*.*.enable", "with `false` the listener is not in the result"),
    part("listeners.*.*.enabled", "as `enable`"),
    part("listeners.*.*.max_connections", "`listener.max_connections`"),
    part(
        "listeners.*.*.access_rules",
        "rules by address are not asked: only `allow all` is carried, else the listener is left out",
    ),
    part("listeners.*.*.enable_authn", "with `false` the listener serves all clients"),
    part("listeners.*.*.mountpoint", "topics get no prefix: the listener is left out"),
    part("listeners.*.*.proxy_protocol", "the networks of the proxies are not in the file: the listener is left out"),
    part("listeners.*.*.websocket.mqtt_path", "the path in `listener.address`"),
    part(
        "listeners.*.*.websocket.check_origin_enable",
        "with `true` the listener is left out: set `allowed_origins` by hand",
    ),
    part("listeners.*.*.ssl_options.certfile", "`listener.certificate`"),
    part("listeners.*.*.ssl_options.keyfile", "`listener.key`"),
    part("listeners.*.*.ssl_options.cacertfile", "`listener.client_ca` where certificates are asked for"),
    part("listeners.*.*.ssl_options.verify", "`listener.client_certificate`"),
    part("listeners.*.*.ssl_options.fail_if_no_peer_cert", "`listener.client_certificate`"),
    part("listeners.*.*.ssl_options.password", "an encrypted key is not read: the listener is left out"),
    part(
        "listeners.*.*.ssl_options.enable_crl_check",
        "with `true` the listener is left out: name the lists with `crl`",
    ),
    changed("listeners.*.*.ssl_options.versions", TLS),
    changed("listeners.*.*.ssl_options.ciphers", TLS),
    changed("listeners.*.*.ssl_options.honor_cipher_order", TLS),
    changed("listeners.*.*.ssl_options.client_renegotiation", TLS),
    changed("listeners.*.*.ssl_options.secure_renegotiate", TLS),
    changed("listeners.*.*.ssl_options.reuse_sessions", TLS),
    changed("listeners.*.*.ssl_options.dhfile", TLS),
    changed("listeners.*.*.ssl_options.handshake_timeout", TLS),
    changed("listeners.*.*.ssl_options.hibernate_after", TLS),
    changed("listeners.*.*.ssl_options.log_level", TLS),
    changed("listeners.*.*.ssl_options.gc_after_handshake", TLS),
    changed("listeners.*.*.ssl_options.ocsp.**", TLS),
    part("listeners.*.*.ssl_options.**", "a key that is not known leaves the listener out"),
    changed("listeners.*.*.tcp_options.**", "the system's values hold for sockets"),
    changed("listeners.*.*.acceptors", "shards accept connections"),
    changed("listeners.*.*.idle_timeout", "a connection without CONNECT is closed after a while"),
    changed("listeners.*.*.proxy_protocol_timeout", "says nothing without `proxy_protocol`"),
    changed("listeners.*.*.websocket.**", "WebSocket is served with the subprotocol mqtt and bounded frames"),
    changed("listeners.*.*.max_conn_rate", "connections are admitted as the machine allows; see docs/limits.md"),
    changed("listeners.*.*.messages_rate", "see `limits`"),
    changed("listeners.*.*.bytes_rate", "see `limits`"),
    part("listeners.**", LISTENER),
    part(
        "authentication.**",
        "`[[auth]]`: the users of a `bootstrap_file`, HTTP with a POST of JSON, JWT, SCRAM without its users; any other provider closes all listeners",
    ),
    part("authentication", "an empty list lets in everybody, as in EMQX"),
    part("authorization.no_match", "the rule behind all others"),
    part("authorization.sources", "an empty list: `no_match` decides"),
    part(
        "authorization.sources.**",
        "a source of the type `file` becomes `access.rules`; any other one closes all listeners",
    ),
    changed("authorization.deny_action", "a denied message is refused and dropped, a client stays connected"),
    changed("authorization.cache.**", "decisions are remembered for each topic"),
    every("mqtt.max_packet_size", "max_packet_size", keys::packet_size, "`listener.max_packet_size`"),
    every("mqtt.max_qos_allowed", "maximum_qos", keys::qos, "`listener.maximum_qos`"),
    every("mqtt.max_topic_alias", "topic_alias_maximum", keys::aliases, "`listener.topic_alias_maximum`"),
    broker("mqtt.max_inflight", "limits", "max_inflight", keys::in_flight, "`limits.max_inflight`"),
    broker("mqtt.max_mqueue_len", "queue", "max_messages", keys::queued, "`queue.max_messages`"),
    broker("mqtt.mqueue_store_qos0", "queue", "keep_qos0_offline", keys::truth, "`queue.keep_qos0_offline`"),
    broker("mqtt.max_topic_levels", "limits", "max_topic_levels", keys::levels, "`limits.max_topic_levels`"),
    broker("mqtt.retain_available", "retained", "available", keys::truth, "`retained.available`"),
    broker("retainer.enable", "retained", "available", keys::truth, "`retained.available`"),
    closes("mqtt.wildcard_subscription", "true", "wildcards cannot be forbidden for all: write a rule"),
    closes("mqtt.shared_subscription", "true", "shared subscriptions cannot be forbidden"),
    closes("mqtt.exclusive_subscription", "false", "subscriptions of one client alone are not known"),
    closes("mqtt.use_username_as_clientid", "false", "client ids cannot be taken from user names"),
    closes("mqtt.peer_cert_as_clientid", "disabled", IDENTITY),
    part("mqtt.peer_cert_as_username", IDENTITY),
    changed(
        "mqtt.session_expiry_interval",
        "sessions end when their clients ask for it; `limits.max_session_expiry` is the most",
    ),
    changed("mqtt.keepalive_multiplier", "a client is gone after one and a half times its keep alive"),
    changed("mqtt.strict_mode", "the standard is always kept"),
    changed("mqtt.idle_timeout", "a connection without CONNECT is closed after a while"),
    changed("mqtt.retry_interval", "messages are sent again when a session is resumed, as MQTT asks"),
    changed("mqtt.max_awaiting_rel", "Receive Maximum bounds messages of QoS 2"),
    changed("mqtt.await_rel_timeout", "Receive Maximum bounds messages of QoS 2"),
    changed("mqtt.upgrade_qos", "a message is delivered at the lower of the two QoS"),
    changed("mqtt.mqueue_priorities", "see `[[priority]]`"),
    changed("mqtt.mqueue_default_priority", "see `[[priority]]`"),
    changed("mqtt.response_information", "no response information is sent"),
    changed("mqtt.shared_subscription_strategy", "see `shared.strategy`"),
    changed("mqtt.shared_subscription_initial_sticky_pick", "see `shared.strategy`"),
    changed("mqtt.shared_dispatch_ack_enabled", "see `[shared]`"),
    changed("mqtt.ignore_loop_deliver", "MQTT 5 clients ask for it with No Local"),
    refused("mqtt.server_keepalive", "set `keep_alive_maximum` of a listener by hand"),
    refused("mqtt.max_clientid_len", "client ids are bounded by the packet"),
    changed("retainer.**", "retained messages are bounded by `[retained]`"),
    changed("sys_topics.**", "see `[sys]`"),
    changed("broker.**", OPERATION),
    changed("node.**", OPERATION),
    changed("cluster.**", OPERATION),
    changed("rpc.**", OPERATION),
    changed("log.**", "the log goes to standard error; `[log]` sets its level"),
    changed("dashboard.**", OPERATION),
    changed("api_key.**", OPERATION),
    changed("license.**", OPERATION),
    changed("telemetry.**", "nothing is reported to anybody"),
    changed("prometheus.**", "/metrics is always served"),
    changed("opentelemetry.**", OPERATION),
    changed("sysmon.**", OPERATION),
    changed("alarm.**", OPERATION),
    changed("stats.**", OPERATION),
    changed("force_shutdown.**", "queues and packets are bounded in other ways; see docs/limits.md"),
    changed("force_gc.**", OPERATION),
    changed("conn_congestion.**", OPERATION),
    changed("durable_sessions.**", "see `[store]`"),
    changed("durable_storage.**", "see `[store]`"),
    changed("session_persistence.**", "see `[store]`"),
    refused("flapping_detect.**", "clients that reconnect too often are not banned by themselves; see `tidegate ban`"),
    refused("delayed.**", "messages are not delayed"),
    refused("auto_subscribe.**", "a client subscribes itself"),
    refused("rule_engine.**", INTEGRATION),
    refused("actions.**", INTEGRATION),
    refused("sources.**", INTEGRATION),
    refused("connectors.**", INTEGRATION),
    refused("bridges.**", INTEGRATION),
    refused("schema_registry.**", INTEGRATION),
    refused("gateway.**", "only MQTT is served, and HTTP"),
    refused("file_transfer.**", "files are not transferred"),
    refused("slow_subs.**", "see `tidegate why`"),
    refused("topic_metrics", "see docs/metrics.md"),
    refused("topic_metrics.**", "see docs/metrics.md"),
];

pub(crate) fn draft(file: &File, read: &dyn Fn(&str) -> io::Result<String>) -> Result<Draft, ConvertError> {
    let entries = hocon::parse(&file.name, &file.text, read)?;
    if !entries.is_empty()
        && !entries.iter().any(|entry| KEYS.iter().any(|key| crate::entry::matches(key.pattern, &entry.path)))
    {
        return Err(ConvertError::NotTheirs("EMQX"));
    }
    let mut draft = Draft::new(entries);
    default_listeners(&mut draft);
    for index in draft.apply(KEYS) {
        let entry = draft.report.entries[index].clone();
        let names = entry.names();
        if let ["listeners", kind, name, rest @ ..] = names.as_slice() {
            take_listener(&mut draft, index, &entry, (kind, name), &rest.join("."));
        }
    }
    take_users(&mut draft, read);
    take_names(&mut draft);
    take_rules(&mut draft, read);
    Ok(draft)
}

/// The listeners that EMQX has without a line, as far as the file says nothing else of them.
fn default_listeners(draft: &mut Draft) {
    for (name, kind, place) in
        [("tcp.default", Kind::Tcp, "0.0.0.0:1883"), ("ws.default", Kind::WebSocket, "0.0.0.0:8083")]
    {
        let index = draft.listener(name, kind, None);
        let _ = draft.listeners[index].take_place(place, "0.0.0.0");
    }
    let named = |draft: &Draft, name: &str| draft.report.entries.iter().any(|entry| entry.path.starts_with(name));
    for (name, port) in [("listeners.ssl.default.", 8883), ("listeners.wss.default.", 8084)] {
        if !named(draft, name) {
            draft.notes.push(format!(
                "the listener on {port} that EMQX has by default is left out: its certificate is one for demonstrations"
            ));
        }
    }
}

fn take_listener(draft: &mut Draft, index: usize, entry: &Entry, (kind, name): (&str, &str), key: &str) {
    let known = match kind {
        "tcp" => Kind::Tcp,
        "ssl" => Kind::Tls,
        "ws" => Kind::WebSocket,
        "wss" => Kind::SecureWebSocket,
        "quic" => Kind::Quic,
        _ => return draft.closed_by(index, "listeners of this kind are not known"),
    };
    let at = draft.listener(&format!("{kind}.{name}"), known, Some(index));
    if draft.listeners[at].port.is_none() {
        // The ports that EMQX takes where `bind` is missing for its own names.
        draft.listeners[at].port = (name == "default").then_some(()).and(match kind {
            "ssl" => Some(8883),
            "wss" => Some(8084),
            "quic" => Some(14_567),
            _ => None,
        });
    }
    let listener = &mut draft.listeners[at];
    let text = || Some((index, entry.value.replace(ETC, "/etc/emqx")));
    match key {
        "bind" => {
            if let Err(why) = listener.take_place(&entry.value, "0.0.0.0") {
                draft.closes_listener(index, at, &why);
            } else {
                listener.opened_by = Some(index);
            }
        }
        "enable" | "enabled" => match entry.truth() {
            Some(enabled) => listener.enabled = enabled,
            None => draft.closes_listener(index, at, "it is neither true nor false"),
        },
        "max_connections" => match keys::connections(entry) {
            Ok((value, changed)) => {
                listener.settings.push(Setting::new("max_connections", value, index));
                if let Some(why) = changed {
                    draft.report.changed(index, &why);
                }
            }
            Err(why) => draft.closes_listener(index, at, &why),
        },
        "access_rules" if entry.items == ["allow all"] => {}
        "enable_authn" => match entry.value.as_str() {
            "true" | "quick_deny_anonymous" => {}
            "false" => listener.access = Some(Access::Everyone),
            _ => draft.closes_listener(index, at, "it is neither true nor false"),
        },
        "mountpoint" | "ssl_options.password" if entry.value.is_empty() => {}
        "proxy_protocol" | "websocket.check_origin_enable" | "ssl_options.enable_crl_check"
            if entry.truth() == Some(false) => {}
        "websocket.mqtt_path" => listener.path.clone_from(&entry.value),
        "ssl_options.certfile" => listener.certificate = text(),
        "ssl_options.keyfile" => listener.key = text(),
        "ssl_options.cacertfile" => listener.authorities = text(),
        "ssl_options.verify" => listener.verifies = entry.value != "verify_none",
        "ssl_options.fail_if_no_peer_cert" => listener.requires = entry.truth() != Some(false),
        "zone" if entry.value == "default" => {}
        _ => draft.closes_listener(index, at, "it restricts access, or it is not known whether it does"),
    }
}

/// Certificates name users at the listeners that require certificates. EMQX asks its authenticators about them, too.
fn take_names(draft: &mut Draft) {
    let Some(index) = draft.report.find("mqtt.peer_cert_as_username") else { return };
    match draft.report.entries[index].value.as_str() {
        "disabled" => {}
        "cn" if draft.access == Access::Everyone => {
            let named = draft.listeners.iter_mut().filter(|one| one.kind.is_secure() && one.requires);
            named.for_each(|one| one.names_users = true);
        }
        "cn" => {
            draft.closed_by(index, "a client cannot be asked for a certificate with its name and for a password, too");
        }
        _ => draft.closed_by(index, IDENTITY),
    }
}

/// Takes an authenticator that is enabled.
fn take_authenticator(one: &Authenticator, draft: &mut Draft, read: &dyn Fn(&str) -> io::Result<String>) {
    match (one.value("mechanism"), one.value("backend")) {
        (Some("password_based"), Some("built_in_database")) => users::take(one, draft, read),
        (Some("password_based"), Some("http")) => http::take(one, draft),
        (Some("jwt"), None | Some("jwt")) => jwt::take(one, draft),
        (Some("scram"), Some("built_in_database")) => scram::take(one, draft),
        _ => draft.closed_by(
            one.first(),
            "this provider is not carried: write an [[auth]] by hand, see docs/authentication.md",
        ),
    }
}

/// Clients that may connect: all clients without an authenticator, else clients that one of them accepts.
fn take_users(draft: &mut Draft, read: &dyn Fn(&str) -> io::Result<String>) {
    let mut of: Vec<Vec<usize>> = Vec::new();
    for (index, entry) in draft.report.entries.iter().enumerate().filter(|(_, entry)| !entry.replaced) {
        let mut names = entry.path.split('.');
        if names.next() != Some("authentication") {
            continue;
        }
        // One authenticator may stand without a list.
        let place = names.next().map_or(0, |name| name.parse::<usize>().unwrap_or(0));
        if entry.path != "authentication" {
            of.resize(of.len().max(place + 1), Vec::new());
            of[place].push(index);
        }
    }
    if of.is_empty() {
        draft.access = Access::Everyone;
        draft.notes.push("the file names no authenticator, so that EMQX and the result let in everybody; those made in its dashboard are in data/configs/cluster.hocon, which can be converted in the same way".to_owned());
        return;
    }
    draft.access = Access::Users;
    let mut asked: Vec<Authenticator> =
        of.iter().filter(|indexes| !indexes.is_empty()).map(|indexes| Authenticator::of(draft, indexes)).collect();
    asked.retain(|one| one.is_enabled(draft));
    let is_only = asked.len() == 1;
    if let Some(last) = asked.last_mut() {
        (last.is_last, last.is_only) = (true, is_only);
    }
    for one in &asked {
        take_authenticator(one, draft, read);
    }
}

fn take_rules(draft: &mut Draft, read: &dyn Fn(&str) -> io::Result<String>) {
    if let Some(index) = draft.report.find("authorization.no_match") {
        draft.default_allow = draft.report.entries[index].value != "deny";
        if !["allow", "deny"].contains(&draft.report.entries[index].value.as_str()) {
            draft.closed_by(index, "it is neither allow nor deny");
        }
    }
    let sources: Vec<usize> = (0..draft.report.entries.len())
        .filter(|index| {
            draft.report.entries[*index].path.starts_with("authorization.sources.")
                && !draft.report.entries[*index].replaced
        })
        .collect();
    let mut numbers: Vec<String> = Vec::new();
    for &index in &sources {
        let number = draft.report.entries[index].names().get(2).map_or_else(String::new, |&name| name.to_owned());
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    for number in numbers {
        let prefix = format!("authorization.sources.{number}");
        let of: Vec<usize> = sources
            .iter()
            .copied()
            .filter(|index| draft.report.entries[*index].names().get(2) == Some(&number.as_str()))
            .collect();
        take_source(draft, &prefix, &of, read);
    }
    if sources.is_empty() && draft.report.find("authorization.sources").is_none() {
        default_rules(draft, read);
    }
}

/// Takes a source of rules, whose settings have these indexes.
fn take_source(draft: &mut Draft, prefix: &str, of: &[usize], read: &dyn Fn(&str) -> io::Result<String>) {
    let find = |draft: &Draft, key: &str| draft.report.find(&format!("{prefix}.{key}"));
    if let Some(index) = find(draft, "enable") {
        match draft.report.entries[index].truth() {
            Some(true) => {}
            Some(false) => return of.iter().for_each(|index| draft.report.changed(*index, "it is disabled")),
            None => return draft.closed_by(index, "it is neither true nor false"),
        }
    }
    let kind = find(draft, "type");
    let first = kind.or(of.first().copied()).unwrap_or_default();
    if kind.is_none_or(|index| draft.report.entries[index].value != "file") {
        return draft.closed_by(first, "the rules of this source are not in a file");
    }
    let known = ["type", "enable", "path"].map(|key| format!("{prefix}.{key}"));
    for &index in of {
        if !known.contains(&draft.report.entries[index].path) {
            draft.closed_by(index, "it is not known whether this restricts access");
        }
    }
    let Some(index) = find(draft, "path") else {
        return draft.closed_by(first, "it names no file");
    };
    let path = draft.report.entries[index].value.trim_start_matches(ETC).trim_start_matches('/').to_owned();
    let path = if draft.report.entries[index].value.starts_with('/') { format!("/{path}") } else { path };
    match read(&path) {
        Ok(text) => {
            draft.rules_line.get_or_insert(index);
            let mut rules = draft.rules.take().unwrap_or_default();
            acl::take(draft, &path, &text, &mut rules);
            draft.rules = Some(rules);
        }
        Err(error) => draft.closed_by(index, format!("cannot read {path}: {error}")),
    }
}

/// Without a line EMQX asks `etc/acl.conf`.
fn default_rules(draft: &mut Draft, read: &dyn Fn(&str) -> io::Result<String>) {
    let found = ["acl.conf", "etc/acl.conf"].into_iter().find_map(|path| read(path).ok().map(|text| (path, text)));
    if let Some((path, text)) = found {
        let mut rules = Rules::default();
        acl::take(draft, path, &text, &mut rules);
        draft.rules = Some(rules);
    } else {
        let why = "EMQX asks the rules of acl.conf, which is not beside this file, so that everything is denied; put it there, or write `authorization.sources = []`";
        draft.notes.push(why.to_owned());
        draft.default_allow = false;
        draft.left_out = true;
    }
}
