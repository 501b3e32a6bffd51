//! Division of the memory that a broker may use: the ceiling, and the part of it that is not for the shards.

use crate::authentication;
use tidegate_process::physical_memory::{self, Available, Bound};

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

/// Bytes that a listener for HTTP or CoAP may hold of bodies or waiting messages at most, where the ceiling is high.
const MOST_OUTSIDE: u64 = 64 * MIB;
/// Copies of them: a body of HTTP is a message and a packet; bodies in blocks of CoAP take a half beside the messages.
const COPIES_OUTSIDE: u64 = 2;

impl Limits {
    /// Bytes that clients may make the broker hold, without retained messages: the configured number, or half of the
    /// memory, and no more than three quarters of a limit. 0, no limit, only if the system does not report its memory.
    pub fn ceiling(&self) -> u64 {
        self.ceiling_within(physical_memory::find())
    }

    /// Bytes of bodies that one listener for HTTP holds, and of messages that wait for the observers of one for CoAP: 64 MiB,
    /// or an eighth of the ceiling if that is less.
    pub fn bytes_outside_shards(&self) -> u64 {
        match self.ceiling() {
            0 => MOST_OUTSIDE,
            ceiling => (ceiling / 8).min(MOST_OUTSIDE),
        }
    }

    fn ceiling_within(&self, available: Option<Available>) -> u64 {
        match self.memory_ceiling.0 {
            0 => available.map_or(0, |available| available.bytes / 2),
            configured => available.and_then(Self::most_within).map_or(configured, |most| most.min(configured)),
        }
    }

    /// Bytes that a ceiling may be under a limit of the container or the process: three quarters of it, since packets may
    /// pass the ceiling by a quarter before connections are refused. `None` where only the machine bounds the memory.
    fn most_within(available: Available) -> Option<u64> {
        (available.bound != Bound::Machine).then_some(available.bytes / 4 * 3)
    }
}

/// The memory that a broker will use, bytes of each part, beside the available one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// The available memory; `None` where the system does not tell.
    pub available: Option<Available>,
    /// `limits.memory_ceiling` as it counts.
    pub ceiling: u64,
    /// The configured ceiling, where less counts.
    pub lowered_from: Option<u64>,
    /// `retained.max_bytes` as it counts.
    pub retained: u64,
    /// `store.merge_memory` and `store.pending_memory` as they count; 0 without a store.
    pub store: u64,
}

impl MemoryPlan {
    /// That of a configuration on this machine.
    pub fn of(config: &Config) -> Self {
        Self::within(config, physical_memory::find())
    }

    fn within(config: &Config, available: Option<Available>) -> Self {
        let ceiling = config.limits.ceiling_within(available);
        let configured = config.limits.memory_ceiling.0;
        let bytes = available.map(|available| available.bytes);
        let (merge, pending) = config.store.memory(bytes);
        Self {
            available,
            ceiling,
            lowered_from: Some(configured).filter(|configured| *configured > ceiling),
            retained: config.retained.bytes_within(bytes),
            store: if config.store.directory.is_some() { merge + pending } else { 0 },
        }
    }

    /// Bytes beyond the available ones, if all parts are full; 0 if they fit.
    pub fn excess(&self) -> u64 {
        let all = self.ceiling.saturating_add(self.retained).saturating_add(self.store);
        self.available.map_or(0, |available| all.saturating_sub(available.bytes))
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
/// an answer, answers of servers that are asked, requests to the admin API, clients of HTTP and CoAP.
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
    let without_mqtt = config.listeners.iter().filter(|it| it.address.is_http() || it.address.is_coap()).count() as u64;
    let visitors = without_mqtt * config.limits.bytes_outside_shards() * COPIES_OUTSIDE;
    hashing + waiting + exchanges + answers + admin + visitors
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
        let web = |ceiling: &str| {
            let text = format!(
                "[limits]\nmemory_ceiling = \"{ceiling}\"\n[admin]\naddress = \"off\"\n[[listener]]\naddress = \"http://127.0.0.1:0\"\n"
            );
            let config = from_file(&text).unwrap();
            (config.shard_memory() / MIB, config.limits.bytes_outside_shards() / MIB)
        };
        assert_eq!((web("1GiB"), web("128MiB")), ((1024 - 128, 64), (128 - 32, 16)));
    }

    fn plan(text: &str, mib: u64, bound: Bound) -> MemoryPlan {
        MemoryPlan::within(&from_file(text).unwrap(), Some(Available { bytes: mib * MIB, bound }))
    }

    #[test]
    fn the_default_ceiling_follows_the_limit_and_fits() {
        for bound in [Bound::Machine, Bound::Container, Bound::Process] {
            let plan = plan("[store]\ndirectory = \"data\"\n", 512, bound);
            assert_eq!((plan.ceiling, plan.retained, plan.store), (256 * MIB, 128 * MIB, 64 * MIB));
            assert_eq!((plan.lowered_from, plan.excess()), (None, 0));
        }
        assert_eq!(plan("", 512, Bound::Container).store, 0, "without a store");
    }

    #[test]
    fn a_ceiling_above_a_limit_is_lowered_and_said() {
        let text = "[limits]\nmemory_ceiling = \"1GiB\"\n";
        let lowered = plan(text, 512, Bound::Container);
        assert_eq!((lowered.ceiling, lowered.lowered_from), (384 * MIB, Some(1024 * MIB)));
        assert_eq!(plan(text, 2048, Bound::Container).lowered_from, None);
        // A machine may have swap space: the ceiling stays, and the excess is said.
        let kept = plan(text, 512, Bound::Machine);
        assert_eq!((kept.ceiling, kept.lowered_from, kept.excess()), (1024 * MIB, None, 640 * MIB));
    }

    #[test]
    fn parts_that_do_not_fit_together_are_an_excess() {
        let text = "[retained]\nmax_bytes = \"400MiB\"\n";
        assert_eq!(plan(text, 512, Bound::Container).excess(), 144 * MIB);
        assert_eq!(plan(text, 1024, Bound::Container).excess(), 0);
        let unknown = MemoryPlan::within(&from_file(text).unwrap(), None);
        assert_eq!((unknown.ceiling, unknown.excess()), (0, 0));
    }

    #[test]
    fn hashing_gets_an_eighth_of_the_ceiling() {
        let memory = |ceiling: &str| {
            from_file(&format!("[limits]\nmemory_ceiling = \"{ceiling}\"\n")).unwrap().hash_memory() / MIB
        };
        assert_eq!((memory("1MiB"), memory("512MiB"), memory("64GiB")), (32, 64, 256));
    }
}
