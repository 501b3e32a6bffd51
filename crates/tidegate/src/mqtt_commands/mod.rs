//! What `tidegate pub`, `sub` and `rr` have in common: flags, the format language, and a connection with a person at
//! its end.

pub(crate) mod flags;
pub(crate) mod format;
pub(crate) mod outcome;
pub(crate) mod printer;
pub(crate) mod quoted;
pub(crate) mod session;
pub(crate) mod stdin_lines;
