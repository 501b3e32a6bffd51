//! RabbitMQ with its MQTT plugin: `rabbitmq.conf` and `definitions.json`.

mod definitions;

use std::io;

use tidegate_conversion::File;

use crate::draft::{Draft, Report};
use crate::emqx::take_user;
use crate::entry::{Entry, lines};
use crate::hash::PasswordError;
use crate::keys::{self, Key, broker, changed, closes, part, refused};
use crate::listener::{Access, Kind};
use crate::rule::Rules;
use crate::{ConvertError, Password};

pub(crate) use definitions::is_definitions;

/// Keys by which the file is recognised.
pub(crate) const MARKS: &[&str] = &[
    "listeners.tcp.1",
    "mqtt.listeners.*",
    "mqtt.allow_anonymous",
    "mqtt.vhost",
    "mqtt.exchange",
    "mqtt.default_user",
    "mqtt.prefetch",
    "web_mqtt.*",
    "default_user",
    "default_pass",
    "default_vhost",
    "load_definitions",
    "management.*",
    "ssl_options.*",
    "loopback_users",
    "loopback_users.*",
    "vm_memory_high_watermark.*",
    "disk_free_limit.*",
    "cluster_formation.*",
    "auth_backends.*",
    "anonymous_login_user",
];

const OPERATION: &str = "the cluster, the process and its administration are configured in other ways; see docs/operations.md and docs/cluster.md";
const TLS: &str = "only versions, ciphers and certificates that are safe are accepted, and this cannot be changed";
const TLS_UNKNOWN: &str = "a key that is not known leaves the listeners with TLS out";
const AMQP: &str = "only MQTT is served, and HTTP";
const BACKEND: &str = "only the users of the definitions are known: write an [[auth]] for the others by hand";
const LIMIT: &str = "see docs/limits.md";

/// Every key that is known; others close all listeners.
pub(crate) const KEYS: &[Key] = &[
    part("mqtt.listeners.tcp", "`none`: no listener without TLS"),
    part("mqtt.listeners.tcp.*", "`listener.address`"),
    part("mqtt.listeners.ssl", "`none`: no listener with TLS"),
    part("mqtt.listeners.ssl.*", "`listener.address`"),
    part("mqtt.allow_anonymous", "with `true`, clients without a user name have the rights of `mqtt.default_user`"),
    part("anonymous_login_user", "clients without a user name have the rights of this user"),
    part("anonymous_login_pass", "see `anonymous_login_user`"),
    part("mqtt.default_user", "see `mqtt.allow_anonymous`"),
    part("mqtt.default_pass", "see `mqtt.allow_anonymous`"),
    part("mqtt.vhost", "the virtual host whose permissions count"),
    part("mqtt.exchange", "the exchange whose permissions count"),
    closes(
        "mqtt.ssl_cert_login",
        "false",
        "any certificate of the authority would get in, also one whose user is not defined",
    ),
    closes("mqtt.proxy_protocol", "false", "the networks of the proxies are not in the file"),
    broker("mqtt.prefetch", "limits", "max_inflight", keys::in_flight, "`limits.max_inflight`"),
    broker(
        "mqtt.max_session_expiry_interval_seconds",
        "limits",
        "max_session_expiry",
        keys::seconds,
        "`limits.max_session_expiry`",
    ),
    changed("mqtt.subscription_ttl", "see `limits.max_session_expiry`"),
    changed("mqtt.durable_queue_type", "see `[store]`"),
    changed("mqtt.rates_retention_policy.**", OPERATION),
    changed("mqtt.tcp_listen_options.**", "the system's values hold for sockets"),
    changed("mqtt.num_acceptors.**", "shards accept connections"),
    changed("mqtt.mailbox_soft_limit", LIMIT),
    changed("mqtt.sparkplug", "topics are not changed"),
    changed("mqtt.retained_message_store", "see `[store]`"),
    changed("mqtt.topic_alias_maximum", "see `listener.topic_alias_maximum`"),
    part("web_mqtt.tcp.port", "`listener.address`"),
    part("web_mqtt.tcp.ip", "`listener.address`"),
    part("web_mqtt.ws_path", "the path in `listener.address`"),
    part("web_mqtt.ssl.port", "`listener.address`"),
    part("web_mqtt.ssl.ip", "`listener.address`"),
    part("web_mqtt.ssl.certfile", "`listener.certificate`"),
    part("web_mqtt.ssl.keyfile", "`listener.key`"),
    part("web_mqtt.ssl.cacertfile", "`listener.client_ca` where certificates are asked for"),
    part("web_mqtt.ssl.verify", "`listener.client_certificate`"),
    part("web_mqtt.ssl.fail_if_no_peer_cert", "`listener.client_certificate`"),
    closes("web_mqtt.proxy_protocol", "false", "the networks of the proxies are not in the file"),
    changed("web_mqtt.ssl.versions.**", TLS),
    changed("web_mqtt.ssl.ciphers.**", TLS),
    changed("web_mqtt.ssl.eccs.**", TLS),
    changed("web_mqtt.ssl.signature_algs.**", TLS),
    changed("web_mqtt.ssl.honor_cipher_order", TLS),
    changed("web_mqtt.ssl.honor_ecc_order", TLS),
    changed("web_mqtt.ssl.client_renegotiation", TLS),
    changed("web_mqtt.ssl.secure_renegotiate", TLS),
    changed("web_mqtt.ssl.reuse_session", TLS),
    changed("web_mqtt.ssl.reuse_sessions", TLS),
    changed("web_mqtt.ssl.dhfile", TLS),
    changed("web_mqtt.ssl.handshake_timeout", TLS),
    changed("web_mqtt.ssl.hibernate_after", TLS),
    changed("web_mqtt.ssl.log_level", TLS),
    changed("web_mqtt.ssl.log_alert", TLS),
    changed("web_mqtt.ssl.backlog", TLS),
    part("web_mqtt.ssl.**", TLS_UNKNOWN),
    changed("web_mqtt.tcp.**", "the system's values hold for sockets"),
    changed("web_mqtt.ws_opts.**", "WebSocket is served with bounded frames"),
    changed("web_mqtt.cowboy_opts.**", "WebSocket is served with bounded frames"),
    part("ssl_options.certfile", "`listener.certificate`"),
    part("ssl_options.keyfile", "`listener.key`"),
    part("ssl_options.cacertfile", "`listener.client_ca` where certificates are asked for"),
    part("ssl_options.verify", "`listener.client_certificate`"),
    part("ssl_options.fail_if_no_peer_cert", "`listener.client_certificate`"),
    changed("ssl_options.versions.**", TLS),
    changed("ssl_options.ciphers.**", TLS),
    changed("ssl_options.eccs.**", TLS),
    changed("ssl_options.signature_algs.**", TLS),
    changed("ssl_options.honor_cipher_order", TLS),
    changed("ssl_options.honor_ecc_order", TLS),
    changed("ssl_options.client_renegotiation", TLS),
    changed("ssl_options.secure_renegotiate", TLS),
    changed("ssl_options.reuse_session", TLS),
    changed("ssl_options.reuse_sessions", TLS),
    changed("ssl_options.dhfile", TLS),
    changed("ssl_options.handshake_timeout", TLS),
    changed("ssl_options.hibernate_after", TLS),
    changed("ssl_options.log_level", TLS),
    changed("ssl_options.log_alert", TLS),
    part("ssl_options.**", TLS_UNKNOWN),
    part("load_definitions", "the users and their rights are read from this file"),
    part("management.load_definitions", "as `load_definitions`"),
    part("definitions.local.path", "as `load_definitions`"),
    changed("definitions.**", "see `load_definitions`"),
    part("default_user", "a user with all rights, where no definitions are loaded"),
    part("default_pass", "its password, which is hashed"),
    part("default_permissions.configure", "its rights"),
    part("default_permissions.read", "its rights"),
    part("default_permissions.write", "its rights"),
    part("default_vhost", "the virtual host of `default_user`"),
    changed("default_user_tags.**", "tags give no rights to clients"),
    part("loopback_users", "`none`: users may log in from other machines"),
    part("loopback_users.*", "a user who may log in from this machine alone is left out"),
    closes("auth_backends.*", "internal", BACKEND),
    closes("auth_backends.**", "", BACKEND),
    closes("auth_mechanisms.**", "", "mechanisms of AMQP do not restrict MQTT: delete the line"),
    closes("auth_ldap.**", "", BACKEND),
    closes("auth_http.**", "", BACKEND),
    closes("auth_oauth2.**", "", BACKEND),
    closes("auth_cache.**", "", BACKEND),
    closes("ssl_cert_login_from", "common_name", "users are named by the common name alone"),
    changed("password_hashing_module", "new passwords are hashed by `tidegate passwd`"),
    refused("listeners.**", AMQP),
    refused("stomp.**", AMQP),
    refused("web_stomp.**", AMQP),
    refused("stream.**", AMQP),
    refused("amqp1_0.**", AMQP),
    changed("management.**", OPERATION),
    changed("management_agent.**", OPERATION),
    changed("prometheus.**", "/metrics is always served"),
    changed("collect_statistics", OPERATION),
    changed("collect_statistics_interval", OPERATION),
    changed("log.**", "the log goes to standard error; `[log]` sets its level"),
    changed("cluster_formation.**", OPERATION),
    changed("cluster_partition_handling", OPERATION),
    changed("cluster_partition_handling.**", OPERATION),
    changed("cluster_name", OPERATION),
    changed("cluster_keepalive_interval", OPERATION),
    changed("net_ticktime", OPERATION),
    changed("vm_memory_high_watermark.**", "see `limits.memory_ceiling`"),
    changed("vm_memory_high_watermark_*", "see `limits.memory_ceiling`"),
    changed("memory_monitor_interval", "see `limits.memory_ceiling`"),
    changed("total_memory_available_override_value", "see `limits.memory_ceiling`"),
    changed("disk_free_limit.**", "a full disk is reported; see docs/store.md"),
    changed("heartbeat", "a client is gone after one and a half times its keep alive"),
    changed("frame_max", LIMIT),
    changed("channel_max", LIMIT),
    changed("initial_frame_max", LIMIT),
    changed("max_message_size", "packets are bounded by `listener.max_packet_size`"),
    refused("connection_max", "set `limits.max_connections` by hand"),
    changed("handshake_timeout", "a connection without CONNECT is closed after a while"),
    changed("ssl_handshake_timeout", "a connection without CONNECT is closed after a while"),
    changed("num_acceptors.**", "shards accept connections"),
    changed("tcp_listen_options.**", "the system's values hold for sockets"),
    changed("reverse_dns_lookups", OPERATION),
    changed("queue_master_locator", OPERATION),
    changed("default_queue_type", OPERATION),
    changed("consumer_timeout", OPERATION),
    changed("hipe_compile", OPERATION),
    changed("raft.**", OPERATION),
    changed("deprecated_features.**", OPERATION),
];

/// Reads the file.
pub(crate) fn draft(
    file: &File,
    read: &dyn Fn(&str) -> io::Result<String>,
    verifies: &dyn Fn(&str, &str) -> bool,
) -> Result<Draft, ConvertError> {
    if file.text.trim_start().starts_with('{') {
        return of_definitions(file);
    }
    let entries = lines(&file.name, &file.text);
    if !entries.is_empty()
        && !entries.iter().any(|entry| KEYS.iter().any(|key| crate::entry::matches(key.pattern, &entry.path)))
    {
        return Err(ConvertError::NotTheirs("RabbitMQ"));
    }
    let mut draft = Draft::new(entries);
    let parts = draft.apply(KEYS);
    for &index in &parts {
        let entry = draft.report.entries[index].clone();
        take_listener(&mut draft, index, &entry);
    }
    default_listener(&mut draft);
    tls(&mut draft);
    other_tls(&mut draft, &parts);
    take_users(&mut draft, read, verifies)?;
    Ok(draft)
}

/// The users and rights of definitions without a configuration: one listener, as the plugin has by default.
fn of_definitions(file: &File) -> Result<Draft, ConvertError> {
    let mut draft = Draft::new(Vec::new());
    default_listener(&mut draft);
    draft.default_allow = false;
    draft.access = Access::Users;
    definitions::take(&mut draft, &file.name, &file.text, None)?;
    draft.notes.push(
        "definitions.json names no listeners: the result has one on 1883, as the MQTT plugin has by default".to_owned(),
    );
    Ok(draft)
}

fn default_listener(draft: &mut Draft) {
    if draft.report.find("mqtt.listeners.tcp").is_none() && !draft.listeners.iter().any(|one| one.kind == Kind::Tcp) {
        let at = draft.listener("tcp.default", Kind::Tcp, None);
        let _ = draft.listeners[at].take_place("0.0.0.0:1883", "0.0.0.0");
    }
}

fn take_listener(draft: &mut Draft, index: usize, entry: &Entry) {
    let open = |draft: &mut Draft, name: &str, kind: Kind| {
        let at = draft.listener(name, kind, Some(index));
        if let Err(why) = draft.listeners[at].take_place(&entry.value, "0.0.0.0") {
            draft.closes_listener(index, at, &why);
        }
    };
    match entry.names().as_slice() {
        ["mqtt", "listeners", "tcp" | "ssl"] if entry.value != "none" => {
            draft.closed_by(index, "it may be `none`; a listener has a name behind `tcp` or `ssl`");
        }
        ["mqtt", "listeners", "tcp", name] => open(draft, &format!("tcp.{name}"), Kind::Tcp),
        ["mqtt", "listeners", "ssl", name] => open(draft, &format!("ssl.{name}"), Kind::Tls),
        ["web_mqtt", "tcp", "port"] => open(draft, "web.tcp", Kind::WebSocket),
        ["web_mqtt", "ssl", "port"] => open(draft, "web.ssl", Kind::SecureWebSocket),
        _ => {}
    }
}

/// Certificates, paths and addresses of listeners, which stand apart from them.
fn tls(draft: &mut Draft) {
    let text = |draft: &Draft, path: &str| {
        draft.report.find(path).map(|index| (index, draft.report.entries[index].value.clone()))
    };
    for at in 0..draft.listeners.len() {
        let kind = draft.listeners[at].kind;
        let (own, ip) = match kind {
            Kind::SecureWebSocket => ("web_mqtt.ssl", Some("web_mqtt.ssl.ip")),
            Kind::WebSocket => ("", Some("web_mqtt.tcp.ip")),
            _ => ("ssl_options", None),
        };
        if let Some((_, host)) = ip.and_then(|path| text(draft, path)) {
            draft.listeners[at].host = host;
        }
        if matches!(kind, Kind::WebSocket | Kind::SecureWebSocket) {
            let path = text(draft, "web_mqtt.ws_path").map_or_else(|| "/ws".to_owned(), |(_, path)| path);
            draft.listeners[at].path = format!("/{}", path.trim_start_matches('/'));
        }
        if kind.is_secure() {
            let find = |draft: &Draft, key: &str| text(draft, &format!("{own}.{key}"));
            let certificate = find(draft, "certfile");
            let (key, authorities) = (find(draft, "keyfile"), find(draft, "cacertfile"));
            let verifies = find(draft, "verify").is_some_and(|(_, value)| value != "verify_none");
            let requires = find(draft, "fail_if_no_peer_cert").is_some_and(|(_, value)| value != "false");
            let listener = &mut draft.listeners[at];
            (listener.certificate, listener.key, listener.authorities) = (certificate, key, authorities);
            (listener.verifies, listener.requires) = (verifies, requires);
        }
    }
}

/// Options of TLS that are not carried: the listeners that they are about are left out.
fn other_tls(draft: &mut Draft, parts: &[usize]) {
    const CARRIED: [&str; 7] = ["port", "ip", "certfile", "keyfile", "cacertfile", "verify", "fail_if_no_peer_cert"];
    for &index in parts {
        let entry = &draft.report.entries[index];
        let web = entry.path.strip_prefix("web_mqtt.ssl.");
        let Some(key) = web.or_else(|| entry.path.strip_prefix("ssl_options.")) else { continue };
        if CARRIED.contains(&key) || (key == "crl_check" && entry.truth() == Some(false)) {
            continue;
        }
        let kind = if web.is_some() { Kind::SecureWebSocket } else { Kind::Tls };
        let concerned: Vec<usize> = (0..draft.listeners.len()).filter(|at| draft.listeners[*at].kind == kind).collect();
        for &at in &concerned {
            draft.closes_listener(index, at, "it restricts access, or it is not known whether it does");
        }
        if concerned.is_empty() {
            draft.report.changed(index, "says nothing without a listener with TLS");
        }
    }
}

/// The users of the definitions, or the default one.
fn take_users(
    draft: &mut Draft,
    read: &dyn Fn(&str) -> io::Result<String>,
    verifies: &dyn Fn(&str, &str) -> bool,
) -> Result<(), ConvertError> {
    draft.default_allow = false;
    draft.access = Access::Users;
    let file = ["load_definitions", "management.load_definitions", "definitions.local.path"]
        .iter()
        .find_map(|path| draft.report.find(path));
    let anonymous = anonymous_user(&mut draft.report, verifies);
    if let Some(index) = file {
        let path = draft.report.entries[index].value.clone();
        draft.users_line = Some(index);
        draft.rules_line = Some(index);
        match read(&path) {
            Ok(text) => definitions::take(draft, &path, &text, anonymous.as_ref())?,
            Err(error) => draft.closed_by(index, format!("cannot read {path}: {error}")),
        }
    } else {
        default_user(draft, anonymous.as_ref());
    }
    if let Some(anonymous) = anonymous.filter(|_| draft.access != Access::UsersAndAnonymous) {
        let why = format!(
            "the user {} with the configured password cannot log in, so no client without a user name gets in",
            anonymous.user
        );
        draft.report.refused(anonymous.index, &why);
    }
    Ok(())
}

/// The configured login of clients without a user name: they have the rights of this user.
struct Anonymous<'a> {
    user: String,
    password: String,
    /// The setting that asks for it.
    index: usize,
    verifies: &'a dyn Fn(&str, &str) -> bool,
}

impl Anonymous<'_> {
    /// Whether they have the rights of this user, by the password that it has.
    fn is(&self, user: &str, password: &Result<Password, PasswordError>) -> bool {
        self.user == user
            && match password {
                Ok(Password::Plain(password)) => self.password == *password,
                Ok(Password::Hash(hash)) => (self.verifies)(&self.password, hash),
                Err(_) => false,
            }
    }
}

/// The user whose rights clients without a user name have.
fn anonymous_user<'a>(report: &mut Report, verifies: &'a dyn Fn(&str, &str) -> bool) -> Option<Anonymous<'a>> {
    // The default of RabbitMQ.
    let value = |report: &Report, path: &str| report.value(path).unwrap_or("guest").to_owned();
    let allowed = report.find("mqtt.allow_anonymous");
    if allowed.is_some_and(|index| report.entries[index].truth() != Some(true)) {
        return None;
    }
    let (index, user, password) = match (report.find("anonymous_login_user"), allowed) {
        (Some(index), _) => (index, "anonymous_login_user", "anonymous_login_pass"),
        (None, Some(index)) => (index, "mqtt.default_user", "mqtt.default_pass"),
        (None, None) => return None,
    };
    let (user, password) = (value(report, user), value(report, password));
    if user == "none" {
        return None;
    }
    if definitions::is_local(report, &user) {
        let why = format!(
            "the user {user} may log in from the machine itself alone, so no client without a user name gets in"
        );
        report.refused(index, &why);
        return None;
    }
    Some(Anonymous { user, password, index, verifies })
}

fn default_user(draft: &mut Draft, anonymous: Option<&Anonymous<'_>>) {
    let Some(index) = draft.report.find("default_user") else {
        draft.access = Access::Refused("the users are in RabbitMQ's database".to_owned());
        draft.notes.push("the users of RabbitMQ are in its database: write them with `rabbitmqctl export_definitions definitions.json`, name that file with `load_definitions`, and convert again".to_owned());
        draft.left_out = true;
        return;
    };
    let name = draft.report.entries[index].value.clone();
    let all = ["configure", "read", "write"]
        .iter()
        .all(|key| draft.report.value(&format!("default_permissions.{key}")).is_none_or(|it| it == ".*"));
    let vhost = draft.report.value("default_vhost").unwrap_or("/") == draft.report.value("mqtt.vhost").unwrap_or("/");
    draft.users_line = Some(index);
    draft.rules_line = Some(index);
    let password = draft.report.value("default_pass").map(|it| Password::Plain(it.to_owned()));
    let password = password.ok_or(PasswordError::Missing);
    let is_anonymous = anonymous.is_some_and(|anonymous| anonymous.is(&name, &password));
    if !all || !vhost {
        return draft.closed_by(index, "its rights are restricted: write them with `rabbitmqctl export_definitions` and name the file with `load_definitions`");
    }
    if definitions::is_local(&draft.report, &name) {
        draft.report.refused(index, "it may log in from the machine itself alone: it is left out");
    } else {
        take_user(draft, index, &name, password);
    }
    let mut rules = Rules::default();
    rules.0.extend(definitions::all_rights(&name));
    if is_anonymous {
        draft.access = Access::UsersAndAnonymous;
        rules.0.push(definitions::of_anonymous(definitions::all_rights(&name)));
    }
    draft.rules = Some(rules);
}
