//! Groups of mobile nodes, through the public interface.

use tidegate_engine::{AddressSettings, MembershipChange, MembershipOutcome, TenantId};
use tidegate_node::{ChangesError, MAX_MEMBERSHIP_CHANGES, Node};

use crate::wire::*;
use crate::{addresses, settings};

fn change(client_id: String) -> MembershipChange {
    MembershipChange { client_id, add: vec!["17".to_owned()], ..MembershipChange::default() }
}

#[test]
fn groups_of_nodes_on_all_shards_change_in_one_call() {
    let mut settings = settings(2);
    settings.engine.addresses = Some(AddressSettings { guarded: false, ..AddressSettings::default() });
    let node = Node::start(settings).unwrap();
    let handle = node.handle();
    let [tcp, ..] = addresses(&node);
    let mut clients: Vec<Client> = (0..8).map(|number| Client::connect(&tcp, &format!("n{number}"))).collect();
    let changes = (0..9).map(|number| change(format!("n{number}"))).collect();
    let mut wanted = vec![MembershipOutcome::Done; 8];
    wanted.push(MembershipOutcome::NoSuchNode);
    assert_eq!(handle.insiders().set_memberships(changes), Ok(wanted));
    let sent = publish("ctx/to/group/17/x", b"now");
    // Each shard had notified the other before it answered, and reports after that.
    handle.report().unwrap();
    clients[0].send(&sent);
    for client in &mut clients {
        client.expect(&sent);
    }
    let remove = ["17".to_owned()];
    assert_eq!(handle.insiders().set_membership(TenantId::DEFAULT, "n0", &[], &remove), Ok(MembershipOutcome::Done));
    clients[1].send(&sent);
    clients[1].expect(&sent);
    clients[0].send(&PINGREQ);
    clients[0].expect(&PINGRESP);
    let too_many = vec![change("n1".to_owned()); MAX_MEMBERSHIP_CHANGES + 1];
    assert_eq!(
        handle.insiders().set_memberships(too_many),
        Err(ChangesError::TooMany { changes: MAX_MEMBERSHIP_CHANGES + 1 })
    );
}
