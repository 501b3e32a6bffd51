//! Why a peer could not be had.

use std::io;
use std::path::PathBuf;

use tidegate_document::Findings;

use crate::misspelt::meant;

/// Why a peer could not be read, installed, started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// No template has the name.
    #[error("no peer is called `{name}`{}; there are {}, or name one as NAME=mqtt://HOST:PORT", meant(name, known), known.join(", "))]
    Unknown {
        /// The requested name.
        name: String,
        /// All there are.
        known: Vec<String>,
    },
    /// A template without that address.
    #[error("{peer} has no address called `{asked}`; it has {}", known.join(", "))]
    NoAddress {
        /// The peer.
        peer: String,
        /// The requested action.
        asked: String,
        /// All it has.
        known: Vec<String>,
    },
    /// An invalid address.
    #[error("`{text}` is no address such as mqtt://HOST:PORT or NAME=mqtt://HOST:PORT#PID")]
    Address {
        /// The given text.
        text: String,
    },
    /// A template with a wrong key or value.
    #[error("{0}")]
    Syntax(Findings),
    /// A template that cannot be read.
    #[error("the template {path} is wrong: {message}")]
    Template {
        /// The file.
        path: String,
        /// The place and the reason.
        message: String,
    },
    /// A program that is not there.
    #[error("{peer} is not installed: {} is not there; {next}", alternatives.join(" or "))]
    Missing {
        /// The peer.
        peer: String,
        /// The searched files; one of them is enough.
        alternatives: Vec<String>,
        /// The remedy.
        next: String,
    },
    /// A peer that this program cannot install.
    #[error("{peer} cannot be installed by the lab: {hint}")]
    NotInstallable {
        /// The peer.
        peer: String,
        /// The way to install it instead.
        hint: String,
    },
    /// A step of an installation that failed.
    #[error("installing {peer}: `{command}` {message}")]
    Step {
        /// The peer.
        peer: String,
        /// The command.
        command: String,
        /// How it ended.
        message: String,
    },
    /// It ended, or did not answer in time.
    #[error("{peer} did not get ready: {why}; the end of its log ({}):\n{tail}", log.display())]
    NotReady {
        /// The peer.
        peer: String,
        /// How long was waited, or how it ended.
        why: String,
        /// Whether it ended.
        ended: bool,
        /// Its standard output and error.
        log: PathBuf,
        /// The end of it.
        tail: String,
    },
    /// It is one broker, and not several gateways.
    #[error("{peer} is one broker: a gateway of several can be killed with the peers that are called `gateways-...`")]
    OneGateway {
        /// The peer.
        peer: String,
    },
    /// Too few ports are free.
    #[error("fewer than {wanted} ports between {from} and {to} are free; name others with --ports FROM-TO")]
    NoPorts {
        /// How many are needed.
        wanted: usize,
        /// The first of the range.
        from: u16,
        /// The last of the range.
        to: u16,
    },
    /// The system refused.
    #[error("cannot {attempt} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        attempt: &'static str,
        /// Its file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Stopped on request.
    #[error("stopped while {peer} was started")]
    Stopped {
        /// The peer.
        peer: String,
    },
}

impl PeerError {
    pub(super) fn io(attempt: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { attempt, path, source }
    }
}
