//! An HTTP server that EMQX asks about clients. Ours asks by a POST of JSON with fixed names, and understands the same answers.

use tidegate_conversion::{Setting, Value};

use crate::draft::Draft;
use crate::keys;
use crate::provider::{Provider, ProviderFile};

use super::authenticator::{Authenticator, Part};

const KNOWN: [&str; 18] = [
    "mechanism",
    "backend",
    "enable",
    "method",
    "url",
    "headers.**",
    "body.**",
    "ssl.**",
    "pool_size",
    "request_timeout",
    "connect_timeout",
    "enable_pipelining",
    "max_retries",
    "retry_interval",
    "max_inactive",
    "pool_type",
    "request.**",
    "resource_opts.**",
];

/// Names of our question, each with the placeholder of EMQX that has the same value.
const FIELDS: [(&str, &str); 6] = [
    ("clientid", "${clientid}"),
    ("username", "${username}"),
    ("password", "${password}"),
    ("peerhost", "${peerhost}"),
    ("peerport", "${peerport}"),
    ("cert_common_name", "${cert_common_name}"),
];

/// Most requests at once, and longest and shortest time for an answer in milliseconds, of ours.
const MAX_CONCURRENCY: u64 = 64;
const TIMEOUT_MS: (u64, u64) = (10, 60_000);

pub(super) fn take(one: &Authenticator, draft: &mut Draft) {
    if !one.knows(draft, &KNOWN) {
        return;
    }
    if let Some(part) = one.find("method").filter(|part| part.entry.value != "post") {
        return draft.closed_by(part.index, "questions are sent by POST");
    }
    let Some(url) = one.find("url") else {
        return draft.closed_by(one.first(), "it names no URL");
    };
    if url.entry.value.contains("${") {
        return draft.closed_by(url.index, "the URL of ours is the same for all clients");
    }
    if !asks_the_same(one, draft) {
        return;
    }
    let Ok(authorities) = one.authorities(draft, &url.entry.value) else { return };
    let mut settings = vec![
        Setting::new("kind", Value::Text("http".to_owned()), one.first()),
        Setting::new("url", Value::Text(url.entry.value.clone()), url.index),
    ];
    if let Some((index, path)) = authorities {
        settings.push(Setting::new("ca_file", Value::Text(path), index));
    }
    if !one.is_last {
        // EMQX asks the next one when this server does not answer.
        settings.push(Setting::new("unreachable", Value::Text("ignore".to_owned()), one.first()));
    }
    settings.extend(bounds(one, draft));
    let token = token(one, draft);
    draft.providers.push(Provider::Other(settings, token));
}

/// Requests at once and the time for an answer.
fn bounds(one: &Authenticator, draft: &mut Draft) -> Vec<Setting> {
    let mut settings = Vec::new();
    for part in one.parts() {
        match part.key.as_str() {
            "pool_size" => match keys::number(&part.entry, 1, MAX_CONCURRENCY) {
                Ok((value, why)) => {
                    settings.push(Setting::new("concurrency", value, part.index));
                    draft.report.note_change(part.index, why);
                }
                Err(why) => draft.closed_by(part.index, &why),
            },
            "request_timeout" => match keys::duration(&part.entry, TIMEOUT_MS.0, TIMEOUT_MS.1) {
                Ok((value, why)) => {
                    settings.push(Setting::new("timeout", value, part.index));
                    draft.report.note_change(part.index, why);
                }
                Err(why) => draft.closed_by(part.index, &why),
            },
            "connect_timeout" => draft.report.changed(part.index, "`timeout` bounds the whole request"),
            "enable_pipelining" | "max_retries" | "retry_interval" | "max_inactive" | "pool_type" => {
                draft.report.changed(part.index, "connections are kept and a failed question is not repeated");
            }
            key if key.starts_with("request") || key.starts_with("resource_opts") => {
                draft.report.changed(part.index, "see `concurrency`, `timeout` and `breaker_failures`");
            }
            _ => {}
        }
    }
    settings
}

/// Whether the body has fields that our question has too, and the password among them; else the result is closed.
fn asks_the_same(one: &Authenticator, draft: &mut Draft) -> bool {
    let body = |part: &&Part| part.key.starts_with("body.");
    for part in one.parts().iter().filter(body) {
        let name = &part.key["body.".len()..];
        if !FIELDS.contains(&(name, part.entry.value.as_str())) {
            draft.closed_by(
                part.index,
                "the question of ours has the fields clientid, username, password, peerhost and peerport alone, each with the value of its name",
            );
            return false;
        }
    }
    if one.find("body.password").is_none() {
        draft.closed_by(one.first(), "the question of ours has the password, and this one has not");
        return false;
    }
    true
}

/// The token of the header `authorization`. Other headers are not sent.
fn token(one: &Authenticator, draft: &mut Draft) -> Option<ProviderFile> {
    let mut token = None;
    for part in one.parts() {
        let Some(name) = part.key.strip_prefix("headers.") else { continue };
        let value = part.entry.value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-type" if value.starts_with("application/json") => {}
            "accept" | "cache-control" | "connection" | "keep-alive" | "user-agent" => {
                draft.report.changed(part.index, "the client of ours says it in its own way");
            }
            "authorization" if value.starts_with("Bearer ") => {
                let content = format!("{}\n", value["Bearer ".len()..].trim()).into_bytes();
                token =
                    Some(ProviderFile { key: "bearer_token_file", ending: "http-token", content, line: part.index });
            }
            "content-type" => draft.closed_by(part.index, "questions are JSON"),
            _ => draft
                .report
                .refused(part.index, "this header is not sent: a server that requires it refuses all clients"),
        }
    }
    token
}
