//! All nodes of a cluster are orchestrators, or none is: messages of orchestrators cross by brokers, messages of other nodes
//! by links.

use std::collections::BTreeMap;

use tidegate_cluster::{Advert, Follower, Table};

use super::status::Shared;
use super::watch;

/// Ends the process if the members of the cluster are of another kind than this node, which is not a member yet.
pub(super) fn check(
    shared: &Shared,
    follower: &Follower,
    table: &Table,
    adverts: &BTreeMap<String, Advert>,
    own: &Advert,
) {
    if follower.is_member() {
        return;
    }
    let is_other = |(name, life): &(&String, &u64)| {
        let advert = adverts.get(*name).filter(|advert| advert.life == **life);
        advert.is_some_and(|advert| advert.orchestrator != own.orchestrator)
    };
    let Some((other, _)) = table.lives.iter().find(is_other) else { return };
    let kinds = ["is no orchestrator", "is an orchestrator"];
    let [own_kind, other_kind] = [own.orchestrator, !own.orchestrator].map(|is_one| kinds[usize::from(is_one)]);
    let name = shared.name();
    let why = format!(
        "node `{name}` {own_kind}, and `{other}`, a member of the cluster, {other_kind}: give one of them another cluster.prefix"
    );
    if shared.ends_for(why) {
        watch::end();
    }
}
