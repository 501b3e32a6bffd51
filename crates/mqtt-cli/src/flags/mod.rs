//! The flags that `pub`, `sub` and `rr` share, spelled as mosquitto's clients spell them.

pub(crate) mod connection;
pub(crate) mod message_source;
pub(crate) mod options_file;
pub(crate) mod output;
pub(crate) mod property;
mod tls;
mod unsupported;
mod url;
mod value;
mod will;

pub(crate) use value::{UsageError, parse_percentage, parse_qos, parse_retain_handling, parse_seconds};

/// The headings of the help.
pub(crate) mod heading {
    pub(crate) const CONNECTION: &str = "Connection";
    pub(crate) const TLS: &str = "TLS";
    pub(crate) const MQTT: &str = "Session and protocol";
    pub(crate) const WILL: &str = "Will";
    pub(crate) const MESSAGE: &str = "Message";
    pub(crate) const SUBSCRIPTION: &str = "Subscription";
    pub(crate) const OUTPUT: &str = "Output";
    pub(crate) const OTHER: &str = "Other";
}

/// One of the three commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Publish,
    Subscribe,
    Request,
}

impl Tool {
    /// Its name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Publish => "pub",
            Self::Subscribe => "sub",
            Self::Request => "rr",
        }
    }
}

/// Reads flags as the command line does.
#[cfg(test)]
pub(crate) fn parse<A: clap::Args>(flags: &[&str]) -> Result<A, clap::Error> {
    let command = A::augment_args(clap::Command::new("tidegate"));
    let matches = command.try_get_matches_from(std::iter::once(&"tidegate").chain(flags))?;
    A::from_arg_matches(&matches)
}

#[cfg(test)]
mod tests;
