//! The core of it on a real broker of Kafka: what differs between the buses is how they are spoken to.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use super::{A, Bus, C, Cluster, connect};
use crate::broker::Folder;
use crate::ports::free_port;

/// Kafka's own libraries, where `./test optional` puts them.
const LIBRARIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/kafka/lib/*");
/// The programs of the documentation, compiled.
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/examples");

/// The only broker of a Kafka.
pub(crate) struct Kafka {
    process: Option<Child>,
    port: u16,
    /// Who asks, as an address says it.
    user: &'static str,
    folder: Folder,
}

/// A broker with TLS, a certificate and a password: its listener, and the files that a node needs.
#[cfg(feature = "kafka-tls")]
fn safe(folder: &Folder) -> String {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Its name differs from the name in its certificates: OpenSSL takes a certificate with equal names for a
    // self-signed one.
    params.distinguished_name.push(DnType::CommonName, "authority");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let ca = folder.write("ca.pem", &authority.pem());
    for name in ["server", "node"] {
        let key = KeyPair::generate().unwrap();
        let issued = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
        folder.write(&format!("{name}.key"), &key.serialize_pem());
        folder.write(&format!("{name}.pem"), &issued.pem());
        folder.write(&format!("{name}-store.pem"), &format!("{}{}", key.serialize_pem(), issued.pem()));
    }
    let store = folder.file("server-store.pem");
    format!(
        "listener.name.safe.ssl.keystore.type=PEM\nlistener.name.safe.ssl.keystore.location={store}\n\
         listener.name.safe.ssl.truststore.type=PEM\nlistener.name.safe.ssl.truststore.location={ca}\n\
         listener.name.safe.ssl.client.auth=required\nlistener.name.safe.sasl.enabled.mechanisms=SCRAM-SHA-512\n\
         listener.name.safe.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule \
         required username=\"node\" password=\"known\";\n"
    )
}

/// Reports at once a missing requirement of [`example`].
pub(crate) fn require_example(class: &str) {
    let compiled = std::path::Path::new(EXAMPLES).join(format!("{class}.class"));
    assert!(
        compiled.exists(),
        "examples/applications/{class}.java is not compiled: `./test optional` does it, or, at the top of the repository,\n\
         javac -cp 'target/servers/kafka/lib/*' -d target/servers/examples examples/applications/{class}.java"
    );
}

/// A program of the documentation that is given the address of Kafka.
pub(crate) fn example(class: &str, kafka: &Kafka) -> Child {
    let mut java = Command::new("java");
    java.args(["-Xmx128m", "-cp", &format!("{EXAMPLES}:{LIBRARIES}"), class, &format!("127.0.0.1:{}", kafka.port)]);
    // Its errors are shown with the message of the test.
    java.stdout(Stdio::null()).spawn().expect("java, which ./test optional installs")
}

fn java(class: &str) -> Command {
    let mut java = Command::new("java");
    // The server runs for seconds. A second compiler and a parallel garbage collector would only take
    // processors from other tests.
    java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
    java.args(["-Xms256m", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-cp", LIBRARIES, class]);
    java
}

impl Kafka {
    pub(crate) fn start() -> Self {
        let (port, controller, folder) = (free_port(), free_port(), Folder::new());
        let listeners = format!(
            "listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        );
        Self::with(Self { process: None, port, user: "", folder }, controller, &listeners)
    }

    /// A server that speaks TLS, for clients with a certificate and the password.
    #[cfg(feature = "kafka-tls")]
    fn start_safe() -> Self {
        let (port, plain, controller, folder) = (free_port(), free_port(), free_port(), Folder::new());
        let listeners = format!(
            "listeners=PLAINTEXT://127.0.0.1:{plain},SAFE://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SAFE:SASL_SSL,CONTROLLER:PLAINTEXT\n{}",
            safe(&folder)
        );
        Self::with(Self { process: None, port, user: "node:known@", folder }, controller, &listeners)
    }

    fn with(mut kafka: Self, controller: u16, listeners: &str) -> Self {
        let mut properties = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n{listeners}\
             group.initial.rebalance.delay.ms=0\nlog.dirs={}\n",
            kafka.folder.file("kafka")
        );
        for topic in ["offsets.topic", "transaction.state.log", "share.coordinator.state.topic"] {
            let lines = [("replication.factor", 1), ("min.isr", 1), ("num.partitions", 2)];
            properties.extend(lines.map(|(key, value)| format!("{topic}.{key}={value}\n")));
        }
        let file = kafka.folder.write("server.properties", &properties);
        let mut format = java("kafka.tools.StorageTool");
        format.args(["format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", &file]);
        format.args(["--add-scram", "SCRAM-SHA-512=[name=node,password=known]"]);
        let formatted = format.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("java");
        assert!(formatted.success(), "Kafka is missing: ./test optional installs it");
        kafka.resume();
        kafka
    }
}

impl Bus for Kafka {
    fn address(&self) -> String {
        format!("kafka://{}127.0.0.1:{}", self.user, self.port)
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
        // Its later output is read, too, so that it is never blocked.
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
fn nodes_on_kafka_are_one_broker_through_join_stop_and_death() {
    let mut cluster = Cluster::of(2, "6s", Some(Folder::new()), Box::new(Kafka::start()), &[]);
    super::moves::join_and_stop(&mut cluster);
    let ids = [A, C].map(|home| cluster.id_at(home, "keeps"));
    cluster.subscribe(A, &ids[1]);
    cluster.subscribe(C, &ids[0]);
    cluster.publish(A, "in/x", 0..2);
    cluster.client(C, &["pub", "-q", "1", "-r", "-t", "kept/a", "-m", "x"]);
    // One client, on any node.
    let id = cluster.id_at(C, "twice");
    let mut one = connect(cluster.port(A), &id).unwrap();
    let _other = connect(cluster.port(C), &id).unwrap();
    let mut goodbye = Vec::new();
    one.read_to_end(&mut goodbye).unwrap();
    assert_eq!((goodbye[0], goodbye[2]), (0xe0, 0x8e), "{goodbye:02x?}");
    assert_eq!(super::failover::kill(&mut cluster, C), (512, 0));
    cluster.publish(A, "in/x", 2..4);
    for id in &ids {
        cluster.expect_owed(A, id, 4);
    }
    assert_eq!(cluster.client(A, &["sub", "-t", "kept/#", "-C", "1", "-W", "120"]), "x\n");
}

#[test]
fn clients_stay_connected_while_kafka_is_away_beyond_a_lease() {
    let mut cluster = Cluster::of(2, "10s", Some(Folder::new()), Box::new(Kafka::start()), &[]);
    let _ = super::outage::outlast(&mut cluster, 12_000);
}

/// `[cluster]` sets how to connect to the bus: for the nodes' groups and tables, and for their stores.
#[cfg(feature = "kafka-tls")]
#[test]
fn nodes_reach_kafka_over_tls_with_certificate_and_password() {
    let kafka = Kafka::start_safe();
    let file = |name: &str| kafka.folder.file(name);
    let (ca, certificate, key) = (file("ca.pem"), file("node.pem"), file("node.key"));
    let settings = [
        "cluster.bus_tls=true".to_owned(),
        "cluster.bus_sasl=scram-sha-512".to_owned(),
        format!("cluster.bus_ca={ca}"),
        format!("cluster.bus_certificate={certificate}"),
        format!("cluster.bus_key={key}"),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let cluster = Cluster::of(2, "6s", Some(Folder::new()), Box::new(kafka), &settings);
    let id = cluster.id_at(super::B, "keeps");
    cluster.subscribe(A, &id);
    cluster.publish(A, "in/x", 0..2);
    cluster.expect_owed(super::B, &id, 2);
}
