//! Mobile nodes.

pub(crate) mod groups;
pub(crate) mod mailbox;
pub(crate) mod nodes;
pub(crate) mod receipts;
pub(crate) mod restore;
pub(crate) mod route;
