//! Random faults and deaths of managers: at the end there is one machine for each wanted name, and no other one.

use std::collections::BTreeSet;

use tidegate_random::SplitMix64;

use super::super::*;
use super::cloud::{Fault, World};

fn disturb(world: &mut World, random: &mut SplitMix64) {
    match random.below(12) {
        0 => world.cloud.faults.push(Fault::Fails),
        1 => world.cloud.faults.push(Fault::TooLong),
        2 => world.cloud.faults.push(Fault::Twice),
        3 => world.cloud.faults.push(Fault::FailsAfter),
        4 => world.cloud.failing_lists += 1,
        5 => world.cloud.refused_releases += 1,
        6 => world.cloud.lag_ms = random.below(5_000),
        7 => world.cloud.delay_ms = random.below(9_000),
        8 => world.kill_manager(),
        _ => {}
    }
}

/// Plays a run; `disturbs` says which faults there are.
fn play(seed: u64, disturb: impl Fn(&mut World, &mut SplitMix64)) -> (World, BTreeSet<String>) {
    let mut random = SplitMix64::new(seed);
    let mut world = World::new();
    let (mut wanted, mut leaving): (BTreeSet<String>, BTreeSet<String>) = Default::default();
    let mut next = 1;
    for turn in 0..600 {
        if turn % 10 == 0 && turn < 400 {
            disturb(&mut world, &mut random);
        }
        match random.below(40) {
            0 if wanted.len() < 5 => {
                wanted.insert(format!("broker-{next}"));
                next += 1;
            }
            1 => {
                if let Some(first) = wanted.pop_first() {
                    leaving.insert(first);
                }
            }
            _ => {}
        }
        for name in &wanted {
            world.ask(name);
        }
        leaving.retain(|name| world.ask_to_release(name) != Ok(Release::Gone));
        world.turn();
    }
    world.cloud.faults.clear();
    (world.cloud.failing_lists, world.cloud.refused_releases) = (0, 0);
    for _ in 0..400 {
        for name in &wanted {
            world.ask(name);
        }
        leaving.retain(|name| world.ask_to_release(name) != Ok(Release::Gone));
        world.turn();
    }
    assert!(leaving.is_empty(), "seed {seed}: {leaving:?}");
    (world, wanted)
}

#[test]
fn after_random_faults_each_wanted_name_has_one_machine() {
    for seed in 0..300 {
        let (world, wanted) = play(seed, disturb);
        let living = world.cloud.living();
        assert_eq!(living, wanted.iter().cloned().collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(world.names(), wanted, "seed {seed}");
    }
}

#[test]
fn no_name_gets_two_machines_from_a_cloud_that_keeps_its_word() {
    for seed in 0..300 {
        let (world, _) = play(seed, |world, random| match random.below(8) {
            0 => world.cloud.faults.push(Fault::Fails),
            1 => world.cloud.faults.push(Fault::TooLong),
            2 => world.cloud.failing_lists += 1,
            3 => world.cloud.lag_ms = random.below(4_500),
            4 => world.cloud.delay_ms = random.below(9_000),
            5 => world.kill_manager(),
            _ => {}
        });
        let twice = world.cloud.made_for.iter().find(|(_, count)| **count > 1);
        assert_eq!(twice, None, "seed {seed}");
    }
}
