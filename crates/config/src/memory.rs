//! How the memory that a broker may use is given out: the ceiling, and what of it is not for the shards.

use crate::authentication;
use tidegate_process::physical_memory;

use super::Config;
use super::address::AdminAddress;
use super::sections::Limits;
use super::sections::auth::AuthKind;
use tidegate_units::size::{KIB, MIB};

/// Memory that hashing gets at least and at most where nothing is configured, bytes. One hash of `tidegate passwd` takes
/// 19 MiB, one with the second parameters that RFC 9106 recommends 64 MiB.
const LEAST_HASH_MEMORY: u64 = 32 * MIB;
const MOST_HASH_MEMORY: u64 = 256 * MIB;

/// Longest body of a request to the admin API, bytes.
const ADMIN_BODY: u64 = 256 * KIB;
/// Longest answer of a server about a client, bytes; it is held twice, as bytes and parsed.
const ANSWER: u64 = 2 * MIB;

impl Limits {
    /// Bytes that clients may make the broker hold, without retained messages: the configured number, or half of the
    /// memory. 0, no limit, only if the system does not report its memory.
    pub fn ceiling(&self) -> u64 {
        match self.memory_ceiling.0 {
            0 => physical_memory::available().map_or(0, |bytes| bytes / 2),
            configured => configured,
        }
    }
}

impl Config {
    /// Bytes that passwords may take while they are hashed: the configured number, or an eighth of the ceiling.
    pub fn hash_memory(&self) -> u64 {
        match (self.authentication.hash_memory.0, self.limits.ceiling()) {
            (0, 0) => MOST_HASH_MEMORY,
            (0, ceiling) => (ceiling / 8).clamp(LEAST_HASH_MEMORY, MOST_HASH_MEMORY),
            (configured, _) => configured,
        }
    }

    /// Bytes that packets and queues of all shards may hold: the ceiling without what other threads may use, but at
    /// least half of it.
    pub fn shard_memory(&self) -> u64 {
        let ceiling = self.limits.ceiling();
        ceiling.saturating_sub(memory_of_other_threads(self)).max(ceiling / 2)
    }
}

/// Bytes of the ceiling that threads other than shards may use: passwords that are hashed, clients that wait for
/// an answer, answers of servers that are asked, requests to the admin API.
fn memory_of_other_threads(config: &Config) -> u64 {
    let has = |kind| config.auths.iter().any(|auth| auth.kind == kind);
    let hashing = if has(AuthKind::PasswordFile) { config.hash_memory() } else { 0 };
    let waiting = if config.has_providers() { config.authentication.max_waiting_bytes.0 } else { 0 };
    let exchanges = if has(AuthKind::Scram) { authentication::MAX_EXCHANGE_BYTES } else { 0 };
    let asked = has(AuthKind::Http) || config.auths.iter().any(|auth| auth.jwks_url.is_some());
    let answers = if asked { u64::from(config.authentication.threads) * ANSWER } else { 0 };
    let admin = match config.admin.address {
        AdminAddress::Off => 0,
        AdminAddress::At(_) => u64::from(config.admin.max_connections) * (ADMIN_BODY + config.admin.max_header_size.0),
    };
    hashing + waiting + exchanges + answers + admin
}

#[cfg(test)]
mod tests {
    use super::super::tests::from_file;
    use super::*;

    #[test]
    fn memory_outside_the_shards_is_part_of_the_ceiling() {
        let shards = |text: &str| {
            let limits = "[limits]\nmemory_ceiling = \"1GiB\"\n[admin]\naddress = \"off\"\n";
            from_file(&format!("{limits}{text}")).unwrap().shard_memory() / MIB
        };
        let users = "[[auth]]\nfile = \"users\"\n[access]\ndefault = \"allow\"\n";
        assert_eq!(shards(""), 1024);
        assert_eq!(shards(users), 1024 - 128 - 16, "an eighth for hashing, 16 MiB for waiting clients");
        assert_eq!(shards(&format!("{users}[authentication]\nhash_memory = \"64MiB\"\n")), 1024 - 64 - 16);
        assert_eq!(shards(&format!("{users}[authentication]\nhash_memory = \"1GiB\"\n")), 512, "half stays");
    }

    #[test]
    fn hashing_gets_an_eighth_of_the_ceiling() {
        let memory = |ceiling: &str| {
            from_file(&format!("[limits]\nmemory_ceiling = \"{ceiling}\"\n")).unwrap().hash_memory() / MIB
        };
        assert_eq!((memory("1MiB"), memory("512MiB"), memory("64GiB")), (32, 64, 256));
    }
}
