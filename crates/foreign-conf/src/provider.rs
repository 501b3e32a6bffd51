//! A provider of authentication of the result.

use std::fmt;
use std::path::Path;

use tidegate_conversion::{Setting, Value};

/// A provider that is asked about clients.
pub(crate) enum Provider {
    /// The file of users.
    Users,
    /// Another one: its settings without the listeners, and a file that it names.
    Other(Vec<Setting>, Option<ProviderFile>),
}

/// A file with a secret or a key from the configuration of the other broker.
pub(crate) struct ProviderFile {
    /// The key of ours that names the file.
    pub(crate) key: &'static str,
    /// The ending of its name, which is otherwise that of the file of users.
    pub(crate) ending: &'static str,
    pub(crate) content: Vec<u8>,
    /// The index of the line that it comes from.
    pub(crate) line: usize,
}

impl ProviderFile {
    /// The setting that names the file, and the file.
    pub(crate) fn named(&self, users_file: &str) -> (Setting, KeyFile) {
        let path = Path::new(users_file).with_extension(self.ending).display().to_string();
        let setting = Setting::new(self.key, Value::Text(path.clone()), self.line);
        (setting, KeyFile { path, content: self.content.clone() })
    }
}

/// A file with a secret or a key that the result names.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyFile {
    /// Its path in the result.
    pub path: String,
    /// Its content.
    pub content: Vec<u8>,
}

impl fmt::Debug for KeyFile {
    /// The path alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyFile").field("path", &self.path).finish_non_exhaustive()
    }
}
