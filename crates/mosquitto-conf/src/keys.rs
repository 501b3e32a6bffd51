//! Every key of `mosquitto.conf`, its outcome, and whether it restricts access.

use std::borrow::Cow;

use tidegate_conversion::KeyRow;

use crate::lines::Line;
use crate::values::{self, Invalid, Translated};

type Translate = fn(&Line<'_>) -> Result<Translated, Invalid>;

/// How a key is treated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    /// A key of the whole broker, there and here.
    Broker(&'static str, &'static str, Translate),
    /// A key of the whole broker there, and of each listener here.
    EveryListener(&'static str, Translate),
    /// A key of a listener, there and here.
    Listener(&'static str, Translate),
    /// A part of the listener, the bridge or the store that is put together when all lines are known.
    Part(Part),
    /// It restricts nothing, and the result does it in another way.
    Changed,
    /// It restricts nothing, and the result lacks it.
    Refused,
    /// It restricts access and cannot be carried over: the listener that it is about is left out.
    ClosesListener,
    /// As [`Rule::ClosesListener`], for all listeners.
    ClosesAll,
}

/// The object that a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The address of a listener.
    Place,
    /// Whether clients without a name may connect.
    Anonymous,
    /// A file of users.
    Users,
    /// A file of rules.
    Rules,
    /// The TLS of a listener.
    Tls,
    /// A prefix before the topics of a listener.
    Mount,
    /// A plugin.
    Plugin,
    /// The accepted MQTT versions.
    Versions,
    /// Whether some keys belong to listeners.
    PerListener,
    /// A bridge.
    Bridge,
    /// How much is logged.
    LogType,
    /// The destination of the log.
    LogDestination,
    /// Whether sessions and messages outlive the process, and where.
    Persistence,
    /// The included files follow it.
    Included,
}

/// A key of theirs.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Whether it restricts who may connect, publish or subscribe.
    pub restricts: bool,
    /// The first word with which it changes nothing, as it is Mosquitto's default.
    pub default: Option<&'static str>,
    /// The outcome, for people.
    pub how: &'static str,
    pub(crate) rule: Rule,
}

impl Key {
    /// Its usual outcome: one of the three.
    pub fn outcome(&self) -> &'static str {
        match self.rule {
            Rule::Broker(..) | Rule::EveryListener(..) | Rule::Listener(..) | Rule::Part(_) => "carried",
            Rule::Changed => "changed",
            Rule::Refused => "refused",
            Rule::ClosesListener => "refused; the listener is left out",
            Rule::ClosesAll => "refused; all listeners are left out",
        }
    }
}

/// The page of all keys, as Markdown: each with its outcome.
pub fn key_page() -> String {
    let row = |name, key: &Key| KeyRow { name, outcome: key.outcome(), restricts: key.restricts, how: key.how };
    let whole = KEYS.iter().map(|key| row(Cow::Borrowed(key.name), key));
    let beginnings = PREFIXES.iter().map(|key| row(Cow::Owned(format!("{}*", key.name)), key));
    tidegate_conversion::key_page("Mosquitto", whole.chain(beginnings))
}

/// The key with this name or a prefix of it; `None` for a key that Mosquitto does not know.
pub fn key(name: &str) -> Option<&'static Key> {
    let exact = KEYS.iter().find(|key| key.name == name);
    exact.or_else(|| PREFIXES.iter().find(|key| name.starts_with(key.name)))
}

const fn part(name: &'static str, restricts: bool, part: Part, how: &'static str) -> Key {
    Key { name, restricts, default: None, how, rule: Rule::Part(part) }
}

const fn broker(
    name: &'static str,
    section: &'static str,
    ours: &'static str,
    with: Translate,
    how: &'static str,
) -> Key {
    Key { name, restricts: false, default: None, how, rule: Rule::Broker(section, ours, with) }
}

const fn every(name: &'static str, ours: &'static str, with: Translate, how: &'static str) -> Key {
    Key { name, restricts: false, default: None, how, rule: Rule::EveryListener(ours, with) }
}

const fn listener(name: &'static str, restricts: bool, ours: &'static str, with: Translate, how: &'static str) -> Key {
    Key { name, restricts, default: None, how, rule: Rule::Listener(ours, with) }
}

const fn changed(name: &'static str, how: &'static str) -> Key {
    Key { name, restricts: false, default: None, how, rule: Rule::Changed }
}

const fn refused(name: &'static str, default: Option<&'static str>, how: &'static str) -> Key {
    Key { name, restricts: false, default, how, rule: Rule::Refused }
}

const fn closes(name: &'static str, default: Option<&'static str>, how: &'static str) -> Key {
    Key { name, restricts: true, default, how, rule: Rule::ClosesListener }
}

const fn closes_all(name: &'static str, default: Option<&'static str>, how: &'static str) -> Key {
    Key { name, restricts: true, default, how, rule: Rule::ClosesAll }
}

/// A table of keys: the rule, the key, the further arguments of the rule, and the outcome.
macro_rules! keys {
    ($($rule:ident $name:literal ($($argument:expr),*) $how:expr;)*) => {
        &[$($rule($name, $($argument,)* $how),)*]
    };
}

const LOG: &str = "the log goes to standard error with the time on each line; systemd or the container keeps it";
const SAVING: &str = "with a data directory everything is on the disk before it is acknowledged";
const SAFE_TLS: &str = "only versions, ciphers and certificates that are safe are accepted, and this cannot be changed";
const TLS_PART: &str = "a key of the listener; without a counterpart the listener is left out";
const PLACE: &str = "the `address` of a listener";
const PLUGIN: &str = "plugins are not loaded; one that only logs or measures is left away, with any other the listeners that it guards are left out";
const BRIDGE: &str = "a key of `[[bridge]]`; what restricts and has no counterpart leaves the bridge out";

/// Every key that Mosquitto 2.0 and 2.1 know, in alphabetical order.
pub const KEYS: &[Key] = keys! {
    part "accept_protocol_versions" (true, Part::Versions)
        "all versions are served; with fewer the listener is left out";
    part "acl_file" (true, Part::Rules)
        "`access.acl_file`; listeners without one get a rule in `access.rules`, listeners with another one are left out";
    part "address" (false, Part::Bridge) BRIDGE;
    part "addresses" (false, Part::Bridge) "the first becomes `bridge.broker`";
    part "allow_anonymous" (true, Part::Anonymous)
        "`listener.allow_anonymous`; without it and without users the listener refuses all clients";
    changed "allow_duplicate_messages" ()
        "a client gets a message once for each of its matching subscriptions, or once where MQTT 3 asks for that";
    every "allow_zero_length_clientid" ("allow_empty_client_id", values::boolean) "`listener.allow_empty_client_id`";
    changed "auto_id_prefix" () "client ids that the broker assigns begin with `auto-`";
    changed "autosave_interval" () SAVING;
    changed "autosave_on_changes" () SAVING;
    part "bind_address" (true, Part::Place) PLACE;
    part "bind_interface" (true, Part::Place)
        "`lo` becomes 127.0.0.1; with another one the listener is left out: write its address into `address`";
    part "cafile" (true, Part::Tls) "`listener.client_ca` where certificates are required";
    part "capath" (true, Part::Tls)
        "says nothing where no certificates are required; else `cafile` must name the authorities, or the listener is left out";
    part "certfile" (true, Part::Tls) "`listener.certificate`";
    refused "check_retain_source" (Some("true"))
        "rights are asked for when a retained message is published and when it is delivered, not for its publisher again; `true` is taken for the default";
    changed "ciphers" () SAFE_TLS;
    changed "ciphers_tls1.3" () SAFE_TLS;
    part "cleansession" (false, Part::Bridge) BRIDGE;
    part "clientid" (false, Part::Bridge) BRIDGE;
    closes_all "clientid_prefixes" (None) "client ids cannot be restricted by a prefix";
    part "connection" (false, Part::Bridge)
        "begins a `[[bridge]]`; it comes in by a listener that asks for no name and has no rules, else by a Unix socket for the broker's user alone";
    changed "connection_messages" () "connects and disconnects are logged at level `info`";
    part "crlfile" (true, Part::Tls) "`listener.crl`, with `crl_outdated = \"refuse\"`";
    changed "dhparamfile" () SAFE_TLS;
    changed "disable_client_cert_date_checks" () SAFE_TLS;
    refused "enable_control_api" (Some("false")) "there is no $CONTROL API";
    closes "enable_proxy_protocol" (None)
        "set `proxy_protocol` and `proxy_networks` of a listener by hand: the networks of the proxies are not in the file";
    broker "global_max_clients" ("limits", "max_sessions", values::sessions) "`limits.max_sessions`";
    broker "global_max_connections" ("limits", "max_connections", values::connections) "`limits.max_connections`";
    refused "http_dir" (None) "no files are served";
    part "idle_timeout" (false, Part::Bridge) BRIDGE;
    part "include_dir" (false, Part::Included) "its files are read at this position";
    part "keepalive_interval" (false, Part::Bridge) BRIDGE;
    part "keyfile" (true, Part::Tls) "`listener.key`";
    part "listener" (true, Part::Place)
        "begins a `[[listener]]`; without an address it is [::], which serves IPv4 and IPv6";
    part "listener_allow_anonymous" (true, Part::Anonymous) "`listener.allow_anonymous`";
    changed "listener_auto_id_prefix" () "client ids that the broker assigns begin with `auto-`";
    part "log_dest" (false, Part::LogDestination) LOG;
    changed "log_facility" () LOG;
    changed "log_timestamp" () LOG;
    changed "log_timestamp_format" () LOG;
    part "log_type" (false, Part::LogType) "`log.level`: the most verbose of them";
    listener "max_connections" (true, "max_connections", values::connections) "`listener.max_connections`";
    refused "max_inflight_bytes" (Some("0"))
        "messages in flight are limited in number (`limits.max_inflight`), and output to a client in bytes (`limits.output_high_water`)";
    broker "max_inflight_messages" ("limits", "max_inflight", values::in_flight) "`limits.max_inflight`";
    every "max_keepalive" ("keep_alive_maximum", values::keep_alive)
        "`listener.keep_alive_maximum`: MQTT 3 clients that ask for more are held to it; with `keep_alive_refuse = true` they are refused with return code 2, as in Mosquitto 2.1";
    every "max_packet_size" ("max_packet_size", values::packet_size)
        "`listener.max_packet_size`; without the line it is 2 MiB here, 2,000,000 bytes in 2.1, and has no limit in 2.0";
    listener "max_qos" (true, "maximum_qos", values::qos) "`listener.maximum_qos`";
    broker "max_queued_bytes" ("queue", "max_bytes", values::queued_bytes) "`queue.max_bytes`";
    broker "max_queued_messages" ("queue", "max_messages", values::queued) "`queue.max_messages`";
    listener "max_topic_alias" (false, "topic_alias_maximum", values::aliases) "`listener.topic_alias_maximum`";
    listener "max_topic_alias_broker" (false, "topic_alias_maximum_out", values::aliases_out)
        "`listener.topic_alias_maximum_out`, at most 1,024";
    listener "maximum_qos" (true, "maximum_qos", values::qos) "`listener.maximum_qos`; the name of `max_qos` in 2.1";
    broker "memory_limit" ("limits", "memory_ceiling", values::memory) "`limits.memory_ceiling`";
    broker "message_size_limit" ("limits", "max_payload", values::payload) "`limits.max_payload`";
    part "mount_point" (true, Part::Mount)
        "a `[[tenant]]` where each listener has one and there are neither rules nor bridges; else the listener is left out";
    part "mqtt_port" (true, Part::Place) PLACE;
    part "notification_topic" (false, Part::Bridge) BRIDGE;
    part "notifications" (false, Part::Bridge) BRIDGE;
    part "notifications_local_only" (false, Part::Bridge) BRIDGE;
    changed "packet_buffer_size" () "buffers grow as they are needed";
    part "password" (false, Part::Bridge) "as `remote_password`";
    part "password_file" (true, Part::Users) "`[[auth]]`, with `listeners` under `per_listener_settings`";
    part "per_listener_settings" (true, Part::PerListener)
        "users, rules, plugins and `allow_anonymous` belong to the listener above them";
    part "persistence" (false, Part::Persistence) "`store.directory`";
    changed "persistence_file" ()
        "a data directory has files of its own; `tidegate store import --mosquitto` takes Mosquitto's file over";
    part "persistence_location" (false, Part::Persistence) "`store.directory`";
    broker "persistent_client_expiration" ("limits", "max_session_expiry", values::expiration)
        "`limits.max_session_expiry`";
    changed "pid_file" () "the broker runs in the foreground; systemd or the container knows its process id";
    part "port" (true, Part::Place) PLACE;
    part "protocol" (true, Part::Place) "`mqtt` or `websockets`; with another one the listener is left out";
    closes "proxy_protocol_v2_require_tls" (Some("false")) "see `enable_proxy_protocol`";
    changed "psk_file" () "says nothing without `psk_hint`, which leaves its listener out";
    part "psk_hint" (true, Part::Tls) "pre-shared keys are not spoken; the listener is left out";
    broker "queue_qos0_messages" ("queue", "keep_qos0_offline", values::boolean) "`queue.keep_qos0_offline`";
    part "require_certificate" (true, Part::Tls) "`listener.client_certificate`";
    part "restart_timeout" (false, Part::Bridge) BRIDGE;
    broker "retain_available" ("retained", "available", values::boolean) "`retained.available`";
    refused "retain_expiry_interval" (Some("0")) "retained messages expire when their publishers say so";
    part "retained_persistence" (false, Part::Persistence) "the name of `persistence` in 1.x";
    changed "retry_interval" () "messages are sent again when a session is resumed, as MQTT asks";
    part "round_robin" (false, Part::Bridge) BRIDGE;
    changed "set_tcp_nodelay" () "it is always so";
    part "socket_domain" (true, Part::Place)
        "`ipv4`: the address is 0.0.0.0; with `ipv6` and no address the listener is left out";
    part "start_type" (false, Part::Bridge) "`manual` leaves the bridge out";
    broker "sys_interval" ("sys", "interval", values::seconds) "`sys.interval`";
    part "threshold" (false, Part::Bridge) BRIDGE;
    part "tls_engine" (true, Part::Tls) TLS_PART;
    part "tls_engine_kpass_sha1" (true, Part::Tls) TLS_PART;
    part "tls_keyform" (true, Part::Tls) TLS_PART;
    part "tls_version" (true, Part::Tls) "`listener.tls_minimum`; TLS 1.2 is the least";
    part "topic" (false, Part::Bridge) "`bridge.topics`";
    part "try_private" (false, Part::Bridge) BRIDGE;
    refused "upgrade_outgoing_qos" (Some("false")) "a message is delivered at the lower of the two QoS";
    part "use_identity_as_username" (true, Part::Tls) "`listener.identity_as`";
    part "use_subject_as_username" (true, Part::Tls) "with `true` the listener is left out";
    closes "use_username_as_clientid" (Some("false")) "client ids cannot be taken from user names";
    changed "user" () "start the broker as the user that it is to run as; it needs no privileges";
    part "username" (false, Part::Bridge) "as `remote_username`";
    changed "websockets_headers_size" () "a request head may have 8 KiB";
    changed "websockets_log_level" () LOG;
    closes "websockets_origin" (None) "set `listener.allowed_origins` by hand";
};

/// Beginnings of keys that there are many of.
pub const PREFIXES: &[Key] = keys! {
    part "auth_" (true, Part::Plugin) PLUGIN;
    part "bridge_" (true, Part::Bridge) BRIDGE;
    part "global_plugin" (true, Part::Plugin) PLUGIN;
    part "local_" (false, Part::Bridge) BRIDGE;
    part "plugin" (true, Part::Plugin) PLUGIN;
    part "remote_" (false, Part::Bridge) BRIDGE;
};
