//! Sizes, durations and near names as people write them. Configuration files, fleet files, rules, groups, scenarios and
//! flags read them here, so that the same text means the same everywhere.

pub mod duration;
pub mod size;
pub mod suggestion;
