//! The core of it on a real broker of Kafka: what differs between the buses is how they are spoken to.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use super::{A, Bus, C, Cluster, connect};
use crate::broker::Folder;

/// Kafka's own libraries, where `./test kafka` puts them.
const LIBRARIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/kafka/lib/*");
/// The programs of the documentation, compiled.
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/examples");

/// The only broker of a Kafka.
pub(crate) struct Kafka {
    process: Option<Child>,
    port: u16,
    folder: Folder,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A program of the documentation that is given the address of Kafka.
pub(crate) fn example(class: &str, kafka: &Kafka) -> Child {
    let mut java = Command::new("java");
    java.args(["-Xmx128m", "-cp", &format!("{EXAMPLES}:{LIBRARIES}"), class, &format!("127.0.0.1:{}", kafka.port)]);
    java.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("java")
}

fn java(class: &str) -> Command {
    let mut java = Command::new("java");
    java.args(["-Xms256m", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-cp", LIBRARIES, class]);
    java
}

impl Kafka {
    pub(crate) fn start() -> Self {
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
fn nodes_on_kafka_are_one_broker_through_a_join_a_stop_and_a_death() {
    let mut cluster = Cluster::of(2, "6s", Some(Folder::new()), Box::new(Kafka::start()), &[]);
    super::moves::join_and_stop(&mut cluster);
    let ids = [A, C].map(|home| cluster.id_at(home, "keeps"));
    cluster.subscribe(A, &ids[1]);
    cluster.subscribe(C, &ids[0]);
    cluster.publish(A, "in/x", 0..2);
    cluster.client(C, &["pub", "-q", "1", "-r", "-t", "kept/a", "-m", "x"]);
    // One client, whichever nodes it connects to.
    let id = cluster.id_at(C, "twice");
    let mut one = connect(cluster.port(A), &id).unwrap();
    let _other = connect(cluster.port(C), &id).unwrap();
    let mut goodbye = Vec::new();
    one.read_to_end(&mut goodbye).unwrap();
    assert_eq!((goodbye[0], goodbye[2]), (0xe0, 0x8e), "{goodbye:02x?}");
    assert_eq!(super::failover::kill(&mut cluster, C), (32, 0));
    cluster.publish(A, "in/x", 2..4);
    for id in &ids {
        cluster.expect_owed(A, id, 4);
    }
    assert_eq!(cluster.client(A, &["sub", "-t", "kept/#", "-C", "1", "-W", "10"]), "x\n");
}

#[test]
fn clients_stay_connected_while_kafka_is_killed_for_longer_than_a_lease_and_nothing_acknowledged_is_lost() {
    let mut cluster = Cluster::of(2, "10s", Some(Folder::new()), Box::new(Kafka::start()), &[]);
    super::outage::outlast(&mut cluster, 12_000);
}
