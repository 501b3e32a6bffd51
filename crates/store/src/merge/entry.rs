//! Places of operations in the files that are merged.

/// The place of an operation.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// The number of the file, the oldest first.
    pub(super) file: u32,
    /// The offset of the key in the file.
    pub(super) key: u32,
    pub(super) value_length: u32,
    pub(super) key_length: u16,
    pub(super) is_put: bool,
}
