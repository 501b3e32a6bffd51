//! The bus on a real broker of Kafka, a single node. It takes its time to start, so one serves the whole suite, each
//! part of it under its own prefix.

mod doubled;
mod safe;
mod unreachable;

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use tidegate_bus::{Address, Bus, Observer, Settings};

use crate::client::PATIENCE;
use crate::{Deployment, Outages, settings};

/// Kafka's own libraries, where `./test` puts them.
const LIBRARIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/kafka/lib/*");

struct Broker {
    process: Option<Child>,
    port: u16,
    /// The port with TLS and a password.
    safe_port: u16,
    directory: PathBuf,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn java(class: &str) -> Command {
    let mut java = Command::new("java");
    // The server runs for seconds. A second compiler and a parallel garbage collector would only take
    // processors from other tests.
    java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
    java.args(["-Xms256m", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-cp", LIBRARIES, class]);
    java
}

impl Broker {
    fn start() -> Self {
        let (port, safe_port, controller) = (free_port(), free_port(), free_port());
        let directory = std::env::temp_dir().join(format!("tidegate-bus-kafka-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut properties = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},SAFE://127.0.0.1:{safe_port},CONTROLLER://127.0.0.1:{controller}\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SAFE:SASL_SSL,CONTROLLER:PLAINTEXT\n\
             group.initial.rebalance.delay.ms=0\nlog.dirs={}\n",
            directory.join("data").display()
        );
        for topic in ["offsets.topic", "transaction.state.log", "share.coordinator.state.topic"] {
            writeln!(properties, "{topic}.replication.factor=1\n{topic}.min.isr=1\n{topic}.num.partitions=2").unwrap();
        }
        safe::add_listener(&mut properties, &directory);
        std::fs::write(directory.join("server.properties"), properties).unwrap();
        let mut format = java("kafka.tools.StorageTool");
        format.args(["format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c"]).arg(directory.join("server.properties"));
        format.args(safe::USERS);
        let formatted = format.stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(
            formatted.expect("java, which ./test installs").success(),
            "Kafka is missing: ./test optional installs it"
        );
        let mut broker = Self { process: None, port, safe_port, directory };
        broker.resume();
        broker
    }

    fn resume(&mut self) {
        let mut command = java("kafka.Kafka");
        command.arg(self.directory.join("server.properties"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let is_ready = lines.any(|line| line.contains("Kafka Server started"));
        // Its later output is read, too, so that it is never blocked.
        std::thread::spawn(move || lines.for_each(drop));
        self.process = Some(child);
        assert!(is_ready, "Kafka did not start");
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A prefix on a broker.
struct Kafka<'a> {
    broker: &'a mut Broker,
    prefix: String,
}

impl<'a> Kafka<'a> {
    fn on(broker: &'a mut Broker) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { broker, prefix: format!("test{number}") }
    }
}

impl Deployment for Kafka<'_> {
    const LIMITS_LOGS: bool = false;

    fn bus(&self) -> Bus {
        let (connected, wait) = channel();
        let observer = Arc::new(move |connection| {
            let _ = connected.send(connection);
        });
        let bus = self.bus_with(settings(), observer);
        wait.recv_timeout(PATIENCE).expect("a connection");
        bus
    }
}

impl Outages for Kafka<'_> {
    fn bus_with(&self, settings: Settings, observer: Observer) -> Bus {
        let address: Address = format!("kafka://127.0.0.1:{}", self.broker.port).parse().unwrap();
        // A broker takes longer to return than a request waits by default.
        let max_waiting_time = settings.max_waiting_time.max(Duration::from_secs(5)) * 2;
        Bus::open(&address, Settings { prefix: self.prefix.clone(), max_waiting_time, ..settings }, observer).unwrap()
    }

    fn kill(&mut self) {
        self.broker.kill();
    }

    fn resume(&mut self) {
        self.broker.resume();
    }
}

/// One broker after the other: several at once take each other's time.
#[test]
fn the_suite_holds_on_kafka() {
    let mut broker = Broker::start();
    crate::suite!(one_by_one, Kafka::on(&mut broker));
    crate::outages!(one_by_one, Kafka::on(&mut broker));
    safe::tls_with_the_right_password_connects(&broker);
}
