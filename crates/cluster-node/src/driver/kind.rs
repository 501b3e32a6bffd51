//! All nodes of a cluster are orchestrators with the same prefix of addresses, or none is: messages of orchestrators cross
//! by brokers, those on topics of addresses and messages of other nodes by links.

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
        advert.is_some_and(|advert| advert.kind() != own.kind())
    };
    let Some((other, _)) = table.lives.iter().find(is_other) else { return };
    let Some(member) = adverts.get(other) else { return };
    let name = shared.name();
    let why = if member.orchestrator == own.orchestrator {
        let [own, member] = [own, member].map(described);
        format!(
            "orchestrator `{name}` has {own}, and `{other}`, a member of the cluster, has {member}: stop all members, give them the same, and start them again"
        )
    } else {
        let kinds = ["is no orchestrator", "is an orchestrator"];
        let [own, member] = [own, member].map(|advert| kinds[usize::from(advert.orchestrator)]);
        format!(
            "node `{name}` {own}, and `{other}`, a member of the cluster, {member}: give one of them another cluster.prefix"
        )
    };
    if shared.ends_for(why) {
        watch::end();
    }
}

/// The addresses of an orchestrator.
fn described(advert: &Advert) -> String {
    match &advert.address_prefix {
        Some(prefix) => format!("addresses below `{prefix}`"),
        None => "no addresses".to_owned(),
    }
}
