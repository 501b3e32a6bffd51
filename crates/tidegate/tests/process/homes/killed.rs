//! Orchestrators that are killed while partitions move between them.

use super::*;

#[test]
fn the_old_home_may_be_killed_between_any_two_steps() {
    for step in ["hold", "arrive"] {
        let mut fleet = Fleet::start();
        let (id, partition) = fleet.id_at(A, "survivor");
        fleet.subscribe(A, &id);
        fleet.publish_to(B, 0..6, (A, &id));
        let order = json!({"partition": partition, "to": "b", "stop_after": step});
        assert_eq!(fleet.ask(A, "POST", "/api/v1/homes/move", &order)["left"], true, "{step}");
        fleet.publish_to(B, 6..8, (A, &id));
        fleet.kill(A);
        fleet.publish(B, 8..10);
        fleet.run(A);
        until(|| fleet.homes(A)["leaving"].is_null().then_some(()));
        fleet.wait_serving(A);
        assert_eq!(fleet.owner(partition), A, "{step}");
        assert_eq!(fleet.homes(B)["arriving"], Value::Null);
        fleet.expect_owed(B, &id, 10);
        // What was given up leaves nothing behind that is in the way of the next move.
        fleet.publish_to(B, 0..2, (A, &id));
        let moved = fleet.ask(A, "POST", "/api/v1/homes/move", &json!({"partition": partition, "to": "b"}));
        assert_eq!(moved["owed"]["queued"], 2, "{moved}");
        fleet.expect_owed(A, &id, 2);
    }
}

#[test]
fn the_new_home_may_be_killed_before_it_serves() {
    let mut fleet = Fleet::start();
    let (id, partition) = fleet.id_at(A, "survivor");
    fleet.subscribe(A, &id);
    fleet.publish_to(A, 0..6, (A, &id));
    let order = json!({"partition": partition, "to": "b", "stop_after": "arrive"});
    assert_eq!(fleet.ask(A, "POST", "/api/v1/homes/move", &order)["left"], true);
    fleet.kill(B);
    fleet.publish_to(A, 6..8, (A, &id));
    // Nobody knows how it ended: the partition stays held.
    assert!(fleet.ask(A, "POST", "/api/v1/homes/resume", &Value::Null)["error"].is_string());
    fleet.run(B);
    fleet.wait_serving(B);
    assert_eq!(fleet.ask(A, "POST", "/api/v1/homes/resume", &Value::Null)["moved"], false);
    let moved = fleet.ask(A, "POST", "/api/v1/homes/move", &json!({"partition": partition, "to": "b"}));
    assert_eq!(moved["owed"]["queued"], 8, "{moved}");
    assert_eq!(fleet.owner(partition), B);
    fleet.expect_owed(A, &id, 8);
}

#[test]
fn a_move_to_a_place_that_is_gone_for_good_ends_where_it_is() {
    let mut fleet = Fleet::start();
    let (id, partition) = fleet.id_at(A, "survivor");
    fleet.subscribe(A, &id);
    fleet.publish_to(A, 0..6, (A, &id));
    let order = json!({"partition": partition, "to": "b", "stop_after": "arrive"});
    assert_eq!(fleet.ask(A, "POST", "/api/v1/homes/move", &order)["left"], true);
    fleet.kill(B);
    let mut table = fleet.homes(A);
    (table["epoch"], table["homes"]) = (json!(2), json!(vec!["a"; 64]));
    // While the other side may come back, nothing is decided.
    assert!(fleet.ask(A, "PUT", "/api/v1/homes", &table)["error"].is_string());
    for strange in [json!("b"), json!([1])] {
        table["gone"] = strange;
        assert!(fleet.ask(A, "PUT", "/api/v1/homes", &table)["error"].is_string());
    }
    table["gone"] = json!(["b"]);
    let set = fleet.ask(A, "PUT", "/api/v1/homes", &table);
    assert_eq!((&set["here"], &set["leaving"]), (&json!(64), &Value::Null), "{set}");
    fleet.publish(A, 6..8);
    fleet.expect_owed(A, &id, 8);
}

#[test]
fn a_kill_at_any_moment_of_a_move_leaves_one_owner_with_all() {
    let mut fleet = Fleet::start();
    let mut owners = BTreeSet::new();
    for (round, delay) in [5, 60, 205, 215, 225, 240].into_iter().enumerate() {
        let (id, partition) = fleet.id_at(A, &format!("round-{round}"));
        fleet.subscribe(A, &id);
        fleet.publish_to(B, 0..6, (A, &id));
        thread::scope(|scope| {
            let order = json!({"partition": partition, "to": "b"});
            let fleet = &fleet;
            scope.spawn(move || fleet.ask(A, "POST", "/api/v1/homes/move", &order));
            // Somewhere on its way, or just behind; whatever it is, the outcome has to be right.
            pause(delay);
            fleet.running[A].as_ref().unwrap().signal("KILL");
        });
        fleet.running[A].take().unwrap().wait();
        fleet.publish(B, 6..8);
        fleet.run(A);
        until(|| fleet.homes(A)["leaving"].is_null().then_some(()));
        fleet.wait_serving(A);
        owners.insert(fleet.owner(partition));
        fleet.expect_owed(B, &id, 8);
    }
    assert!(!owners.is_empty());
}
