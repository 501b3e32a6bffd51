//! Processes with many features, and a use of each.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::time::Instant;

use tidegate_context::Topic;

use super::features::Feature;
use crate::applications::Application;
use crate::broker::{Broker, Ended, Folder, PATIENCE, command, pause, run};
use crate::context::GROUPS;

/// The user of the default tenant, and that of `acme`.
const USERS: [&str; 2] = ["app", "acme-1"];
/// Names of nodes of a cluster.
const NAMES: [&str; 2] = ["a", "b"];

/// What each process is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Broker,
    Cluster,
    Orchestrator,
    OrchestratorCluster,
}

/// Processes of one kind with one configuration, and what of it was used.
pub(super) struct Stage {
    kind: Kind,
    folder: Folder,
    bus: String,
    /// The other end of the bridge, and the broker of an orchestrator.
    other: Broker,
    members: Vec<Option<Broker>>,
    used: BTreeSet<Feature>,
}

impl Stage {
    /// One broker, whose applications are on this bus.
    pub(super) fn broker(bus: &str) -> Self {
        Self::start(Kind::Broker, bus)
    }

    /// Two nodes of a cluster on this bus.
    pub(super) fn cluster(bus: &str) -> Self {
        Self::start(Kind::Cluster, bus)
    }

    /// One orchestrator, whose applications are on this bus.
    pub(super) fn orchestrator(bus: &str) -> Self {
        Self::start(Kind::Orchestrator, bus)
    }

    /// Two orchestrators that are members of a cluster on this bus.
    pub(super) fn orchestrator_cluster(bus: &str) -> Self {
        Self::start(Kind::OrchestratorCluster, bus)
    }

    fn start(kind: Kind, bus: &str) -> Self {
        let folder = Folder::new();
        let made = run(&["cert", "dev", "--out", &folder.file("certs")]);
        assert_eq!(made.code, Some(0), "{}", made.err);
        let users = folder.file("users");
        for (user, create) in USERS.into_iter().zip([&["-c"][..], &[]]) {
            let quick = ["passwd", "-H", "sha512-pbkdf2", "-I", "1000", "-b"];
            let ended = run(&[&quick[..], create, &[&users, user, user]].concat());
            assert_eq!(ended.code, Some(0), "{}", ended.err);
        }
        folder.write("password", "app\n");
        let (bus, other) = (bus.to_owned(), Broker::start(&[]));
        let mut stage = Self { kind, folder, bus, other, members: Vec::new(), used: BTreeSet::new() };
        stage.write_rules(true);
        let text = stage.configuration();
        stage.folder.write("member.toml", &text);
        let count = if stage.is_cluster() { NAMES.len() } else { 1 };
        for which in 0..count {
            stage.members.push(None);
            stage.run(which);
        }
        if stage.is_cluster() {
            stage.wait_even();
        }
        stage
    }

    fn is_cluster(&self) -> bool {
        matches!(self.kind, Kind::Cluster | Kind::OrchestratorCluster)
    }

    fn is_orchestrator(&self) -> bool {
        matches!(self.kind, Kind::Orchestrator | Kind::OrchestratorCluster)
    }

    /// Orchestrators of a cluster have no addresses.
    fn has_mobile_nodes(&self) -> bool {
        self.kind != Kind::OrchestratorCluster
    }

    fn write_rules(&self, secret: bool) {
        let denied = "[[rule]]\nallow = false\nactions = ['publish']\ntopics = ['secret/#']\n";
        let all = "[[rule]]\nallow = true\nactions = ['publish', 'subscribe', 'receive']\ntopics = ['#']\n";
        self.folder.write("rules.toml", &[if secret { denied } else { "" }, all].concat());
    }

    fn configuration(&self) -> String {
        let file = |name: &str| self.folder.file(name);
        let keys = format!("certificate = '{}'\nkey = '{}'\n", file("certs/server.pem"), file("certs/server.key"));
        let listeners = [
            ("door", "127.0.0.1:0", ""),
            ("tls", "mqtts://127.0.0.1:0", &keys),
            ("web", "ws://127.0.0.1:0/mqtt", ""),
            ("quic", "quic://127.0.0.1:0", &keys),
        ]
        .map(|(name, address, keys)| format!("[[listener]]\nname = '{name}'\naddress = '{address}'\n{keys}"));
        let sections = format!(
            "[node]\nshards = 1\n[access]\nrules_file = '{}'\n[[auth]]\nfile = '{}'\n\
             [[tenant]]\nname = 'acme'\nusers = ['acme-*']\nmax_retained = 1\n\
             [[bridge]]\nname = 'cloud'\nbroker = 'mqtt://{}'\ntopics = ['up/# out 1']\nlocal_username = 'app'\n\
             local_password_file = '{}'\n[[sink]]\nname = 'archive'\nkind = 'file'\npath = '{}'\n\
             [[pipeline]]\nname = 'hot'\nfrom = ['plant/#']\nto = ['archive']\n",
            file("rules.toml"),
            file("users"),
            self.other.address("mqtt://"),
            file("password"),
            file("out.ndjson"),
        );
        let bus = &self.bus;
        let mobile = if self.has_mobile_nodes() {
            format!(
                "[addresses]\nenabled = true\nguarded = false\n[context]\nenabled = true\npartitions = 4\nlease = '1s'\n\
                 load_period = '100ms'\nconnection_period = '100ms'\ncycle = '100ms'\nservices = 'here'\n\
                 records_max_bytes = '1MiB'\ngroups = '{GROUPS}'\nbus = '{bus}'\n"
            )
        } else {
            String::new()
        };
        [&listeners.concat()[..], &sections, &mobile].concat()
    }

    fn run(&mut self, which: usize) {
        let (config, data) = (self.folder.file("member.toml"), self.folder.file(NAMES[which]));
        let mut arguments = vec!["--config", &config, "--data", &data, "--admin", "127.0.0.1:0"];
        let to = format!("mqtt://{}", self.other.address("mqtt://"));
        if self.is_cluster() {
            arguments.extend(["--node", NAMES[which], "--bus", &self.bus, "--set", "cluster.lease=2s"]);
            arguments.extend(["--set", "cluster.settle=0", "--set", "mirror.max_bytes=256MiB"]);
        } else {
            arguments.extend(["--set", "context.name=gw"]);
        }
        if self.is_orchestrator() {
            arguments = [&["orchestrator", "--broker", &to][..], &arguments].concat();
        }
        self.members[which] = Some(Broker::start_with(&arguments));
    }

    fn wait_even(&self) {
        until("even shares", || {
            let even = self.living().all(|member| {
                let view: serde_json::Value = serde_json::from_str(&member.get("/api/v1/cluster").1).unwrap();
                view["served"].as_u64() == Some(1_024 / self.living().count() as u64)
                    && view["moves"] == serde_json::json!([])
            });
            even.then_some(())
        });
    }

    fn living(&self) -> impl Iterator<Item = &Broker> {
        self.members.iter().flatten()
    }

    /// The first member, and the last, which may be the same.
    fn ends(&self) -> [&Broker; 2] {
        [self.living().next().unwrap(), self.living().last().unwrap()]
    }

    /// Notes that a feature was used.
    pub(super) fn note(&mut self, feature: Feature) {
        self.used.insert(feature);
    }

    /// The scenario used these features and no others.
    pub(super) fn used_just(&self, features: &[Feature]) {
        assert_eq!(self.used, features.iter().copied().collect());
    }

    /// Uses every feature of the configuration, where there are two members from one to the other.
    pub(super) fn use_all(&mut self) {
        self.users_and_rules();
        self.transports();
        self.tenants();
        self.bridge_and_pipeline();
        if self.has_mobile_nodes() {
            self.mobile_nodes();
            self.applications();
        }
        self.administration();
        self.store();
    }

    fn users_and_rules(&mut self) {
        let [one, _] = self.ends();
        let wrong = client(one, "mqtt://", &["pub", "-u", "app", "-P", "wrong", "-t", "t", "-m", "x", "-q", "1"]);
        assert_ne!(wrong.code, Some(0), "a wrong password");
        let denied = as_app(one, &["pub", "-V", "5", "-t", "secret/t", "-m", "x", "-q", "1"]);
        assert_ne!(denied.code, Some(0), "a rule: {}", denied.err);
        self.used.extend([Feature::Users, Feature::Rules]);
    }

    fn transports(&mut self) {
        let [one, other] = self.ends();
        let ca = self.folder.file("certs/ca.pem");
        for (scheme, flags) in
            [("mqtts://", &["--cafile", &ca][..]), ("ws://", &["--ws"]), ("quic://", &["--quic", "--cafile", &ca])]
        {
            let topic = format!("by/{}", scheme.trim_end_matches("://"));
            let publish = ["pub", "-u", "app", "-P", "app", "-q", "1", "-r", "-t", &topic, "-m", "here"];
            done(&client(one, scheme, &[&publish[..], flags].concat()));
            let subscribe = ["sub", "-u", "app", "-P", "app", "-t", &topic, "-C", "1", "-W", "120"];
            assert_eq!(done(&client(other, scheme, &[&subscribe[..], flags].concat())), "here\n", "{scheme}");
        }
        self.used.extend([Feature::Tls, Feature::WebSocket, Feature::Quic]);
    }

    fn tenants(&mut self) {
        let [one, other] = self.ends();
        let retain = |user: &str, topic: &str| {
            let publish = ["pub", "-V", "5", "-u", user, "-P", user, "-q", "1", "-r", "-t", topic, "-m", user];
            client(one, "mqtt://", &publish)
        };
        done(&retain("app", "same"));
        done(&retain("acme-1", "same"));
        for user in USERS {
            let subscribe = ["sub", "-u", user, "-P", user, "-t", "same", "-C", "1", "-W", "120"];
            assert_eq!(done(&client(other, "mqtt://", &subscribe)), format!("{user}\n"));
        }
        if self.kind == Kind::Broker {
            assert_ne!(retain("acme-1", "one-more").code, Some(0), "beyond the quota");
        }
        self.used.insert(Feature::Tenants);
    }

    fn bridge_and_pipeline(&mut self) {
        let [one, other] = self.ends();
        done(&as_app(one, &["pub", "-q", "1", "-r", "-t", "up/a", "-m", "carried"]));
        let port = port(&self.other, "mqtt://");
        let carried = run(&["sub", "-p", port, "-t", "up/a", "-C", "1", "-W", "120"]);
        assert_eq!(done(&carried), "carried\n");
        until("the subscriptions of the pipeline", || {
            let is_running = |at: &Broker| at.get("/api/v1/hub").1.contains("\"state\":\"running\"");
            self.living().any(is_running).then_some(())
        });
        done(&as_app(other, &["pub", "-q", "1", "-t", "plant/a", "-m", "archived"]));
        let file = self.folder.file("out.ndjson");
        until("a record of the pipeline", || {
            std::fs::read_to_string(&file).ok().filter(|text| text.contains("archived"))
        });
        self.used.extend([Feature::Bridges, Feature::Pipelines]);
    }

    fn mobile_nodes(&mut self) {
        let [one, other] = self.ends();
        let watcher = ["sub", "-i", "watcher", "-c", "-q", "1", "-t", "ctx/#", "-t", "end", "-v"];
        let watch = |words: &[&str]| client(&self.other, "mqtt://", &[&watcher[..], words].concat());
        done(&watch(&["-E"]));
        let list = done(&as_app(one, &["sub", "-t", "ctx/gateways", "-C", "1", "-W", "120"]));
        assert!(list.contains("\"address\":\"127.0.0.1:"), "{list}");
        let truck = spawn(other, &["sub", "-i", "truck", "-t", "unused", "-v", "-C", "1", "-W", "120"]);
        // It is told to a node as soon as that is there.
        let context = r#"{"kind": "ambulance"}"#;
        done(&as_app(one, &["pub", "-q", "1", "-i", "truck-2", "-t", "ctx/context/truck-2", "-m", context]));
        let group = spawn(other, &["sub", "-i", "truck-2", "-t", "unused", "-v", "-C", "1", "-W", "120"]);
        let [by_address, by_group] =
            [("ctx/to/node/truck/job", truck), ("ctx/to/group/ambulances/job", group)].map(|(topic, mut waits)| {
                until(topic, || {
                    let context = ["pub", "-q", "1", "-t", "ctx/context/truck-2", "-m", context];
                    let _ = (as_app(one, &context), as_app(one, &["pub", "-q", "1", "-t", topic, "-m", "go"]));
                    waits.try_wait().unwrap()
                });
                Ended::from(waits.wait_with_output().unwrap())
            });
        assert_eq!(done(&by_address), "ctx/to/node/truck/job go\n");
        assert_eq!(done(&by_group), "ctx/to/group/ambulances/job go\n");
        if self.is_orchestrator() {
            done(&as_app(one, &["pub", "-q", "1", "-t", "end", "-m", "x"]));
            assert_eq!(done(&watch(&["-C", "1", "-W", "120"])), "end x\n", "the broker got nothing below ctx/");
        }
        self.used.extend([Feature::Addresses, Feature::Points, Feature::Groups]);
    }

    fn applications(&mut self) {
        let [one, _] = self.ends();
        let application = Application::open(&self.bus, &Topic::APPLICATIONS);
        done(&as_app(one, &["pub", "-q", "1", "-t", "ctx/to/app/dispatch/said", "-m", "to-app"]));
        let mut readers = application.readers(Topic::AppModel);
        until("the record of an application", || {
            let mut records = readers.iter_mut().flat_map(|reader| reader.take(100).unwrap().records);
            records.find(|record| &record.payload[..] == b"to-app")
        });
        self.used.insert(Feature::Applications);
    }

    fn administration(&mut self) {
        let [one, other] = self.ends();
        let metrics = one.get("/metrics").1;
        assert!(metrics.contains("tidegate_tenant_quota{tenant=\"acme\""), "{metrics}");
        let mut device = spawn(other, &["sub", "-i", "device", "-t", "t", "-W", "120"]);
        let admin = |at: &Broker, words: &[&str]| {
            let ended = run(&[words, &["--admin", at.address("admin=")]].concat());
            assert_eq!(ended.code, Some(0), "{words:?}: {} {}", ended.out, ended.err);
            ended.out
        };
        until("a client in the list of all members", || {
            admin(one, &["clients", "device", "--json"]).contains("\"client\":\"device\"").then_some(())
        });
        admin(one, &["ban", "add", "client", "device"]);
        let end = device.wait().unwrap();
        assert!(!end.success(), "a banned client is disconnected");
        let refused = as_app(other, &["pub", "-i", "device", "-q", "1", "-t", "t", "-m", "x"]);
        assert_ne!(refused.code, Some(0), "a banned client is refused");
        let story = admin(one, &["why", "client", "device", "--json"]);
        assert!(story.contains("connected") && story.contains("banned"), "{story}");
        self.write_rules(false);
        admin(one, &["reload"]);
        for member in self.living() {
            until("the new rules", || {
                let published = as_app(member, &["pub", "-V", "5", "-t", "secret/t", "-m", "x", "-q", "1"]);
                (published.code == Some(0)).then_some(())
            });
        }
        self.used.extend([Feature::Console, Feature::Clients, Feature::Ban, Feature::Why, Feature::Reload]);
    }

    /// A member is killed, and starts again unless another one takes over.
    fn store(&mut self) {
        let keeper = ["sub", "-i", "keeper", "-c", "-q", "1", "-t", "kept/#"];
        done(&as_app(self.ends()[0], &[&keeper[..], &["-E"]].concat()));
        done(&as_app(self.ends()[1], &["pub", "-q", "1", "-t", "kept/a", "-m", "stored"]));
        let absent = ["sub", "-i", "absent", "-t", "unused", "-v"];
        if self.has_mobile_nodes() {
            done(&as_app(self.ends()[0], &[&absent[..], &["-E"]].concat()));
            done(&as_app(self.ends()[1], &["pub", "-q", "1", "-t", "ctx/to/node/absent", "-m", "waits"]));
        }
        let killed = self.members[0].take().unwrap();
        killed.signal("KILL");
        killed.wait();
        if self.members.len() == 1 {
            self.run(0);
        } else {
            self.wait_even();
        }
        let taken = done(&as_app(self.ends()[0], &[&keeper[..], &["-C", "1", "-W", "120"]].concat()));
        assert_eq!(taken, "stored\n");
        if self.has_mobile_nodes() {
            let waited = as_app(self.ends()[0], &[&absent[..], &["-C", "1", "-W", "120"]].concat());
            assert_eq!(done(&waited), "ctx/to/node/absent waits\n");
        }
        self.used.insert(Feature::Store);
    }
}

/// Asks until there is an answer.
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "it did not come: {what}");
        pause(20);
    }
}

fn port<'a>(broker: &'a Broker, scheme: &str) -> &'a str {
    let address = broker.address(scheme).split('/').next().unwrap();
    address.rsplit_once(':').unwrap().1
}

/// A client by a listener with this scheme.
fn client(broker: &Broker, scheme: &str, arguments: &[&str]) -> Ended {
    run(&[&arguments[..1], &["-h", "127.0.0.1", "-p", port(broker, scheme)], &arguments[1..]].concat())
}

fn as_app(broker: &Broker, arguments: &[&str]) -> Ended {
    client(broker, "mqtt://", &[arguments, &["-u", "app", "-P", "app"]].concat())
}

/// Such a client that the test does not wait for.
fn spawn(broker: &Broker, arguments: &[&str]) -> Child {
    let to = ["-h", "127.0.0.1", "-p", port(broker, "mqtt://"), "-u", "app", "-P", "app"];
    let mut command = command(&[&arguments[..1], &to, &arguments[1..]].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn done(ended: &Ended) -> String {
    assert_eq!(ended.code, Some(0), "{} {}", ended.out, ended.err);
    ended.out.clone()
}
