//! The end of a command: its exit code, and its message.

use std::io;
use std::process::ExitCode;

use tidegate_client::net::ConnectError;
use tidegate_client::{Dismissal, ProtocolError, PublishError, ReasonCode, RequestError, Version};
use tidegate_mqtt::ConnectReturnCode;

use super::chain::chain;
use super::flags::message_source::ReadError;
use super::flags::{Tool, UsageError};
use super::quoted::Quoted;
use tidegate_terminal::complain;

/// How a command ended that was not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It did its work.
    Done,
    /// The time of `-W` was over first.
    TimedOut,
}

/// The exit code when the time of `-W` is over, as `mosquitto_sub` has it.
const TIMED_OUT_EXIT_CODE: u8 = 27;
const FAILURE_EXIT_CODE: u8 = 1;
const USAGE_EXIT_CODE: u8 = 2;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The command line is wrong.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The payload cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There is no connection.
    #[error("{}", chain(.0))]
    Connect(#[from] ConnectError),
    /// The server refuses the connection.
    #[error("the server refused the connection: {dismissal_text}")]
    Refused { exit_code: u8, reason: ReasonCode, dismissal_text: String },
    /// The server has closed the connection, and it is no use to connect again.
    #[error("the server closed the connection: {dismissal_text}")]
    Dismissed { exit_code: u8, dismissal_text: String },
    /// The connection was lost.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// Something else than an MQTT server answers there.
    #[error("{0}")]
    NotMqtt(ProtocolError),
    /// A signal came before everything was published.
    #[error("interrupted: the server has not acknowledged {waiting} of the messages")]
    Interrupted { waiting: usize },
    /// A message cannot be published.
    #[error("cannot publish to {}: {source}", Quoted(.topic))]
    Publish { topic: String, source: PublishError },
    /// The server refuses a message.
    #[error("the server refused the message: {text}")]
    PublishRefused { exit_code: u8, text: String },
    /// The server refuses all subscriptions.
    #[error("the server refused every subscription: {}", subscription_refusal(*.version, *.reason))]
    SubscribeRefused { version: Version, reason: ReasonCode },
    /// A SUBSCRIBE or UNSUBSCRIBE packet cannot be sent.
    #[error("cannot subscribe: {0}")]
    Request(#[from] RequestError),
    /// The system fails.
    #[error("the system fails: {0}")]
    System(#[from] io::Error),
    /// Standard output fails.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
}

impl CommandError {
    /// The outcome of a CONNACK that refuses the connection. Exit codes are the Connect Return Codes of MQTT 3 and the
    /// Reason Codes of MQTT 5.0, which do not overlap.
    pub(crate) fn refused(version: Version, dismissal: &Dismissal) -> Self {
        let reason = dismissal.reason_code;
        let (exit_code, dismissal_text) = match ConnectReturnCode::from_reason(reason) {
            Some(code) if version != Version::V5 => {
                (code as u8, format!("{} (return code {})", code.text(), code as u8))
            }
            _ => (reason.byte(), describe(dismissal)),
        };
        Self::Refused { exit_code, reason, dismissal_text }
    }

    /// The outcome of a DISCONNECT of the server.
    pub(crate) fn dismissed(dismissal: &Dismissal) -> Self {
        let exit_code = if dismissal.reason_code.is_error() { dismissal.reason_code.byte() } else { FAILURE_EXIT_CODE };
        Self::Dismissed { exit_code, dismissal_text: describe(dismissal) }
    }

    const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE_EXIT_CODE,
            Self::Refused { exit_code, .. }
            | Self::Dismissed { exit_code, .. }
            | Self::PublishRefused { exit_code, .. } => *exit_code,
            Self::SubscribeRefused { reason, .. } => reason.byte(),
            Self::Read(_)
            | Self::Connect(_)
            | Self::Lost(_)
            | Self::NotMqtt(_)
            | Self::Interrupted { .. }
            | Self::Publish { .. }
            | Self::Request(_)
            | Self::System(_)
            | Self::Output(_) => FAILURE_EXIT_CODE,
        }
    }

    /// A hint for the user.
    fn hint(&self, tool: Tool) -> Option<String> {
        match self {
            Self::Usage(_) => Some(format!("`tidegate {} --help` explains the flags", tool.name())),
            Self::Connect(ConnectError::Tls { source, .. }) if source.to_string().contains("expired") => {
                Some("the server needs a new certificate, unless the clock of this machine is wrong".to_owned())
            }
            // These say what to do.
            Self::Connect(ConnectError::Tls { source, .. }) if source.to_string().contains("openssl ") => None,
            Self::Connect(ConnectError::Tls { .. }) => Some(
                "does the server speak TLS there, and does --cafile name the authority of its certificate?".to_owned(),
            ),
            Self::Connect(ConnectError::Connect { .. }) => {
                Some("is the broker running, and is this its host (-h) and port (-p)?".to_owned())
            }
            Self::NotMqtt(ProtocolError::AnotherProtocol { speaks: "TLS" }) => Some(
                "add --cafile FILE, which names the authority of its certificate, or --tls-use-os-certs; or choose a port without TLS (-p)"
                    .to_owned(),
            ),
            Self::Refused { reason, .. } => refusal_hint(*reason).map(str::to_owned),
            Self::SubscribeRefused { version, reason } if is_unnamed(*version, *reason) => Some(UNNAMED_HINT.to_owned()),
            Self::NotMqtt(_) => Some("add --ws for MQTT over WebSocket, or choose another port (-p)".to_owned()),
            _ => None,
        }
    }
}

/// Before MQTT 5.0 a SUBACK has one code for every refusal ([MQTT-3.9.3-2] of 3.1.1).
fn is_unnamed(version: Version, reason: ReasonCode) -> bool {
    version != Version::V5 && reason == ReasonCode::UnspecifiedError
}

const UNNAMED_HINT: &str = "often the user lacks the right to read the topic; add -V 5, with which the server names the reason, or read its log";

/// The reason of a refused subscription, by the name that it has in this version of MQTT.
pub(crate) fn subscription_refusal(version: Version, reason: ReasonCode) -> String {
    if is_unnamed(version, reason) {
        return format!("failure (return code 0x{:02X}, the only one of MQTT {version})", reason.byte());
    }
    reason.to_string()
}

/// The remedy when a connection is refused.
const fn refusal_hint(reason: ReasonCode) -> Option<&'static str> {
    Some(match reason {
        ReasonCode::UnsupportedProtocolVersion => "choose another version of MQTT: -V 5, -V 311 or -V 31",
        ReasonCode::ClientIdentifierNotValid => "choose another client id (-i)",
        ReasonCode::BadUserNameOrPassword => "check the user name (-u) and the password (-P)",
        ReasonCode::NotAuthorized => "name a user (-u) that may connect, with its password (-P)",
        ReasonCode::ServerUnavailable | ReasonCode::ServerBusy => {
            "the server starts, stops or is at a limit; its log has the reason"
        }
        ReasonCode::Banned => "the server has banned this client, user or address; `tidegate ban list` shows bans",
        _ => return None,
    })
}

/// Text for people, from the code, the server's own words and where else to go.
fn describe(dismissal: &Dismissal) -> String {
    let mut text = dismissal.reason_code.to_string();
    if let Some(reason) = &dismissal.reason_string {
        text = format!("{text}: {reason}");
    }
    match &dismissal.server_reference {
        Some(server) => format!("{text}; it names another server: {server}"),
        None => text,
    }
}

/// Tells the person how it went, unless only the exit code is wanted, and turns it into one.
pub(crate) fn finish(tool: Tool, quiet: bool, result: Result<Outcome, CommandError>) -> ExitCode {
    let error = match result {
        Ok(Outcome::Done) => return ExitCode::SUCCESS,
        Ok(Outcome::TimedOut) => {
            if !quiet {
                complain("timed out\n");
            }
            return ExitCode::from(TIMED_OUT_EXIT_CODE);
        }
        // A reader who has seen enough, as `head` does, is no failure.
        Err(CommandError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS;
        }
        Err(error) => error,
    };
    if !quiet || matches!(error, CommandError::Usage(_)) {
        complain(format_args!("error: {error}\n"));
        if let Some(hint) = error.hint(tool) {
            complain(format_args!("hint: {hint}\n"));
        }
    }
    ExitCode::from(error.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_before_mqtt_5_have_the_names_of_their_codes() {
        let dismissal = |reason_code| Dismissal {
            reason_code,
            reason_string: None,
            server_reference: None,
            user_properties: Vec::new(),
        };
        let text = |version, code| CommandError::refused(version, &dismissal(code)).to_string();
        assert_eq!(
            text(Version::V311, ReasonCode::ClientIdentifierNotValid),
            "the server refused the connection: identifier rejected (return code 2)"
        );
        assert_eq!(
            text(Version::V5, ReasonCode::ClientIdentifierNotValid),
            "the server refused the connection: client identifier not valid"
        );
        let refused = |version| CommandError::SubscribeRefused { version, reason: ReasonCode::UnspecifiedError };
        assert_eq!(
            refused(Version::V311).to_string(),
            "the server refused every subscription: failure (return code 0x80, the only one of MQTT 3.1.1)"
        );
        assert!(refused(Version::V311).hint(Tool::Subscribe).unwrap().contains("-V 5"));
        assert_eq!(refused(Version::V5).to_string(), "the server refused every subscription: unspecified error");
        for code in 1..=5 {
            let reason = ConnectReturnCode::from_byte(code).unwrap().reason();
            assert!(refusal_hint(reason).is_some(), "{reason}");
        }
    }

    #[test]
    fn an_expired_certificate_is_not_a_matter_of_authorities() {
        let hint = |source: &str| {
            let (address, source) = ("mqtts://h:8883".to_owned(), io::Error::other(source.to_owned()));
            CommandError::Connect(ConnectError::Tls { address, source }).hint(Tool::Publish).unwrap()
        };
        assert!(hint("invalid peer certificate: certificate expired: verification time 7").contains("new certificate"));
        assert!(hint("invalid peer certificate: UnknownIssuer").contains("--cafile"));
    }
}
