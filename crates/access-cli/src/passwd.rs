//! `tidegate passwd`: users and their passwords in a file, with the flags of `mosquitto_passwd`.

mod prompt;

use std::io::{IsTerminal, stdin};
use std::path::{Path, PathBuf};

use crate::file_lock::{FileLock, FileLockError};
use tidegate_auth::Secret;
use tidegate_auth::password::{HashError, HashKind, PasswordHash, UserFile, UserFileError, UserName, UserNameError};

use tidegate_terminal::{Exit, complain, report};

const EXAMPLES: &str = "\
Examples:
  tidegate passwd -c users alice         create the file with a user; the password is asked for
  tidegate passwd users bob              add a user, or set another password
  tidegate passwd --scram users alice    add what SCRAM-SHA-256 needs, beside the password
  tidegate passwd -D users bob           delete a user
  tidegate passwd -U users               hash passwords that stand in the file as they are
  pass show mqtt/alice | tidegate passwd users alice

The file is replaced as a whole: a reader finds the old one or the new one. A new file can be read by its owner alone.
A running broker takes it over when it reloads its configuration.";

/// Add, change and delete users in a file of passwords
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Create the file; one that is there is replaced
    #[arg(short, long, conflicts_with_all = ["delete", "upgrade"])]
    create: bool,

    /// Take the password from the command line, where everybody on the machine can see it
    #[arg(short, long, requires = "password", conflicts_with_all = ["delete", "upgrade"])]
    batch: bool,

    /// Delete the user
    #[arg(short = 'D', long, conflicts_with = "upgrade")]
    delete: bool,

    /// Hash the passwords that stand in the file as they are
    #[arg(short = 'U', long, conflicts_with = "user")]
    upgrade: bool,

    /// How a password is hashed: argon2id, or sha512-pbkdf2 for a file that an older Mosquitto reads, too
    #[arg(short = 'H', long, value_name = "KIND", default_value = "argon2id", value_parser = ["argon2id", "sha512-pbkdf2"])]
    hash: String,

    /// Write what SCRAM-SHA-256 needs instead of a hash of the password
    #[arg(long, conflicts_with_all = ["hash", "upgrade", "delete"])]
    scram: bool,

    /// Rounds of sha512-pbkdf2 [default: 210000] or of SCRAM [default: 15000]
    #[arg(short = 'I', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    iterations: Option<u32>,

    /// The file
    file: PathBuf,

    /// The user
    #[arg(required_unless_present = "upgrade")]
    user: Option<String>,

    /// The password; only with --batch
    #[arg(requires = "batch")]
    password: Option<String>,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
enum PasswdError {
    #[error(transparent)]
    Name(#[from] UserNameError),
    #[error(transparent)]
    File(#[from] UserFileError),
    #[error(transparent)]
    Hash(#[from] HashError),
    #[error(transparent)]
    Lock(#[from] FileLockError),
    #[error("{} is not there; create it with -c", .0.display())]
    Missing(PathBuf),
    #[error("there is no user `{user}` in {}", file.display())]
    NoUser { user: String, file: PathBuf },
    #[error("the password must not be empty")]
    Empty,
    #[error("the two passwords are not the same")]
    Different,
    #[error("-I must be at least 4096 for SCRAM")]
    FewRounds,
    #[error("argon2id takes no -I; it belongs to -H sha512-pbkdf2 and to --scram")]
    NoRounds,
    #[error("cannot read the password: {0}")]
    Read(std::io::Error),
}

/// Carries out the arguments.
pub fn run(args: &Args) -> Exit {
    if args.batch {
        complain(
            "warning: everybody on this machine can see the password in the list of processes; leave -b away to be asked\n",
        );
    }
    let ask = || match &args.password {
        Some(password) => Ok(Secret::from(password.as_str())),
        None if stdin().is_terminal() => ask_twice(),
        None => prompt::read_line(&mut stdin().lock()).map_err(PasswdError::Read),
    };
    match change(args, ask) {
        Ok(said) => {
            complain(said);
            Exit::Ok
        }
        Err(error) => {
            report(&error);
            match error {
                PasswdError::Name(_) | PasswdError::FewRounds | PasswdError::NoRounds => Exit::Usage,
                _ => Exit::Failure,
            }
        }
    }
}

fn ask_twice() -> Result<Secret, PasswdError> {
    let first = prompt::ask("Password: ").map_err(PasswdError::Read)?;
    let again = prompt::ask("The same again: ").map_err(PasswdError::Read)?;
    if first == again { Ok(first) } else { Err(PasswdError::Different) }
}

/// Changes the file; returns a text for people.
fn change(args: &Args, ask: impl FnOnce() -> Result<Secret, PasswdError>) -> Result<String, PasswdError> {
    let file = args.file.as_path();
    let kind = kind(args)?;
    if args.upgrade {
        return upgrade(file, kind);
    }
    let user = UserName::new(args.user.as_deref().unwrap_or_default())?;
    let read = || if args.create { Ok(UserFile::default()) } else { load(file) };
    if args.delete {
        let _lock = FileLock::acquire(file)?;
        let mut users = read()?;
        if !users.remove(&user) {
            return Err(PasswdError::NoUser { user: user.as_str().to_owned(), file: file.to_owned() });
        }
        users.save(file)?;
        return Ok(exposure(file, &users));
    }
    // A wrong file is reported before a password is asked for. No other command waits for the answer.
    read()?;
    let password = ask()?;
    if password.expose().is_empty() {
        return Err(PasswdError::Empty);
    }
    let _lock = FileLock::acquire(file)?;
    let mut users = read()?;
    // Whatever else the file keeps of this user's password is renewed with it: the old one must not go on working.
    for kind in std::iter::once(kind).chain(also(&users, &user, args.scram)) {
        users.set(user.clone(), PasswordHash::create(kind, password.expose())?);
    }
    users.save(file)?;
    Ok(exposure(file, &users))
}

/// The other sort of hash, keys for SCRAM or none, if the user has that, too.
fn also(users: &UserFile, user: &UserName, scram: bool) -> Option<HashKind> {
    let mut others = users.users().filter(|(name, hash)| *name == user && hash.scram().is_some() != scram);
    let (_, other) = others.next()?;
    Some(other.scram().map_or(HashKind::Argon2id, |keys| HashKind::ScramSha256 {
        rounds: keys.rounds().max(HashKind::SCRAM_ROUNDS_MIN),
    }))
}

fn upgrade(file: &Path, kind: HashKind) -> Result<String, PasswdError> {
    must_exist(file)?;
    let _lock = FileLock::acquire(file)?;
    let (users, upgraded) = UserFile::load_and_upgrade(file, kind)?;
    users.save(file)?;
    let passwords = if upgraded == 1 { "password was" } else { "passwords were" };
    Ok(format!("{upgraded} {passwords} hashed\n{}", exposure(file, &users)))
}

fn load(file: &Path) -> Result<UserFile, PasswdError> {
    must_exist(file)?;
    Ok(UserFile::load(file)?)
}

fn must_exist(file: &Path) -> Result<(), PasswdError> {
    if file.exists() { Ok(()) } else { Err(PasswdError::Missing(file.to_owned())) }
}

/// A word about a file that others can read; its mode was kept.
fn exposure(file: &Path, users: &UserFile) -> String {
    if users.is_exposed() {
        let may = if users.is_open() { "write" } else { "read" };
        format!("warning: others than its owner may {may} {0}; `chmod 600 {0}` changes that\n", file.display())
    } else {
        String::new()
    }
}

fn kind(args: &Args) -> Result<HashKind, PasswdError> {
    if args.scram {
        let rounds = args.iterations.unwrap_or(HashKind::SCRAM_ROUNDS);
        return if rounds < HashKind::SCRAM_ROUNDS_MIN {
            Err(PasswdError::FewRounds)
        } else {
            Ok(HashKind::ScramSha256 { rounds })
        };
    }
    match (args.hash.as_str(), args.iterations) {
        ("sha512-pbkdf2", rounds) => Ok(HashKind::Pbkdf2Sha512 { rounds: rounds.unwrap_or(HashKind::PBKDF2_ROUNDS) }),
        (_, None) => Ok(HashKind::Argon2id),
        (_, Some(_)) => Err(PasswdError::NoRounds),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use clap::Parser;

    use super::*;

    /// A folder of a test's own.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("tidegate-passwd-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn users(&self) -> PathBuf {
            self.0.join("users")
        }

        /// Runs the command with these arguments with the file in place of `FILE`.
        fn run(&self, arguments: &[&str], password: &str) -> Result<String, PasswdError> {
            let file = self.users().display().to_string();
            let arguments = arguments.iter().map(|one| if *one == "FILE" { file.as_str() } else { one });
            let args = Command::try_parse_from(std::iter::once("passwd").chain(arguments)).unwrap().args;
            let given = args.password.clone();
            change(&args, || Ok(Secret::from(given.as_deref().unwrap_or(password))))
        }

        fn verifies(&self, user: &str, password: &str) -> bool {
            let users = UserFile::load(&self.users()).unwrap();
            users.users().any(|(name, hash)| name.as_str() == user && hash.verify(password.as_bytes()) == Ok(true))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    const QUICK: [&str; 4] = ["-H", "sha512-pbkdf2", "-I", "1"];

    fn quick<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
        [&QUICK, arguments].concat()
    }

    #[test]
    fn users_are_created_changed_and_deleted() {
        let folder = Folder::new("life");
        assert!(matches!(folder.run(&quick(&["FILE", "alice"]), "one"), Err(PasswdError::Missing(_))));
        folder.run(&quick(&["-c", "FILE", "alice"]), "one").unwrap();
        folder.run(&quick(&["FILE", "bob"]), "two").unwrap();
        folder.run(&quick(&["FILE", "alice"]), "three").unwrap();
        assert!(folder.verifies("alice", "three") && !folder.verifies("alice", "one") && folder.verifies("bob", "two"));
        folder.run(&["-D", "FILE", "alice"], "").unwrap();
        assert!(!folder.verifies("alice", "three"));
        assert!(matches!(folder.run(&["-D", "FILE", "alice"], ""), Err(PasswdError::NoUser { .. })));
        folder.run(&quick(&["-c", "-b", "FILE", "carol", "four"]), "").unwrap();
        assert!(folder.verifies("carol", "four") && !folder.verifies("bob", "two"));
        let mode = std::fs::metadata(folder.users()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_usual_hash_is_argon2id_and_scram_stands_beside_it() {
        let folder = Folder::new("kinds");
        folder.run(&["-c", "FILE", "alice"], "one").unwrap();
        folder.run(&["--scram", "-I", "4096", "FILE", "alice"], "one").unwrap();
        let text = std::fs::read_to_string(folder.users()).unwrap();
        assert!(text.contains("alice:$argon2id$") && text.contains("alice:$scram-sha-256$4096$"), "{text}");
    }

    #[test]
    fn a_new_password_replaces_the_old_one() {
        let folder = Folder::new("renewed");
        folder.run(&["-c", "--scram", "-I", "4096", "FILE", "alice"], "one").unwrap();
        folder.run(&quick(&["FILE", "alice"]), "two").unwrap();
        let count = || UserFile::load(&folder.users()).unwrap().users().count();
        assert_eq!(count(), 2);
        folder.run(&quick(&["FILE", "alice"]), "three").unwrap();
        assert!(
            folder.verifies("alice", "three") && !folder.verifies("alice", "two") && !folder.verifies("alice", "one")
        );
        folder.run(&["--scram", "-I", "5000", "FILE", "alice"], "four").unwrap();
        assert!(folder.verifies("alice", "four") && !folder.verifies("alice", "three"));
        assert_eq!(count(), 2);
    }

    #[test]
    fn plain_passwords_are_hashed_and_an_open_file_is_named() {
        let folder = Folder::new("upgrade");
        std::fs::write(folder.users(), "alice:one\n").unwrap();
        std::fs::set_permissions(folder.users(), std::fs::Permissions::from_mode(0o644)).unwrap();
        let said = folder.run(&quick(&["-U", "FILE"]), "").unwrap();
        assert!(said.starts_with("1 password was hashed\nwarning: others"), "{said}");
        assert!(folder.verifies("alice", "one"));
    }

    #[test]
    fn a_broken_file_and_an_empty_password_change_nothing() {
        let folder = Folder::new("broken");
        std::fs::write(folder.users(), "alice:one\n").unwrap();
        assert!(matches!(folder.run(&quick(&["FILE", "bob"]), "two"), Err(PasswdError::File(_))));
        assert!(matches!(folder.run(&quick(&["-c", "FILE", "bob"]), ""), Err(PasswdError::Empty)));
        assert!(matches!(folder.run(&quick(&["-c", "FILE", "a:b"]), "x"), Err(PasswdError::Name(_))));
        assert!(matches!(folder.run(&["-c", "-I", "5", "FILE", "a"], "x"), Err(PasswdError::NoRounds)));
        assert!(matches!(folder.run(&["--scram", "-I", "5", "-c", "FILE", "a"], "x"), Err(PasswdError::FewRounds)));
        assert_eq!(std::fs::read_to_string(folder.users()).unwrap(), "alice:one\n");
    }

    #[test]
    fn flags_that_do_not_go_together_are_refused() {
        for arguments in [
            ["passwd", "-c", "-D", "f", "u"].as_slice(),
            &["passwd", "-U", "f", "u"],
            &["passwd", "f"],
            &["passwd", "f", "u", "password"],
            &["passwd", "-b", "f", "u"],
            &["passwd", "-H", "sha512", "f", "u"],
        ] {
            assert!(Command::try_parse_from(arguments).is_err(), "{arguments:?}");
        }
    }
}
