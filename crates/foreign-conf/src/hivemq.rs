//! HiveMQ: `config.xml`, and the files of the file RBAC extension beside it.

use std::io;
use std::path::Path;

use tidegate_conversion::File;

use crate::draft::Draft;
use crate::emqx::take_user;
use crate::entry::Entry;
use crate::hash::{Algorithm, PasswordError, hashed};
use crate::keys::{self, Key, broker, changed, closes, every, part, refused};
use crate::listener::{Access, Kind};
use crate::rule::{AccessRule, Action, Rules};
use crate::{ConvertError, Password};

const OPERATION: &str = "the cluster, the process and its administration are configured in other ways; see docs/operations.md and docs/cluster.md";
const TLS: &str = "only versions, ciphers and certificates that are safe are accepted, and this cannot be changed";
const KEYSTORE: &str = "Java key stores are not read. For NAME.jks write NAME.pem and NAME.key beside it and convert again: `keytool -importkeystore -srckeystore NAME.jks -destkeystore NAME.p12 -deststoretype pkcs12`, `openssl pkcs12 -in NAME.p12 -nokeys -out NAME.pem`, `openssl pkcs12 -in NAME.p12 -nocerts -nodes -out NAME.key`";
const TRUSTSTORE: &str = "Java key stores are not read. For NAME.jks write the authorities to NAME.pem beside it and convert again: `keytool -list -rfc -keystore NAME.jks > NAME.pem`";

/// Paths of the file RBAC extension's users, relative to `config.xml`, in its newer and its older form.
const CREDENTIALS: [&str; 2] = [
    "../extensions/hivemq-file-rbac-extension/conf/credentials.xml",
    "../extensions/hivemq-file-rbac-extension/credentials.xml",
];

const RBAC_CONFIG: [&str; 2] = [
    "../extensions/hivemq-file-rbac-extension/extension-config.xml",
    "../extensions/hivemq-file-rbac-extension/conf/config.xml",
];

const RBAC_DISABLED: &str = "../extensions/hivemq-file-rbac-extension/DISABLED";

const ALLOW_ALL: &str = "../extensions/hivemq-allow-all-extension/hivemq-extension.xml";
const ALLOW_ALL_DISABLED: &str = "../extensions/hivemq-allow-all-extension/DISABLED";

/// Every key that is known; others close all listeners.
pub(crate) const KEYS: &[Key] = &[
    part("listeners.*.*.port", "`listener.address`"),
    part("listeners.*.*.bind-address", "`listener.address`"),
    part("listeners.*.*.path", "the path in `listener.address`"),
    part(
        "listeners.*.*.tls.keystore.path",
        "`listener.certificate` and `listener.key`: the files with the endings .pem and .key beside the Java key store; without them the listener is left out",
    ),
    part(
        "listeners.*.*.tls.truststore.path",
        "`listener.client_ca`: the file with the ending .pem beside the Java key store",
    ),
    part("listeners.*.*.tls.client-authentication-mode", "`listener.client_certificate`"),
    changed("listeners.*.*.tls.keystore.**", "the exported key has no password"),
    changed("listeners.*.*.tls.truststore.**", "the exported certificates have no password"),
    changed("listeners.*.*.tls.protocols.**", TLS),
    changed("listeners.*.*.tls.cipher-suites.**", TLS),
    changed("listeners.*.*.tls.handshake-timeout", TLS),
    changed("listeners.*.*.tls.prefer-server-cipher-suites", TLS),
    changed("listeners.*.*.tls.native-ssl", TLS),
    part("listeners.*.*.tls.**", "a key that is not known leaves the listener out"),
    changed("listeners.*.*.name", "listeners are named after their kind and port"),
    changed("listeners.*.*.subprotocols.**", "WebSocket is served with the subprotocol mqtt"),
    changed("listeners.*.*.allow-extensions", "no extension of WebSocket is used"),
    part("listeners.*.*.proxy-protocol", "the networks of the proxies are not in the file: the listener is left out"),
    part("listeners.**", "a key that is not known leaves the listener out"),
    every("mqtt.packets.max-packet-size", "max_packet_size", keys::packet_size, "`listener.max_packet_size`"),
    every("mqtt.quality-of-service.max-qos", "maximum_qos", keys::qos, "`listener.maximum_qos`"),
    every("mqtt.topic-alias.max-per-client", "topic_alias_maximum", keys::aliases, "`listener.topic_alias_maximum`"),
    changed("mqtt.topic-alias.enabled", "see `mqtt.topic-alias.max-per-client`"),
    every("mqtt.keep-alive.max-keep-alive", "keep_alive_maximum", keys::seconds, "`listener.keep_alive_maximum`"),
    changed("mqtt.keep-alive.allow-unlimited", "with `max-keep-alive` no client is without one"),
    broker("mqtt.queued-messages.max-queue-size", "queue", "max_messages", keys::queued, "`queue.max_messages`"),
    changed("mqtt.queued-messages.strategy", "see `queue.overflow`"),
    broker("mqtt.retained-messages.enabled", "retained", "available", keys::truth, "`retained.available`"),
    broker(
        "mqtt.receive-maximum.server-receive-maximum",
        "limits",
        "max_inflight",
        keys::in_flight,
        "`limits.max_inflight`",
    ),
    broker(
        "mqtt.session-expiry.max-interval",
        "limits",
        "max_session_expiry",
        keys::seconds,
        "`limits.max_session_expiry`",
    ),
    changed("mqtt.message-expiry.max-interval", "messages expire when their publishers say so"),
    closes("mqtt.wildcard-subscriptions.enabled", "true", "wildcards cannot be forbidden for all: write a rule"),
    closes("mqtt.shared-subscriptions.enabled", "true", "shared subscriptions cannot be forbidden"),
    changed("mqtt.subscription-identifier.enabled", "subscription identifiers are served"),
    changed("mqtt-addons.**", OPERATION),
    every(
        "security.allow-empty-client-id.enabled",
        "allow_empty_client_id",
        keys::truth,
        "`listener.allow_empty_client_id`",
    ),
    changed("security.payload-format-validation.enabled", "the payload format is checked as the standard asks"),
    changed("security.utf8-validation.enabled", "texts are always checked"),
    changed("security.allow-request-problem-information.enabled", "reasons are sent to clients that ask for them"),
    changed("security.control-center-audit-log.enabled", OPERATION),
    broker("restrictions.max-connections", "limits", "max_connections", keys::connections, "`limits.max_connections`"),
    refused("restrictions.max-client-id-length", "client ids are bounded by the packet"),
    refused("restrictions.max-topic-length", "topics are bounded by the packet"),
    changed("restrictions.no-connect-idle-timeout", "a connection without CONNECT is closed after a while"),
    refused("restrictions.incoming-bandwidth-throttling", "see `limits`"),
    changed("persistence.**", "see `[store]`"),
    changed("anonymous-usage-statistics.**", "nothing is reported to anybody"),
    changed("usage-statistics.**", "nothing is reported to anybody"),
    changed("cluster.**", OPERATION),
    changed("control-center.**", OPERATION),
    changed("rest-api.**", OPERATION),
    changed("health-api.**", OPERATION),
    changed("overload-protection.**", "see docs/limits.md"),
    changed("client-event-history.**", "see `tidegate why`"),
    changed("internal.**", OPERATION),
];

pub(crate) fn draft(file: &File, read: &dyn Fn(&str) -> io::Result<String>) -> Result<Draft, ConvertError> {
    let entries = elements(file, "hivemq")?.ok_or(ConvertError::NotTheirs("HiveMQ"))?;
    let mut draft = Draft::new(entries);
    for index in draft.apply(KEYS) {
        let entry = draft.report.entries[index].clone();
        if let ["listeners", kind, number, rest @ ..] = entry.names().as_slice() {
            take_listener(&mut draft, index, &entry, (kind, number), &rest.join("."), read);
        }
    }
    take_access(&mut draft, read)?;
    Ok(draft)
}

/// The elements with a text below the root, each with the path to it; elements of `listeners`, and elements that occur
/// several times, have a number behind their name. `None` when the root has another name.
fn elements(file: &File, root: &str) -> Result<Option<Vec<Entry>>, ConvertError> {
    let document =
        roxmltree::Document::parse(file.text.trim_start()).map_err(|error| ConvertError::Xml(error.to_string()))?;
    let top = document.root_element();
    if top.tag_name().name() != root {
        return Ok(None);
    }
    let skipped = file.text.len() - file.text.trim_start().len();
    let before = file.text[..skipped].matches('\n').count();
    let mut entries = Vec::new();
    let mut open: Vec<(roxmltree::Node<'_, '_>, String)> = vec![(top, String::new())];
    while let Some((node, path)) = open.pop() {
        let children: Vec<_> = node.children().filter(roxmltree::Node::is_element).collect();
        if children.is_empty() && !path.is_empty() {
            let line = document.text_pos_at(node.range().start).row as usize + before;
            entries.push(Entry::text(&file.name, line, &path, node.text().unwrap_or_default().trim()));
        }
        let mut seen: Vec<&str> = Vec::new();
        let mut named = Vec::new();
        for child in &children {
            let name = child.tag_name().name();
            let count = seen.iter().filter(|other| **other == name).count();
            seen.push(name);
            let many = path == "listeners"
                || ["user", "role", "permission", "id", "listener-name", "subprotocol"].contains(&name);
            let name = if many { format!("{name}.{count}") } else { name.to_owned() };
            named.push((*child, if path.is_empty() { name } else { format!("{path}.{name}") }));
        }
        open.extend(named.into_iter().rev());
    }
    // A repeated element replaces the previous element.
    for index in 0..entries.len() {
        let again = entries[index + 1..].iter().any(|later: &Entry| later.path == entries[index].path);
        entries[index].replaced = again;
    }
    Ok(Some(entries))
}

fn take_listener(
    draft: &mut Draft,
    index: usize,
    entry: &Entry,
    (kind, number): (&str, &str),
    key: &str,
    read: &dyn Fn(&str) -> io::Result<String>,
) {
    let known = match kind {
        "tcp-listener" => Kind::Tcp,
        "tls-tcp-listener" => Kind::Tls,
        "websocket-listener" => Kind::WebSocket,
        "tls-websocket-listener" => Kind::SecureWebSocket,
        _ => return draft.closed_by(index, "listeners of this kind are not known"),
    };
    let at = draft.listener(&format!("{kind} {number}"), known, Some(index));
    let listener = &mut draft.listeners[at];
    match key {
        "port" => match entry.value.parse() {
            Ok(port) => {
                listener.port = Some(port);
                listener.opened_by = Some(index);
            }
            Err(_) => draft.closes_listener(index, at, "it is no port"),
        },
        "bind-address" => listener.host.clone_from(&entry.value),
        "path" => listener.path = format!("/{}", entry.value.trim_start_matches('/')),
        "proxy-protocol" if entry.truth() == Some(false) => {}
        "tls.client-authentication-mode" => match entry.value.as_str() {
            "NONE" => {}
            "OPTIONAL" => listener.verifies = true,
            "REQUIRED" => (listener.verifies, listener.requires) = (true, true),
            _ => draft.closes_listener(index, at, "it is neither NONE nor OPTIONAL nor REQUIRED"),
        },
        "tls.keystore.path" => match (exported(entry, "pem", CERTIFICATE, read), exported(entry, "key", KEY, read)) {
            (Some(certificate), Some(key)) => {
                listener.certificate = Some((index, certificate));
                listener.key = Some((index, key));
            }
            _ => draft.closes_listener(index, at, KEYSTORE),
        },
        "tls.truststore.path" => {
            let of_listener = |key: &str| draft.report.value(&format!("listeners.{kind}.{number}.tls.{key}"));
            let asks = !matches!(of_listener("client-authentication-mode"), None | Some("NONE"));
            // Both exports would have one name: it is not known which of them the file is.
            let stem = |path: &str| std::path::Path::new(path).file_stem().map(ToOwned::to_owned);
            let is_both = of_listener("keystore.path").is_some_and(|path| stem(path) == stem(&entry.value));
            match exported(entry, "pem", CERTIFICATE, read) {
                _ if !asks => draft.report.changed(index, "says nothing without `client-authentication-mode`"),
                Some(authorities) if !is_both => draft.listeners[at].authorities = Some((index, authorities)),
                _ => draft.closes_listener(index, at, TRUSTSTORE),
            }
        }
        _ => draft.closes_listener(index, at, "it restricts access, or it is not known whether it does"),
    }
}

/// The beginnings of PEM with a certificate and with a key.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";
const KEY: &str = "PRIVATE KEY-----";

/// The path of a file with this ending beside a Java key store, if it is there and has such content. HiveMQ takes relative
/// paths from the folder above `conf`.
fn exported(store: &Entry, ending: &str, content: &str, read: &dyn Fn(&str) -> io::Result<String>) -> Option<String> {
    let path = Path::new(&store.value).with_extension(ending);
    let from_home = if path.is_absolute() { path.clone() } else { Path::new("..").join(&path) };
    let text = read(&from_home.to_string_lossy()).ok()?;
    text.contains(content).then(|| path.display().to_string())
}

/// Extensions decide who may connect. Two of them are known; without one HiveMQ refuses all clients.
fn take_access(draft: &mut Draft, read: &dyn Fn(&str) -> io::Result<String>) -> Result<(), ConvertError> {
    let first = |paths: &[&'static str]| {
        paths.iter().find_map(|path| read(path).ok().map(|text| File { name: (*path).to_owned(), text }))
    };
    let disabled = read(RBAC_DISABLED).is_ok();
    if let Some(credentials) = first(&CREDENTIALS).filter(|_| !disabled) {
        let config = first(&RBAC_CONFIG);
        return take_credentials(draft, &credentials, config.as_ref());
    }
    if read(ALLOW_ALL).is_ok() && read(ALLOW_ALL_DISABLED).is_err() {
        draft.access = Access::Everyone;
        draft
            .notes
            .push("the extension hivemq-allow-all-extension lets in everybody, and so does the result".to_owned());
        return Ok(());
    }
    if disabled {
        draft.notes.push("hivemq-file-rbac-extension is disabled, so its users are left out".to_owned());
    }
    let why = "extensions of HiveMQ decide who may connect, and none that is known here is beside this file, so that the result refuses all clients; put the users into the file of [[auth]], or write allow_anonymous = true where hivemq-allow-all-extension was installed";
    draft.access = Access::Refused("the extension that decides is not known".to_owned());
    draft.notes.push(why.to_owned());
    draft.left_out = true;
    Ok(())
}

fn take_credentials(draft: &mut Draft, file: &File, config: Option<&File>) -> Result<(), ConvertError> {
    draft.access = Access::Users;
    draft.default_allow = false;
    let mut plain = false;
    for entry in config.map(|file| elements(file, "extension-configuration")).transpose()?.flatten().unwrap_or_default()
    {
        let (path, value) = (entry.path.clone(), entry.value.clone());
        let index = draft.report.add(entry);
        match path.as_str() {
            "password-type" => plain = value == "PLAIN",
            "credentials-reload-interval" | "archiver-enabled" => draft.report.changed(index, "see `tidegate reload`"),
            "next-extension-instead-of-fail" if value == "false" => {}
            _ => draft.closed_by(index, "the extension decides for some clients or listeners only"),
        }
    }
    let entries = elements(file, "file-rbac")?.ok_or(ConvertError::NotTheirs("HiveMQ"))?;
    let value = |path: &str| entries.iter().find(|entry| entry.path == path).map(|entry| entry.value.clone());
    let mut rules = Rules::default();
    let all = |prefix: &str, from: &str| -> Vec<(usize, String)> {
        (0..entries.len())
            .map(|number| (number, format!("{prefix}.{from}.{number}")))
            .take_while(|(_, path)| {
                entries.iter().any(|entry| entry.path == *path || entry.path.starts_with(&format!("{path}.")))
            })
            .collect()
    };
    for (_, user) in all("users", "user") {
        let name = value(&format!("{user}.name")).unwrap_or_default();
        let line =
            entries.iter().find(|entry| entry.path.starts_with(&format!("{user}."))).map_or(1, |entry| entry.line);
        let index = draft.report.add(Entry::text(&file.name, line, &format!("user {name}"), ""));
        draft.users_line.get_or_insert(index);
        draft.rules_line.get_or_insert(index);
        take_user(draft, index, &name, password(&value(&format!("{user}.password")).unwrap_or_default(), plain));
        for (_, id) in all(&format!("{user}.roles"), "id") {
            let id = value(&id).unwrap_or_default();
            for (_, role) in all("roles", "role") {
                if value(&format!("{role}.id.0")) == Some(id.clone()) {
                    for (_, permission) in all(&format!("{role}.permissions"), "permission") {
                        let part = |key: &str| value(&format!("{permission}.{key}"));
                        match rule(&name, &part) {
                            Ok(rule) => rules.0.push(rule),
                            Err(why) => draft
                                .report
                                .refused(index, &format!("a permission of the role {id}: {why}; it is not allowed")),
                        }
                    }
                }
            }
        }
    }
    draft.rules = Some(rules);
    Ok(())
}

/// Why a permission cannot be carried over.
#[derive(Debug, thiserror::Error)]
enum PermissionError {
    #[error("the name of the user would stand for others")]
    UserPattern,
    #[error("it names no topic")]
    NoTopic,
    #[error("the activity {0} is not known")]
    Activity(String),
    #[error("the QoS {0} is not known")]
    Qos(String),
    #[error("the value {0} of retain is not known")]
    Retain(String),
    #[error("groups of shared subscriptions are not restricted by rules")]
    Groups,
}

fn password(text: &str, plain: bool) -> Result<Password, PasswordError> {
    if plain {
        return Ok(Password::Plain(text.to_owned()));
    }
    let parts: Vec<&str> = text.split(':').collect();
    let [salt, rounds, hash] = parts.as_slice() else {
        return Err(PasswordError::Form("SALT:ITERATIONS:HASH"));
    };
    let salt = data_encoding::BASE64.decode(salt.as_bytes()).map_err(|_| PasswordError::Salt)?;
    let rounds = rounds.parse().map_err(|_| PasswordError::Iterations)?;
    hashed(Algorithm::Pbkdf2Sha512 { rounds }, &salt, hash).map(Password::Hash)
}

/// The rule of one permission for one user.
fn rule(user: &str, part: &dyn Fn(&str) -> Option<String>) -> Result<AccessRule, PermissionError> {
    let mut rule = AccessRule { allow: true, users: vec![user.to_owned()], ..AccessRule::default() };
    if user.ends_with('*') {
        return Err(PermissionError::UserPattern);
    }
    let topic = part("topic").ok_or(PermissionError::NoTopic)?;
    rule.topics.push(topic.replace("${{clientid}}", "${clientid}").replace("${{username}}", "${username}"));
    rule.action = match part("activity").as_deref() {
        None | Some("ALL") => Action::All,
        Some("PUBLISH") => Action::Publish,
        Some("SUBSCRIBE") => Action::Subscribe,
        Some(other) => return Err(PermissionError::Activity(other.to_owned())),
    };
    rule.qos = match part("qos").as_deref() {
        None | Some("ALL") => Vec::new(),
        Some("ZERO") => vec![0],
        Some("ONE") => vec![1],
        Some("TWO") => vec![2],
        Some("ZERO_ONE") => vec![0, 1],
        Some("ONE_TWO") => vec![1, 2],
        Some("ZERO_TWO") => vec![0, 2],
        Some(other) => return Err(PermissionError::Qos(other.to_owned())),
    };
    rule.retain = match part("retain").as_deref() {
        None | Some("ALL") => None,
        Some("RETAINED") => Some(true),
        Some("NOT_RETAINED") => Some(false),
        Some(other) => return Err(PermissionError::Retain(other.to_owned())),
    };
    if part("shared-subscription").is_some_and(|it| it != "ALL") || part("shared-group").is_some_and(|it| it != "#") {
        return Err(PermissionError::Groups);
    }
    Ok(rule)
}
