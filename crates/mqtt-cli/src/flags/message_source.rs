//! The source of the payload.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::Args;
use tidegate_client::MAX_PACKET_SIZE;

use super::{UsageError, heading};

/// Flags for the source of the payload.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MessageSourceFlags {
    /// Publish this text
    #[arg(short = 'm', long, value_name = "TEXT", allow_hyphen_values = true, help_heading = heading::MESSAGE)]
    message: Option<OsString>,

    /// Publish the content of a file
    #[arg(short = 'f', long, value_name = "FILE", help_heading = heading::MESSAGE)]
    file: Option<PathBuf>,

    /// Publish all of standard input as one message
    #[arg(short = 's', long, help_heading = heading::MESSAGE)]
    stdin_file: bool,

    /// Publish an empty message; with -r it removes the retained one
    #[arg(short = 'n', long, help_heading = heading::MESSAGE)]
    null_message: bool,
}

/// The source of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MessageSource {
    Text(Vec<u8>),
    File(PathBuf),
    StandardInput,
}

impl MessageSourceFlags {
    /// The source, if one is given.
    ///
    /// # Errors
    /// When there are several.
    pub(crate) fn source(&self) -> Result<Option<MessageSource>, UsageError> {
        let text = self.message.clone().map(|text| MessageSource::Text(text.into_vec()));
        let sources = [
            text,
            self.file.clone().map(MessageSource::File),
            self.stdin_file.then_some(MessageSource::StandardInput),
            self.null_message.then_some(MessageSource::Text(Vec::new())),
        ];
        let mut sources = sources.into_iter().flatten();
        match (sources.next(), sources.next()) {
            (_, Some(_)) => Err(several()),
            (source, None) => Ok(source),
        }
    }
}

/// More than one source is given.
pub(crate) fn several() -> UsageError {
    UsageError::new("a message comes from one place only: -m, -f, -s, -n or, with pub, -l")
}

/// No source is given.
pub(crate) fn none() -> UsageError {
    UsageError::new("there is nothing to publish: add -m TEXT, -f FILE, -s, -n or, with pub, -l")
}

impl MessageSource {
    /// Reads the payload.
    ///
    /// # Errors
    /// When it cannot be read, or is longer than any message.
    pub(crate) fn read(self) -> Result<Vec<u8>, ReadError> {
        match self {
            Self::Text(payload) => Ok(payload),
            Self::StandardInput => standard_input(io::stdin().lock()),
            Self::File(path) => {
                let name = format!("'{}'", path.display());
                match File::open(&path) {
                    Ok(file) => read_all(file, &name),
                    Err(source) => Err(ReadError::Failed { name, source }),
                }
            }
        }
    }
}

/// Why there is no payload.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The system refuses.
    #[error("cannot read {name}: {source}")]
    Failed { name: String, source: io::Error },
    /// It is longer than any message.
    #[error("{name} is longer than {MAX_PACKET_SIZE} bytes, the longest message of MQTT")]
    TooLong { name: String },
    /// Most often the program before this one has failed, and an empty message clears a retained one.
    #[error("standard input is empty; write -n in place of -s to publish an empty message")]
    NoInput,
}

fn standard_input(source: impl Read) -> Result<Vec<u8>, ReadError> {
    let payload = read_all(source, "standard input")?;
    if payload.is_empty() { Err(ReadError::NoInput) } else { Ok(payload) }
}

fn read_all(source: impl Read, name: &str) -> Result<Vec<u8>, ReadError> {
    let name = name.to_owned();
    let mut payload = Vec::new();
    match source.take(u64::from(MAX_PACKET_SIZE) + 1).read_to_end(&mut payload) {
        Ok(count) if count > MAX_PACKET_SIZE as usize => Err(ReadError::TooLong { name }),
        Ok(_) => Ok(payload),
        Err(source) => Err(ReadError::Failed { name, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_input_is_no_message() {
        assert!(matches!(standard_input(io::empty()), Err(ReadError::NoInput)));
        assert_eq!(standard_input(&b"21.5"[..]).unwrap(), b"21.5");
    }
}
