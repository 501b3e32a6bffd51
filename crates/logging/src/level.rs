//! How much is logged, and in which form.

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Failures.
    Error,
    /// And what looks wrong.
    Warn,
    /// And who connects and disconnects.
    Info,
    /// And connections that never said who they are.
    Debug,
    /// And what only developers want to know.
    Trace,
}

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}
