//! The answer of a server: `{"result": "allow" | "deny" | "ignore", "is_superuser": false, "client_attrs": {"group":
//! "a"}, "expire_at": 1700000000, "acl": [...]}`. EMQX uses the same format, so a server written for EMQX works here.

use serde_json::{Map, Value};

use crate::decision::{Decision, Identity, Refusal, RefusalKind};
use crate::providers::acl_claims::{self, ClaimError};

/// Longest attribute that is kept, in bytes.
const MAX_ATTRIBUTE_LEN: usize = 1024;

/// Why there is no decision.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerError {
    /// The server does not work: it counts towards leaving it alone.
    Failed(String),
    /// The server answered with invalid data.
    Unclear(String),
}

/// The invalid part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("the answer is no JSON")]
    NoJson,
    #[error("the answer is no JSON object")]
    NoObject,
    #[error("`result` is neither allow nor deny nor ignore")]
    Result,
    #[error("`{0}` is no text of 1 to 65535 bytes")]
    NoText(&'static str),
    #[error("`is_superuser` is neither true nor false")]
    Superuser,
    #[error("`expire_at` is no whole number of seconds since 1970")]
    Expiry,
    #[error("`client_attrs` is no object")]
    Attributes,
    #[error("`client_attrs` has more than {} fields", Identity::MAX_ATTRIBUTES)]
    TooManyAttributes,
    #[error("a field of `client_attrs` is no text of at most {MAX_ATTRIBUTE_LEN} bytes")]
    Attribute,
    #[error(transparent)]
    Rules(#[from] ClaimError),
}

/// Reads an answer. 204 lets the client in, 401 and 403 refuse it, 200 says it in its body; anything else is a failure.
pub(super) fn read(provider: &str, status: u16, body: &[u8]) -> Result<Decision, AnswerError> {
    match status {
        200 => from_body(provider, body).map_err(|problem| AnswerError::Unclear(problem.to_string())),
        204 => Ok(Decision::Allow(Identity::default())),
        401 => Ok(deny(provider, RefusalKind::BadCredentials)),
        403 => Ok(deny(provider, RefusalKind::NotAuthorized)),
        other => Err(AnswerError::Failed(format!("the server answered with status {other}"))),
    }
}

fn deny(provider: &str, kind: RefusalKind) -> Decision {
    Decision::Deny(Refusal::new(kind, provider, "the server refuses the client"))
}

fn from_body(provider: &str, body: &[u8]) -> Result<Decision, Problem> {
    let value: Value = serde_json::from_slice(body).map_err(|_| Problem::NoJson)?;
    let fields = value.as_object().ok_or(Problem::NoObject)?;
    match fields.get("result").and_then(Value::as_str) {
        Some("allow") => identity(fields).map(Decision::Allow),
        Some("deny") => Ok(deny(provider, RefusalKind::BadCredentials)),
        Some("ignore") => Ok(Decision::Ignore),
        _ => Err(Problem::Result),
    }
}

fn identity(fields: &Map<String, Value>) -> Result<Identity, Problem> {
    let present = |name: &str| fields.get(name).filter(|value| !value.is_null());
    let text = |name: &'static str| match present(name) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() && u16::try_from(text.len()).is_ok() => Ok(Some(text.clone())),
        Some(_) => Err(Problem::NoText(name)),
    };
    Ok(Identity {
        user_name: text("username")?,
        client_id: text("clientid")?,
        tenant: text("tenant")?,
        superuser: match present("is_superuser") {
            None => false,
            Some(Value::Bool(truth)) => *truth,
            Some(_) => return Err(Problem::Superuser),
        },
        attributes: present("client_attrs").map(attributes).transpose()?.unwrap_or_default(),
        rules: present("acl").map(acl_claims::parse).transpose()?,
        expires_at: match present("expire_at") {
            None => None,
            Some(value) => {
                let seconds = value.as_u64().ok_or(Problem::Expiry)?;
                Some(seconds.saturating_mul(1000))
            }
        },
        ..Identity::default()
    })
}

fn attributes(value: &Value) -> Result<Vec<(String, String)>, Problem> {
    let fields = value.as_object().ok_or(Problem::Attributes)?;
    if fields.len() > Identity::MAX_ATTRIBUTES {
        return Err(Problem::TooManyAttributes);
    }
    let attribute = |(name, value): (&String, &Value)| match value.as_str() {
        Some(text) if text.len() <= MAX_ATTRIBUTE_LEN => Ok((name.clone(), text.to_owned())),
        _ => Err(Problem::Attribute),
    };
    fields.iter().map(attribute).collect()
}
