//! No message comes twice by the connection of a dead orchestrator, also after a restart.

use super::*;

/// An orchestrator whose store outlasts its process.
fn lasting_world() -> World {
    World::with(1, |settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.durability = Durability::Commit;
    })
}

#[test]
fn a_returned_home_gets_no_message_twice_by_pieces() {
    // It is back before another member has had its partition, and a heir has its connection to a broker.
    let returned = lasting_world();
    let own = returned.broker("b");
    let one = returned.connect(v5("one").lasting());
    one.subscribe("t", ExactlyOnce);
    let [before, missed] = with_ids(["1", "2"]);
    own.carry(&before);
    one.expect_publish("t", "1");
    returned.crash(Crash::now(1));
    let (dead, images) = dies(&["two"]);
    let heir = world();
    heir.broker("b");
    inherit(&heir, 1, "two", &images);
    let left = connect_as_dead(&heir, &dead);
    left.carry(&before);
    left.carry(&missed);
    let piece = take_brought(&heir).for_members.expect("the messages");
    returned
        .engine(0, |engine, now| {
            let mut moves = OrchestratorMoves::of(engine);
            moves.resume_awaiting(now, DEATH, partition("one"));
            moves.take_piece(now, DEATH, partition("one"), &piece, Behind::LatePieces)
        })
        .expect("a piece");
    let one = returned.connect(v5("one").lasting());
    one.expect_publish("t", "2");
    one.expect_nothing();
}

#[test]
fn ids_of_a_dead_connection_outlast_it_while_its_broker_waits() {
    let (dead, images) = dies(&["one"]);
    let heir = lasting_world();
    let own = heir.broker("b");
    inherit(&heir, 1, "one", &images);
    let left = connect_as_dead(&heir, &dead);
    let [carried] = with_ids(["1"]);
    left.carry(&carried);
    heir.connect(v5("one").lasting()).expect_publish("t", "1");
    let unanswered = take_brought(&heir).unanswered;
    heir.engine(0, |engine, now| OrchestratorMoves::of(engine).confirm_brought(now, "a@dead", unanswered));
    heir.run();
    left.remove(false).expect("it owes nothing");
    heir.crash(Crash::now(1));
    // Its sender gives it to another broker, which brings it.
    own.carry(&carried);
    let one = heir.connect(v5("one").lasting());
    one.expect_nothing();
}
