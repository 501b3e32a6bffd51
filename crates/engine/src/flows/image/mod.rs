//! Partitions that move between processes.

pub(crate) mod delivering;
pub(crate) mod export;
pub(crate) mod for_groups;
pub(crate) mod forwarding;
pub(crate) mod import;
pub(crate) mod moving;
