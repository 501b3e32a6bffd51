//! The journal: the submitted batches in one order, as frames in files.

pub(crate) mod frame;
pub(crate) mod segment;
