//! The journal: what was handed in, in one order, as frames in files.

pub(crate) mod frame;
pub(crate) mod segment;
pub(crate) mod writer;
