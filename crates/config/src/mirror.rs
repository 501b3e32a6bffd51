//! The section `[mirror]`: when the store of a node is on the bus of its cluster, and what does not go together.

use tidegate_bus::Address;
use tidegate_mirror::log_of;

use crate::feature::bus_problem;
use crate::finding::Findings;
use crate::origins::Origins;
use crate::sections::cluster::Cluster;
use crate::sections::mirror::Mirror;
use crate::sections::{Store, StoreDurability};
use crate::value::Problem;

/// Whether a node of a cluster keeps its store on the bus of the cluster without a setting.
pub fn is_implied(store: &Store, cluster: &Cluster, mirror: &Mirror) -> bool {
    !cluster.name.is_empty()
        && cluster.mirror
        && mirror.bus.is_none()
        && store.directory.is_some()
        && store.durability == StoreDurability::Commit
}

/// Checks the keys together.
pub fn check(mirror: &Mirror, cluster: &Cluster, store: &Store, origins: &Origins, findings: &mut Findings) {
    let source = |key| origins.source_of("mirror", key).clone();
    if is_implied(store, cluster, mirror)
        && let Err(error) = log_of(&cluster.name)
    {
        let hint = "choose another name, or set cluster.mirror to false";
        findings.push(Problem::new(error.to_string()).hint(hint), origins.source_of("cluster", "name").clone());
    }
    let Some(address) = &mirror.bus else {
        if !mirror.name.is_empty() {
            let problem = Problem::new("`mirror.name` names files on a bus, and `mirror.bus` names none");
            findings.push(problem.hint("name the bus with `mirror.bus` or --mirror"), source("name"));
        }
        return;
    };
    if let Some(problem) = bus_problem(&address.parse::<Address>()) {
        findings.push(problem, source("bus"));
    }
    if mirror.name.is_empty() {
        let problem = Problem::new("`mirror.bus` needs a name for the files");
        findings
            .push(problem.hint("give the broker one of its own with `mirror.name` or --mirror-name"), source("bus"));
    } else if let Err(error) = log_of(&mirror.name) {
        findings.push(Problem::new(error.to_string()), source("name"));
    }
    if store.directory.is_none() {
        let problem = Problem::new("`mirror.bus` needs a directory for the working copy");
        findings.push(problem.hint("name one with `store.directory` or --data"), source("bus"));
    } else if store.durability != StoreDurability::Commit {
        let problem = Problem::new("with `mirror.bus` everything is on the bus before it is acknowledged");
        findings.push(problem.hint("leave `store.durability` out"), origins.source_of("store", "durability").clone());
    }
}
