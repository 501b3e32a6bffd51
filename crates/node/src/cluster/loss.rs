//! Why a session ended, or never began.

use std::io;

use tidegate_engine::WireError;

use super::NodeName;
use super::handshake::HandshakeError;
use super::wire::{FrameError, Refusal};

/// Why a session ended, or never began.
#[derive(Debug, thiserror::Error)]
pub(super) enum Loss {
    /// The other node leaves.
    #[error("it said goodbye")]
    Goodbye,
    /// It has closed the connection after this node has said goodbye.
    #[error("this node said goodbye")]
    Left,
    /// The view has it no longer, or in another life.
    #[error("it is no longer in the view of the cluster, or in another life")]
    NotInView,
    /// It has begun another session.
    #[error("it has begun a new session")]
    Replaced,
    #[error("it has closed the connection")]
    Closed,
    /// The node that carried its bytes is linked no longer.
    #[error("the relaying link to node {0} ended")]
    Carrier(NodeName),
    /// The node that was asked to carry its bytes has no link to it.
    #[error("node {0} has no link to it either")]
    Unreachable(NodeName),
    /// Too many carried bytes waited at the node that carried it.
    #[error("the relaying node {0} had no space for it")]
    NoRoom(NodeName),
    /// The session that the connection was to continue is over.
    #[error("the session that it was to continue has ended")]
    NothingToContinue,
    /// Its connection is that of another session now.
    #[error("an indirect session continues over its connection")]
    Merged,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{}", tls_text(.0))]
    Tls(#[from] rustls::Error),
    #[error("it did not say who it is, and newer connections needed its place among {0}")]
    Displaced(usize),
    #[error("it sent nothing for {0} ms")]
    Silent(u128),
    #[error("it read none of its waiting data for {0} ms")]
    Stalled(u128),
    #[error("more waits for it than the {0} bytes that may")]
    Overflow(u64),
    #[error("it does not connect or shake hands within {0} ms")]
    Slow(u128),
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("its records cannot be read: {0}")]
    Records(WireError),
    #[error("it speaks of a shard that there is not")]
    Shard,
    #[error("it sent a message that is not part of a session")]
    OutOfPlace,
    #[error("there are no numbers left for its {0} shards; a process has 64 for the shards of all nodes")]
    Numbers(u16),
    #[error("the system gives no random numbers")]
    Random,
}

/// The message of TLS, in words for operators.
fn tls_text(error: &rustls::Error) -> String {
    use rustls::{AlertDescription as Alert, Error};
    match error {
        Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => {
            "it does not speak TLS; set cluster.tls to the same on all nodes".to_owned()
        }
        Error::InvalidCertificate(why) => format!("its certificate is refused (cluster.tls_ca): {why}"),
        Error::NoCertificatesPresented => "it shows no certificate; set cluster.tls to the same on all nodes".to_owned(),
        Error::AlertReceived(Alert::UnknownCA | Alert::BadCertificate | Alert::DecryptError) => {
            "it refuses the certificate of this node (cluster.tls_certificate): no authority that it knows has issued it".to_owned()
        }
        Error::AlertReceived(Alert::CertificateRequired) => {
            "it wants a certificate of this node; set cluster.tls to the same on all nodes".to_owned()
        }
        error => format!("TLS: {error}"),
    }
}

impl Loss {
    /// Whether this is how sessions are meant to end.
    pub(super) fn is_orderly(&self) -> bool {
        matches!(self, Self::Goodbye | Self::Left | Self::NotInView)
    }

    /// Whether another way to the node may work: its address is silent or does not answer.
    pub(super) fn is_of_the_way(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Slow(_) | Self::Closed | Self::Silent(_) | Self::Stalled(_))
    }

    /// The refusal to send to the other side before the connection closes, if a handshake is in progress.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Handshake(error) => error.refusal(),
            Self::Frame(FrameError::Version(_)) => Some(Refusal::Version),
            Self::Frame(_) => Some(Refusal::Protocol),
            Self::Numbers(_) => Some(Refusal::Shards),
            _ => None,
        }
    }

    /// True if the cause is only the order in which nodes learn of each other, so that it ends without intervention.
    pub(super) fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Handshake(
                HandshakeError::Unknown(_)
                    | HandshakeError::Incarnation { .. }
                    | HandshakeError::Refused(Refusal::Unknown | Refusal::Incarnation)
            )
        )
    }
}
