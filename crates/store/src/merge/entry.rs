//! Places of operations in the files that are merged.

/// Where an operation is.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// Which of the files, the oldest first.
    pub(super) file: u32,
    /// Where the key begins in the file.
    pub(super) key: u32,
    pub(super) value_length: u32,
    pub(super) key_length: u16,
    pub(super) is_put: bool,
}
