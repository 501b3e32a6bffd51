//! The options of a run of the suite.

use crate::version::Version;
use std::time::Duration;

/// The address of the broker, and the cases to run against it.
#[derive(Clone, Debug)]
pub struct Options {
    /// `HOST:PORT` of the broker's TCP listener.
    pub broker: String,
    /// `HOST:PORT` or `HOST:PORT/PATH` of the broker's WebSocket listener; cases about WebSocket are skipped without.
    pub websocket: Option<String>,
    /// User name for every connection that is not about credentials.
    pub user_name: Option<String>,
    /// Password for every connection that is not about credentials.
    pub password: Option<String>,
    /// Only cases whose name contains one of these, or that prove a statement of this identifier. Empty: all.
    pub only: Vec<String>,
    /// Cases whose name contains one of these are left out.
    pub except: Vec<String>,
    /// Only these versions. Empty: all.
    pub versions: Vec<Version>,
    /// Cases that run at the same time; 1 runs them one after another. At least 1.
    pub jobs: usize,
    /// How long an answer may take at most. Passing cases do not wait; only a missing answer costs this time.
    pub patience: Duration,
    /// Also demand what this project's broker promises beyond the specification: a DISCONNECT with the fitting reason
    /// code before a connection of MQTT 5 is closed for an error, and single copies for overlapping subscriptions.
    pub strict: bool,
}

impl Options {
    /// All cases, sixteen at a time, five seconds of patience.
    pub fn new(broker: impl Into<String>) -> Self {
        Self {
            broker: broker.into(),
            websocket: None,
            user_name: None,
            password: None,
            only: Vec::new(),
            except: Vec::new(),
            versions: Vec::new(),
            jobs: 16,
            patience: Duration::from_secs(5),
            strict: false,
        }
    }
}
