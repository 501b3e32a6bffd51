//! Where resources come from.
