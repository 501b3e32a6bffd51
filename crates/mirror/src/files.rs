//! The files as the bus has them: their names, lengths and written parts.

use std::collections::BTreeMap;

use tidegate_bus::Position;

use crate::extents::Extents;

/// The number of a file, which stays when its name changes, and is never used again.
pub(crate) type FileId = u64;

/// A place in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// Its position on the bus.
    pub(crate) position: Position,
    /// Bytes of the log before it, since the log began.
    pub(crate) offset: u64,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileState {
    /// `None` only while reading a log whose beginning was trimmed.
    pub(crate) name: Option<String>,
    pub(crate) length: u64,
    pub(crate) extents: Extents,
    /// The first record with content of the file; `None` while none is confirmed.
    pub(crate) first: Option<Mark>,
}

/// All files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files {
    by_id: BTreeMap<FileId, FileState>,
    names: BTreeMap<String, FileId>,
    next: FileId,
}

impl Files {
    pub(crate) fn new(files: BTreeMap<FileId, FileState>, next: FileId) -> Self {
        let names = files.iter().filter_map(|(id, file)| Some((file.name.clone()?, *id))).collect();
        Self { by_id: files, names, next }
    }

    /// The number for the next file.
    pub(crate) fn next(&self) -> FileId {
        self.next
    }

    pub(crate) fn id(&self, name: &str) -> Option<FileId> {
        self.names.get(name).copied()
    }

    pub(crate) fn get(&self, id: FileId) -> Option<&FileState> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: FileId) -> Option<&mut FileState> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (FileId, &FileState)> {
        self.by_id.iter().map(|(id, file)| (*id, file))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Bytes that all files hold.
    pub(crate) fn bytes(&self) -> u64 {
        self.by_id.values().map(|file| file.extents.bytes()).sum()
    }

    /// A file of this number, which is new unless records of it were read before its name.
    pub(crate) fn reach(&mut self, id: FileId) -> &mut FileState {
        self.next = self.next.max(id.saturating_add(1));
        self.by_id.entry(id).or_default()
    }

    /// Makes an empty file with a name, in the place of the file that has it. Returns the number of that one.
    pub(crate) fn link(&mut self, id: FileId, name: &str) -> Option<FileId> {
        let replaced = self.unlink(name);
        self.reach(id).name = Some(name.to_owned());
        self.names.insert(name.to_owned(), id);
        replaced
    }

    /// Gives a file another name. Returns the number of the file that had it.
    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Option<FileId> {
        let id = self.names.remove(from)?;
        let replaced = self.unlink(to);
        self.names.insert(to.to_owned(), id);
        if let Some(file) = self.by_id.get_mut(&id) {
            file.name = Some(to.to_owned());
        }
        replaced
    }

    /// Removes a name and its file. Returns the number of it.
    pub(crate) fn unlink(&mut self, name: &str) -> Option<FileId> {
        let id = self.names.remove(name)?;
        self.by_id.remove(&id);
        Some(id)
    }

    /// Leaves only files that are named here.
    pub(crate) fn retain_named(&mut self) {
        self.by_id.retain(|_, file| file.name.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_move_between_files_and_numbers_are_never_used_again() {
        let mut files = Files::default();
        assert_eq!(files.link(0, "a"), None);
        assert_eq!(files.link(1, "b"), None);
        files.reach(1).length = 7;
        assert_eq!(files.rename("b", "a"), Some(0));
        assert_eq!((files.id("a"), files.id("b"), files.len(), files.next()), (Some(1), None, 1, 2));
        assert_eq!(files.get(1).unwrap().name.as_deref(), Some("a"));
        assert_eq!(files.rename("missing", "a"), None);
        assert_eq!(files.link(2, "a"), Some(1));
        assert_eq!(files.unlink("a"), Some(2));
        assert_eq!((files.len(), files.next()), (0, 3));
    }
}
