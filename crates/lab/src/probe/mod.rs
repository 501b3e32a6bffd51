//! The measured abilities of a broker: its versions, features and limits of MQTT. Whatever can be tried is tried;
//! claims of the broker are marked as claims.

mod checks;
mod conformance;
pub(crate) mod session;
mod version;

pub use conformance::{Conformance, FailedCase, VersionScore};
use serde::Serialize;
pub use session::SessionError;
pub(crate) use version::version_of;

use crate::endpoint::{EndpointError, target_of};
use crate::load::plan::{Target, Transport};
use crate::peer::without_credentials;

/// The name and version of the output of `--json`.
pub const SCHEMA: &str = "tidegate-lab/probe/1";

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Probed {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The broker's address.
    pub address: String,
    /// The findings, in groups.
    pub findings: Vec<Finding>,
    /// The results of the conformance suite, if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conformance: Option<Conformance>,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its group.
    pub group: &'static str,
    /// Its name for scripts; it does not change.
    pub id: &'static str,
    /// Its name.
    pub title: &'static str,
    /// The answer.
    pub answer: Answer,
    /// How it was found: tried, or said by the broker.
    pub how: How,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// A number or a text.
    Value(String),
    /// It could not be found out, and why.
    Unknown(String),
}

/// How an answer was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// It was tried.
    Tried,
    /// The broker's CONNACK claims it.
    Said,
}

/// The reason why a probe failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// An invalid address.
    #[error(transparent)]
    Address(#[from] EndpointError),
    /// Only MQTT over TCP is probed.
    #[error("`{0}` is not MQTT over TCP; give its address as mqtt://HOST:PORT")]
    Transport(String),
    /// There is no answer.
    #[error("no version of MQTT is answered at {address}: {why}")]
    Silent {
        /// The address.
        address: String,
        /// The last reason.
        why: SessionError,
    },
    /// The conformance suite does not reach it.
    #[error("no version of MQTT is answered at {address}: {why}")]
    Conformance {
        /// The address.
        address: String,
        /// The reason.
        why: tidegate_conformance::Unreachable,
    },
}

/// Probes a broker. It takes some seconds, leaves nothing behind, and uses topics below `tidegate-lab/`.
///
/// # Errors
/// When no version of MQTT is answered.
pub fn probe(address: &str) -> Result<Probed, ProbeError> {
    let target: Target = target_of(address)?;
    if target.transport != Transport::Tcp {
        return Err(ProbeError::Transport(without_credentials(address)));
    }
    let findings =
        checks::all(&target).map_err(|why| ProbeError::Silent { address: without_credentials(address), why })?;
    Ok(Probed { schema: SCHEMA, address: without_credentials(address), findings, conformance: None })
}

/// The findings alone, of a target that is MQTT over TCP.
pub(crate) fn findings(target: &Target) -> Result<Vec<Finding>, SessionError> {
    checks::all(target)
}

/// Asks a broker everything, and runs the conformance suite against it, which takes about a minute and opens many
/// connections.
///
/// # Errors
/// As [`probe`]; and when the suite does not reach the broker.
pub fn probe_with_conformance(address: &str) -> Result<Probed, ProbeError> {
    let mut probed = probe(address)?;
    let target: Target = target_of(address)?;
    let found = conformance::check(&target)
        .map_err(|why| ProbeError::Conformance { address: without_credentials(address), why })?;
    probed.conformance = Some(found);
    Ok(probed)
}

impl Finding {
    fn tried(group: &'static str, id: &'static str, title: &'static str, answer: Answer) -> Self {
        Self { group, id, title, answer, how: How::Tried }
    }

    fn said(group: &'static str, id: &'static str, title: &'static str, answer: Answer) -> Self {
        Self { group, id, title, answer, how: How::Said }
    }
}

impl Answer {
    fn from_bool(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }

    /// Yes or no, or the error.
    fn from_result(result: Result<bool, SessionError>) -> Self {
        match result {
            Ok(yes) => Self::from_bool(yes),
            Err(why) => Self::Unknown(why.to_string()),
        }
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Yes => formatter.write_str("yes"),
            Self::No => formatter.write_str("no"),
            Self::Value(value) => formatter.write_str(value),
            Self::Unknown(why) => write!(formatter, "not found out: {why}"),
        }
    }
}
