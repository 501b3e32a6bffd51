//! Connected clients, as people see them.

use tidegate_engine::{ClientQuery, ClientSummary, TenantId};
use tidegate_mqtt::QoS::AtLeastOnce;
use tidegate_mqtt::Version;

use crate::harness::*;

fn query() -> ClientQuery {
    ClientQuery { limit: 10, filters: 10, ..ClientQuery::default() }
}

/// The answers of all shards, in order.
fn clients(world: &World, query: &ClientQuery) -> Vec<ClientSummary> {
    let mut all: Vec<_> = (0..world.shards())
        .flat_map(|shard| world.engine(shard, |engine, _| engine.questions().clients(query)))
        .collect();
    all.sort_by(|one, other| one.client_id.cmp(&other.client_id));
    all
}

fn names(clients: &[ClientSummary]) -> Vec<&str> {
    clients.iter().map(|client| &*client.client_id).collect()
}

#[test]
fn clients_are_listed_with_subscriptions_and_queues() {
    in_one_process(|world| {
        let away = world.connect(v311("away").lasting());
        away.subscribe("t/#", AtLeastOnce);
        away.disconnect();
        let here = world.connect(v5("here").keep_alive(60).expiry(5));
        here.subscribe("t/+", AtLeastOnce);
        here.subscribe("$share/g/t", AtLeastOnce);
        here.publish(message("t/1", "x").qos1());
        here.messages();
        let told = clients(world, &query());
        assert_eq!(names(&told), ["away", "here"]);
        assert!(told[0].connection.is_none() && told[1].connection.is_some());
        let spoken: Vec<_> = told.iter().map(|client| (client.version, client.keep_alive)).collect();
        assert_eq!(spoken, [(None, None), (Some(Version::V5), Some(60))]);
        assert_eq!((told[0].expiry_seconds, told[1].expiry_seconds), (u32::MAX, 5));
        assert_eq!((told[0].queued_messages, told[1].queued_messages), (1, 0));
        assert_eq!(told[0].filters, ["t/#"]);
        assert_eq!((told[1].subscriptions, &*told[1].filters), (2, &["t/+".to_owned(), "$share/g/t".to_owned()][..]));
        let fewer = clients(world, &ClientQuery { filters: 1, ..query() });
        assert_eq!((fewer[1].subscriptions, fewer[1].filters.len()), (2, 1));
    });
}

#[test]
fn a_list_continues_where_it_ended() {
    let world = World::new(1);
    let connected: Vec<_> = ["d", "b", "a", "c", "bc"].map(|name| world.connect(v5(name))).into();
    let first = clients(&world, &ClientQuery { limit: 2, ..query() });
    assert_eq!(names(&first), ["a", "b"]);
    let after = Some((TenantId::DEFAULT, "b".to_owned()));
    assert_eq!(names(&clients(&world, &ClientQuery { after, limit: 2, ..query() })), ["bc", "c"]);
    let containing = "c".to_owned();
    assert_eq!(names(&clients(&world, &ClientQuery { containing, ..query() })), ["bc", "c"]);
    let last = Some((TenantId::DEFAULT, "d".to_owned()));
    assert!(clients(&world, &ClientQuery { after: last, ..query() }).is_empty());
    drop(connected);
}
