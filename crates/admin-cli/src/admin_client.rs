//! The admin listener that a command speaks to, and texts of its answers for a terminal.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tidegate_admin::{AdminClient, ClientError, Request, read_token};
use tidegate_terminal::{Exit, complain};
pub use tidegate_units::visible::shown;

/// Time for an answer.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The address of the admin API, and the token.
#[derive(Clone, Debug, Args)]
pub struct AdminArgs {
    /// The broker's admin address, as its line that says "ready" names it
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:18083")]
    pub admin: String,

    /// File with the token of the broker's `admin.token_file`
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Why the broker gave no answer that is of use.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The token cannot be read.
    #[error("cannot read the token in {}: {source}", .path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There is no answer, or it is a refusal.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl AdminArgs {
    /// A client of the broker.
    ///
    /// # Errors
    /// When the address is invalid or the token cannot be read.
    pub fn client(&self, timeout: Duration) -> Result<AdminClient, AdminError> {
        let read = |path: &PathBuf| read_token(path).map_err(|source| AdminError::Token { path: path.clone(), source });
        let token = self.token_file.as_ref().map(read).transpose()?;
        Ok(AdminClient::new(&self.admin, token, timeout)?)
    }

    /// Makes a request and reads its answer.
    ///
    /// # Errors
    /// When there is no answer, or it is a refusal.
    pub fn send<R: Request>(&self, request: &R) -> Result<R::Answer, AdminError> {
        Ok(self.client(TIMEOUT)?.send(request)?)
    }
}

/// An answer as JSON on one line, for scripts.
pub fn json_line<T: serde::Serialize>(answer: &T) -> String {
    // Answers have been read from JSON, so they can be written as JSON.
    serde_json::to_string(answer).unwrap_or_default() + "\n"
}

/// True if an answer covers several nodes, so that each entry needs its node.
pub fn is_of_several(nodes: &[String], unreachable: &[String]) -> bool {
    nodes.len() + unreachable.len() > 1
}

/// The beginning of a sentence about an empty answer: it holds only for the nodes that answered.
pub fn of_answering(unreachable: &[String]) -> &'static str {
    if unreachable.is_empty() { "" } else { "on the nodes that answered: " }
}

/// Names the nodes that did not answer on standard error; returns the exit code for that.
pub fn name_unreachable(nodes: &[String]) -> Exit {
    for node in nodes {
        complain(format_args!("node {} did not answer; the rest of the cluster did\n", shown(node)));
    }
    if nodes.is_empty() { Exit::Ok } else { Exit::LeftOut }
}

/// A time in milliseconds since 1970, in this machine's time zone.
pub fn time(millis: u64) -> String {
    let time = i64::try_from(millis).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    match time {
        Some(time) => time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S%.3f").to_string(),
        None => "-".to_owned(),
    }
}
