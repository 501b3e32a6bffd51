//! A server that loses its disk.

use std::sync::Arc;
use std::time::Duration;

use tidegate_bus::{Membership, Settings};

use super::Nats;
use crate::client::{Client, until};
use crate::settings;

/// A lease that does not end while the server is started again.
const LEASE: Duration = Duration::from_secs(40);

/// The number of the tenure, and the members that were seen in it.
fn seen(membership: &Membership) -> Option<(u64, usize)> {
    let before = membership.tenure()?.number;
    let members = membership.members().len();
    membership.tenure().filter(|after| after.number == before).map(|_| (before, members))
}

#[test]
fn a_group_that_the_server_has_lost_is_joined_again() {
    let mut nats = Nats::start();
    let bus = |nats: &Nats| Client(nats.bus_as("", Settings { lease: LEASE, ..settings() }, Arc::new(|_| {})));
    let clients = [bus(&nats), bus(&nats), bus(&nats)];
    let members: Vec<_> =
        clients.iter().zip(["a", "b", "c"]).map(|(client, name)| client.join("nodes", name, 1)).collect();
    for (membership, bell) in &members {
        until(bell, "all members", || (seen(membership)?.1 == 3).then_some(()));
    }
    nats.kill();
    nats.wipe();
    nats.resume();
    let newcomer = bus(&nats);
    let joined = newcomer.join("nodes", "d", 1);
    for (membership, bell) in members.iter().chain([&joined]) {
        until(bell, "all four members", || {
            let (tenure, count) = seen(membership)?;
            assert!(
                tenure > 0 || count >= 3 || membership.incarnation() == joined.0.incarnation(),
                "{count} members of a tenure that continues"
            );
            (count == 4).then_some(())
        });
    }
}
