//! The files of the working tree that are, or are about to be, under version control.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why the working tree cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A program cannot be started.
    #[error("{command} could not be run: {source}")]
    Run {
        /// The program and its command.
        command: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A program failed.
    #[error("{command} failed: {said}")]
    Failed {
        /// The program and its command.
        command: &'static str,
        /// Its standard error.
        said: String,
    },
    /// The output of a program is no JSON.
    #[error("{command} gave no JSON: {source}")]
    NoJson {
        /// The program and its command.
        command: &'static str,
        /// The fault.
        source: serde_json::Error,
    },
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file, relative to the repository.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file is not Rust.
    #[error("{path}:{line}: {fault}")]
    NoRust {
        /// The file, relative to the repository.
        path: String,
        /// The line, counted from 1.
        line: usize,
        /// The fault, as the parser names it.
        fault: String,
    },
}

/// Runs a program in the root of the repository and returns its output.
///
/// # Errors
/// When the program cannot be started, or fails.
pub fn run_program(command: &'static str, program: &mut Command) -> Result<Vec<u8>, TreeError> {
    let output = program.current_dir(root()).output().map_err(|source| TreeError::Run { command, source })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(TreeError::Failed { command, said });
    }
    Ok(output.stdout)
}

/// One file of the tree.
#[derive(Clone, Debug)]
pub struct File {
    /// Path relative to the repository, with `/`.
    pub path: String,
    /// The content; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Whether the content is not text: such files are only asked for their place.
    pub binary: bool,
}

/// The repository as the rules see it.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// All files, sorted by path.
    pub files: Vec<File>,
}

impl Tree {
    /// Reads every file that Git tracks or would track (untracked files that are not ignored count, so that a rule
    /// speaks before the commit).
    ///
    /// # Errors
    /// When Git cannot be run or a file cannot be read.
    pub fn load() -> Result<Self, TreeError> {
        let root = root();
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listing = String::from_utf8_lossy(&run_program("git ls-files", &mut git)?).into_owned();
        let mut paths: Vec<&str> = listing.split('\0').filter(|path| !path.is_empty()).collect();
        paths.sort_unstable();
        paths.dedup();
        let files = paths.into_iter().filter_map(|path| read(&root, path).transpose()).collect::<Result<_, _>>()?;
        Ok(Self { files })
    }

    /// A tree out of names and contents, for the tests of the rules.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|&(path, text)| File { path: path.to_owned(), text: text.to_owned(), binary: false })
            .collect();
        Self { files }
    }

    /// The file at `path`.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The names of the folders below `crates`.
    pub fn crates(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .files
            .iter()
            .filter_map(|file| file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
            .filter(|name| !name.contains('/'))
            .collect();
        names.dedup();
        names
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new(".")).to_path_buf()
}

/// A file that was deleted but not yet committed is no file; a link is asked for nothing.
fn read(root: &Path, path: &str) -> Result<Option<File>, TreeError> {
    let place = root.join(path);
    if !place.is_file() || place.is_symlink() {
        return Ok(None);
    }
    let bytes = std::fs::read(&place).map_err(|source| TreeError::Read { path: path.to_owned(), source })?;
    let binary = bytes.contains(&0) || std::str::from_utf8(&bytes).is_err();
    Ok(Some(File { path: path.to_owned(), text: String::from_utf8_lossy(&bytes).into_owned(), binary }))
}
