//! Processes with many features, and a use of each.

use std::collections::BTreeSet;
use std::net::TcpListener;

use tidegate_context::Topic;

use super::chart::{Rendered, TOKEN};
use super::features::Feature;
use super::fleet::{self, Named};
use super::member::{Member, ask_to_share};
use super::pipelines;
use crate::applications::Application;
use crate::broker::{Broker, Ended, Folder, command, run, until};
use crate::context::GROUPS;

/// The user of the default tenant, and that of `acme`.
const USERS: [&str; 2] = ["app", "acme-1"];
/// Names of nodes of a cluster; a chart and a fleet have two.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The kind of a process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Broker,
    Cluster,
    Orchestrator,
    OrchestratorCluster,
    Fleet,
    Chart,
}

/// Processes of one kind with one configuration, and what of it was used.
pub(super) struct Stage {
    kind: Kind,
    folder: Folder,
    bus: String,
    /// The other end of the bridge, and the broker of an orchestrator.
    other: Member,
    /// The manager of the members, where it is a fleet.
    fleet: Option<Named>,
    members: Vec<Option<Member>>,
    /// Free ports for the admin APIs of pods.
    ports: [u16; 2],
    used: BTreeSet<Feature>,
}

impl Stage {
    /// One broker, whose applications are on this bus.
    pub(super) fn broker(bus: &str) -> Self {
        Self::start(Kind::Broker, bus)
    }

    /// Three nodes of a cluster on this bus.
    pub(super) fn cluster(bus: &str) -> Self {
        Self::start(Kind::Cluster, bus)
    }

    /// One orchestrator, whose applications are on this bus.
    pub(super) fn orchestrator(bus: &str) -> Self {
        Self::start(Kind::Orchestrator, bus)
    }

    /// Three orchestrators that are members of a cluster on this bus.
    pub(super) fn orchestrator_cluster(bus: &str) -> Self {
        Self::start(Kind::OrchestratorCluster, bus)
    }

    /// Two such orchestrators that a manager has started with a template of its fleet file, and that have a name. The
    /// broker behind them is a machine.
    pub(super) fn fleet(bus: &str) -> Self {
        Self::start(Kind::Fleet, bus)
    }

    /// Two such orchestrators with the configuration that the Helm chart renders for pods.
    pub(super) fn chart(bus: &str) -> Self {
        Self::start(Kind::Chart, bus)
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
        let (bus, other) = (bus.to_owned(), Broker::start(&[]).into());
        let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = free.each_ref().map(|listener| listener.local_addr().unwrap().port());
        drop(free);
        let (members, used) = (Vec::new(), BTreeSet::new());
        let mut stage = Self { kind, folder, bus, other, fleet: None, members, ports, used };
        stage.write_rules(true);
        if kind == Kind::Fleet {
            stage.start_fleet();
        } else {
            stage.start_members();
        }
        if stage.is_cluster() {
            stage.wait_even();
        }
        stage
    }

    fn start_members(&mut self) {
        if self.kind == Kind::Chart {
            self.folder.write(TOKEN, "token-of-the-admin-api-of-each-pod\n");
            self.folder.write("secret", "a secret of all members of the test\n");
            self.used.insert(Feature::Kubernetes);
        } else {
            let text = [self.listeners(["127.0.0.1:0"; 4]), self.sections(), self.mobile_sections()].concat();
            self.folder.write("member.toml", &text);
        }
        let count = match self.kind {
            Kind::Cluster | Kind::OrchestratorCluster => NAMES.len(),
            Kind::Chart => self.ports.len(),
            Kind::Broker | Kind::Orchestrator | Kind::Fleet => 1,
        };
        for which in 0..count {
            self.members.push(None);
            self.run(which);
        }
    }

    /// Writes the configuration of pods with or without the rule for the secret; returns the variables of each.
    fn render(&self, secret: bool) -> [Vec<(String, String)>; 2] {
        let file = |name: &str| self.folder.file(name);
        let quic = format!(
            "[[listener]]\naddress = 'quic://127.0.0.1:0'\ncertificate = '{}'\nkey = '{}'\n",
            file("certs/server.pem"),
            file("certs/server.key")
        );
        let more = [quic, self.shared_sections(), self.mobile_sections()].concat();
        let rendered = Rendered::new(&self.folder, &self.bus, &rules(secret), &more);
        for (name, port) in NAMES.into_iter().zip(self.ports) {
            self.folder.write(&format!("{name}.toml"), &rendered.configuration(&self.folder, name, port));
        }
        [NAMES[0], NAMES[1]].map(|name| rendered.environment(name))
    }

    fn start_fleet(&mut self) {
        let ports = ["{host}:{port}", "{host}:{port.tls}", "{host}:{port.web}", "{host}:{port.quic}"];
        let configuration = [self.listeners(ports), self.sections(), self.mobile_sections()].concat();
        let named = Named::start(&fleet::file(&configuration, &self.bus));
        self.members = named.members(0).into_iter().map(Some).collect();
        self.fleet = Some(named);
        self.used.extend([Feature::Manager, Feature::Machines, Feature::Dns]);
    }

    fn is_cluster(&self) -> bool {
        matches!(self.kind, Kind::Cluster | Kind::OrchestratorCluster | Kind::Fleet | Kind::Chart)
    }

    fn is_orchestrator(&self) -> bool {
        matches!(self.kind, Kind::Orchestrator | Kind::OrchestratorCluster | Kind::Fleet | Kind::Chart)
    }

    fn write_rules(&self, secret: bool) {
        if self.kind == Kind::Chart {
            self.render(secret);
        } else {
            self.folder.write("rules.toml", &rules(secret));
        }
    }

    /// Listeners at these addresses: plain, TLS, WebSocket, QUIC.
    fn listeners(&self, [door, tls, web, quic]: [&str; 4]) -> String {
        let file = |name: &str| self.folder.file(name);
        let keys = format!("certificate = '{}'\nkey = '{}'\n", file("certs/server.pem"), file("certs/server.key"));
        [
            ("door", door.to_owned(), ""),
            ("tls", format!("mqtts://{tls}"), &keys),
            ("web", format!("ws://{web}/mqtt"), ""),
            ("quic", format!("quic://{quic}"), &keys),
        ]
        .map(|(name, address, keys)| format!("[[listener]]\nname = '{name}'\naddress = '{address}'\n{keys}"))
        .concat()
    }

    /// Users, rules, and sections that members of all kinds have.
    fn sections(&self) -> String {
        let file = |name: &str| self.folder.file(name);
        let access = format!("[access]\nrules_file = '{}'\n[[auth]]\nfile = '{}'\n", file("rules.toml"), file("users"));
        ["[node]\nshards = 1\n", &access, &self.shared_sections()].concat()
    }

    /// A tenant, a bridge and pipelines, also of the tenant, with files, topics and dead letters.
    fn shared_sections(&self) -> String {
        let file = |name: &str| self.folder.file(name);
        format!(
            "[[tenant]]\nname = 'acme'\nusers = ['acme-*']\nmax_retained = 1\n\
             [[bridge]]\nname = 'cloud'\nbroker = 'mqtt://{}'\ntopics = ['up/# out 1']\nlocal_username = 'app'\n\
             local_password_file = '{}'\n[[sink]]\nname = 'archive'\nkind = 'file'\npath = '{}'\n\
             [[sink]]\nname = 'back'\nkind = 'topic'\n\
             [[pipeline]]\nname = 'hot'\nfrom = ['plant/#']\nto = ['archive']\n{}",
            self.other.address("mqtt://"),
            file("password"),
            file("out.ndjson"),
            USERS.map(pipelines::sections).concat(),
        )
    }

    /// Addresses, points of access, groups and applications.
    fn mobile_sections(&self) -> String {
        let bus = &self.bus;
        format!(
            "[addresses]\nenabled = true\nguarded = false\n[context]\nenabled = true\npartitions = 4\nlease = '1s'\n\
             load_period = '100ms'\nconnection_period = '100ms'\ncycle = '100ms'\nservices = 'here'\n\
             records_max_bytes = '1MiB'\ngroups = '{GROUPS}'\nbus = '{bus}'\n"
        )
    }

    /// Starts a member as a pod does, and does what its manager would.
    fn run_pod(&mut self, which: usize) {
        let config = self.folder.file(&format!("{}.toml", NAMES[which]));
        let to = format!("mqtt://{}", self.other.address("mqtt://"));
        let mut command = command(&["orchestrator", "--config", &config, "--name", NAMES[which], "--broker", &to]);
        command.envs(self.render(true)[which].clone());
        let (token, admin) = (self.folder.file(TOKEN), format!("127.0.0.1:{}", self.ports[which]));
        // It is ready when all partitions are served.
        let member = std::thread::scope(|scope| {
            scope.spawn(|| ask_to_share(&admin, &token));
            Member::from(Broker::spawn(command))
        });
        let member = member.with_token(token);
        self.members[which] = Some(member);
    }

    fn run(&mut self, which: usize) {
        if self.kind == Kind::Chart {
            return self.run_pod(which);
        }
        let (config, data) = (self.folder.file("member.toml"), self.folder.file(NAMES[which]));
        let mut arguments = vec!["--config", &config, "--data", &data, "--admin", "127.0.0.1:0"];
        let to = format!("mqtt://{}", self.other.address("mqtt://"));
        if self.is_cluster() {
            arguments.extend(["--node", NAMES[which], "--bus", &self.bus, "--set", "cluster.lease=6s"]);
            arguments.extend(["--set", "cluster.settle=0", "--set", "mirror.max_bytes=256MiB"]);
        } else {
            arguments.extend(["--set", "context.name=gw"]);
        }
        if self.is_orchestrator() {
            arguments = [&["orchestrator", "--broker", &to][..], &arguments].concat();
        }
        self.members[which] = Some(Broker::start_with(&arguments).into());
    }

    fn wait_even(&self) {
        until("even shares", || {
            let even = self.living().all(|member| {
                let view: serde_json::Value = serde_json::from_str(&member.get("/api/v1/cluster")).unwrap();
                view["served"].as_u64() >= Some(1_024 / self.living().count() as u64)
                    && view["moves"] == serde_json::json!([])
            });
            even.then_some(())
        });
    }

    fn living(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().flatten()
    }

    /// The first member, and the last, which may be the same.
    fn ends(&self) -> [&Member; 2] {
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
        self.topics_of_pipelines();
        self.mobile_nodes();
        self.applications();
        self.administration();
        self.store();
    }

    fn users_and_rules(&mut self) {
        let [one, _] = self.ends();
        let wrong = one.client("mqtt://", &["pub", "-u", "app", "-P", "wrong", "-t", "t", "-m", "x", "-q", "1"]);
        assert_ne!(wrong.code, Some(0), "a wrong password");
        let denied = one.as_app(&["pub", "-V", "5", "-t", "secret/t", "-m", "x", "-q", "1"]);
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
            done(&one.client(scheme, &[&publish[..], flags].concat()));
            let subscribe = ["sub", "-u", "app", "-P", "app", "-t", &topic, "-C", "1", "-W", "120"];
            assert_eq!(done(&other.client(scheme, &[&subscribe[..], flags].concat())), "here\n", "{scheme}");
        }
        self.used.extend([Feature::Tls, Feature::WebSocket, Feature::Quic]);
    }

    fn tenants(&mut self) {
        let [one, other] = self.ends();
        let retain = |user: &str, topic: &str| {
            let publish = ["pub", "-V", "5", "-u", user, "-P", user, "-q", "1", "-r", "-t", topic, "-m", user];
            one.client("mqtt://", &publish)
        };
        done(&retain("app", "same"));
        done(&retain("acme-1", "same"));
        for user in USERS {
            let subscribe = ["sub", "-u", user, "-P", user, "-t", "same", "-C", "1", "-W", "120"];
            assert_eq!(done(&other.client("mqtt://", &subscribe)), format!("{user}\n"));
        }
        if self.kind == Kind::Broker {
            assert_ne!(retain("acme-1", "one-more").code, Some(0), "beyond the quota");
        }
        self.used.insert(Feature::Tenants);
    }

    fn bridge_and_pipeline(&mut self) {
        let [one, other] = self.ends();
        done(&one.as_app(&["pub", "-q", "1", "-r", "-t", "up/a", "-m", "carried"]));
        let carried = self.other.client("mqtt://", &["sub", "-t", "up/a", "-C", "1", "-W", "120"]);
        assert_eq!(done(&carried), "carried\n");
        until("the subscriptions of the pipeline", || {
            let is_running = |at: &Member| at.get("/api/v1/hub").contains("\"state\":\"running\"");
            self.living().any(is_running).then_some(())
        });
        done(&other.as_app(&["pub", "-q", "1", "-t", "plant/a", "-m", "archived"]));
        let file = self.folder.file("out.ndjson");
        until("a record of the pipeline", || {
            std::fs::read_to_string(&file).ok().filter(|text| text.contains("archived"))
        });
        self.used.extend([Feature::Bridges, Feature::Pipelines]);
    }

    fn topics_of_pipelines(&self) {
        let [one, other] = self.ends();
        pipelines::wait_until_all_run(one, &USERS);
        for user in USERS {
            pipelines::use_topics(one, other, user);
        }
    }

    fn mobile_nodes(&mut self) {
        let [one, other] = self.ends();
        let watcher = ["sub", "-i", "watcher", "-c", "-q", "1", "-t", "ctx/#", "-t", "end", "-v"];
        let behind = self.fleet.as_ref().map(Named::broker);
        let behind = behind.as_ref().unwrap_or(&self.other);
        let watch = |words: &[&str]| behind.client("mqtt://", &[&watcher[..], words].concat());
        done(&watch(&["-E"]));
        let list = done(&one.as_app(&["sub", "-t", "ctx/gateways", "-C", "1", "-W", "120"]));
        assert!(list.contains("\"address\":\"127.0.0.1:"), "{list}");
        let truck = other.spawn(&["sub", "-i", "truck", "-t", "unused", "-v", "-C", "1", "-W", "120"]);
        // A node receives it as soon as it is there.
        let context = r#"{"kind": "ambulance"}"#;
        done(&one.as_app(&["pub", "-q", "1", "-i", "truck-2", "-t", "ctx/context/truck-2", "-m", context]));
        let group = other.spawn(&["sub", "-i", "truck-2", "-t", "unused", "-v", "-C", "1", "-W", "120"]);
        let [by_address, by_group] =
            [("ctx/to/node/truck/job", truck), ("ctx/to/group/ambulances/job", group)].map(|(topic, mut waits)| {
                until(topic, || {
                    let context = ["pub", "-q", "1", "-t", "ctx/context/truck-2", "-m", context];
                    let _ = (one.as_app(&context), one.as_app(&["pub", "-q", "1", "-t", topic, "-m", "go"]));
                    waits.try_wait().unwrap()
                });
                Ended::from(waits.wait_with_output().unwrap())
            });
        assert_eq!(done(&by_address), "ctx/to/node/truck/job go\n");
        assert_eq!(done(&by_group), "ctx/to/group/ambulances/job go\n");
        if self.is_orchestrator() {
            done(&one.as_app(&["pub", "-q", "1", "-t", "end", "-m", "x"]));
            assert_eq!(done(&watch(&["-C", "1", "-W", "120"])), "end x\n", "the broker got nothing below ctx/");
        }
        self.used.extend([Feature::Addresses, Feature::Points, Feature::Groups]);
    }

    fn applications(&mut self) {
        let [one, _] = self.ends();
        let application = Application::open(&self.bus, &Topic::APPLICATIONS);
        done(&one.as_app(&["pub", "-q", "1", "-t", "ctx/to/app/dispatch/said", "-m", "to-app"]));
        let mut readers = application.readers(Topic::AppModel);
        until("the record of an application", || {
            let mut records = readers.iter_mut().flat_map(|reader| reader.take(100).unwrap().records);
            records.find(|record| &record.payload[..] == b"to-app")
        });
        self.used.insert(Feature::Applications);
    }

    fn administration(&mut self) {
        let [one, other] = self.ends();
        let metrics = one.get("/metrics");
        assert!(metrics.contains("tidegate_tenant_quota{tenant=\"acme\""), "{metrics}");
        let mut device = other.spawn(&["sub", "-i", "device", "-t", "t", "-W", "120"]);
        until("a client in the list of all members", || {
            one.admin(&["clients", "device", "--json"]).contains("\"client\":\"device\"").then_some(())
        });
        one.admin(&["ban", "add", "client", "device"]);
        let end = device.wait().unwrap();
        assert!(!end.success(), "a banned client is disconnected");
        let refused = other.as_app(&["pub", "-i", "device", "-q", "1", "-t", "t", "-m", "x"]);
        assert_ne!(refused.code, Some(0), "a banned client is refused");
        let story = one.admin(&["why", "client", "device", "--json"]);
        assert!(story.contains("connected") && story.contains("banned"), "{story}");
        self.write_rules(false);
        one.admin(&["reload"]);
        for member in self.living() {
            until("the new rules", || {
                let published = member.as_app(&["pub", "-V", "5", "-t", "secret/t", "-m", "x", "-q", "1"]);
                (published.code == Some(0)).then_some(())
            });
        }
        self.used.extend([Feature::Console, Feature::Clients, Feature::Ban, Feature::Why, Feature::Reload]);
    }

    /// A member is killed, and starts again unless another one takes over.
    fn store(&mut self) {
        let keeper = ["sub", "-i", "keeper", "-c", "-q", "1", "-t", "kept/#"];
        done(&self.ends()[0].as_app(&[&keeper[..], &["-E"]].concat()));
        done(&self.ends()[1].as_app(&["pub", "-q", "1", "-t", "kept/a", "-m", "stored"]));
        let absent = ["sub", "-i", "absent", "-t", "unused", "-v"];
        done(&self.ends()[0].as_app(&[&absent[..], &["-E"]].concat()));
        done(&self.ends()[1].as_app(&["pub", "-q", "1", "-t", "ctx/to/node/absent", "-m", "waits"]));
        self.members[0].take().unwrap().kill();
        if let Some(fleet) = &self.fleet {
            self.members = fleet.members(1).into_iter().map(Some).collect();
        } else if self.members.len() == 1 {
            self.run(0);
        } else {
            self.wait_even();
        }
        // A member refuses a client while it cannot reach the client's home, which has just started.
        let serve = |flags: &[&str]| {
            until("a client is served after the restart", || {
                let ended = self.ends()[0].as_app(&[flags, &["-C", "1", "-W", "120"]].concat());
                (!ended.err.contains("server unavailable")).then(|| done(&ended))
            })
        };
        assert_eq!(serve(&keeper[..]), "stored\n");
        assert_eq!(serve(&absent[..]), "ctx/to/node/absent waits\n");
        self.used.insert(Feature::Store);
    }
}

/// Access rules that allow everything, but not to publish to the secret.
fn rules(secret: bool) -> String {
    let denied = "[[rule]]\nallow = false\nactions = ['publish']\ntopics = ['secret/#']\n";
    let all = "[[rule]]\nallow = true\nactions = ['publish', 'subscribe', 'receive']\ntopics = ['#']\n";
    [if secret { denied } else { "" }, all].concat()
}

pub(super) fn done(ended: &Ended) -> String {
    assert_eq!(ended.code, Some(0), "{} {}", ended.out, ended.err);
    ended.out.clone()
}
