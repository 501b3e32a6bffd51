//! The core of it on a real broker of Kafka: what differs between the buses is how they are spoken to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use super::{A, B, Bus, C, Cluster, connect, publish_packet};
use crate::broker::Folder;
use crate::homes::pause;

/// Kafka's own libraries, where `./test kafka` puts them.
const LIBRARIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/kafka/lib/*");

/// The only broker of a Kafka.
struct Kafka {
    process: Option<Child>,
    port: u16,
    folder: Folder,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn java(class: &str) -> Command {
    let mut java = Command::new("java");
    java.args(["-Xms256m", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-cp", LIBRARIES, class]);
    java
}

impl Kafka {
    fn start() -> Self {
        let (port, controller, folder) = (free_port(), free_port(), Folder::new());
        let mut properties = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             group.initial.rebalance.delay.ms=0\nlog.dirs={}\n",
            folder.file("kafka")
        );
        for topic in ["offsets.topic", "transaction.state.log", "share.coordinator.state.topic"] {
            let lines = [("replication.factor", 1), ("min.isr", 1), ("num.partitions", 2)];
            properties.extend(lines.map(|(key, value)| format!("{topic}.{key}={value}\n")));
        }
        let file = folder.write("server.properties", &properties);
        let mut format = java("kafka.tools.StorageTool");
        format.args(["format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", &file]);
        let formatted = format.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("java");
        assert!(formatted.success(), "Kafka is missing: ./test kafka installs it");
        let mut kafka = Self { process: None, port, folder };
        kafka.resume();
        kafka
    }
}

impl Bus for Kafka {
    fn address(&self) -> String {
        format!("kafka://127.0.0.1:{}", self.port)
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    fn resume(&mut self) {
        let mut command = java("kafka.Kafka");
        command.arg(self.folder.file("server.properties"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let is_ready = lines.any(|line| line.contains("Kafka Server started"));
        // What it says later is read, too, so that it is never blocked.
        std::thread::spawn(move || lines.for_each(drop));
        self.process = Some(child);
        assert!(is_ready, "Kafka did not start");
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        self.kill();
    }
}

#[test]
fn nodes_on_kafka_are_one_broker_and_go_on_with_what_a_killed_one_had() {
    let mut cluster = Cluster::of(3, "6s", Some(Folder::new()), Box::new(Kafka::start()));
    let ids = [A, B, C].map(|home| cluster.id_at(home, "keeps"));
    for (which, id) in ids.iter().enumerate() {
        cluster.subscribe((which + 1) % 3, id);
    }
    cluster.publish(A, "in/x", 0..2);
    cluster.client(C, &["pub", "-q", "1", "-r", "-t", "kept/a", "-m", "x"]);
    // One client, whichever nodes it connects to.
    let id = cluster.id_at(B, "twice");
    let mut one = connect(cluster.port(A), &id).unwrap();
    let _other = connect(cluster.port(B), &id).unwrap();
    let mut goodbye = Vec::new();
    one.read_to_end(&mut goodbye).unwrap();
    assert_eq!((goodbye[0], goodbye[2]), (0xe0, 0x8e), "{goodbye:02x?}");
    assert_eq!(super::failover::kill(&mut cluster, C), (21, 0));
    cluster.publish(B, "in/x", 2..4);
    for (which, id) in ids.iter().enumerate() {
        cluster.expect_owed(which % 2, id, 4);
    }
    assert_eq!(cluster.client(A, &["sub", "-t", "kept/#", "-C", "1", "-W", "10"]), "x\n");
}

#[test]
fn clients_stay_connected_while_kafka_is_killed_and_started_again_within_a_lease() {
    let mut cluster = Cluster::of(2, "40s", None, Box::new(Kafka::start()));
    let mut client = connect(cluster.port(A), &cluster.id_at(B, "patient")).unwrap();
    cluster.bus.kill();
    pause(1_000);
    client.write_all(&publish_packet("a", 1)).unwrap();
    let mut answer = [0; 2];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer[0], 0x40);
    cluster.bus.resume();
    cluster.wait_even();
    assert_eq!(cluster.view(B)["memberships_lost"], 0);
}

#[test]
fn clients_stay_connected_while_kafka_is_away_for_longer_than_a_lease_and_nothing_acknowledged_is_lost() {
    let mut cluster = Cluster::of(2, "6s", Some(Folder::new()), Box::new(Kafka::start()));
    super::outage::outlast(&mut cluster, 10_000);
}
