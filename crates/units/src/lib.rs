//! Sizes, durations, escapes of addresses and near names as people write them, and the lines of files that errors show. Configuration files,
//! fleet files, rules, groups, scenarios and flags read them here, so that the same text means the same everywhere.

pub mod duration;
pub mod excerpt;
pub mod percent;
pub mod quote;
pub mod size;
pub mod suggestion;
pub mod visible;
