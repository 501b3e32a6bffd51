//! Shared groups over orchestrators: a message comes to one session, wherever the sessions are.

use std::sync::atomic::AtomicBool;
use std::thread;

use serde_json::Value;
use tidegate_engine::{TenantId, partition_of};

use super::{A, B, Fleet, failover};
use crate::broker::{pause, run};
use crate::cluster::moves::{Publisher, Stop};
use crate::cluster::{Cluster, NAMES, until};

const FILTER: &str = "in/#";

/// A share name whose group is at home at an orchestrator.
fn share_at(cluster: &Cluster, which: usize) -> String {
    let view = cluster.view(which);
    let home = |share: &String| {
        let partition = partition_of(TenantId::DEFAULT, &format!("{share}/{FILTER}"));
        view["homes"][usize::from(partition.0)] == NAMES[which]
    };
    (0..10_000).map(|number| format!("g{number}")).find(home).expect("a share name")
}

/// How many messages wait for each session.
fn queued(cluster: &Cluster, ids: &[String]) -> Vec<u64> {
    let ended = run(&["clients", "--json", "--admin", cluster.node(A).address("admin=")]);
    let answer: Value = serde_json::from_str(&ended.out).unwrap_or_default();
    let clients = answer["clients"].as_array().cloned().unwrap_or_default();
    let of = |id: &String| clients.iter().find(|client| client["client"] == **id).cloned().unwrap_or_default();
    let count = |client: &Value, name: &str| client[name].as_u64().unwrap_or_default();
    ids.iter().map(of).map(|it| count(&it, "queued_messages") + count(&it, "inflight_messages")).collect()
}

/// A group and its sessions, which are away.
struct Group {
    filter: String,
    ids: Vec<String>,
}

impl Group {
    /// One whose home is an orchestrator, with a session at each of both.
    fn at(cluster: &Cluster, which: usize) -> Self {
        let share = share_at(cluster, which);
        let filter = format!("$share/{share}/{FILTER}");
        let ids = [A, B].map(|home| cluster.id_at(home, &format!("member-of-{share}"))).to_vec();
        for id in &ids {
            cluster.client(A, &["sub", "-i", id, "-c", "-q", "2", "-t", &filter, "-E"]);
        }
        Self { filter, ids }
    }

    /// Each of `number` messages waits for one session, and for no second one.
    fn expect_each_once(&self, cluster: &Cluster, number: u32) {
        let all = |counts: &Vec<u64>| counts.iter().sum::<u64>() >= u64::from(number);
        let counts = until("all messages at sessions of the group", || Some(queued(cluster, &self.ids)).filter(all));
        let mut got = Vec::new();
        for (id, count) in self.ids.iter().zip(counts).filter(|(_, count)| *count > 0) {
            let count = count.to_string();
            let wanted = ["sub", "-i", id, "-c", "-q", "2", "-t", &self.filter, "-C", &count, "-W", "120"];
            got.extend(cluster.client(A, &wanted).lines().map(|line| line.parse::<u32>().unwrap()));
        }
        got.sort_unstable();
        assert_eq!(got, (0..number).collect::<Vec<_>>(), "{}", self.filter);
    }
}

#[test]
fn a_group_over_orchestrators_gets_each_message_once() {
    let mut fleet = Fleet::start(2, "10s");
    let cluster = &mut fleet.cluster;
    let groups = [A, B].map(|which| Group::at(cluster, which));
    let stop = AtomicBool::new(false);
    let publisher = Publisher { port: cluster.port(A), id: cluster.id_at(A, "publisher") };
    let number = thread::scope(|scope| {
        let publishing = scope.spawn(|| publisher.run(&stop));
        let stopping = Stop(&stop);
        pause(300);
        // Homes of groups and of sessions move to a third one.
        cluster.add();
        cluster.wait_even();
        pause(300);
        let (_, repeated) = failover::kill(cluster, B);
        assert_eq!(repeated, 0, "all partitions were on the bus");
        pause(300);
        drop(stopping);
        publishing.join().unwrap()
    });
    for group in groups {
        group.expect_each_once(cluster, number);
    }
}
