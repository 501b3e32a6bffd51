//! `tidegate store backup`.

use std::path::{Path, PathBuf};

use tidegate_store::RealDisk;
use tidegate_store::inspect::{BackupError, BackupReport, backup};
use tidegate_terminal::{Exit, complain, report};

use tidegate_identity::tenant_numbers;

/// Files of a broker beside its store.
pub(crate) const COMPANIONS: [&str; 4] =
    [tenant_numbers::NAME, tidegate_meter::FILE, tidegate_meter::USERS_FILE, tidegate_meter::NAME_FILE];

/// Copies a store, which a broker may use, into another directory.
pub(crate) fn run(directory: &Path, target: &Path) -> Exit {
    match copy(directory, target) {
        Ok(done) => {
            complain(text(&done));
            Exit::Ok
        }
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("cannot open {path}: {source}")]
    Directory { path: String, source: std::io::Error },
    #[error("{} and {} are one directory; give another one for the backup", .0, .0)]
    Same(String),
    #[error("{target} is inside {directory}, and would be lost with it; give a directory elsewhere for the backup")]
    Inside { directory: String, target: String },
    #[error("{path}: {text}")]
    Backup { path: String, text: String },
}

fn copy(directory: &Path, target: &Path) -> Result<BackupReport, Failed> {
    let path = |path: &Path| path.display().to_string();
    let failed = |at: &Path| {
        let path = path(at);
        move |source| Failed::Directory { path, source }
    };
    let source = RealDisk::existing(directory).map_err(failed(directory))?;
    // The same store has one name, however the command names it.
    let origin = directory.canonicalize().map_err(failed(directory))?;
    if target.canonicalize().is_ok_and(|there| there == origin) {
        return Err(Failed::Same(path(directory)));
    }
    if nearest(target).is_some_and(|there| there.starts_with(&origin)) {
        return Err(Failed::Inside { directory: path(directory), target: path(target) });
    }
    let copy = RealDisk::create(target).map_err(failed(target))?;
    backup(&source, &copy, &path(&origin), &COMPANIONS).map_err(|error| {
        let at = match &error {
            BackupError::Source(_) | BackupError::Changes => directory,
            _ => target,
        };
        Failed::Backup { path: path(at), text: tidegate_store::with_directory(&error.to_string(), &path(directory)) }
    })
}

/// The directory, or the nearest one above it that exists.
fn nearest(directory: &Path) -> Option<PathBuf> {
    directory.ancestors().find_map(|above| {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        above.canonicalize().ok()
    })
}

fn text(done: &BackupReport) -> String {
    let BackupReport { copied_files, copied_bytes, kept_files, kept_bytes, removed_files } = done;
    format!(
        "files written: {copied_files} ({copied_bytes} bytes), kept: {kept_files} ({kept_bytes} bytes), \
         removed: {removed_files}\n"
    )
}
