//! Reads configurations of EMQX, HiveMQ, NanoMQ, RabbitMQ and VerneMQ and makes a configuration of ours of each.
//!
//! A setting that restricts who may connect, publish or subscribe is carried over; if it cannot be, its listener is left
//! out or refuses all clients. An unknown setting counts as a restriction. The result is never more open
//! than the original. The crate reads files only through a function that it is given.

mod draft;
mod emqx;
mod entry;
mod erlang;
mod expression;
mod hash;
mod hivemq;
mod hocon;
mod keys;
mod listener;
mod nanomq;
mod provider;
mod rabbitmq;
mod rule;
mod vernemq;

use std::borrow::Cow;
use std::io;

use tidegate_conversion::{Conversion, File, KeyRow, key_page};

pub use keys::Key;
pub use provider::KeyFile;

/// A broker whose configuration can be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broker {
    /// `emqx.conf`, with its files of users and rules.
    Emqx,
    /// `config.xml`, and the files of its file RBAC extension.
    HiveMq,
    /// `nanomq.conf`, with its files of users and rules.
    NanoMq,
    /// `rabbitmq.conf`, or `definitions.json`.
    RabbitMq,
    /// `vernemq.conf`, with `vmq.passwd` and `vmq.acl`.
    VerneMq,
}

impl Broker {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Emqx, Self::HiveMq, Self::NanoMq, Self::RabbitMq, Self::VerneMq];

    /// The word for scripts.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Emqx => "emqx",
            Self::HiveMq => "hivemq",
            Self::NanoMq => "nanomq",
            Self::RabbitMq => "rabbitmq",
            Self::VerneMq => "vernemq",
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Emqx => "EMQX",
            Self::HiveMq => "HiveMQ",
            Self::NanoMq => "NanoMQ",
            Self::RabbitMq => "RabbitMQ",
            Self::VerneMq => "VerneMQ",
        }
    }

    /// Its keys.
    pub const fn keys(self) -> &'static [Key] {
        match self {
            Self::Emqx => emqx::KEYS,
            Self::HiveMq => hivemq::KEYS,
            Self::NanoMq => nanomq::KEYS,
            Self::RabbitMq => rabbitmq::KEYS,
            Self::VerneMq => vernemq::KEYS,
        }
    }

    /// The page of its keys, as Markdown: each with its outcome.
    pub fn key_page(self) -> String {
        let rows = self.keys().iter().map(|key| KeyRow {
            name: Cow::Borrowed(key.pattern),
            outcome: key.outcome(),
            restricts: key.restricts,
            how: key.how,
        });
        key_page(self.name(), rows)
    }
}

/// A user of the result.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The user name.
    pub name: String,
    /// The password.
    pub password: Password,
}

/// A password as the other broker keeps it.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    /// The password itself; it must be hashed before it is written.
    Plain(String),
    /// A hash in the form of our password files.
    Hash(String),
}

impl std::fmt::Debug for User {
    /// The name alone.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// The configuration and the outcome of each setting.
    pub conversion: Conversion,
    /// The content of the password file that the configuration names; empty if it names none.
    pub users: Vec<User>,
    /// Files with secrets and keys that the configuration names; the caller writes them, too.
    pub files: Vec<KeyFile>,
}

/// Why a file is not converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// No setting of this broker is in it.
    #[error("this is no configuration of {0}")]
    NotTheirs(&'static str),
    /// It breaks the grammar of HOCON.
    #[error(transparent)]
    Hocon(#[from] hocon::HoconError),
    /// It breaks the grammar of XML.
    #[error("this is no XML: {0}")]
    Xml(String),
    /// It is no JSON with users.
    #[error("this is no definitions.json: {0}")]
    Json(String),
}

/// Converts the configuration of a broker.
///
/// `users_file` is the path at which the caller writes the users of the result. `read` reads a file that the
/// configuration names; the caller resolves relative names. `verifies` says whether a password, its first argument,
/// fits a hash of the form of our password files.
///
/// # Errors
///
/// When the text is no configuration of this broker, or breaks its grammar.
pub fn convert(
    broker: Broker,
    file: &File,
    users_file: &str,
    read: &dyn Fn(&str) -> io::Result<String>,
    verifies: &dyn Fn(&str, &str) -> bool,
) -> Result<Converted, ConvertError> {
    let draft = match broker {
        Broker::Emqx => emqx::draft(file, read)?,
        Broker::HiveMq => hivemq::draft(file, read)?,
        Broker::NanoMq => nanomq::draft(file, read)?,
        Broker::RabbitMq => rabbitmq::draft(file, read, verifies)?,
        Broker::VerneMq => vernemq::draft(file, read)?,
    };
    Ok(draft.finish(&file.name, users_file))
}

/// The broker whose configuration this is, by its content.
pub fn recognise(text: &str) -> Option<Broker> {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    if start.starts_with('<') {
        return text.contains("<hivemq").then_some(Broker::HiveMq);
    }
    if rabbitmq::is_definitions(start) {
        return Some(Broker::RabbitMq);
    }
    let keys: Vec<String> = text.lines().filter_map(first_word).collect();
    let any = |known: &[&str]| {
        keys.iter().any(|key| {
            known.iter().any(|known| match known.strip_suffix('*') {
                Some(beginning) => key.starts_with(beginning),
                None => key == known,
            })
        })
    };
    if any(rabbitmq::MARKS) {
        return Some(Broker::RabbitMq);
    }
    if any(vernemq::MARKS) {
        return Some(Broker::VerneMq);
    }
    // NanoMQ's files are like EMQX's.
    if any(nanomq::MARKS) {
        return Some(Broker::NanoMq);
    }
    any(emqx::MARKS).then_some(Broker::Emqx)
}

/// The key at the beginning of a line with a value or an object.
fn first_word(line: &str) -> Option<String> {
    let line = line.trim();
    if line.starts_with(['#', '/', '%']) {
        return None;
    }
    let end = line.find(['=', '{', ':', '['])?;
    let key = line[..end].trim().trim_matches('"');
    (!key.is_empty() && !key.contains(char::is_whitespace)).then(|| key.to_owned())
}

#[cfg(test)]
mod tests;
