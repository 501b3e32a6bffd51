//! Authentication of clients by an ordered chain of named providers.
//!
//! A [`Chain`] is asked about a [`Request`] and answers later with a [`Decision`], on its own thread: passwords
//! are hashed and other servers are waited for here, never on a thread that works clients. A bounded cache answers a
//! reconnect storm, equal requests at the same time are decided once, and requests beyond the limit are
//! refused as [`RefusalKind::Unavailable`] instead of waiting without bound.
//!
//! The first provider that does not [ignore](Decision::Ignore) a request decides about it. When all ignore it, the
//! client is refused. The caller decides, before it asks, whether a client without credentials is accepted.
//!
//! `chain` asks and remembers, `provider` is the interface and `providers` has a file or folder for each, [`password`]
//! hashes and reads files of users, `fetch` speaks HTTP to other servers, `settings` configures a chain.

mod api_key;
mod chain;
mod clock;
mod decision;
#[cfg(test)]
mod fake_server;
mod fetch;
mod fleet_asker;
mod mark;
pub mod password;
mod permits;
mod provider;
mod providers;
mod request;
#[cfg(test)]
mod scratch;
mod settings;

pub use api_key::{KeyFile, KeyFileError, KeyName};
pub use chain::{Answer, Chain, Counters, Differences, Prepared, SettingsError};
pub use clock::{Clock, SystemClock};
pub use decision::{AclAction, AclClaims, AclRule, Decision, Identity, Refusal, RefusalKind};
pub use fetch::FetchError;
pub use fleet_asker::{AskFleet, FleetAsker};
pub use mark::Mark;
pub use provider::{Exchange, Step};
pub use providers::{KeyProblem, KeysError, ProviderError, is_algorithm};
pub use request::{ClientCertificate, Enhanced, Request, Secret};
pub use settings::{
    CacheSettings, CertificateSettings, ChainSettings, FleetSettings, HttpSettings, JwtKeys, JwtSettings, NameSource,
    ProviderKind, ProviderSettings, ScramSettings, TokenPlace, UserFileSettings, WhenUnreachable,
};
