//! The users of the built-in database, as far as a bootstrap file names them.

use std::io;

use crate::draft::Draft;
use crate::hash::{Algorithm, PasswordError, Salt, hashed};
use crate::provider::Provider;
use crate::{Password, User};

use super::authenticator::Authenticator;

/// EMQX refuses a user with a wrong password and asks no further authenticator. Where the password cannot be checked, that is not possible.
const UNKNOWN_USERS: &str = "a further authenticator would be asked about users whose passwords are not known here";

/// Keys of an authenticator that are known; others may restrict who gets in.
const KEYS: [&str; 13] = [
    "mechanism",
    "backend",
    "enable",
    "user_id_type",
    "bootstrap_file",
    "bootstrap_type",
    "password_hash_algorithm",
    "password_hash_algorithm.name",
    "password_hash_algorithm.salt_position",
    "password_hash_algorithm.salt_rounds",
    "password_hash_algorithm.mac_fun",
    "password_hash_algorithm.iterations",
    "password_hash_algorithm.dk_length",
];

/// Takes the users of the bootstrap file.
pub(super) fn take(one: &Authenticator, draft: &mut Draft, read: &dyn Fn(&str) -> io::Result<String>) {
    if !one.knows(draft, &KEYS) {
        return;
    }
    if let Some(part) = one.find("user_id_type").filter(|part| part.entry.value != "username") {
        return draft.closed_by(part.index, "users are known by their user names here, not by client ids");
    }
    draft.providers.push(Provider::Users);
    let Some(file) = one.find("bootstrap_file") else {
        let why = "its users are in a database of EMQX, which is not read: no client gets in until `tidegate passwd` has written users";
        draft.report.refused(one.first(), why);
        if !one.is_last {
            draft.closed_by(one.first(), UNKNOWN_USERS);
        }
        return;
    };
    let path = file.entry.value.trim_start_matches("${EMQX_ETC_DIR}/").to_owned();
    let text = match read(&path) {
        Ok(text) => text,
        Err(error) => return draft.closed_by(file.index, format!("cannot read {path}: {error}")),
    };
    draft.users_line.get_or_insert(file.index);
    let plain = one.value("bootstrap_type") == Some("plain");
    let algorithm = algorithm(&|key| one.value(&format!("password_hash_algorithm.{key}")).map(str::to_owned));
    let is_json = text.trim_start().starts_with(['[', '{']);
    let rows = if is_json { of_json(&text) } else { Ok(of_csv(&text)) };
    let rows = match rows {
        Ok(rows) => rows,
        Err(why) => return draft.closed_by(file.index, format!("cannot read {path}: {why}")),
    };
    // A file without a readable user says nothing of the users that EMQX has.
    let mut all = !rows.is_empty();
    for (line, row) in rows {
        let index = draft.report.add(crate::entry::Entry::text(&path, line, &format!("user {}", row.name), ""));
        let password = if plain {
            Ok(Password::Plain(row.secret))
        } else {
            let salt = row.salt.into_bytes();
            (algorithm.as_ref().map_err(Clone::clone))
                .and_then(|it| hashed(*it, &salt, &row.secret))
                .map(Password::Hash)
        };
        all &= take_user(draft, index, &row.name, password);
        if row.superuser {
            draft.report.refused(index, "it is a superuser there; here it has the rights of the rules");
        }
    }
    if !all && !one.is_last {
        draft.closed_by(file.index, UNKNOWN_USERS);
    }
}

/// Takes a user, or says why it cannot log in; `false` when it cannot.
pub(crate) fn take_user(
    draft: &mut Draft,
    index: usize,
    name: &str,
    password: Result<Password, PasswordError>,
) -> bool {
    match password {
        _ if name.is_empty() || name.contains([':', '\n', '\r']) || name.starts_with('#') => {
            draft.report.refused(index, "its name cannot stand in a file of users: it cannot log in");
            false
        }
        Ok(password) => {
            if draft.users.iter().any(|user| user.name == name) {
                draft.report.changed(index, "the first user with this name counts");
                return true;
            }
            if matches!(password, Password::Plain(_)) {
                draft.report.changed(index, "its password is hashed");
            }
            draft.users.push(User { name: name.to_owned(), password });
            true
        }
        Err(why) => {
            draft.report.refused(index, &format!("{why}: it cannot log in; give it a password with `tidegate passwd`"));
            false
        }
    }
}

fn algorithm(part: &dyn Fn(&str) -> Option<String>) -> Result<Algorithm, PasswordError> {
    let salt = match part("salt_position").as_deref() {
        Some("disable") => Salt::None,
        Some("suffix") => Salt::Suffix,
        // The default of EMQX.
        None | Some("prefix") => Salt::Prefix,
        Some(other) => return Err(PasswordError::SaltPlace(other.to_owned())),
    };
    match part("name").as_deref() {
        None | Some("sha256") => Ok(Algorithm::Sha256(salt)),
        Some("sha512") => Ok(Algorithm::Sha512(salt)),
        Some("plain") => Ok(Algorithm::Plain),
        Some("pbkdf2") if part("mac_fun").as_deref() == Some("sha512") => {
            let rounds = part("iterations").and_then(|rounds| rounds.parse().ok()).ok_or(PasswordError::Iterations)?;
            Ok(Algorithm::Pbkdf2Sha512 { rounds })
        }
        Some(other) => Err(PasswordError::Kind(other.to_owned())),
    }
}

/// A row of a bootstrap file.
struct Row {
    name: String,
    secret: String,
    salt: String,
    superuser: bool,
}

fn of_csv(text: &str) -> Vec<(usize, Row)> {
    let mut lines = text.lines().enumerate();
    let Some((_, header)) = lines.find(|(_, line)| !line.trim().is_empty()) else { return Vec::new() };
    let columns: Vec<&str> = header.trim_start_matches('\u{feff}').split(',').map(str::trim).collect();
    let mut rows = Vec::new();
    for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(',').map(|cell| cell.trim().trim_matches('"')).collect();
        let cell = |names: &[&str]| {
            let place = columns.iter().position(|column| names.contains(column));
            place.and_then(|place| cells.get(place)).map_or_else(String::new, |&cell| cell.to_owned())
        };
        let row = Row {
            name: cell(&["user_id", "username"]),
            secret: cell(&["password_hash", "password"]),
            salt: cell(&["salt"]),
            superuser: cell(&["is_superuser"]) == "true",
        };
        rows.push((index + 1, row));
    }
    rows
}

/// The users of a list in JSON.
///
/// # Errors
/// In words, when the text is something else. The parser's own words would repeat parts of it, such as passwords.
fn of_json(text: &str) -> Result<Vec<(usize, Row)>, &'static str> {
    let Ok(serde_json::Value::Array(all)) = serde_json::from_str(text) else { return Err("it is no list in JSON") };
    let row = |value: &serde_json::Value| {
        let field = |names: &[&str]| {
            let found = names.iter().find_map(|name| value.get(*name)?.as_str());
            found.unwrap_or_default().to_owned()
        };
        let name = field(&["user_id", "username"]);
        let line = 1 + text[..text.find(&format!("\"{name}\"")).unwrap_or_default()].matches('\n').count();
        let superuser = value.get("is_superuser").and_then(serde_json::Value::as_bool) == Some(true);
        (line, Row { name, secret: field(&["password_hash", "password"]), salt: field(&["salt"]), superuser })
    };
    Ok(all.iter().map(row).collect())
}
