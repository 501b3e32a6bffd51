//! A certificate for development, for listeners that are always encrypted, reached from this machine only, and given
//! none.
//!
//! It lies in the user's own directory: the broker makes it where it is missing, and clients of the same user on the
//! same machine find its authority there. The authority's key is not kept, so that no other certificate can be issued
//! by it.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::authority::{Authority, Holder};

/// Age from which another one is made. They are valid for two years.
const LONGEST_USE: Duration = Duration::from_secs(600 * 24 * 60 * 60);

/// Names of this machine alone.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

const AUTHORITY: &str = "ca.pem";
const CERTIFICATE: &str = "server.pem";
const KEY: &str = "server.key";

/// Why there is no certificate for development.
#[derive(Debug, thiserror::Error)]
pub enum DevelopmentError {
    /// There is no directory for it.
    #[error("there is no place for a certificate for development: set HOME, or give the listener a certificate")]
    NoPlace,
    /// The system has no randomness, or the like.
    #[error("cannot make a certificate for development: {0}")]
    Issue(#[from] rcgen::Error),
    /// It cannot be written.
    #[error("cannot write the certificate for development to {}: {source}; give the listener a certificate", place.display())]
    Write {
        /// The directory.
        place: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// `$XDG_DATA_HOME/tidegate/development`, or `~/.local/share/tidegate/development`; `None` without a home.
pub fn directory() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local/share")));
    Some(data?.join("tidegate/development"))
}

/// The server's certificate there, and its key.
pub fn server_files(directory: &Path) -> (PathBuf, PathBuf) {
    (directory.join(CERTIFICATE), directory.join(KEY))
}

/// The authority that a client on this machine may trust for this host in addition to its other authorities, if there
/// is one.
pub fn authority_for(host: &str) -> Option<PathBuf> {
    let file = directory().filter(|_| NAMES.contains(&host))?.join(AUTHORITY);
    file.is_file().then_some(file)
}

/// Makes the certificate unless the present one remains valid for some time.
///
/// # Errors
/// When there is no place for it, or it cannot be written there.
pub fn prepare() -> Result<(), DevelopmentError> {
    let place = directory().ok_or(DevelopmentError::NoPlace)?;
    prepare_in(&place)?;
    let authority = place.join(AUTHORITY);
    tracing::warn!(
        authority = %authority.display(),
        "a listener has a certificate for development: clients of this user trust it by themselves, others with --cafile"
    );
    Ok(())
}

fn prepare_in(place: &Path) -> Result<(), DevelopmentError> {
    if is_fresh(place) {
        return Ok(());
    }
    let failed = |source| DevelopmentError::Write { place: place.to_owned(), source };
    let authority = Authority::new()?;
    let server = authority.issue(Holder::Server, "localhost", &NAMES.map(str::to_owned))?;
    // Several brokers may start at once: each makes all of it aside, and puts it in its place in one step.
    let (made, former) = (beside(place, "new"), beside(place, "old"));
    DirBuilder::new().recursive(true).mode(0o700).create(&made).map_err(failed)?;
    let files = [(AUTHORITY, authority.pair().certificate), (CERTIFICATE, server.certificate), (KEY, server.key)];
    for (name, text) in files {
        write(&made.join(name), &text).map_err(failed)?;
    }
    if place.exists() && !is_fresh(place) {
        // If another broker was faster, there is nothing left to put aside.
        let _ = std::fs::rename(place, &former);
    }
    let put = std::fs::rename(&made, place);
    for left in [made, former] {
        let _ = std::fs::remove_dir_all(left);
    }
    match put {
        Err(_) if is_fresh(place) => Ok(()),
        outcome => outcome.map_err(failed),
    }
}

/// A name in the same directory that no other process uses.
fn beside(place: &Path, purpose: &str) -> PathBuf {
    place.with_extension(format!("{purpose}-{}", std::process::id()))
}

/// Whether all files are there, and not too old.
fn is_fresh(place: &Path) -> bool {
    let young = |name: &str| {
        let modified = place.join(name).metadata().and_then(|data| data.modified());
        modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < LONGEST_USE))
    };
    [AUTHORITY, CERTIFICATE, KEY].into_iter().all(young)
}

/// Writes a file for its owner alone.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let mut opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)?;
    opened.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn it_is_made_once_for_its_owner_alone_and_again_when_it_is_old() {
        let place = std::env::temp_dir().join(format!("tidegate-development-{}/place", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        prepare_in(&place).unwrap();
        let read = || std::fs::read_to_string(place.join(CERTIFICATE)).unwrap();
        let first = read();
        assert_eq!(std::fs::metadata(place.join(KEY)).unwrap().mode() & 0o777, 0o600);
        prepare_in(&place).unwrap();
        assert_eq!(read(), first, "it is kept");
        let old = SystemTime::now() - LONGEST_USE - Duration::from_secs(1);
        let key = std::fs::File::options().append(true).open(place.join(KEY)).unwrap();
        key.set_modified(old).unwrap();
        prepare_in(&place).unwrap();
        assert_ne!(read(), first);
        let names = std::fs::read_dir(place.parent().unwrap()).unwrap().count();
        assert_eq!(names, 1, "nothing is left beside it");
        std::fs::remove_dir_all(place.parent().unwrap()).unwrap();
    }
}
