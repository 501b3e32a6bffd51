//! Logs at the start how much memory the broker will use, beside the limits of its container and its process.

use tidegate_config::{Config, MemoryPlan};
use tidegate_process::physical_memory::Bound;

const MIB: u64 = 1024 * 1024;

/// Logs the parts of the memory, a ceiling that is lowered, and parts that do not fit together.
pub(super) fn tell(config: &Config) {
    let plan = MemoryPlan::of(config);
    let MemoryPlan { available, ceiling, retained, store, .. } = plan;
    let bytes = available.map_or(0, |available| available.bytes);
    let bound = available.map_or("unknown", |available| word(available.bound));
    let mib = |bytes: u64| bytes / MIB;
    tracing::info!(
        clients_mib = mib(ceiling),
        retained_mib = mib(retained),
        store_mib = mib(store),
        available_mib = mib(bytes),
        bound,
        "memory at most"
    );
    if let Some(configured) = plan.lowered_from {
        let (configured, counts) = (mib(configured), mib(ceiling));
        // Of an address space, half is taken for memory (`physical_memory`).
        let (limit, share) = match available.map(|available| available.bound) {
            Some(Bound::Process) => (format!("ulimit of {} MiB", mib(bytes * 2)), "three eighths"),
            _ => (format!("limit of the container of {} MiB", mib(bytes)), "three quarters"),
        };
        tracing::warn!(
            bound,
            "limits.memory_ceiling of {configured} MiB is too high for the {limit}: {counts} MiB count, {share} of it; raise the limit, or lower the key"
        );
    }
    if plan.excess() > 0 {
        let excess_mib = mib(plan.excess());
        tracing::warn!(
            bound,
            excess_mib,
            "limits.memory_ceiling, retained.max_bytes, store.merge_memory and store.pending_memory together are above the available memory: the system may end the broker; lower them, or leave them out"
        );
    }
}

fn word(bound: Bound) -> &'static str {
    match bound {
        Bound::Machine => "machine",
        Bound::Container => "container",
        Bound::Process => "ulimit",
    }
}
