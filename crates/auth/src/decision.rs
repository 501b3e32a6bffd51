//! The decision of a provider, and of the chain, about a request.

use crate::mark::Mark;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The client comes in, as this.
    Allow(Identity),
    /// The client is refused.
    Deny(Refusal),
    /// The provider does not decide about this client; the next one is asked. A chain never returns this.
    Ignore,
}

/// The identity of a client, from the provider that accepted it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The name of the provider that let it in.
    pub provider: String,
    /// The user name that rules use from now on. It may differ from that of CONNECT.
    pub user_name: Option<String>,
    /// The client id, when the provider dictates it.
    pub client_id: Option<String>,
    /// The tenant, when the provider dictates it.
    pub tenant: Option<String>,
    /// Whether rules do not apply.
    pub superuser: bool,
    /// Further attributes for rules, such as claims of a token or fields of a certificate. At most
    /// [`Identity::MAX_ATTRIBUTES`].
    pub attributes: Vec<(String, String)>,
    /// The rights of the client, when the provider grants them, too.
    pub rules: Option<AclClaims>,
    /// When the connection must end, in milliseconds since 1970 (UTC).
    pub expires_at: Option<u64>,
    /// The mark of the accepted credential. A provider with several keys sets it, else the chain.
    pub mark: Option<Mark>,
}

impl Identity {
    /// Attributes that an identity has at most; more are left out.
    pub const MAX_ATTRIBUTES: usize = 64;
    /// Rules that [`AclClaims`] has at most; an answer with more is refused.
    pub const MAX_RULES: usize = 256;
}

/// The rights of a client, as rules: the first that matches decides. Without a match, the action is denied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclClaims {
    /// The rules, at most [`Identity::MAX_RULES`].
    pub rules: Vec<AclRule>,
}

/// One rule of [`AclClaims`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclRule {
    /// Whether it allows or forbids.
    pub allow: bool,
    /// The action that it covers.
    pub action: AclAction,
    /// The topic filter as it was given. `%c`, `%u`, `${clientid}` and `${username}` are to be replaced by client id
    /// and user name, as whole text that never adds levels or wildcards.
    pub filter: String,
    /// Whether the filter is compared literally, with its wildcards, instead of matched.
    pub literal: bool,
    /// QoS 0, 1 and 2: for which of them it holds.
    pub qos: [bool; 3],
    /// For retained messages only, or for others only, or for both.
    pub retain: Option<bool>,
}

/// The action that a rule of [`AclClaims`] covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclAction {
    /// Publishing.
    Publish,
    /// Subscribing.
    Subscribe,
    /// Both.
    All,
}

/// Why a client is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason sent to the client.
    pub kind: RefusalKind,
    /// The name of the provider that decided; empty when the chain did.
    pub provider: String,
    /// Why, for the log. It holds no secret, and is not for the client.
    pub why: String,
}

impl Refusal {
    /// A refusal in words for the log.
    pub fn new(kind: RefusalKind, provider: &str, why: impl Into<String>) -> Self {
        Self { kind, provider: provider.to_owned(), why: why.into() }
    }

    /// A refusal by the chain itself.
    pub(crate) fn by_chain(kind: RefusalKind, why: impl Into<String>) -> Self {
        Self::new(kind, "", why)
    }
}

/// Kinds of refusal, each with its own reason code towards the client (MQTT 5, 3.2.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// The user name or password is wrong or unknown: 0x86.
    BadCredentials,
    /// It is clear who the client is, and it may not come in: 0x87.
    NotAuthorized,
    /// The client is banned: 0x8A.
    Banned,
    /// No decision was possible in time: 0x88. The client may try again.
    Unavailable,
    /// No provider supports this method of enhanced authentication: 0x8C.
    BadMethod,
}

impl RefusalKind {
    /// A label for logs and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::BadCredentials => "bad-credentials",
            Self::NotAuthorized => "not-authorized",
            Self::Banned => "banned",
            Self::Unavailable => "unavailable",
            Self::BadMethod => "bad-method",
        }
    }
}
