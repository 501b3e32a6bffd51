//! `tidegate key`: API keys of users in a file.

use std::fmt::Write;
use std::path::PathBuf;

use crate::file_lock::{FileLock, FileLockError};
use clap::{Args as ClapArgs, Subcommand};
use tidegate_auth::{KeyFile, KeyFileError};

use tidegate_terminal::{Exit, complain, print_and_exit, report};

const ADD: &str = "\
Examples:
  tidegate key add keys acme             make a key for the user acme, and the file when it is not there
  tidegate key add keys acme > acme.key  save the key in a file
The key is printed once; the file keeps a hash. A running broker takes it over with `tidegate reload`.";

const REVOKE: &str = "\
Example:
  tidegate key revoke keys 5d0c86e1b2f4 && tidegate reload
The reload ends the connections of the user; clients with another key return.";

/// Commands on a file of keys.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key for a user, and print it once
    #[command(after_help = ADD)]
    Add(AddArgs),
    /// List the users and the ids of keys
    List(FileArgs),
    /// Remove the key with this id
    #[command(after_help = REVOKE)]
    Revoke(RevokeArgs),
}

/// The arguments of `key list`.
#[derive(Debug, ClapArgs)]
pub struct FileArgs {
    /// The file
    file: PathBuf,
}

/// The arguments of `key add`.
#[derive(Debug, ClapArgs)]
pub struct AddArgs {
    /// The file
    file: PathBuf,
    /// The user name of clients that show the key: 1 to 64 letters, digits, `-` and `_`
    user: String,
}

/// The arguments of `key revoke`.
#[derive(Debug, ClapArgs)]
pub struct RevokeArgs {
    /// The file
    file: PathBuf,
    /// The id of the key: its part between the user name and the secret
    id: String,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    #[error(transparent)]
    File(#[from] KeyFileError),
    #[error(transparent)]
    Lock(#[from] FileLockError),
    #[error("there is no key with the id `{0}`; `tidegate key list` shows the ids")]
    NoKey(String),
}

/// Carries out the command.
pub fn run(command: &KeyCommand) -> Exit {
    match carry_out(command) {
        Ok(text) => print_and_exit(&text, Exit::Ok),
        Err(error) => {
            report(&error);
            if matches!(error, KeyError::File(KeyFileError::User)) { Exit::Usage } else { Exit::Failure }
        }
    }
}

/// Changes the file, and returns the text to print.
fn carry_out(command: &KeyCommand) -> Result<String, KeyError> {
    match command {
        KeyCommand::Add(AddArgs { file, user }) => {
            let _lock = FileLock::acquire(file)?;
            let mut keys = if file.exists() { KeyFile::load(file)? } else { KeyFile::default() };
            let key = keys.add(user)?;
            keys.save(file)?;
            if keys.is_exposed() {
                let file = file.display();
                complain(format!("warning: others than its owner may read or write {file}; set its mode to 600\n"));
            }
            Ok(format!("{key}\n"))
        }
        KeyCommand::List(FileArgs { file }) => {
            let mut text = String::new();
            for key in KeyFile::load(file)?.names() {
                let _ = writeln!(text, "{}  {}", key.id, key.user);
            }
            Ok(text)
        }
        KeyCommand::Revoke(RevokeArgs { file, id }) => {
            let _lock = FileLock::acquire(file)?;
            let mut keys = KeyFile::load(file)?;
            if !keys.revoke(id) {
                return Err(KeyError::NoKey(id.clone()));
            }
            keys.save(file)?;
            Ok(String::new())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_at_the_same_time_keep_all_their_keys() {
        let folder = std::env::temp_dir().join(format!("tidegate-keys-at-once-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("keys");
        let add = || {
            for _ in 0..8 {
                carry_out(&KeyCommand::Add(AddArgs { file: file.clone(), user: "acme".to_owned() })).unwrap();
            }
        };
        std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(add))));
        let list = carry_out(&KeyCommand::List(FileArgs { file: file.clone() })).unwrap();
        assert_eq!(list.lines().count(), 64);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn keys_are_made_listed_and_revoked() {
        let folder = std::env::temp_dir().join(format!("tidegate-key-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("keys");
        let add = || carry_out(&KeyCommand::Add(AddArgs { file: file.clone(), user: "acme".to_owned() })).unwrap();
        let (one, other) = (add(), add());
        let id = one.split('.').nth(2).unwrap().to_owned();
        let list = || carry_out(&KeyCommand::List(FileArgs { file: file.clone() })).unwrap();
        assert_eq!(list().lines().count(), 2);
        let revoke = || carry_out(&KeyCommand::Revoke(RevokeArgs { file: file.clone(), id: id.clone() }));
        assert_eq!(revoke().unwrap(), "");
        assert!(matches!(revoke(), Err(KeyError::NoKey(_))));
        assert_eq!(list(), format!("{}  acme\n", other.split('.').nth(2).unwrap()));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
