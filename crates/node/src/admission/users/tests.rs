//! Limits of user names on one node and on several.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use proptest::prelude::*;
use tidegate_engine::{Millis, Now};

use super::*;
use crate::admission::{Admission, AdmissionSettings};

fn user(tenant: u16, name: &str) -> UserName {
    (TenantId(tenant), name.into())
}

#[test]
fn a_user_has_its_limit_and_is_forgotten_without_connections() {
    let users = Users::new();
    let (one, other) = (user(0, "u"), user(1, "u"));
    assert!(users.claim(&one, 2) && users.claim(&one, 2) && !users.claim(&one, 2));
    assert!(users.claim(&other, 2), "another tenant's user is another");
    assert!(users.claim(&one, 0), "a takeover counts without being refused");
    for _ in 0..3 {
        users.release(&one);
    }
    users.release(&one);
    assert_eq!(users.len(), 1);
    assert!(users.claim(&one, 1) && !users.claim(&one, 1));
}

#[test]
fn an_announcement_survives_its_bytes_and_cut_ones_are_none() {
    let counts = vec![(UserKey::of(&user(0, "a")), 1), (UserKey::of(&user(7, "b")), u32::MAX)];
    let announcement = UserCounts { is_first: true, counts };
    let bytes = announcement.to_bytes();
    assert_eq!(UserCounts::read(&bytes), Some(announcement));
    for cut in (0..bytes.len()).filter(|cut| cut % 20 != 3) {
        assert_eq!(UserCounts::read(&bytes[..cut]), None, "{cut}");
    }
    assert_eq!(UserCounts::read(b"{}"), None);
}

/// A node: its admission, its announcements, and its unanswered announcements.
struct Node {
    admission: Admission,
    exchange: UserExchange,
    woken: Arc<AtomicU32>,
}

/// Nodes of a cluster that announce to each other.
struct World {
    nodes: Vec<Node>,
    /// Announcements on their way by sender and receiver, each with the sender's count of the user `u`.
    sent: BTreeMap<(usize, usize), (Vec<u8>, u32)>,
    /// The counts of `u` that a node knows, by receiver and sender.
    known: BTreeMap<(usize, usize), u32>,
}

fn name(node: usize) -> String {
    node.to_string()
}

impl World {
    fn new(count: usize, limit: u32) -> Self {
        let now = Now { monotonic: Millis(0), unix: 0 };
        let node = |_| {
            let settings = AdmissionSettings { max_connections_per_user: limit, ..AdmissionSettings::default() };
            let (admission, woken) = (Admission::new(now, settings, 1), Arc::new(AtomicU32::new(0)));
            let counter = Arc::clone(&woken);
            admission.share_users(Box::new(move || {
                counter.fetch_add(1, Relaxed);
            }));
            Node { admission, exchange: UserExchange::default(), woken }
        };
        Self { nodes: (0..count).map(node).collect(), sent: BTreeMap::new(), known: BTreeMap::new() }
    }

    /// A node looks for changes, and announces to all others that have answered.
    fn announce(&mut self, from: usize) {
        let names: Vec<String> = (0..self.nodes.len()).filter(|to| *to != from).map(name).collect();
        let Node { admission, exchange, .. } = &mut self.nodes[from];
        exchange.begin(admission, names.iter().map(String::as_str));
        let count = admission.users.count(&UserKey::of(&user(0, "u")));
        for to in (0..=names.len()).filter(|to| *to != from) {
            if !self.sent.contains_key(&(from, to))
                && let Some(bytes) = exchange.next(admission, &name(to))
            {
                self.sent.insert((from, to), (bytes, count));
            }
        }
    }

    fn arrive(&mut self, from: usize, to: usize) {
        let Some((bytes, count)) = self.sent.remove(&(from, to)) else { return };
        let answer = self.nodes[to].admission.take_users(&name(from), &bytes).unwrap();
        self.nodes[from].exchange.note_answer(&name(to), Some(&answer));
        self.known.insert((to, from), count);
    }

    /// An announcement or its answer is lost with the link.
    fn lose(&mut self, from: usize, to: usize) {
        if self.sent.remove(&(from, to)).is_some() {
            self.nodes[from].exchange.note_answer(&name(to), None);
        }
    }

    /// Everybody tells everybody everything.
    fn exchange(&mut self) {
        let all = 0..self.nodes.len();
        for _ in 0..3 {
            for from in all.clone() {
                self.announce(from);
                all.clone().for_each(|to| self.arrive(from, to));
            }
        }
    }

    fn claim(&self, node: usize) -> bool {
        self.nodes[node].admission.claim_user(TenantId(0), "u", false).is_ok()
    }

    fn release(&self, node: usize) {
        self.nodes[node].admission.release_user(TenantId(0), "u");
    }

    fn count(&self, node: usize) -> u32 {
        self.nodes[node].admission.users.count(&UserKey::of(&user(0, "u")))
    }

    fn sum(&self) -> u32 {
        (0..self.nodes.len()).map(|node| self.count(node)).sum()
    }
}

#[test]
fn a_limit_is_that_of_all_nodes_together() {
    let mut world = World::new(3, 4);
    world.exchange();
    for node in [0, 1, 2, 0] {
        assert!(world.claim(node));
        world.exchange();
    }
    assert!((0..3).all(|node| !world.claim(node)), "there are four");
    assert!(world.nodes[1].admission.claim_user(TenantId(0), "v", false).is_ok(), "another user");
    world.release(2);
    world.announce(2);
    world.arrive(2, 1);
    assert!(world.claim(1) && !world.claim(0), "node 0 does not know yet of the free place");
}

#[test]
fn the_counts_of_a_node_that_has_left_end() {
    let mut world = World::new(3, 2);
    assert!(world.claim(1) && world.claim(2));
    world.exchange();
    assert!(!world.claim(0) && world.nodes[0].admission.hears_users());
    let Node { admission, exchange, .. } = &mut world.nodes[0];
    exchange.begin(admission, ["1"].into_iter());
    assert!(world.claim(0) && !world.claim(0), "node 1 is still there");
}

#[test]
fn a_node_that_has_begun_again_gets_all_names() {
    let mut world = World::new(2, 1);
    assert!(world.claim(0));
    world.exchange();
    let fresh = World::new(1, 1).nodes.pop().unwrap();
    world.nodes[1] = fresh;
    world.exchange();
    assert!(world.claim(1), "nothing has changed, so nothing was announced");
    world.release(1);
    world.nodes[0].admission.note_linked("1");
    world.exchange();
    assert!(!world.claim(1));
    // Without news of the link, the first answer shows that the list is missing.
    world.nodes[1] = World::new(1, 1).nodes.pop().unwrap();
    assert!(world.nodes[0].admission.claim_user(TenantId(0), "v", false).is_ok());
    world.exchange();
    assert!(!world.claim(1));
}

#[test]
fn an_earlier_release_gets_no_announcement_until_it_is_linked() {
    let mut world = World::new(2, 1);
    assert!(world.claim(0));
    world.announce(0);
    world.sent.clear();
    world.nodes[0].exchange.note_answer("1", Some(b"{\"Refused\":\"the question is not understood\"}"));
    world.release(0);
    world.announce(0);
    assert!(world.sent.is_empty() && !world.nodes[0].exchange.has_next("1"));
    world.nodes[0].admission.note_linked("1");
    world.announce(0);
    assert_eq!(world.sent.len(), 1);
    // A later version is answered with the version that is understood.
    let later = [USERS_ANNOUNCEMENT, 2, 0, 1, 2, 3];
    assert_eq!(world.nodes[1].admission.take_users("0", &later), Some(vec![USERS_ANNOUNCEMENT, 1]));
    assert_eq!(world.nodes[1].admission.take_users("0", b"{}"), None);
}

#[test]
fn a_change_wakes_the_announcer_once() {
    let mut world = World::new(2, 5);
    let woken = |world: &World| world.nodes[0].woken.load(Relaxed);
    assert!(world.claim(0));
    assert_eq!(woken(&world), 0, "no other node gets announcements");
    world.announce(0);
    assert!(world.claim(0) && world.claim(0));
    assert_eq!(woken(&world), 1);
    world.announce(0);
    world.release(0);
    assert_eq!(woken(&world), 2);
    world.nodes[0].admission.note_linked("1");
    assert_eq!(woken(&world), 2, "it is awake already");
    world.announce(0);
    world.announce(1);
    world.arrive(1, 0);
    assert_eq!(woken(&world), 3, "another node begins to announce");
}

#[test]
fn many_names_come_in_pieces() {
    let mut world = World::new(2, 1);
    let names: Vec<String> = (0..10_000).map(|number| format!("user-{number}")).collect();
    let claim = |world: &World, node: usize, name: &str| {
        world.nodes[node].admission.claim_user(TenantId(3), name, false).is_ok()
    };
    assert!(names.iter().all(|name| claim(&world, 0, name)));
    world.announce(0);
    world.arrive(0, 1);
    // An announced name ends while the list is on its way.
    world.nodes[0].admission.release_user(TenantId(3), &names[0]);
    let mut pieces = 1;
    while world.nodes[0].exchange.has_next("1") {
        world.announce(0);
        world.arrive(0, 1);
        pieces += 1;
    }
    world.exchange();
    assert!(claim(&world, 1, &names[0]) && names[1..].iter().all(|name| !claim(&world, 1, name)));
    assert!((3..=5).contains(&pieces), "{pieces}");
}

#[test]
fn counts_beyond_the_bound_are_left_out() {
    let mut part = UserPart::default();
    let key = |number: usize| {
        let mut key = [0; 16];
        key[8..].copy_from_slice(&(number as u64).to_le_bytes());
        UserKey(key)
    };
    let most = ELSEWHERE_MAX / PARTS;
    assert!((0..most).all(|number| part.take(1, key(number), 1)));
    assert!(!part.take(1, key(most), 1) && part.take(1, key(0), 5) && part.elsewhere(&key(0)) == 5);
    assert!(part.take(1, key(1), 0) && part.take(2, key(0), 1) && part.elsewhere(&key(0)) == 6);
    part.forget(1);
    assert_eq!((part.known, part.elsewhere(&key(0))), (1, 1));
}

/// A step of a run of several nodes.
#[derive(Clone, Debug)]
enum Step {
    Claim(usize),
    Release(usize),
    Announce(usize),
    Arrive(usize, usize),
    Lose(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3_usize).prop_map(Step::Claim),
        2 => (0..3_usize).prop_map(Step::Release),
        3 => (0..3_usize).prop_map(Step::Announce),
        6 => (0..3_usize, 0..3_usize).prop_map(|(from, to)| Step::Arrive(from, to)),
        1 => (0..3_usize, 0..3_usize).prop_map(|(from, to)| Step::Lose(from, to)),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A node keeps the limit as far as it knows the others. The sum exceeds it by at most the connections of the others that their
    /// arrived announcements do not have.
    #[test]
    fn a_limit_is_exceeded_by_unannounced_connections(limit in 1_u32..12, steps in steps()) {
        let mut world = World::new(3, limit);
        for step in steps {
            match step {
                Step::Claim(node) => {
                    let others = (0..3).filter(|other| *other != node);
                    let known = |other: usize| world.known.get(&(node, other)).copied().unwrap_or_default();
                    let is_admitted = world.count(node) + others.clone().map(known).sum::<u32>() < limit;
                    let unknown: u32 = others.map(|other| world.count(other).saturating_sub(known(other))).sum();
                    prop_assert_eq!(world.claim(node), is_admitted);
                    if is_admitted {
                        prop_assert!(world.sum() <= limit + unknown);
                    }
                }
                Step::Release(node) => world.release(node),
                Step::Announce(node) => world.announce(node),
                Step::Arrive(from, to) => world.arrive(from, to),
                Step::Lose(from, to) => world.lose(from, to),
            }
        }
        // Once all is announced, nothing is admitted above the limit.
        for (from, to) in (0..3).flat_map(|from| (0..3).map(move |to| (from, to))) {
            world.lose(from, to);
        }
        world.exchange();
        let has_room = world.sum() < limit;
        for node in 0..3 {
            let is_admitted = world.claim(node);
            prop_assert_eq!(is_admitted, has_room);
            if is_admitted {
                world.release(node);
            }
        }
    }
}
