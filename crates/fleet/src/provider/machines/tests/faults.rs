//! One fault of a cloud at a time.

use super::super::call::Call;
use super::super::inventory::{Inventory, MachineLife};
use super::super::*;
use super::cloud::{Fault, TURN, World, name, settings, wanted};

fn allocates(world: &World, text: &str) -> usize {
    world.cloud.count(|call| *call == Call::Allocate(name(text)))
}

#[test]
fn a_machine_is_made_once_and_removed_once() {
    let mut world = World::new();
    world.allocate("broker-1");
    let seen = world.seen("broker-1").unwrap();
    assert_eq!(seen.resource.address, "mqtt://10.0.0.1:1883");
    assert_eq!((seen.resource.template.as_str(), seen.resource.admin), (MACHINE, None));
    world.allocate("orchestrator-1");
    assert_eq!(world.seen("orchestrator-1").unwrap().resource.admin.as_deref(), Some("http://10.0.0.1:18083"));
    world.ask("broker-1");
    world.pass(20_000);
    assert_eq!(world.cloud.living(), ["broker-1", "orchestrator-1"]);
    world.release("broker-1");
    assert_eq!(world.cloud.living(), ["orchestrator-1"]);
    world.pass(20_000);
    let changes = world.cloud.count(|call| *call != Call::List);
    assert_eq!((changes, world.names().len(), world.ask_to_release("broker-1")), (3, 1, Ok(Release::Gone)));
    assert!(matches!(world.inventory.allocate(world.now, &wanted("broker-1")), Err(MachineError::Released(_))));
}

#[test]
fn commands_get_the_values_of_their_placeholders() {
    let settings = settings();
    let allocate = Call::Allocate(name("broker-7")).command(&settings, Some(&wanted("broker-7")));
    assert_eq!(allocate, ["./cloud", "allocate", "demo", "broker-7", "broker", "small", "1"]);
    let release = Call::Release(name("broker-7"), "i-1; rm -r /".to_owned()).command(&settings, None);
    assert_eq!(release, ["./cloud", "release", "broker-7", "i-1; rm -r /"]);
    assert_eq!(Call::List.command(&settings, None), ["./cloud", "list", "demo"]);
    let mut settings = settings;
    settings.commands.list.push("--bus={bus}".to_owned());
    settings.bus = "nats://fleet:se@cret@10.0.0.1:4222,10.0.0.2".to_owned();
    assert!(Call::List.command(&settings, None)[3].contains("se@cret"));
    assert_eq!(Call::List.shown(&settings, None), "./cloud list demo --bus=nats://***@10.0.0.1:4222,10.0.0.2");
}

#[test]
fn a_failing_allocate_is_tried_again_and_then_reported() {
    let mut world = World::new();
    world.cloud.faults = vec![Fault::Fails, Fault::Fails];
    world.allocate("broker-1");
    assert_eq!((allocates(&world, "broker-1"), world.errors.len()), (3, 0));
    world.cloud.faults = vec![Fault::Fails; 4];
    for _ in 0..100 {
        world.ask("broker-2");
        if world.errors.contains_key("broker-2") {
            break;
        }
        world.turn();
    }
    let error = world.errors["broker-2"].to_string();
    assert_eq!((allocates(&world, "broker-2"), error.as_str()), (3, "`allocate` ended with exit code 3: no quota"));
    assert_eq!(world.life("broker-2"), None);
    world.release("broker-2");
    assert_eq!(world.cloud.living(), ["broker-1"]);
}

#[test]
fn a_slow_allocate_is_not_begun_twice() {
    let mut world = World::new();
    world.cloud.delay_ms = 9_000;
    for _ in 0..100 {
        world.ask("broker-1");
        world.turn();
    }
    assert_eq!((allocates(&world, "broker-1"), world.cloud.living()), (1, vec!["broker-1".to_owned()]));
}

#[test]
fn a_lagging_list_makes_no_second_machine() {
    let mut world = World::new();
    world.cloud.lag_ms = 4_500;
    world.cloud.faults = vec![Fault::TooLong];
    world.allocate("broker-1");
    world.allocate("broker-2");
    assert_eq!(world.cloud.made_for, [("broker-1".to_owned(), 1), ("broker-2".to_owned(), 1)].into());
    // A removed one is shown for a while, and not removed again.
    world.release("broker-1");
    let releases = world.cloud.count(|call| matches!(call, Call::Release(..)));
    assert_eq!((releases, world.cloud.living()), (1, vec!["broker-2".to_owned()]));
}

#[test]
fn a_second_machine_of_a_name_is_removed() {
    let mut world = World::new();
    world.cloud.faults = vec![Fault::Twice];
    world.allocate("broker-1");
    let kept = world.disk[0].id.clone().unwrap();
    world.until("one machine", |world| world.cloud.living().len() == 1);
    assert_eq!(kept, "i-1");
    assert!(world.cloud.count(|call| *call == Call::Release(name("broker-1"), "i-2".to_owned())) > 0);
    assert!(matches!(world.life("broker-1"), Some(MachineLife::Running(..))));
    // By the name alone both would be removed.
    let mut settings = settings();
    settings.commands.release.pop();
    let mut world = World::with(settings);
    world.cloud.faults = vec![Fault::Twice];
    world.allocate("broker-1");
    world.pass(20_000);
    let note = world.seen("broker-1").unwrap().resource.note;
    assert!(note.contains("write {id} in machines.release"), "{note}");
    assert_eq!(world.cloud.living().len(), 2);
}

#[test]
fn a_refused_release_is_reported_and_tried_on() {
    let mut world = World::new();
    world.allocate("broker-1");
    world.cloud.refused_releases = 5;
    let mut reported = None;
    for _ in 0..1_000 {
        match world.ask_to_release("broker-1") {
            Ok(Release::Gone) => break,
            Ok(Release::Stopping) => {}
            Err(error) => reported = Some(error.to_string()),
        }
        assert!(matches!(world.life("broker-1"), Some(MachineLife::Stopping)));
        world.turn();
    }
    assert_eq!(reported.as_deref(), Some("`release` ended with exit code 9: it is protected"));
    assert_eq!(world.cloud.living(), Vec::<String>::new());
    let times: Vec<u64> =
        world.cloud.calls.iter().filter(|(_, it)| matches!(it, Call::Release(..))).map(|(at, _)| *at).collect();
    let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.iter().zip([2_000, 3_000, 5_000, 5_000, 5_000]).all(|(pause, least)| *pause >= least), "{pauses:?}");
}

#[test]
fn a_manager_that_died_while_it_allocated_finds_the_machine() {
    for turns in 0..12 {
        let mut world = World::new();
        (world.cloud.delay_ms, world.cloud.lag_ms) = (2_000, 2_000);
        world.ask("broker-1");
        world.pass(turns * TURN);
        world.kill_manager();
        world.allocate("broker-1");
        world.pass(60_000);
        assert_eq!((world.cloud.living(), allocates(&world, "broker-1")), (vec!["broker-1".to_owned()], 1), "{turns}");
    }
}

#[test]
fn a_machine_that_appears_after_its_release_is_an_orphan() {
    let mut world = World::new();
    (world.cloud.delay_ms, world.cloud.lag_ms) = (4_000, 30_000);
    world.cloud.faults = vec![Fault::TooLong];
    world.ask("broker-1");
    world.pass(6_000);
    world.release("broker-1");
    world.kill_manager();
    assert_eq!(world.cloud.living(), ["broker-1"]);
    // It is not taken in, and removed as soon as it is shown.
    world.until("its removal", |world| world.cloud.living().is_empty());
    world.pass(60_000);
    assert!(world.names().is_empty());
}

#[test]
fn lost_records_are_taken_over_and_strangers_left_alone() {
    let mut world = World::new();
    for text in ["broker-1", "broker-2"] {
        world.allocate(text);
    }
    world.cloud.made_for.clear();
    let stranger = world.cloud.vms["i-1"].clone();
    world.cloud.vms.insert("i-9".to_owned(), super::cloud::Vm { name: "database".to_owned(), ..stranger });
    world.disk.clear();
    world.kill_manager();
    assert_eq!(world.names(), ["broker-1", "broker-2"].map(str::to_owned).into());
    world.release("broker-2");
    world.pass(30_000);
    assert_eq!(world.cloud.living(), ["broker-1", "database"]);
}

#[test]
fn an_ended_machine_is_reported_and_started_again_by_its_name() {
    let mut world = World::new();
    world.allocate("orchestrator-1");
    world.cloud.vms.get_mut("i-1").unwrap().state = "ended";
    world.until("its end", |world| matches!(world.life("orchestrator-1"), Some(MachineLife::Ended(_))));
    world.allocate("orchestrator-1");
    assert_eq!((allocates(&world, "orchestrator-1"), world.cloud.made_for["orchestrator-1"]), (2, 1));
    // One that the cloud has lost counts as ended after the lag, not before.
    world.cloud.vms.clear();
    let lost = world.now;
    world.until("its end", |world| matches!(world.life("orchestrator-1"), Some(MachineLife::Ended(_))));
    assert!((5_000..12_000).contains(&(world.now - lost)), "{}", world.now - lost);
}

#[test]
fn one_failed_list_changes_nothing_and_several_are_reported() {
    let mut world = World::new();
    world.allocate("broker-1");
    assert_eq!(Inventory::new(settings(), Vec::new()).list_error(), Some(MachineError::NotListed));
    world.cloud.failing_lists = 1;
    world.pass(10_000);
    assert_eq!((world.inventory.list_error(), world.names().len()), (None, 1));
    world.cloud.failing_lists = 1_000;
    world.until("the error", |world| world.inventory.list_error().is_some());
    assert_eq!(world.inventory.list_error().unwrap().to_string(), "`list` ended with exit code 1: try later");
    world.cloud.failing_lists = 0;
    world.until("an answer", |world| world.inventory.list_error().is_none());
    assert_eq!((world.names().len(), world.cloud.living().len()), (1, 1));
}

#[test]
fn a_provider_without_identifiers_uses_names() {
    let mut world = World::new();
    world.cloud.names_are_ids = true;
    world.cloud.faults = vec![Fault::FailsAfter];
    world.allocate("broker-1");
    world.release("broker-1");
    assert_eq!(world.cloud.living(), Vec::<String>::new());
    assert!(world.cloud.count(|call| *call == Call::Release(name("broker-1"), "broker-1".to_owned())) == 1);
}

#[test]
fn a_failed_allocate_whose_machine_appears_late_makes_one() {
    let mut world = World::new();
    world.cloud.lag_ms = 4_500;
    world.cloud.faults = vec![Fault::FailsAfter];
    world.allocate("broker-1");
    assert_eq!((allocates(&world, "broker-1"), world.cloud.made_for["broker-1"]), (1, 1));
}

#[test]
fn a_machine_that_list_omits_is_released_all_the_same() {
    let mut world = World::new();
    world.allocate("broker-1");
    world.cloud.hides = true;
    world.pass(4_000);
    world.cloud.refused_releases = 2;
    world.release("broker-1");
    assert_eq!(world.cloud.living(), Vec::<String>::new());
    assert_eq!(world.cloud.count(|call| *call == Call::Release(name("broker-1"), "i-1".to_owned())), 3);
    // A later manager knows that it is gone, and does not release it again.
    world.kill_manager();
    world.pass(20_000);
    assert_eq!(world.cloud.count(|call| matches!(call, Call::Release(..))), 3);
}

#[test]
fn a_list_without_any_of_two_machines_is_an_error() {
    let mut world = World::new();
    for text in ["broker-1", "broker-2"] {
        world.allocate(text);
    }
    world.cloud.hides = true;
    world.until("the error", |world| world.inventory.list_error().is_some());
    world.pass(60_000);
    let error = world.inventory.list_error().unwrap().to_string();
    assert!(error.contains("shows none of 2 machines"), "{error}");
    assert!(["broker-1", "broker-2"].iter().all(|it| matches!(world.life(it), Some(MachineLife::Running(..)))));
    let note = world.seen("broker-1").unwrap().resource.note;
    assert!(note.contains("shows none of 2 machines"), "{note}");
    // A released one counts no longer.
    assert_eq!(world.ask_to_release("broker-1"), Ok(Release::Stopping));
    world.until("a list", |world| world.inventory.list_error().is_none());
    world.release("broker-1");
    world.until("its end", |world| matches!(world.life("broker-2"), Some(MachineLife::Ended(_))));
}

#[test]
fn a_time_without_a_list_makes_no_machine_absent() {
    let mut world = World::new();
    world.allocate("broker-1");
    world.cloud.hides = true;
    world.pass(3_500);
    world.cloud.failing_lists = 1_000;
    world.pass(60_000);
    assert!(matches!(world.life("broker-1"), Some(MachineLife::Running(..))));
    (world.cloud.failing_lists, world.cloud.hides) = (0, false);
    world.pass(20_000);
    assert!(matches!(world.life("broker-1"), Some(MachineLife::Running(..))));
}

#[test]
fn a_living_replacement_is_kept_and_not_its_dead_namesake() {
    for (text, removed) in [("broker-1", 1), ("orchestrator-1", 0)] {
        let mut world = World::new();
        world.allocate(text);
        let replacement = world.cloud.vms["i-1"].clone();
        world.cloud.vms.get_mut("i-1").unwrap().state = "ended";
        world.cloud.vms.insert("i-2".to_owned(), replacement);
        world.pass(30_000);
        assert!(matches!(world.life(text), Some(MachineLife::Running(..))));
        assert!(world.cloud.vms["i-2"].removed_ms.is_none());
        let releases = world.cloud.count(|call| *call == Call::Release(name(text), "i-1".to_owned()));
        assert_eq!(releases, removed, "{text}");
        let note = world.seen(text).unwrap().resource.note;
        assert_eq!(note.contains("its ended machine `i-1` is kept"), removed == 0, "{note}");
    }
}
