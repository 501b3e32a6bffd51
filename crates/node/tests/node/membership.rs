//! Groups of mobile nodes, through the public interface.

use std::sync::Arc;

use tidegate_engine::{AddressSettings, Durability, MembershipChange, MembershipOutcome};
use tidegate_node::{ChangesError, MAX_MEMBERSHIP_CHANGES, Node};
use tidegate_store::{Settings, SimulatedDisk, keep_all};

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
    let leaves = MembershipChange { add: Vec::new(), remove: vec!["17".to_owned()], ..change("n0".to_owned()) };
    assert_eq!(handle.insiders().set_memberships(vec![leaves]), Ok(vec![MembershipOutcome::Done]));
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

#[test]
fn an_answered_change_of_groups_survives_a_loss_of_power() {
    let disk = SimulatedDisk::new(1);
    let start = || {
        let store = tidegate_store::open(Arc::new(disk.clone()), Settings::default(), keep_all()).unwrap().store;
        let mut settings = settings(1);
        settings.engine.durability = Durability::Commit;
        settings.engine.addresses = Some(AddressSettings { guarded: false, ..AddressSettings::default() });
        Node::start_with_store(settings, store).unwrap()
    };
    let connected = |node: &Node, is_known: bool| {
        let [tcp, ..] = addresses(node);
        let mut client = Client::dial(&tcp);
        client.send(&connect_lasting("n0"));
        client.expect(&[0x20, 2, u8::from(is_known), 0]);
        client
    };
    let first = start();
    let _client = connected(&first, false);
    let changes = vec![change("n0".to_owned())];
    assert_eq!(first.handle().insiders().set_memberships(changes), Ok(vec![MembershipOutcome::Done]));
    disk.lose_power();
    drop(first);
    disk.restart();
    let second = start();
    let mut client = connected(&second, true);
    let sent = publish("ctx/to/group/17/x", b"now");
    client.send(&sent);
    client.expect(&sent);
}
