//! Quotas of one node and of several.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use tidegate_engine::{Holding, TenantId, TenantLedger, TenantQuota};

use super::{TenantCounts, TenantHoldings, TenantSeat};

const NANOSECONDS: u64 = 1_000_000_000;
const ONE: TenantId = TenantId(1);
const OTHER: TenantId = TenantId(700);

fn counts(quota: TenantQuota) -> TenantCounts {
    let counts = TenantCounts::default();
    counts.set_quotas(&BTreeMap::from([(ONE, quota)]));
    counts
}

#[test]
fn a_quota_holds_under_concurrent_claims() {
    let counts = counts(TenantQuota { max_connections: 1000, ..TenantQuota::default() });
    let claim = || (0..400).filter(|_| counts.claim(ONE, Holding::Connections)).count();
    let claimed: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(claim)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    assert_eq!(claimed, 1000);
    let holdings = counts.holdings(ONE);
    assert_eq!((holdings.counts[0], holdings.refused[0], holdings.quotas[0]), (1000, 600, 1000));
    counts.release(ONE, Holding::Connections, 1);
    assert!(counts.claim(ONE, Holding::Connections) && !counts.claim(ONE, Holding::Connections));
    assert!(counts.claim(ONE, Holding::Sessions) && counts.claim(OTHER, Holding::Connections));
    assert!(counts.claim(TenantId::DEFAULT, Holding::Connections));
    assert_eq!(counts.holdings(TenantId::DEFAULT), TenantHoldings::default());
}

#[test]
fn other_quotas_take_nothing_away_and_give_nothing_more() {
    let counts = counts(TenantQuota::default());
    for _ in 0..5 {
        assert!(counts.claim(ONE, Holding::Retained));
    }
    counts.set_quotas(&BTreeMap::from([(ONE, TenantQuota { max_retained: 3, ..TenantQuota::default() })]));
    assert!(!counts.claim(ONE, Holding::Retained));
    counts.add(ONE, Holding::Retained, 1);
    counts.release(ONE, Holding::Retained, 4);
    assert!(counts.claim(ONE, Holding::Retained) && !counts.claim(ONE, Holding::Retained));
    counts.set_quotas(&BTreeMap::new());
    assert!(counts.claim(ONE, Holding::Retained));
    assert_eq!(counts.holdings(ONE).counts[Holding::Retained as usize], 4);
}

#[test]
fn a_rate_is_that_of_the_tenant_wherever_its_messages_come_in() {
    let counts = counts(TenantQuota { max_message_rate: 4, ..TenantQuota::default() });
    assert!(counts.limits_rates());
    assert_eq!(counts.take_message(OTHER, 0), None);
    let second = NANOSECONDS;
    let short: Vec<_> = (0..6).map(|_| counts.take_message(ONE, 10 * second)).collect();
    assert_eq!(short, [Some(0), Some(0), Some(0), Some(0), Some(second / 4), Some(second / 2)]);
    assert_eq!(counts.take_message(ONE, 20 * second), Some(0));
    counts.set_quotas(&BTreeMap::new());
    assert_eq!(counts.take_message(ONE, 20 * second), None);
    assert!(!counts.limits_rates());
}

#[test]
fn a_resting_connection_gives_its_place_away() {
    let quota = TenantQuota { max_connections: 2, max_sessions: 1, ..TenantQuota::default() };
    let counts = Arc::new(counts(quota));
    let claim = |holding| counts.claim(ONE, holding);
    assert!(claim(Holding::Connections) && claim(Holding::Connections) && !claim(Holding::Connections));
    let mut seat = TenantSeat::new(Arc::clone(&counts), ONE);
    seat.rest();
    seat.rest();
    assert!(claim(Holding::Connections) && !claim(Holding::Connections));
    assert!(!seat.resume(), "another connection has the place");
    counts.release(ONE, Holding::Connections, 1);
    assert!(seat.resume() && seat.resume() && !claim(Holding::Connections));
    seat.rest();
    seat.leave();
    drop(seat);
    assert_eq!(counts.holdings(ONE).counts[0], 2, "its connection ends after it");
}

#[test]
fn a_passing_session_does_not_count() {
    let quota = TenantQuota { max_sessions: 1, ..TenantQuota::default() };
    let counts = Arc::new(counts(quota));
    assert!(counts.claim(ONE, Holding::Sessions));
    counts.add(ONE, Holding::Sessions, 1);
    let mut seat = TenantSeat::new(Arc::clone(&counts), ONE);
    seat.pass();
    assert_eq!(counts.holdings(ONE).counts[1], 1);
    assert!(!counts.claim(ONE, Holding::Sessions));
    counts.release(ONE, Holding::Sessions, 1);
    assert!(counts.claim(ONE, Holding::Sessions));
}

/// Nodes of a cluster that announce to each other, each with its clock's milliseconds.
struct World {
    nodes: Vec<TenantCounts>,
    /// Announcements on their way: the sender, the receiver, the bytes, and the connections in them.
    sent: Vec<(usize, usize, Vec<u8>, u64)>,
    /// The connections of each node that another one knows of, by receiver and sender.
    known: [[u64; 3]; 3],
    now: u64,
}

impl World {
    fn new(count: usize, quota: &TenantQuota) -> Self {
        let nodes: Vec<_> = (0..count).map(|_| counts(quota.clone())).collect();
        Self { nodes, sent: Vec::new(), known: [[0; 3]; 3], now: 1_000 }
    }

    /// A node announces to all others; the announcements are on their way.
    fn announce(&mut self, from: usize, is_whole: bool) {
        let Some(bytes) = self.nodes[from].announce(self.now, is_whole) else { return };
        let others = (0..self.nodes.len()).filter(|to| *to != from);
        let count = self.nodes[from].holdings(ONE).counts[0];
        self.sent.extend(others.map(|to| (from, to, bytes.clone(), count)));
    }

    /// The announcements of one node to another one arrive, in their order.
    fn arrive(&mut self, from: usize, to: usize) {
        for (sender, receiver, bytes, count) in std::mem::take(&mut self.sent) {
            if (sender, receiver) == (from, to) {
                self.nodes[to].take_announcement(self.now, &sender.to_string(), &bytes);
                self.known[to][from] = count;
            } else {
                self.sent.push((sender, receiver, bytes, count));
            }
        }
    }

    /// Everybody tells everybody everything.
    fn exchange(&mut self) {
        for from in 0..self.nodes.len() {
            self.announce(from, true);
        }
        for from in 0..self.nodes.len() {
            (0..self.nodes.len()).for_each(|to| self.arrive(from, to));
        }
    }

    fn claim(&self, node: usize) -> bool {
        self.nodes[node].claim(ONE, Holding::Connections)
    }

    fn sum(&self) -> u64 {
        self.nodes.iter().map(|node| node.holdings(ONE).counts[0]).sum()
    }
}

const fn connections(max: u32) -> TenantQuota {
    TenantQuota { max_connections: max, max_sessions: 0, max_subscriptions: 0, max_retained: 0, max_message_rate: 0 }
}

#[test]
fn a_quota_is_that_of_all_nodes_together() {
    let mut world = World::new(3, &connections(4));
    world.exchange();
    for node in [0, 1, 2, 0] {
        assert!(world.claim(node));
        world.exchange();
    }
    assert!((0..3).all(|node| !world.claim(node)), "there are four");
    world.nodes[2].release(ONE, Holding::Connections, 1);
    world.announce(2, false);
    world.arrive(2, 1);
    assert!(world.claim(1), "a place that has become free is announced at once");
}

#[test]
fn a_silent_node_counts_for_five_seconds() {
    let mut world = World::new(2, &connections(1));
    world.exchange();
    assert!(world.claim(1));
    world.exchange();
    for second in 1..=6 {
        world.now += 1_000;
        world.announce(0, true);
        assert_eq!(world.claim(0), second == 6, "after {second} seconds");
    }
}

#[test]
fn a_process_that_stood_still_forgets_no_node() {
    let mut world = World::new(2, &connections(1));
    world.exchange();
    assert!(world.claim(1));
    world.exchange();
    world.now += 3_600_000;
    world.announce(0, true);
    assert!(!world.claim(0));
}

#[test]
fn the_use_of_a_node_that_has_left_counts_no_longer() {
    let mut world = World::new(3, &connections(2));
    world.exchange();
    assert!(world.claim(1) && world.claim(2));
    world.exchange();
    assert!(!world.claim(0));
    world.nodes[0].keep_members(|name| name != "2");
    assert!(world.claim(0) && !world.claim(0), "node 1 is still there");
}

/// Counts how often a node wakes its announcer.
fn count_wakes(node: &TenantCounts) -> impl Fn() -> u32 + use<> {
    let woken = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counter = Arc::clone(&woken);
    node.share(Box::new(move || {
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }));
    move || woken.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn a_fall_that_others_make_due_is_announced() {
    let mut world = World::new(2, &connections(100));
    (0..60).for_each(|_| assert!(world.claim(0)));
    world.exchange();
    world.exchange();
    let wakes = count_wakes(&world.nodes[0]);
    // 40 places are left, and each of two nodes may change its use by a quarter unannounced.
    world.nodes[0].release(ONE, Holding::Connections, 9);
    assert_eq!(wakes(), 0);
    (0..40).for_each(|_| assert!(world.claim(1)));
    assert!(!world.claim(1));
    world.announce(1, true);
    world.arrive(1, 0);
    assert_eq!(wakes(), 1, "no place is left there, and 9 are free here");
    world.announce(0, false);
    world.arrive(0, 1);
    assert!((0..9).all(|_| world.claim(1)) && !world.claim(1));
}

#[test]
fn a_large_fall_is_announced_at_once() {
    let mut world = World::new(2, &connections(100));
    (0..60).for_each(|_| assert!(world.claim(0)));
    world.exchange();
    world.exchange();
    let wakes = count_wakes(&world.nodes[0]);
    world.nodes[0].release(ONE, Holding::Connections, 10);
    assert_eq!(wakes(), 1);
}

#[test]
fn a_linked_node_and_new_quotas_wake_the_announcer() {
    let world = World::new(2, &connections(100));
    let wakes = count_wakes(&world.nodes[0]);
    world.nodes[0].note_linked();
    assert_eq!(wakes(), 1);
    assert!(world.nodes[0].announce(world.now, false).is_some(), "a whole one");
    world.nodes[0].set_quotas(&BTreeMap::new());
    assert_eq!((wakes(), world.nodes[0].has_quotas()), (2, false));
}

#[test]
fn a_change_wakes_the_announcer_once() {
    let mut world = World::new(2, &connections(100));
    let wakes = count_wakes(&world.nodes[0]);
    (0..50).for_each(|_| assert!(world.claim(0)));
    assert_eq!(wakes(), 0, "there is no other node");
    world.exchange();
    assert_eq!(wakes(), 1, "another node is heard for the first time");
    world.exchange();
    // 50 places are left, and each of two nodes may fill a quarter unannounced.
    (0..11).for_each(|_| assert!(world.claim(0)));
    assert_eq!(wakes(), 1);
    (0..9).for_each(|_| assert!(world.claim(0)));
    assert_eq!(wakes(), 2);
    world.announce(0, false);
    world.arrive(0, 1);
    assert!((0..30).all(|_| world.claim(1)) && !world.claim(1), "the other one knows of 70");
}

#[test]
fn a_rate_is_shared_by_the_demands_of_the_nodes() {
    let quota = TenantQuota { max_message_rate: 8_000, ..TenantQuota::default() };
    let mut world = World::new(2, &quota);
    world.exchange();
    let per_second = |world: &World, node: usize| {
        let all = (0..20_000).map(|_| world.nodes[node].take_message(ONE, world.now * 1_000_000));
        all.filter(|missing| *missing == Some(0)).count()
    };
    assert_eq!([per_second(&world, 0), per_second(&world, 1)], [4_000, 4_000]);
    world.now += 60_000;
    world.exchange();
    world.exchange();
    (0..4_000).for_each(|_| assert!(world.nodes[0].take_message(ONE, world.now * 1_000_000).is_some()));
    world.now += 1_000;
    world.exchange();
    world.now += 60_000;
    assert_eq!([per_second(&world, 0), per_second(&world, 1)], [7_500, 500], "only one node is busy");
}

#[test]
fn a_node_that_comes_does_not_halve_the_rate_of_a_busy_one() {
    let quota = TenantQuota { max_message_rate: 8_000, ..TenantQuota::default() };
    let mut world = World::new(2, &quota);
    // For two seconds, the first node is alone, and its publishers use the whole rate.
    for _ in 0..2 {
        world.announce(0, true);
        (0..8_000).for_each(|_| assert!(world.nodes[0].take_message(ONE, world.now * 1_000_000).is_some()));
        world.now += 1_000;
    }
    world.announce(0, true);
    world.announce(1, true);
    world.arrive(1, 0);
    world.now += 10_000;
    let all = (0..20_000).map(|_| world.nodes[0].take_message(ONE, world.now * 1_000_000));
    assert_eq!(all.filter(|missing| *missing == Some(0)).count(), 7_500);
}

/// A step of a run of several nodes.
#[derive(Clone, Debug)]
enum Step {
    Claim(usize),
    Release(usize),
    Announce(usize),
    Arrive(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3_usize).prop_map(Step::Claim),
        1 => (0..3_usize).prop_map(Step::Release),
        2 => (0..3_usize).prop_map(Step::Announce),
        3 => (0..3_usize, 0..3_usize).prop_map(|(from, to)| Step::Arrive(from, to)),
    ];
    prop::collection::vec(step, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A node keeps the quota as far as it knows the others. The sum exceeds it by at most the use of the others that their
    /// arrived announcements do not have.
    #[test]
    fn a_quota_is_exceeded_by_unannounced_use(max in 1_u32..40, steps in steps()) {
        let mut world = World::new(3, &connections(max));
        world.exchange();
        for step in steps {
            match step {
                Step::Claim(node) => {
                    let known: u64 = (0..3).filter(|other| *other != node).map(|other| world.known[node][other]).sum();
                    let own = world.nodes[node].holdings(ONE).counts[0];
                    let is_admitted = own + known < u64::from(max);
                    prop_assert_eq!(world.claim(node), is_admitted);
                    let unknown: u64 = (0..3)
                        .filter(|other| *other != node)
                        .map(|other| world.nodes[other].holdings(ONE).counts[0].saturating_sub(world.known[node][other]))
                        .sum();
                    if is_admitted {
                        prop_assert!(world.sum() <= u64::from(max) + unknown);
                    }
                }
                Step::Release(node) if world.nodes[node].holdings(ONE).counts[0] > 0 => {
                    world.nodes[node].release(ONE, Holding::Connections, 1);
                }
                Step::Release(_) => {}
                Step::Announce(node) => world.announce(node, true),
                Step::Arrive(from, to) => world.arrive(from, to),
            }
        }
        // Once all is announced, nothing is admitted above the quota.
        world.exchange();
        let sum = world.sum();
        for node in 0..3 {
            prop_assert_eq!(world.claim(node), sum < u64::from(max));
            if sum < u64::from(max) {
                break;
            }
        }
    }
}
