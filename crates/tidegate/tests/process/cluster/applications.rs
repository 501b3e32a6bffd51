//! Applications of a cluster whose nodes share the deliveries; one node is killed.

use std::collections::BTreeSet;

use tidegate_bus::Append;
use tidegate_context::Topic;

use super::{A, B, C, Cluster, core};
use crate::applications::Application;
use crate::broker::run;
use crate::context::Node;

const RECORDS: u32 = 30;

/// Sends records to each of these nodes; when it returns, they are on the bus.
fn send(application: &Application, trucks: &[String], numbers: std::ops::Range<u32>) {
    for number in numbers {
        for truck in trucks {
            application.send(Topic::PrivateMessageTopic, truck, Append::new(number.to_string()));
        }
    }
}

/// Publishes for an application by one node of the cluster, and notes the acknowledged messages.
fn publish(cluster: &Cluster, by: usize, numbers: std::ops::Range<u32>, acknowledged: &mut BTreeSet<String>) {
    let port = cluster.port(by).to_string();
    for number in numbers {
        let number = number.to_string();
        let publish = ["pub", "-h", "127.0.0.1", "-p", &port, "-q", "1", "-t", "ctx/to/app/dispatch/said", "-m"];
        if run(&[&publish[..], &[&number]].concat()).code == Some(0) {
            acknowledged.insert(number);
        }
    }
}

/// Takes a PUBLISH of QoS 1 and acknowledges it.
fn take(truck: &mut Node) -> String {
    let (first, rest) = truck.packet();
    assert_eq!(first & 0xf6, 0x32, "PUBLISH at QoS 1");
    let id = 2 + usize::from(u16::from_be_bytes([rest[0], rest[1]]));
    truck.send(&[0x40, 2, rest[id], rest[id + 1]]);
    String::from_utf8_lossy(&rest[id + 3 + usize::from(rest[id + 2])..]).into_owned()
}

#[test]
fn acknowledgements_of_applications_outlive_a_killed_node() {
    let mut cluster = core::core();
    let application = Application::open(&cluster.bus.address(), &Topic::APPLICATIONS);
    // One at home at each node; all of them are known, and away.
    let trucks = [A, B, C].map(|home| cluster.id_at(home, "truck"));
    for truck in &trucks {
        drop(Node::connect(cluster.node(A).address("mqtt://"), truck));
    }
    let mut acknowledged = BTreeSet::new();
    send(&application, &trucks, 0..10);
    publish(&cluster, C, 0..10, &mut acknowledged);
    assert_eq!(acknowledged.len(), 10);
    let killed = cluster.nodes[C].take().unwrap();
    killed.signal("KILL");
    killed.wait();
    // No other node has its place yet.
    send(&application, &trucks, 10..20);
    publish(&cluster, A, 10..20, &mut acknowledged);
    cluster.wait_even();
    send(&application, &trucks, 20..RECORDS);
    let before = acknowledged.len();
    publish(&cluster, B, 20..RECORDS, &mut acknowledged);
    assert_eq!(acknowledged.len(), before + 10);
    for truck in &trucks {
        let mut truck = Node::connect(cluster.node(B).address("mqtt://"), truck);
        let mut missing: BTreeSet<String> = (0..RECORDS).map(|number| number.to_string()).collect();
        while !missing.is_empty() {
            let got = take(&mut truck);
            missing.remove(&got);
        }
    }
    // Each of them is a record, some perhaps twice.
    let mut readers = application.readers(Topic::AppModel);
    super::until("all that was acknowledged", || {
        for record in readers.iter_mut().flat_map(|reader| reader.take(100).unwrap().records) {
            acknowledged.remove(std::str::from_utf8(&record.payload).unwrap());
        }
        acknowledged.is_empty().then_some(())
    });
}
