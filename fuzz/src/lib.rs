//! Fuzz targets for everything that reads bytes from a peer.
//!
//! Each target is a function that takes any bytes and panics when something does not hold. `fuzz_targets`
//! gives them to libFuzzer, the program `smoke` runs all of them for a bounded time without it.

use std::path::{Path, PathBuf};

pub mod cluster_link;
pub mod coap;
pub mod frames;
pub mod mutate;
pub mod packet;
pub mod proxy_protocol;
pub mod publish;
pub mod seeds;
pub mod topic_filter;

use tidegate_mqtt::Version;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name: of its module, its libFuzzer program and its corpus.
    pub name: &'static str,
    /// Tries one input, and panics when something does not hold.
    pub fuzz_one: fn(&[u8]),
    /// Valid inputs to start from, each with a name for its file.
    pub seeds: fn() -> Vec<(String, Vec<u8>)>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "cluster_link", fuzz_one: cluster_link::fuzz_one, seeds: seeds::cluster_link },
    Target { name: "coap", fuzz_one: coap::fuzz_one, seeds: seeds::coap },
    Target { name: "frames", fuzz_one: frames::fuzz_one, seeds: seeds::frames },
    Target { name: "packet", fuzz_one: packet::fuzz_one, seeds: seeds::packet },
    Target { name: "proxy_protocol", fuzz_one: proxy_protocol::fuzz_one, seeds: seeds::proxy_protocol },
    Target { name: "publish", fuzz_one: publish::fuzz_one, seeds: seeds::publish },
    Target { name: "topic_filter", fuzz_one: topic_filter::fuzz_one, seeds: seeds::topic_filter },
];

impl Target {
    /// The folder of the target's corpus.
    pub fn corpus(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name)
    }

    /// The folder into which an input is written that makes the target fail.
    pub fn artifacts(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts").join(self.name)
    }
}

/// Takes the first byte of an input as the choice of a version.
fn take_version(data: &[u8]) -> Option<(Version, &[u8])> {
    let (&first, rest) = data.split_first()?;
    let version = match first % 3 {
        0 => Version::V5,
        1 => Version::V311,
        _ => Version::V31,
    };
    Some((version, rest))
}

/// The byte that [`take_version`] takes for a version.
const fn version_byte(version: Version) -> u8 {
    match version {
        Version::V5 => 0,
        Version::V311 => 1,
        Version::V31 => 2,
    }
}
