//! The store.

pub(crate) mod crossing;
pub(crate) mod restore;
pub(crate) mod wills;
