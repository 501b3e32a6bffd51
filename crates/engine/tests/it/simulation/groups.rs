//! Groups whose members come and go while partitions move and nodes die.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_engine::Reason;
use tidegate_mqtt::{QoS, SubscriptionOptions};

use super::checks::{reasons, share_of, share_topic};
use super::profile::Kind;
use super::{Sent, Simulation, at_least, seeds};
use crate::harness::*;
use crate::model::matches;

/// The groups; each takes all messages to topics of groups.
const GROUPS: [&str; 2] = ["g", "h"];

impl Simulation {
    /// A member of a group that comes and goes does so.
    pub(super) fn come_or_go(&mut self, device: usize, (filter, qos): (&'static str, QoS)) {
        if !self.devices[device].online {
            return;
        }
        if self.random.percent(40) {
            self.devices[device].unsubscribe(filter);
        } else {
            self.subscribe(device, filter, SubscriptionOptions::new(qos));
        }
    }

    /// A node is about to die. What groups have dealt there to a session of the node itself that ends with it is lost.
    pub(super) fn note_unsure(&mut self, node: usize) {
        let (_, shards) = self.world.nodes();
        let is_there = |device: &usize| {
            let device = &self.devices[*device];
            let at = device.client().and_then(Client::shard).unwrap_or(u16::MAX);
            [at, self.world.home_of(&device.name)].iter().any(|at| usize::from(at / shards) == node)
        };
        let fleeting = (0..self.devices.len()).filter(|device| self.profile.is_fleeting(*device));
        if !fleeting.into_iter().any(|device| is_there(&device)) {
            return;
        }
        let inboxes = self.devices.iter().flat_map(|device| &device.inbox);
        let taken: BTreeSet<String> = inboxes.map(|received| received.message.text()).collect();
        let sent = self.published.iter().enumerate();
        let sent = sent.filter(|(_, sent)| share_topic(&sent.topic) && sent.qos == QoS::ExactlyOnce);
        let open = sent.filter(|(_, sent)| !taken.contains(&sent.payload)).map(|(number, _)| number);
        self.falls.unsure.extend(open);
    }

    /// Each group has taken each message, and one of QoS 2 once; and so has each ordinary subscriber.
    pub(super) fn check_groups(&self) {
        let mut got: Vec<BTreeMap<String, u32>> = vec![BTreeMap::new(); self.devices.len()];
        for (times, device) in got.iter_mut().zip(&self.devices) {
            for received in &device.inbox {
                *times.entry(received.message.text()).or_default() += 1;
            }
        }
        let times = |device: usize, sent: &Sent| got[device].get(&sent.payload).copied().unwrap_or_default();
        let mut wrong = Vec::new();
        for (number, sent) in self.published.iter().enumerate() {
            let answer = self.devices[sent.publisher].answers.get(sent.payload.as_bytes());
            assert!(answer.is_some_and(|code| !code.is_error()), "seed {}: {}: {answer:?}", self.seed, sent.short());
            if !share_topic(&sent.topic) {
                let wants = |filter: &&str| share_of(filter).is_none() && matches(filter, &sent.topic);
                let fits = |device: &usize| {
                    let wanted = self.profile.filters_for_good(*device).iter().any(wants);
                    times(*device, sent) == u32::from(wanted)
                };
                let misfits = (0..self.devices.len()).filter(|device| !fits(device));
                wrong.extend(misfits.map(|it| format!("{} came {} times to {it}", sent.short(), times(it, sent))));
                continue;
            }
            for group in GROUPS {
                let takers = self.members(group).map(|device| (device, times(device, sent)));
                let takers: Vec<(usize, u32)> = takers.filter(|(_, times)| *times > 0).collect();
                let lost = takers.is_empty() && !self.falls.unsure.contains(&number);
                let steady = takers.iter().filter(|(device, _)| !self.profile.is_fleeting(*device));
                let twice = sent.qos == QoS::ExactlyOnce && steady.map(|(_, times)| times).sum::<u32>() > 1;
                if lost || twice {
                    wrong.push(format!("{} at {:?} to {group}: {takers:?}", sent.short(), sent.qos));
                }
            }
        }
        let counters = self.world.counters();
        // A message of a publisher that was sent away comes again.
        let dropped = counters.dropped_total() - counters.dropped[Reason::NodeLost.number()];
        let told = reasons(&self.world);
        assert!(wrong.is_empty(), "seed {}: {wrong:?}; {told:?}", self.seed);
        assert_eq!((dropped, counters.deals_not_kept), (0, 0), "seed {}: {told:?}", self.seed);
    }

    /// The present and possible members of a group.
    fn members(&self, group: &str) -> impl Iterator<Item = usize> {
        let is_in = move |filter: &&str| share_of(filter).is_some_and(|(share, _)| share == group);
        (0..self.devices.len()).filter(move |device| {
            let visits = self.profile.visit(*device).is_some_and(|(filter, _)| is_in(&filter));
            visits || self.profile.filters_for_good(*device).iter().any(is_in)
        })
    }
}

#[test]
fn each_group_takes_each_message_whatever_moves_in_between() {
    for seed in seeds() {
        Simulation::new(Kind::MovingGroups, seed).play();
    }
}

#[test]
fn each_group_takes_each_message_while_nodes_are_replaced() {
    for seed in at_least(12) {
        Simulation::new(Kind::FallingGroups, seed).play();
    }
}

/// Seeds that have found something about groups while nodes died and partitions moved: the node that took a dead home's
/// place did not know what others had dealt; a message was dealt to a session that was about to leave for a dead node,
/// and a message that such a session returned came twice; a group whose next home had died was dealt at two nodes; and a deal
/// set aside for a client that did not come was dealt once more by the node that had kept it.
const FOUND_OF_GROUPS: [u64; 5] = [30, 54, 137, 165, 195];

#[test]
fn each_group_takes_each_message_whatever_moves_while_nodes_die() {
    let found = FOUND_OF_GROUPS.into_iter().filter(|_| std::env::var_os("TIDEGATE_SEED").is_none());
    for seed in found.chain(at_least(12)) {
        Simulation::new(Kind::MovingFallingGroups, seed).play();
    }
}

#[test]
fn groups_take_messages_once_if_a_leaving_node_is_killed() {
    for seed in at_least(20) {
        let mut simulation = Simulation::new(Kind::MovingFallingGroups, seed);
        simulation.falls.kills_leaving_nodes = true;
        simulation.play();
    }
}
