//! `tidegate config convert` of brokers other than Mosquitto.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use tidegate_auth::password::{HashError, HashKind, PasswordHash};
use tidegate_conversion::File as TheirFile;
use tidegate_foreign_conf::{Broker, Converted, Password, User, convert};
use tidegate_terminal::{Exit, complain, report};

use super::{ConvertArgs, finish, write_new};
use tidegate_document::read_bounded;

/// The file of users where the result goes to standard output.
const USERS_FILE: &str = "tidegate.users";

/// Converts a file of this broker: the configuration, and a file of users beside it where there are any.
pub(super) fn run(args: &ConvertArgs, broker: Broker, theirs: &TheirFile) -> Exit {
    let folder = args.file.parent().unwrap_or_else(|| Path::new("."));
    let users_file = match &args.output {
        Some(output) => output.with_extension("users"),
        None => PathBuf::from(USERS_FILE),
    };
    let verifies = |password: &str, hash: &str| {
        PasswordHash::parse(hash).and_then(|hash| hash.verify(password.as_bytes())).unwrap_or(false)
    };
    let users_path = users_file.display().to_string();
    let result = convert(broker, theirs, &users_path, &|name| read(folder, name), &verifies);
    let Converted { conversion, users, files } = match result {
        Ok(converted) => converted,
        Err(error) => {
            report(&format_args!("{}: {error}", theirs.name));
            return Exit::Usage;
        }
    };
    for file in &files {
        if args.output.is_none() {
            complain(format!("note: a secret or key belongs into {}: --output FILE writes it\n", file.path));
        } else if let Err(error) = write_new(Path::new(&file.path), &file.content) {
            report(&format_args!("cannot write {}: {error}", file.path));
            return Exit::Failure;
        }
    }
    if users.is_empty() {
        return finish(args, &theirs.name, &conversion);
    }
    if args.output.is_none() {
        let (count, path) = (users.len(), users_file.display());
        complain(format!("note: {count} users belong into {path}: --output FILE writes them\n"));
    } else if let Err(exit) = write_users(&users_file, &users) {
        return exit;
    }
    finish(args, &theirs.name, &conversion)
}

fn write_users(path: &Path, users: &[User]) -> Result<(), Exit> {
    let failed = |error: &dyn std::fmt::Display| {
        report(&format_args!("cannot write {}: {error}", path.display()));
        Exit::Failure
    };
    let text = users_text(users).map_err(|error| failed(&error))?;
    write_new(path, &text).map_err(|error| failed(&error))
}

/// The lines of a password file; passwords that are not hashed become hashes.
fn users_text(users: &[User]) -> Result<String, HashError> {
    let mut text = String::new();
    for user in users {
        let hash = match &user.password {
            Password::Hash(hash) => hash.clone(),
            Password::Plain(password) => PasswordHash::create(HashKind::default(), password.as_bytes())?.to_string(),
        };
        let _ = writeln!(text, "{}:{hash}", user.name);
    }
    Ok(text)
}

/// Reads a file that a configuration names: where it says, or beside the configuration.
fn read(folder: &Path, name: &str) -> io::Result<String> {
    let named = folder.join(name);
    let first = read_bounded(&named);
    match (&first, named.file_name()) {
        (Err(error), Some(file)) if error.kind() == io::ErrorKind::NotFound => {
            read_bounded(&folder.join(file)).or(first)
        }
        _ => first,
    }
}
