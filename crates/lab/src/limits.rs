//! Limits of processes.

use serde::{Deserialize, Serialize};

use crate::span::Bytes;

/// The limits of a broker, or of a group of clients; empty means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// CPU time in a second, in cores.
    #[serde(default)]
    pub cpus: Option<f64>,
    /// Memory in bytes, with the page cache of its files.
    #[serde(default)]
    pub memory: Option<Bytes>,
    /// Open files of each of its processes.
    #[serde(default)]
    pub descriptors: Option<u32>,
}

impl Limits {
    /// Whether anything is limited that takes a cgroup.
    pub fn takes_cgroup(&self) -> bool {
        self.cpus.is_some() || self.memory.is_some()
    }
}
