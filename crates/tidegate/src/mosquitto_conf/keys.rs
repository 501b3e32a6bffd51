//! What becomes of each key of a `mosquitto.conf`.

/// What became of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is in the result, or was so already.
    Carried,
    /// It is not, and why.
    Left(String),
}

/// Why a value of theirs has no counterpart.
pub(super) type Refusal = String;

/// How a key is treated.
#[derive(Clone, Copy)]
pub(super) enum Treatment {
    /// A key of the whole broker, there and here: `section.key` and how the value is translated.
    Broker(&'static str, &'static str, fn(&str) -> Result<String, Refusal>),
    /// A key of the whole broker there, and of each listener here.
    EveryListener(&'static str, fn(&str) -> Result<String, Refusal>),
    /// A key of a listener, there and here.
    Listener(&'static str, fn(&str) -> Result<String, Refusal>),
    /// Opens a listener, or says where the current one is.
    Place,
    /// Who may come in without a name.
    Anonymous,
    /// Whether some keys belong to listeners.
    PerListener,
    /// How much is logged.
    LogType,
    /// Where the log goes.
    LogDestination,
    /// Speaks TLS, or says how.
    Tls,
    /// A file of users.
    Users,
    /// A file of rules.
    Rules,
    /// Opens a bridge to another broker, or says something of the one that was opened last.
    Bridge,
    /// Whether sessions and messages outlive the process, and where.
    Persistence,
    /// It is always so.
    Always,
    /// Its files stand behind it.
    Included,
    /// It is not carried over, for this reason.
    Not(&'static str),
}

use Treatment::{
    Always, Anonymous, Bridge, Broker, EveryListener, Included, Listener, LogDestination, LogType, Not, PerListener,
    Persistence, Place, Rules, Tls, Users,
};

/// Why a setting of TLS is not there; a listener that has it is not opened to the network without it.
pub(super) const TLS: &str = "not carried over: TLS has no such setting here, so the listener stays on loopback without TLS; give it `certificate` and `key`";
const SAFE_TLS: &str =
    "not carried over: only versions, ciphers and certificates that are safe are accepted, and this cannot be changed";
const SAVING: &str = "not carried over: with a data directory everything is on the disk before it is acknowledged, so there is nothing to save now and then";
const FILE: &str = "not carried over: a data directory has files of its own; what is in Mosquitto's file is not read, and clients begin anew";
pub(super) const USERS: &str = "not carried over: client ids and user names have no such setting here; listeners that relied on it stay on loopback";
pub(super) const PLUGINS: &str = "not carried over: Mosquitto's plugins cannot be loaded";
const LOG: &str = "not carried over: the log goes to standard error with the time on each line; whoever starts the broker puts it where it belongs";
const WEBSOCKETS: &str = "not carried over: WebSocket listeners have no such setting";

/// Every key that Mosquitto 2.1 knows, in alphabetical order.
const KEYS: &[(&str, Treatment)] = &[
    ("accept_protocol_versions", Not("not carried over: all versions are served; there is no way to switch one off")),
    ("acl_file", Rules),
    ("address", Bridge),
    ("addresses", Bridge),
    ("allow_anonymous", Anonymous),
    (
        "allow_duplicate_messages",
        Not(
            "not carried over: a client gets a message once for each of its matching subscriptions, or once where MQTT 3 asks for that",
        ),
    ),
    ("allow_zero_length_clientid", EveryListener("allow_empty_client_id", truth)),
    ("auto_id_prefix", Not("not carried over: client ids that the broker assigns have no prefix")),
    ("autosave_interval", Not(SAVING)),
    ("autosave_on_changes", Not(SAVING)),
    ("bind_address", Place),
    ("bind_interface", Not("not carried over: write the address of the interface into `address` of the listener")),
    ("cafile", Tls),
    ("capath", Not(TLS)),
    ("certfile", Tls),
    ("check_retain_source", Not(USERS)),
    ("ciphers", Not(SAFE_TLS)),
    ("ciphers_tls1.3", Not(SAFE_TLS)),
    ("cleansession", Bridge),
    ("clientid_prefixes", Not(USERS)),
    ("connection", Bridge),
    (
        "connection_messages",
        Not(
            "not carried over: connects and disconnects are logged at level `info`, with everything else of that level",
        ),
    ),
    ("crlfile", Tls),
    ("dhparamfile", Not(SAFE_TLS)),
    ("disable_client_cert_date_checks", Not(SAFE_TLS)),
    ("enable_control_api", Not("not carried over: there is no $CONTROL API")),
    (
        "enable_proxy_protocol",
        Not(
            "not carried over: add `proxy_protocol = true` to the listener, and `proxy_networks` with the addresses of the proxies",
        ),
    ),
    ("global_max_clients", Broker("limits", "max_sessions", limit)),
    ("global_max_connections", Broker("limits", "max_connections", limit)),
    ("http_dir", Not("not carried over: no files are served")),
    ("idle_timeout", Bridge),
    ("include_dir", Included),
    ("keepalive_interval", Bridge),
    ("keyfile", Tls),
    ("listener", Place),
    ("listener_allow_anonymous", Anonymous),
    ("listener_auto_id_prefix", Not("not carried over: client ids that the broker assigns have no prefix")),
    ("log_dest", LogDestination),
    ("log_facility", Not(LOG)),
    ("log_timestamp", Always),
    ("log_timestamp_format", Not(LOG)),
    ("log_type", LogType),
    ("max_connections", Listener("max_connections", limit)),
    (
        "max_inflight_bytes",
        Not("not carried over: what is in flight is limited in messages, with `limits.max_inflight`"),
    ),
    ("max_inflight_messages", Broker("limits", "max_inflight", |value| or_most(value, "65535"))),
    ("max_keepalive", EveryListener("keep_alive_maximum", seconds)),
    ("max_packet_size", EveryListener("max_packet_size", |value| or_most(value, "268435455"))),
    ("max_qos", Listener("maximum_qos", same)),
    ("max_queued_bytes", Broker("queue", "max_bytes", |value| or_most(value, "1TiB"))),
    ("max_queued_messages", Broker("queue", "max_messages", |value| or_most(value, "1000000000"))),
    ("max_topic_alias", Listener("topic_alias_maximum", same)),
    ("max_topic_alias_broker", Listener("topic_alias_maximum_out", same)),
    ("memory_limit", Broker("limits", "memory_ceiling", same)),
    (
        "message_size_limit",
        Not("not carried over: it counts payloads; `max_packet_size` of a listener counts whole packets"),
    ),
    ("mount_point", Not("not carried over: there are no mount points")),
    ("mqtt_port", Place),
    ("password_file", Users),
    ("per_listener_settings", PerListener),
    ("persistence", Persistence),
    ("persistence_file", Not(FILE)),
    ("persistence_location", Persistence),
    ("persistent_client_expiration", Broker("limits", "max_session_expiry", expiration)),
    ("pid_file", Not("not carried over: the broker runs in the foreground; whoever starts it knows its process id")),
    ("plugin_load", Not(PLUGINS)),
    ("plugin_use", Not(PLUGINS)),
    ("port", Place),
    ("protocol", Place),
    ("psk_file", Not(TLS)),
    ("psk_hint", Not(TLS)),
    ("queue_qos0_messages", Broker("queue", "keep_qos0_offline", truth)),
    ("require_certificate", Tls),
    ("restart_timeout", Bridge),
    ("retain_available", Broker("retained", "available", truth)),
    ("retain_expiry_interval", Not("not carried over: retained messages expire when their publishers say so")),
    ("round_robin", Bridge),
    ("set_tcp_nodelay", Always),
    (
        "socket_domain",
        Not("not carried over: write the address that you mean into `address` of the listener, such as [::]:1883"),
    ),
    ("start_type", Bridge),
    ("sys_interval", Broker("sys", "interval", seconds)),
    ("threshold", Bridge),
    ("tls_engine", Not(TLS)),
    ("tls_engine_kpass_sha1", Not(TLS)),
    ("tls_keyform", Not(TLS)),
    ("tls_version", Tls),
    ("topic", Bridge),
    ("try_private", Bridge),
    ("upgrade_outgoing_qos", Not("not carried over: MQTT delivers at the lower of the two QoS")),
    ("use_identity_as_username", Tls),
    ("use_subject_as_username", Not(TLS)),
    ("use_username_as_clientid", Not(USERS)),
    ("user", Not("not carried over: start the broker as the user that it is to run as; it needs no privileges")),
    ("websockets_headers_size", Not(WEBSOCKETS)),
    ("websockets_log_level", Not(WEBSOCKETS)),
    ("websockets_origin", Not(WEBSOCKETS)),
];

/// Beginnings of keys that there are many of.
const PREFIXES: &[(&str, Treatment)] = &[
    ("auth_", Not(PLUGINS)),
    ("bridge_", Bridge),
    ("global_plugin", Not(PLUGINS)),
    ("local_", Bridge),
    ("notification", Bridge),
    ("plugin", Not(PLUGINS)),
    ("remote_", Bridge),
];

/// How a key is treated; `None` for one that Mosquitto does not know either.
pub(super) fn treatment(key: &str) -> Option<Treatment> {
    let exact = KEYS.iter().find(|(name, _)| *name == key);
    let prefix = || PREFIXES.iter().find(|(start, _)| key.starts_with(start));
    exact.or_else(prefix).map(|&(_, treatment)| treatment)
}

/// A value that means the same here.
#[expect(clippy::unnecessary_wraps, reason = "a function of the table, whose others may refuse")]
fn same(value: &str) -> Result<String, Refusal> {
    Ok(value.to_owned())
}

pub(super) fn truth(value: &str) -> Result<String, Refusal> {
    match value {
        "true" | "1" => Ok("true".to_owned()),
        "false" | "0" => Ok("false".to_owned()),
        _ => Err(format!("not carried over: {value:?} is neither true nor false")),
    }
}

/// A limit that is -1 for none; 0 is none here.
#[expect(clippy::unnecessary_wraps, reason = "a function of the table, whose others may refuse")]
fn limit(value: &str) -> Result<String, Refusal> {
    Ok(if value == "-1" { "0" } else { value }.to_owned())
}

/// A limit that is 0 for none, where something is always the most.
#[expect(clippy::unnecessary_wraps, reason = "a function of the table, whose others may refuse")]
fn or_most(value: &str, most: &str) -> Result<String, Refusal> {
    Ok(if value == "0" { most } else { value }.to_owned())
}

fn seconds(value: &str) -> Result<String, Refusal> {
    let number: u32 = value.parse().map_err(|_| format!("not carried over: {value:?} is no number of seconds"))?;
    Ok(format!("{number}s"))
}

/// A number of hours, days, weeks, months (of 30 days) or years (of 365).
fn expiration(value: &str) -> Result<String, Refusal> {
    let refusal = || format!("not carried over: {value:?} is no number of h, d, w, m (months) or y");
    let (number, unit) = value.split_at_checked(value.len().saturating_sub(1)).ok_or_else(refusal)?;
    let hours: u64 = match unit {
        "h" => 1,
        "d" => 24,
        "w" => 24 * 7,
        "m" => 24 * 30,
        "y" => 24 * 365,
        _ => return Err(refusal()),
    };
    let number: u32 = number.trim().parse().map_err(|_| refusal())?;
    Ok(format!("{}h", u64::from(number) * hours))
}
