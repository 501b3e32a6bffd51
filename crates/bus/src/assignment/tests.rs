//! Members that join, leave, die and stall, in a simulation with seeds: never two at once, and in the end a fair share.

use super::*;
use std::sync::Arc;
use tidegate_random::SplitMix64;

const LEASE: Duration = Duration::from_secs(10);

struct Simulated {
    member: Seat,
    holdings: Arc<Holdings>,
    life: u64,
    alive: bool,
}

struct World {
    table: Table,
    members: BTreeMap<String, Simulated>,
    now: Instant,
    lives: u64,
}

impl World {
    fn join(&mut self, name: &str) {
        self.lives += 1;
        let member = Seat::new(name, self.lives, 16, LEASE, Duration::from_secs(3));
        let holdings = Holdings::new(Arc::new(|| {}));
        self.members.insert(name.to_owned(), Simulated { member, holdings, life: self.lives, alive: true });
    }

    /// A turn of one member; `delay` passes between reading the table and knowing of the change.
    fn turn(&mut self, name: &str, delay: Duration) {
        let Some(one) = self.members.get_mut(name) else { return };
        let asked = self.now;
        self.now += delay;
        if let Some(wish) = one.member.wish(&self.table, asked) {
            self.table = wish;
            one.member.agreed(&self.table, asked, self.now, &one.holdings);
            for other in self.members.values_mut() {
                other.member.note_table(self.now);
            }
        } else {
            one.member.give_up(&one.holdings);
        }
        let Some(one) = self.members.get_mut(name) else { return };
        for (partition, losing) in one.holdings.held() {
            if losing {
                one.member.release(partition);
            }
        }
    }

    fn check(&mut self) {
        let mut holders: BTreeMap<Partition, Vec<String>> = BTreeMap::new();
        for (name, one) in &mut self.members {
            one.member.expire(self.now, &one.holdings);
            for (partition, _) in one.holdings.held() {
                holders.entry(partition).or_default().push(name.clone());
            }
        }
        assert!(holders.values().all(|names| names.len() == 1), "{holders:?}");
    }
}

#[test]
fn no_partition_has_two_members_and_shares_become_equal() {
    for seed in 1..300 {
        let mut chance = SplitMix64::new(seed * 7_919);
        let mut world = World { table: Table::default(), members: BTreeMap::new(), now: Instant::now(), lives: 0 };
        for _ in 0..200 {
            let name = format!("m{}", chance.below(5));
            match chance.below(12) {
                0 => world.join(&name),
                1 => {
                    if let Some(one) = world.members.remove(&name) {
                        world.table = world.table.without(one.life);
                    }
                }
                2 => {
                    if let Some(one) = world.members.get_mut(&name) {
                        one.alive = false;
                    }
                }
                3 => world.now += Duration::from_millis(chance.below(9_000)),
                _ if world.members.get(&name).is_some_and(|one| one.alive) => {
                    world.turn(&name, Duration::from_millis(chance.below(50)));
                }
                _ => {}
            }
            world.check();
        }
        settle(&mut world);
    }
}

/// The dead are buried, and the living share evenly.
fn settle(world: &mut World) {
    world.join("last");
    let names: Vec<String> = world.members.iter().filter(|(_, one)| one.alive).map(|(name, _)| name.clone()).collect();
    for _ in 0..40 {
        for name in &names {
            world.turn(name, Duration::from_millis(1));
            world.check();
        }
        world.now += Duration::from_secs(2);
    }
    let shares: Vec<usize> = names.iter().map(|name| world.members[name].holdings.held().len()).collect();
    assert_eq!(shares.iter().sum::<usize>(), 16, "{shares:?}");
    assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{names:?} {shares:?} {:?}", world.table);
}

#[test]
fn a_process_that_takes_a_name_over_gets_its_partitions() {
    let mut world = World { table: Table::default(), members: BTreeMap::new(), now: Instant::now(), lives: 0 };
    world.join("a");
    world.turn("a", Duration::ZERO);
    let mut old = world.members.remove("a").unwrap();
    assert_eq!(old.holdings.held().len(), 16);
    world.join("a");
    world.turn("a", Duration::ZERO);
    assert_eq!(world.members["a"].holdings.held().len(), 16);
    assert!(old.member.wish(&world.table, world.now).is_none());
    old.member.give_up(&old.holdings);
    assert!(old.holdings.held().is_empty());
}

#[test]
fn an_unreleased_partition_is_taken_after_its_time() {
    let mut world = World { table: Table::default(), members: BTreeMap::new(), now: Instant::now(), lives: 0 };
    world.join("a");
    world.turn("a", Duration::ZERO);
    world.join("b");
    world.turn("b", Duration::ZERO);
    let one = world.members.get_mut("a").unwrap();
    for seconds in [0, 2, 3] {
        let now = world.now + Duration::from_secs(seconds);
        world.table = one.member.wish(&world.table, now).unwrap();
        one.member.agreed(&world.table, now, now, &one.holdings);
        let losing = one.holdings.held().iter().filter(|(_, losing)| *losing).count();
        assert_eq!((one.holdings.held().len(), losing), if seconds < 3 { (16, 8) } else { (8, 0) });
    }
}

/// Applies the wish of a seat; returns the new table.
fn granted(seat: &mut Seat, table: &Table, now: Instant, holdings: &Holdings) -> Table {
    let wish = seat.wish(table, now).unwrap();
    seat.agreed(&wish, now, now, holdings);
    wish
}

#[test]
fn two_processes_of_one_name_stop_replacing_each_other() {
    let (now, release) = (Instant::now(), Duration::from_secs(3));
    let holdings = Holdings::new(Arc::new(|| {}));
    let mut old = Seat::new("a", 1, 4, LEASE, release);
    let table = granted(&mut old, &Table::default(), now, &holdings);
    let mut new = Seat::new("a", 2, 4, LEASE, release);
    let mut table = granted(&mut new, &table, now, &holdings);
    assert!(old.wish(&table, now).is_none(), "the newcomer has the name");
    let mut again = Seat::new("a", 3, 4, LEASE, release).behind(Some(1));
    let mut at = now;
    for _ in 0..20 {
        assert!(again.wish(&table, at).is_none(), "and keeps it as long as it lives");
        at += LEASE / 4;
        table = granted(&mut new, &table, at, &holdings);
    }
    assert!(again.wish(&table, at).is_none());
    assert!(again.wish(&table, at + LEASE).is_some(), "then the name is free");
}

#[test]
fn a_process_takes_its_own_former_place_at_once() {
    let (now, release) = (Instant::now(), Duration::from_secs(3));
    let holdings = Holdings::new(Arc::new(|| {}));
    let table = granted(&mut Seat::new("a", 1, 4, LEASE, release), &Table::default(), now, &holdings);
    assert!(Seat::new("a", 2, 4, LEASE, release).behind(Some(1)).wish(&table, now).is_some());
}

#[test]
fn a_table_without_leases_is_read_and_keeps_no_member_alive() {
    let (now, release) = (Instant::now(), Duration::from_secs(3));
    let holdings = Holdings::new(Arc::new(|| {}));
    let table = granted(&mut Seat::new("a", 1, 4, LEASE, release), &Table::default(), now, &holdings);
    assert_eq!(table.leases().collect::<Vec<_>>(), [Some(LEASE)]);
    let mut watcher = Seat::new("b", 2, 4, LEASE, release);
    let _ = watcher.wish(&table, now);
    // As a member writes it that knows of no leases.
    let mut written = serde_json::to_value(&table).unwrap();
    assert!(written["members"]["a"].as_object_mut().unwrap().remove("lease_ms").is_some());
    let rewritten: Table = serde_json::from_value(written).unwrap();
    assert_eq!(rewritten.leases().collect::<Vec<_>>(), [None]);
    let wish = watcher.wish(&rewritten, now + LEASE).unwrap();
    assert_eq!(wish.members().collect::<Vec<_>>(), [("b", 2)], "it has not beaten for a lease");
}

/// The members of a table, after a change by a seat at this time.
fn members_after(seat: &mut Seat, table: &mut Table, now: Instant) -> Vec<String> {
    *table = seat.wish(table, now).unwrap();
    table.members().map(|(name, _)| name.to_owned()).collect()
}

/// After how long a member that does not count up is given up, behind a time in which the log took no record.
fn given_up_after(outage: Duration) -> Duration {
    let (mut now, release) = (Instant::now(), Duration::from_secs(3));
    let [mut a, mut b] = [("a", 1), ("b", 2)].map(|(name, life)| Seat::new(name, life, 1, LEASE, release));
    let mut table = Table::default();
    for _ in 0..2 {
        for seat in [&mut a, &mut b] {
            let _ = members_after(seat, &mut table, now);
        }
        a.note_table(now);
        b.note_table(now);
        now += LEASE / 4;
    }
    now += outage;
    // A wish of that time may become the next table.
    assert_eq!(members_after(&mut a, &mut table.clone(), now), ["a", "b"], "b could not count up, either");
    a.note_table(now);
    assert_eq!(members_after(&mut a, &mut table, now), ["a", "b"], "the log continues");
    // From now on only b does not count up.
    let since = now;
    while members_after(&mut a, &mut table, now) == ["a", "b"] {
        a.note_table(now);
        now += LEASE / 4;
    }
    now - since
}

#[test]
fn time_without_a_record_does_not_count_against_members() {
    let election = given_up_after(LEASE / 2);
    assert!((LEASE / 4..=LEASE).contains(&election), "{election:?}");
    assert_eq!(given_up_after(LEASE * 3), LEASE, "it has a whole lease to reach the log again");
}
