//! The form of the value of each key, as Mosquitto checks it.

use crate::lines::Line;
use crate::values::{Invalid, leading_number, read_alike, truth};

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `true`, `false`, `1` or `0`.
    Truth,
    /// A text of 1 to 65,535 bytes without control characters.
    Text,
    /// A number from the first to the second. A word without digits is 0.
    Number(i64, i64),
    /// Words of a form of their own.
    Words,
}

/// Longest text, bytes.
const LONGEST_TEXT: usize = 65_535;

/// The largest number of keys that Mosquitto reads into C's `int` and whose sign it checks.
const INT: i64 = 0x7FFF_FFFF;

/// Numbers of keys that Mosquitto does not check.
const LEAST: i64 = i64::MIN;
const MOST: i64 = i64::MAX;

const TRUTHS: &str = "
    allow_anonymous allow_duplicate_messages allow_zero_length_clientid auth_plugin_deny_special_chars
    autosave_on_changes bridge_attempt_unsubscribe bridge_insecure bridge_outgoing_retain bridge_require_ocsp
    bridge_tls_use_os_certs check_retain_source cleansession connection_messages disable_client_cert_date_checks
    enable_control_api listener_allow_anonymous local_cleansession log_timestamp notifications
    notifications_local_only per_listener_settings persistence proxy_protocol_v2_require_tls queue_qos0_messages
    require_certificate retain_available retained_persistence round_robin set_tcp_nodelay try_private
    upgrade_outgoing_qos use_identity_as_username use_subject_as_username use_username_as_clientid
";
const TEXTS: &str = "
    acl_file auth_plugin auto_id_prefix bind_address bind_interface bridge_alpn bridge_bind_address bridge_cafile
    bridge_capath bridge_certfile bridge_ciphers bridge_ciphers_tls1.3 bridge_identity bridge_keyfile bridge_psk
    bridge_tls_version cafile capath certfile ciphers ciphers_tls1.3 clientid clientid_prefixes crlfile dhparamfile
    global_plugin http_dir keyfile listener_auto_id_prefix local_clientid local_password local_username
    log_timestamp_format mount_point notification_topic password password_file persistence_file persistence_location
    pid_file plugin psk_file psk_hint remote_clientid remote_password remote_username tls_engine
    tls_engine_kpass_sha1 tls_keyform tls_version user username websockets_origin
";
const NUMBERS: &[(&str, i64, i64)] = &[
    ("autosave_interval", LEAST, MOST),
    ("bridge_max_packet_size", LEAST, MOST),
    ("bridge_max_topic_alias", 0, 65_535),
    ("bridge_receive_maximum", 1, 65_535),
    ("bridge_session_expiry_interval", 0, INT),
    ("bridge_tcp_user_timeout", 0, INT),
    ("enable_proxy_protocol", 1, 2),
    ("global_max_clients", LEAST, MOST),
    ("global_max_connections", LEAST, MOST),
    ("idle_timeout", LEAST, MOST),
    ("keepalive_interval", LEAST, 65_535),
    ("log_facility", 0, 7),
    ("max_inflight_bytes", LEAST, MOST),
    ("max_inflight_messages", LEAST, 65_535),
    // Up to 2.0.11 Mosquitto refuses less than 10.
    ("max_keepalive", 0, 65_535),
    ("max_packet_size", 20, INT),
    ("max_qos", 0, 2),
    ("max_queued_bytes", LEAST, MOST),
    ("max_queued_messages", LEAST, MOST),
    ("max_topic_alias", 0, 65_535),
    ("max_topic_alias_broker", 0, 65_535),
    ("maximum_qos", 0, 2),
    ("memory_limit", 0, MOST),
    ("message_size_limit", 0, 268_435_455),
    ("mqtt_port", 1, 65_535),
    ("packet_buffer_size", LEAST, MOST),
    ("port", 1, 65_535),
    ("retain_expiry_interval", LEAST, MOST),
    ("sys_interval", 0, 65_535),
    ("threshold", LEAST, MOST),
    ("websockets_headers_size", 0, 65_535),
    ("websockets_log_level", LEAST, MOST),
];
const WORDS: &str = "
    accept_protocol_versions address addresses bridge_protocol_version bridge_reload_type bridge_tcp_keepalive
    connection include_dir listener log_dest log_type max_connections persistent_client_expiration plugin_load
    plugin_use protocol restart_timeout retry_interval socket_domain start_type topic
";
/// Beginnings of the keys of plugins.
const PLUGINS: &[&str] = &["auth_opt_", "global_plugin", "plugin"];

/// The form of the value of a key; `None` for a key that Mosquitto does not know.
pub fn form(key: &str) -> Option<Form> {
    if lists(TRUTHS, key) {
        return Some(Form::Truth);
    }
    if lists(TEXTS, key) {
        return Some(Form::Text);
    }
    if let Some((_, least, most)) = NUMBERS.iter().find(|(name, ..)| *name == key) {
        return Some(Form::Number(*least, *most));
    }
    (lists(WORDS, key) || PLUGINS.iter().any(|beginning| key.starts_with(beginning))).then_some(Form::Words)
}

/// True if the names contain the key.
fn lists(names: &str, key: &str) -> bool {
    names.split_ascii_whitespace().any(|name| name == key)
}

/// Keys whose lines say nothing without a value; Mosquitto refuses others.
const MAY_BE_EMPTY: &[&str] = &["log_type", "max_connections", "persistent_client_expiration", "retry_interval"];

/// Whether a line says nothing in Mosquitto.
pub(crate) fn says_nothing(line: &Line<'_>) -> bool {
    line.value.is_empty() && MAY_BE_EMPTY.contains(&line.key)
}

impl Form {
    /// Checks a value.
    ///
    /// # Errors
    ///
    /// When Mosquitto does not start with it.
    pub(crate) fn check(self, line: &Line<'_>) -> Result<(), Invalid> {
        match self {
            Self::Truth => truth(line).map(drop),
            Self::Text => text(line.text()),
            Self::Number(least, most) => number(line, least, most),
            Self::Words => Ok(()),
        }
    }
}

/// The rules of MQTT for text are Mosquitto's for these values.
fn text(value: &str) -> Result<(), Invalid> {
    let is_no_character = |c: char| matches!(u32::from(c), 0xFDD0..=0xFDEF) || u32::from(c) & 0xFFFE == 0xFFFE;
    if value.is_empty() {
        return Err(Invalid::Missing);
    }
    if value.len() > LONGEST_TEXT {
        return Err(Invalid::TextLength(LONGEST_TEXT));
    }
    match value.chars().find(|c| c.is_control() || is_no_character(*c)) {
        Some(c) => Err(Invalid::Character(c)),
        None => Ok(()),
    }
}

fn number(line: &Line<'_>, least: i64, most: i64) -> Result<(), Invalid> {
    let Some(word) = line.tokens().next() else { return Err(Invalid::Missing) };
    read_alike(word)?;
    let number = leading_number(word).unwrap_or_default();
    if (least..=most).contains(&number) {
        return Ok(());
    }
    Err(Invalid::Bounds { number, least, most })
}
