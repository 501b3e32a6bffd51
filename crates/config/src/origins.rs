//! The file of a configuration, and the source of each key.

use std::collections::BTreeMap;

use super::path::KeyPath;
use super::source::{FileText, Source};

/// The file of a configuration, and the source of each key.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    file: Option<FileText>,
    sources: BTreeMap<KeyPath, Source>,
}

impl Origins {
    /// All keys have their default, whatever is in the file.
    pub(super) fn of(file: Option<FileText>) -> Self {
        Self { file, ..Self::default() }
    }

    /// The file that was read.
    pub fn file(&self) -> Option<&FileText> {
        self.file.as_ref()
    }

    /// Whether the file sets a key.
    pub fn file_has_keys(&self) -> bool {
        self.sources.values().any(|source| matches!(source, Source::File(_)))
    }

    /// The source of a key's value.
    pub fn source(&self, path: &KeyPath) -> &Source {
        self.sources.get(path).unwrap_or(&Source::Default)
    }

    /// The source of a key of a section that is not repeated.
    pub fn source_of(&self, section: &'static str, key: &'static str) -> &Source {
        self.source(&KeyPath { section, index: 0, key })
    }

    /// The place of a fault of a key in a repeated section. For a key that is not set it is the name or the kind of its
    /// section, so that the fault has a line.
    pub fn place(&self, section: &'static str, index: usize, key: &'static str) -> &Source {
        let sources = [key, "name", "kind"].map(|key| self.source(&KeyPath { section, index, key }));
        sources.into_iter().find(|source| **source != Source::Default).unwrap_or(&Source::Default)
    }

    pub(super) fn set(&mut self, path: KeyPath, source: Source) {
        self.sources.insert(path, source);
    }

    /// Forgets the sources of all sections of a name.
    pub(super) fn forget(&mut self, section: &str) {
        self.sources.retain(|path, _| path.section != section);
    }
}
