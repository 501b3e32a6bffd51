//! Tenants of a running broker: the tenant of each client, and that no client sees data of another tenant.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use crate::broker::{Broker, Ended, Folder, command, run};

/// Two tenants and a default one behind listeners of one broker.
struct House {
    broker: Broker,
    folder: Folder,
}

/// The way into the broker: the number of the listener, and further flags.
struct Door<'a>(usize, &'a [&'a str]);

impl House {
    /// A broker of one shard, so that retained messages come in the order of their topics, with this configuration.
    fn new(folder: Folder, text: &str) -> Self {
        let config = folder.write("t.toml", &format!("[node]\nshards = 1\n[access]\ndefault = 'allow'\n{text}"));
        Self { broker: Broker::start_with(&["--admin", "off", "--config", &config]), folder }
    }

    /// The same after a restart with another configuration.
    fn restarted(self, text: &str) -> Self {
        self.broker.signal("TERM");
        let ended = self.broker.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        Self::new(self.folder, text)
    }

    fn flags<'a>(&'a self, door: &Door<'a>, command: &'a str) -> Vec<&'a str> {
        let mut addresses = self.broker.ready.split_whitespace().filter(|word| word.starts_with("mqtt"));
        let port = addresses.nth(door.0).and_then(|address| address.rsplit_once(':')).unwrap().1;
        let mut flags = vec![command, "-V", "5", "-p", port];
        if !door.1.contains(&"-h") {
            flags.extend(["-h", "127.0.0.1"]);
        }
        flags.extend(door.1);
        flags
    }

    /// Retains a message, and tells how that ended.
    fn retain(&self, door: &Door<'_>, topic: &str, payload: &str) -> Ended {
        run(&[&self.flags(door, "pub"), &["-q", "1", "-r", "-t", topic, "-m", payload][..]].concat())
    }

    /// The first messages of all topics, up to this number.
    fn first(&self, door: &Door<'_>, count: &str) -> String {
        let ended = run(&[&self.flags(door, "sub"), &["-t", "#", "-v", "-W", "120", "-C", count][..]].concat());
        assert_eq!(ended.code, Some(0), "{}: {}", ended.out, ended.err);
        ended.out
    }

    /// Two doors lead to different tenants: with the same topics and client ids, neither sees anything of the other.
    fn are_apart(&self, one: &Door<'_>, other: &Door<'_>) {
        for (door, topic, payload) in [
            (one, "b", "1"),
            (one, "d", "1"),
            (other, "a", "2"),
            (other, "b", "2"),
            (other, "c", "2"),
            (other, "e", "2"),
        ] {
            let ended = self.retain(door, topic, payload);
            assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{topic}");
        }
        assert_eq!(self.first(one, "2"), "b 1\nd 1\n");
        assert_eq!(self.first(other, "4"), "a 2\nb 2\nc 2\ne 2\n");
        self.same_client_id(one, other);
    }

    /// A client stays connected while one of its name comes in through the other door and publishes on its topics.
    fn same_client_id(&self, one: &Door<'_>, other: &Door<'_>) {
        let named = |door, word| [&self.flags(door, word)[..], &["-i", "same"]].concat();
        let watch = [&named(one, "sub"), &["-t", "b", "-q", "1", "-W", "120", "-C", "2"][..]].concat();
        let mut watcher = command(&watch).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut shown = BufReader::new(watcher.stdout.take().unwrap());
        let mut line = String::new();
        shown.read_line(&mut line).unwrap();
        assert_eq!(line, "1\n", "the retained one: it is subscribed");
        let through_other = [&named(other, "pub"), &["-q", "1", "-t", "b", "-m", "of the other"][..]].concat();
        assert_eq!(run(&through_other).code, Some(0));
        assert_eq!(self.retain(one, "b", "1").code, Some(0));
        let mut rest = String::new();
        shown.read_to_string(&mut rest).unwrap();
        let ended = Ended::from(watcher.wait_with_output().unwrap());
        assert_eq!((ended.code, rest.as_str(), ended.err.as_str()), (Some(0), "1\n", ""));
    }
}

/// Makes certificates, and gives the keys of a listener that shows them.
fn certificates(folder: &Folder) -> String {
    let ended = run(&["cert", "dev", "--out", &folder.file("certs"), "--client", "acme gateway"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let [certificate, key] = ["server.pem", "server.key"].map(|name| folder.file(&format!("certs/{name}")));
    format!("address = 'mqtts://127.0.0.1:0'\ncertificate = {certificate:?}\nkey = {key:?}\n")
}

#[test]
fn tenants_by_listener_are_apart() {
    let listeners = "[[listener]]\nname = 'door'\naddress = '127.0.0.1:0'\n\
         [[listener]]\nname = 'acme'\naddress = '127.0.0.1:0'\n\
         [[listener]]\nname = 'bolt'\naddress = '127.0.0.1:0'\n\
         [[tenant]]\nname = 'acme'\nlisteners = ['acme']\n[[tenant]]\nname = 'bolt'\nlisteners = ['bolt']\n";
    let house = House::new(Folder::new(), listeners);
    house.are_apart(&Door(1, &[]), &Door(2, &[]));
    assert_eq!(house.retain(&Door(0, &[]), "0", "nobody's").code, Some(0));
    assert_eq!(house.first(&Door(0, &[]), "1"), "0 nobody's\n", "the default tenant is one of its own");
}

#[test]
fn tenants_by_user_are_apart_once_the_user_is_proven() {
    let folder = Folder::new();
    let users = folder.file("users");
    for user in ["acme-1", "bolt-1"] {
        let quick = ["passwd", "-H", "sha512-pbkdf2", "-I", "1000", "-b"];
        let create: &[&str] = if user == "acme-1" { &["-c"] } else { &[] };
        let ended = run(&[&quick[..], create, &[&users, user, user]].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.err);
    }
    let config = format!(
        "[[listener]]\naddress = '127.0.0.1:0'\n[[auth]]\nfile = {users:?}\n\
         [[tenant]]\nname = 'acme'\nusers = ['acme-*']\n[[tenant]]\nname = 'bolt'\nusers = ['bolt-*']\n"
    );
    let house = House::new(folder, &config);
    let [acme, bolt] = [["-u", "acme-1", "-P", "acme-1"], ["-u", "bolt-1", "-P", "bolt-1"]];
    house.are_apart(&Door(0, &acme), &Door(0, &bolt));
    let claimed = house.retain(&Door(0, &["-u", "acme-1", "-P", "bolt-1"]), "b", "forged");
    assert_ne!(claimed.code, Some(0), "a user name that is only claimed leads nowhere");
    assert_eq!(house.first(&Door(0, &acme), "1"), "b 1\n");
}

#[test]
fn tenants_by_server_name_and_by_certificate_are_apart() {
    let folder = Folder::new();
    let listener = certificates(&folder);
    let [ca, certificate, key] =
        ["ca.pem", "client.pem", "client.key"].map(|name| folder.file(&format!("certs/{name}")));
    let config = format!(
        "[[listener]]\n{listener}client_certificate = 'optional'\nclient_ca = {ca:?}\n\
         [[tenant]]\nname = 'acme'\ncertificate_cn = ['acme *']\n[[tenant]]\nname = 'bolt'\nsni = ['LOCALHOST']\n"
    );
    let house = House::new(folder, &config);
    let ca = house.folder.file("certs/ca.pem");
    // Who connects to an address asks for no server name.
    let by_address = ["--cafile", &ca];
    let by_name = ["--cafile", &ca, "-h", "localhost"];
    let with_certificate = ["--cafile", &ca, "-h", "localhost", "--cert", &certificate, "--key", &key];
    house.are_apart(&Door(0, &by_name), &Door(0, &with_certificate));
    assert_eq!(house.retain(&Door(0, &by_address), "0", "nobody's").code, Some(0));
    assert_eq!(house.first(&Door(0, &by_address), "1"), "0 nobody's\n");
}

#[test]
fn a_certificate_that_names_the_client_gives_it_its_client_id() {
    let folder = Folder::new();
    let listener = certificates(&folder);
    let [ca, certificate, key] =
        ["ca.pem", "client.pem", "client.key"].map(|name| folder.file(&format!("certs/{name}")));
    let rules = "[[rule]]\nallow = true\nclients = ['acme gateway']\ntopics = ['#']\n";
    let rules = folder.write("rules.toml", rules);
    let config = folder.write(
        "t.toml",
        &format!(
            "[access]\nrules_file = {rules:?}\n[[listener]]\n{listener}client_certificate = 'required'\nclient_ca = {ca:?}\n\
             identity_as = 'client-id'\n"
        ),
    );
    let house = House { broker: Broker::start_with(&["--admin", "off", "--config", &config]), folder };
    for named in [&["-i", "another name"][..], &[]] {
        let door = [&["--cafile", &ca, "--cert", &certificate, "--key", &key][..], named].concat();
        let ended = house.retain(&Door(0, &door), "a", "x");
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    }
}

#[test]
fn a_tenant_at_its_quota_is_refused_and_others_are_served() {
    let config = "[[listener]]\nname = 'door'\naddress = '127.0.0.1:0'\n[[listener]]\nname = 'acme'\naddress = '127.0.0.1:0'\n\
         [[tenant]]\nname = 'acme'\nlisteners = ['acme']\nmax_retained = 2\n";
    let house = House::new(Folder::new(), config);
    let (outside, inside) = (Door(0, &[]), Door(1, &[]));
    for topic in ["c", "d", "a", "b"] {
        house.retain(&inside, topic, "x");
        house.retain(&outside, topic, "x");
    }
    house.retain(&inside, "c", "y");
    assert_eq!(house.first(&outside, "4"), "a x\nb x\nc x\nd x\n");
    assert_eq!(house.first(&inside, "2"), "c y\nd x\n", "retained messages may still be replaced");
}

#[test]
fn stored_state_stays_with_its_tenant_in_any_order_of_tenants() {
    let folder = Folder::new();
    let data = folder.file("data");
    let config = |tenants: &[&str]| {
        let listener = |name: &&str| format!("[[listener]]\nname = '{name}'\naddress = '127.0.0.1:0'\n");
        let tenant = |name: &&str| format!("[[tenant]]\nname = '{name}'\nlisteners = ['{name}']\n");
        let listeners: String = ["acme", "bolt", "cafe"].iter().map(listener).collect();
        let tenants: String = tenants.iter().map(tenant).collect();
        format!("[store]\ndirectory = {data:?}\n{listeners}{tenants}")
    };
    let (acme, bolt, cafe) = (Door(0, &[]), Door(1, &[]), Door(2, &[]));
    let mut house = House::new(folder, &config(&["acme", "bolt"]));
    house.retain(&acme, "a", "of acme");
    house.retain(&bolt, "b", "of bolt");
    house = house.restarted(&config(&["cafe", "bolt"]));
    house.retain(&cafe, "c", "of cafe");
    assert_eq!(house.first(&bolt, "1"), "b of bolt\n");
    assert_eq!(house.first(&cafe, "1"), "c of cafe\n");
    house = house.restarted(&config(&["cafe", "acme"]));
    assert_eq!(house.first(&acme, "1"), "a of acme\n");
    assert_eq!(house.first(&cafe, "1"), "c of cafe\n");
}

/// An orchestrator with two tenants by listener, and one of the same fleet that names them too.
#[test]
fn tenants_of_orchestrators_meet_at_brokers_by_name() {
    let folder = Folder::new();
    let worker = Broker::start(&[]);
    let listeners = "[access]\ndefault = 'allow'\n[[listener]]\nname = 'door'\naddress = '127.0.0.1:0'\n\
         [[listener]]\nname = 'acme'\naddress = '127.0.0.1:0'\n[[listener]]\nname = 'bolt'\naddress = '127.0.0.1:0'\n";
    let tenant = |name: &str| format!("[[tenant]]\nname = '{name}'\nlisteners = ['{name}']\nmax_connections = 2\n");
    let orchestrator = |file: &str, tenants: [&str; 2]| {
        let text = format!("{listeners}{}", tenants.map(tenant).concat());
        let config = folder.write(file, &text);
        let to = format!("mqtt://{}", worker.address("mqtt://"));
        Broker::start_with(&["orchestrator", "--broker", &to, "--config", &config, "--admin", "off"])
    };
    // Each gives them other numbers.
    let (one, other) = (orchestrator("1.toml", ["acme", "bolt"]), orchestrator("2.toml", ["bolt", "acme"]));
    let folder = Folder::new();
    let (one, other) = (House { broker: one, folder: Folder::new() }, House { broker: other, folder });
    let [door, acme, bolt] = [0, 1, 2].map(|listener| Door(listener, &[]));
    for (house, at, payload) in [(&one, &acme, "of acme"), (&other, &bolt, "of bolt"), (&one, &door, "default")] {
        assert_eq!(house.retain(at, "t", payload).code, Some(0));
    }
    for house in [&one, &other] {
        assert_eq!(house.first(&acme, "1"), "t of acme\n");
        assert_eq!(house.first(&bolt, "1"), "t of bolt\n");
        assert_eq!(house.first(&door, "1"), "t default\n");
    }
}
