//! A folder with all its files, in memory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A file or a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Dir { mode: u32 },
    File { mode: u32, bytes: Vec<u8> },
}

/// Everything below a folder by relative path. Sockets and the like are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) items: BTreeMap<PathBuf, Item>,
}

impl Snapshot {
    /// Reads a folder.
    pub(crate) fn take(folder: &Path) -> Result<Self, Failure> {
        let mut snapshot = Self::default();
        snapshot.visit(folder, Path::new(""))?;
        Ok(snapshot)
    }

    fn visit(&mut self, folder: &Path, below: &Path) -> Result<(), Failure> {
        let place = folder.join(below);
        for entry in fs::read_dir(&place).map_err(Failure::file("reading", &place))? {
            let entry = entry.map_err(Failure::file("reading", &place))?;
            let relative = below.join(entry.file_name());
            let status = entry.metadata().map_err(Failure::file("reading", entry.path()))?;
            let mode = status.permissions().mode() & 0o7777;
            if status.is_dir() {
                self.items.insert(relative.clone(), Item::Dir { mode });
                self.visit(folder, &relative)?;
            } else if status.is_file() {
                let bytes = fs::read(entry.path()).map_err(Failure::file("reading", entry.path()))?;
                self.items.insert(relative, Item::File { mode, bytes });
            }
        }
        Ok(())
    }

    /// Makes the folder hold this and nothing else.
    pub(crate) fn restore(&self, folder: &Path) -> Result<(), Failure> {
        for entry in fs::read_dir(folder).map_err(Failure::file("reading", folder))? {
            let path = entry.map_err(Failure::file("reading", folder))?.path();
            let removed =
                if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(Failure::file("removing", &path))?;
        }
        // Parents sort before their content.
        for (relative, item) in &self.items {
            let path = folder.join(relative);
            let mode = match item {
                Item::Dir { mode } => {
                    fs::create_dir(&path).map_err(Failure::file("creating", &path))?;
                    *mode
                }
                Item::File { mode, bytes } => {
                    fs::write(&path, bytes).map_err(Failure::file("writing", &path))?;
                    *mode
                }
            };
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(&path, permissions).map_err(Failure::file("setting the mode of", &path))?;
        }
        Ok(())
    }

    /// Files that are not the same in both, by name.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let bytes = |snapshot: &Self, path: &PathBuf| match snapshot.items.get(path) {
            Some(Item::File { bytes, .. }) => Some(bytes.clone()),
            _ => None,
        };
        let names: std::collections::BTreeSet<&PathBuf> = self.items.keys().chain(other.items.keys()).collect();
        let different = names.into_iter().filter(|path| bytes(self, path) != bytes(other, path));
        different.map(|path| path.display().to_string()).collect()
    }
}
