//! `tidegate up`, `manager` and `fleet`: a fleet of real processes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use crate::broker::{Broker, Ended, run};

mod fleet;

pub(crate) use fleet::{Fleet, kill, lives, pids};

/// Time after which something that should happen counts as missing. Nothing waits this long when all is well.
const PATIENCE: Duration = Duration::from_secs(300);

/// MQTT 5 CONNECT with a client id, and whatever it is answered with.
fn connected_as(address: &str, id: &str) -> TcpStream {
    let mut client = TcpStream::connect(address.strip_prefix("mqtt://").unwrap()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = u8::try_from(id.len()).unwrap();
    let head = [&[0x10, 13 + length][..], b"\0\x04MQTT\x05\x02\0\0\0\0", &[length], id.as_bytes()];
    client.write_all(&head.concat()).unwrap();
    let mut answer = [0; 2];
    client.read_exact(&mut answer).unwrap();
    let mut rest = vec![0; usize::from(answer[1])];
    client.read_exact(&mut rest).unwrap();
    assert_eq!((answer[0], rest[1]), (0x20, 0), "{rest:?}");
    client
}

/// A fleet of two orchestrators; each is the home of its share.
fn shared(fleet: &Fleet) -> serde_json::Value {
    fleet.status_when("two homes", |status| {
        let orchestrators = status["levels"]["orchestrator"]["resources"].as_array().unwrap();
        let homes: Vec<u64> = orchestrators.iter().filter_map(|it| it["partitions"].as_u64()).collect();
        homes.len() == 2 && homes.iter().sum::<u64>() == 1_024 && homes.iter().all(|share| *share > 256)
    })
}

#[test]
fn a_fleet_grows_by_the_memory_that_its_brokers_hold() {
    let mut fleet = Fleet::new();
    fleet.file("{ min = 1, max = 2 }", "{ min = 1, max = 1 }");
    let text = std::fs::read_to_string(fleet.folder.file("fleet.toml")).unwrap();
    // Any broker holds more than that.
    let signals = "[policy]\nname = \"consecutive\"\n[brokers.signals]\ncpu = false\nmemory = \"1MiB\"\n";
    let file = fleet.folder.write("fleet.toml", &format!("{text}{signals}"));
    fleet.start(&["up", &file]);
    let status = fleet.sized(2, 1);
    let memory = &status["levels"]["broker"]["resources"][0]["memory"];
    assert!(memory.as_u64().is_some_and(|bytes| bytes > 1 << 20), "{memory}");
    let history = fleet.fleet(&["history", "--json", "--count", "1000"]);
    let observations = history.out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut details = observations.map(|observation| observation["levels"]["broker"]["details"].clone());
    assert!(details.any(|details| details["signal"] == "memory"), "{}", history.out);
}

#[test]
fn chaos_reports_strikes_and_loses_nothing() {
    let mut fleet = Fleet::new();
    let file = fleet.file("{ min = 2, max = 3 }", "{ min = 1, max = 1 }");
    fleet.start(&["up", &file]);
    fleet.sized(2, 1);
    let flags =
        ["--for", "12s", "--every", "2s", "--longest", "1s", "--faults", "kill,stop,slow", "--levels", "broker"];
    let ended = fleet.fleet(&[&["chaos", "--seed", "3", "--recovery", "120s", "--json"], &flags[..]].concat());
    let report: serde_json::Value = serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{}", ended.err));
    assert_eq!((ended.code, &report["lost"], &report["seed"]), (Some(0), &0.into(), &3.into()), "{report:#}");
    let strikes = report["strikes"].as_array().unwrap();
    assert!(!strikes.is_empty(), "{report:#}");
    assert!(strikes.iter().all(|it| it["level"] == "broker" && it["healed_ms"].is_u64()), "{report:#}");
    assert!(report["acknowledged"].as_u64() > Some(0) && report["settled"] == true, "{report:#}");
    fleet.sized(2, 1);
}

#[test]
fn a_fleet_comes_up_carries_messages_heals_and_goes() {
    let mut fleet = Fleet::new();
    let file = fleet.file("{ min = 2, max = 3 }", "{ min = 1, max = 1 }");
    let line = fleet.start(&["up", &file]);
    let status = fleet.sized(2, 1);
    assert!(line.contains(status["endpoints"][0].as_str().unwrap()), "{line}");
    assert!(line.contains(status["manager"]["http"].as_str().unwrap()), "{line}");
    Fleet::carries_messages(&status);
    let all = pids(&status);
    assert!(all.iter().all(|pid| lives(*pid)));

    kill("KILL", all[0]);
    fleet.status_when("healing a broker", |status| status["totals"]["healed"] == 1);
    let orchestrator = &status["levels"]["orchestrator"]["resources"][0];
    kill("KILL", orchestrator["pid"].as_u64().unwrap());
    fleet.status_when("healing an orchestrator", |status| status["totals"]["healed"] == 2);
    let healed = fleet.sized(2, 1);
    assert_eq!(healed["levels"]["orchestrator"]["resources"][0]["address"], orchestrator["address"]);
    Fleet::carries_messages(&healed);

    let explained = fleet.fleet(&["explain"]);
    assert!(explained.out.contains("restart of orchestrator-1, done"), "{}", explained.out);
    let history = fleet.fleet(&["history", "--actions", "--json", "--count", "100"]);
    let kinds: Vec<String> = history
        .out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["action"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "replace").count(), 1, "{kinds:?}");

    let last = pids(&healed);
    fleet.signal("INT");
    assert_eq!(fleet.wait(), Some(0));
    assert!(last.iter().all(|pid| !lives(*pid)));
    let stopped = fleet.status();
    assert_eq!((&stopped["state"], &stopped["manager"]["state"]), (&"stopped".into(), &"stopped".into()));
    assert_eq!(
        (&stopped["levels"]["broker"]["stopped"], &stopped["levels"]["broker"]["serving"]),
        (&2.into(), &0.into())
    );
    assert!(fleet.fleet(&["status"]).out.contains("stopped at "), "{stopped}");
    assert!(fleet.fleet(&["plan"]).out.starts_with("stopped at "));
    assert_eq!(fleet.fleet(&["explain"]).code, Some(0));

    // The orchestrator's stored state is there, and it is the same orchestrator.
    fleet.start(&["up", &file]);
    let again = fleet.sized(2, 1);
    assert_eq!(again["levels"]["orchestrator"]["resources"][0]["name"], orchestrator["name"]);
    assert_eq!(again["totals"]["healed"], 2);
    let history = fleet.fleet(&["history", "--actions"]).out;
    assert!(history.contains("start of orchestrator-1, done: the fleet starts again"), "{history}");
    Fleet::carries_messages(&again);
    fleet.signal("TERM");
    assert_eq!(fleet.wait(), Some(0));
}

#[test]
fn a_fleet_outlives_its_manager_and_the_next_one_resizes_it() {
    let mut fleet = Fleet::new();
    let file = fleet.file("{ min = 1, max = 1 }", "{ min = 1, max = 1 }");
    fleet.start(&["up", &file]);
    let before = pids(&fleet.sized(1, 1));
    fleet.signal("KILL");
    fleet.wait();
    let dead = fleet.status_with(1);
    assert_eq!(dead["manager"]["state"], "dead");
    assert!(fleet.fleet(&["status"]).out.starts_with("fleet test: manager dead; as it was at "));
    assert!(before.iter().all(|pid| lives(*pid)));

    let file = fleet.file("{ min = 3, max = 3 }", "{ min = 2, max = 2 }");
    fleet.start(&["manager", "--fleet", &file]);
    let grown = fleet.sized(3, 2);
    let all = pids(&grown);
    assert!(before.iter().all(|pid| all.contains(pid)), "{before:?} {all:?}");
    // While partitions move, their clients are refused for a moment.
    shared(&fleet);
    Fleet::carries_messages(&grown);
    let second = fleet.command(&["manager", "--fleet", &file]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another manager runs"));
    fleet.signal("TERM");
    assert_eq!(fleet.wait(), Some(0));
    assert!(all.iter().all(|pid| lives(*pid)));
    let left = fleet.status();
    assert_eq!((&left["manager"]["state"], &left["state"]), (&"left".into(), &"running".into()));
    let told = fleet.fleet(&["status"]).out;
    assert!(told.contains("manager stopped at") && told.contains("the fleet runs on"), "{told}");

    // No manager runs, and clients are served all the same.
    let leaver = grown["endpoints"][1].as_str().unwrap();
    let mut clients: Vec<TcpStream> = (0..16).map(|number| connected_as(leaver, &format!("client-{number}"))).collect();
    let file = fleet.file("{ min = 1, max = 1 }", "{ min = 1, max = 1 }");
    fleet.start(&["up", &file]);
    let shrunk = fleet.sized(1, 1);
    let stays = shrunk["endpoints"][0].as_str().unwrap().strip_prefix("mqtt://").unwrap();
    for client in &mut clients {
        let mut told = Vec::new();
        client.read_to_end(&mut told).unwrap();
        // DISCONNECT with reason code 0x9C, and where to: from those at home there, and from the relays of the others.
        assert_eq!((told[0], told[2]), (0xE0, 0x9C), "{told:?}");
        assert!(String::from_utf8_lossy(&told).contains(stays), "{told:?}");
    }
    assert_eq!(pids(&shrunk), before);
    assert_eq!(all.iter().filter(|pid| lives(**pid)).count(), 2);
    assert_eq!(shrunk["totals"]["failed"], 0);
    Fleet::carries_messages(&shrunk);
    fleet.signal("INT");
    assert_eq!(fleet.wait(), Some(0));
}

#[test]
fn an_orchestrator_that_cannot_restart_keeps_its_store() {
    let mut fleet = Fleet::new();
    let text = "[fleet]\nname = \"test\"\ninterval = \"200ms\"\ncheck = \"50ms\"\nrestart_limit = \"1s\"\n\
        [sla]\nbrokers = { min = 1, max = 1 }\norchestrators = { min = 2, max = 2 }\n";
    let file = fleet.folder.write("fleet.toml", text);
    fleet.start(&["up", &file]);
    fleet.sized(1, 2);
    let two = shared(&fleet);
    let lost = two["levels"]["orchestrator"]["resources"][1].clone();
    let name = lost["name"].as_str().unwrap();
    let directory = two["manager"]["directory"].as_str().unwrap().to_owned();
    let data = std::path::Path::new(&directory).join("resources").join(name).join("data");
    // Its store cannot be opened any more.
    std::fs::rename(&data, data.with_extension("old")).unwrap();
    std::fs::write(&data, "damaged").unwrap();
    kill("KILL", lost["pid"].as_u64().unwrap());
    let after = fleet.status_when("giving it up", |status| status["totals"]["given_up"] == 1);
    assert!(after["levels"]["orchestrator"]["resources"].as_array().unwrap().iter().all(|it| it["name"] != *name));
    fleet.sized(1, 2);
    shared(&fleet);
    let aside = std::path::Path::new(&directory).join("resources/set-aside").join(name);
    assert!(aside.join("data.old").is_dir() && aside.join("resource.json").is_file());
    assert!(fleet.fleet(&["status"]).out.contains(", 1 given up\n"));
    let history = fleet.fleet(&["history", "--actions"]).out;
    assert!(
        history.contains(&format!("give-up of {name}, done: {name} could not be restarted within 1 s")),
        "{history}"
    );
    fleet.signal("INT");
    assert_eq!(fleet.wait(), Some(0));
}

#[test]
fn the_next_manager_reports_and_finishes_an_interrupted_stop() {
    let mut fleet = Fleet::new();
    // Its shell ignores SIGTERM, so that the stop lasts until the test ends it.
    let text = "[fleet]\nname = \"test\"\ninterval = \"200ms\"\ncheck = \"50ms\"\n[sla]\n[brokers]\ntemplate = \"stubborn\"\n\
         [templates.stubborn]\ncommand = \"sh\"\nargs = [\"-c\", \"trap '' TERM; \\\"$0\\\" \\\"$@\\\" & sleep 1000\", \"{exe}\", \
         \"run\", \"--listen\", \"{host}:{port}\", \"--shards\", \"1\"]\nprobe = { kind = \"mqtt\" }\nstop = { limit = \"300s\" }\n";
    let file = fleet.folder.write("fleet.toml", text);
    fleet.start(&["up", &file]);
    let before = fleet.sized(1, 1);
    fleet.signal("INT");
    let stops = |status: &serde_json::Value| status["levels"]["orchestrator"]["stopped"] == 1;
    let stopping = fleet.status_when("stopping the orchestrator", stops);
    assert_eq!(stopping["state"], "stopping");
    assert_eq!(fleet.insist("INT"), Some(1));
    let cut = fleet.status_with(1);
    assert_eq!((&cut["state"], &cut["manager"]["state"]), (&"stopping".into(), &"dead".into()));
    assert_eq!(cut["levels"]["broker"]["serving"], 1);
    assert!(fleet.fleet(&["status"]).out.contains("was cut off"));

    let broker = &before["levels"]["broker"]["resources"][0];
    kill("KILL", broker["pid"].as_u64().unwrap());
    fleet.start(&["up", &file]);
    let again = fleet.sized(1, 1);
    assert_ne!(again["levels"]["broker"]["resources"][0]["name"], broker["name"]);
    assert_eq!((&again["totals"]["healed"], &again["totals"]["failed"]), (&0.into(), &0.into()));
    Fleet::carries_messages(&again);
    fleet.signal("INT");
    let stopping = fleet.status_when("stopping the orchestrator again", stops);
    kill("KILL", stopping["levels"]["broker"]["resources"][0]["pid"].as_u64().unwrap());
    assert_eq!(fleet.wait(), Some(0));
}

#[test]
fn a_client_has_one_home_in_a_fleet_of_two_orchestrators() {
    let mut fleet = Fleet::new();
    let file = fleet.file("{ min = 1, max = 1 }", "{ min = 2, max = 2 }");
    fleet.start(&["up", &file]);
    fleet.sized(1, 2);
    let status = shared(&fleet);
    let at = [0, 1].map(|which: usize| status["endpoints"][which].as_str().unwrap().to_owned());
    assert!(fleet.fleet(&["status"]).out.contains("  partitions "));
    for number in 0..6 {
        let id = format!("client-{number}");
        let (first, second) = (&at[number % 2], &at[1 - number % 2]);
        let mut one = connected_as(first, &id);
        let _other = connected_as(second, &id);
        let mut goodbye = Vec::new();
        one.read_to_end(&mut goodbye).unwrap();
        // DISCONNECT with reason code 0x8E: taken over.
        assert_eq!((goodbye[0], goodbye[2]), (0xE0, 0x8E), "{goodbye:?}");

        let ports = [first, second].map(|address| address.rsplit_once(':').unwrap().1);
        let session = format!("session-{number}");
        let topic = format!("in/{number}");
        let subscribe = ["sub", "-i", &session, "-c", "-q", "1", "-t", &topic];
        let client = |port: &str, arguments: &[&str]| {
            let ended = run(&[&arguments[..1], &["-p", port], &arguments[1..]].concat());
            assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.err);
            ended.out
        };
        client(ports[0], &[&subscribe[..], &["-E"]].concat());
        client(ports[0], &["pub", "-q", "1", "-t", &topic, "-m", "kept"]);
        assert_eq!(client(ports[1], &[&subscribe[..], &["-C", "1", "-W", "120"]].concat()), "kept\n");
    }

    // A leaving orchestrator gives all its partitions to the remaining one.
    let subscribe = ["sub", "-i", "leaver", "-c", "-q", "1", "-t", "leaver/a"];
    let port = |address: &str| address.rsplit_once(':').unwrap().1.to_owned();
    let said = run(&[&["sub", "-p", &port(&at[1])][..], &subscribe[1..], &["-E"]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    fleet.signal("KILL");
    fleet.wait();
    let said = run(&["pub", "-p", &port(&at[1]), "-q", "1", "-t", "leaver/a", "-m", "moved"]);
    assert_eq!(said.code, Some(0), "without a manager: {}", said.err);
    let file = fleet.file("{ min = 1, max = 1 }", "{ min = 1, max = 1 }");
    fleet.start(&["up", &file]);
    let left = fleet.sized(1, 1);
    assert_eq!(
        (&left["levels"]["orchestrator"]["resources"][0]["partitions"], &left["totals"]["failed"]),
        (&1_024.into(), &0.into())
    );
    let stays = port(left["endpoints"][0].as_str().unwrap());
    let out = run(&[&["sub", "-p", &stays][..], &subscribe[1..], &["-C", "1", "-W", "120"]].concat());
    assert_eq!((out.code, out.out.as_str()), (Some(0), "moved\n"), "{}", out.err);
    fleet.signal("INT");
    assert_eq!(fleet.wait(), Some(0));
}

/// The first address that a DNS server names for `fleet.example`.
pub(crate) fn resolve(server: &str) -> [u8; 4] {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    // A query for A with the number 7 and one question.
    let query = b"\x00\x07\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x05fleet\x07example\x00\x00\x01\x00\x01";
    socket.send_to(query, server).unwrap();
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).unwrap();
    assert_eq!((&answer[..2], answer[7]), (&b"\x00\x07"[..], 1), "{:?}", &answer[..length]);
    // The name that points back, type, class, TTL and length come before the address.
    let at = query.len() + 12;
    answer[at..at + 4].try_into().unwrap()
}

#[test]
fn an_existing_broker_joins_a_named_orchestrator() {
    let broker = Broker::start(&[]);
    let mut fleet = Fleet::new();
    let address = broker.address("mqtt://");
    let text = format!(
        "[fleet]\nname = \"attached\"\ninterval = \"200ms\"\ncheck = \"50ms\"\n[sla]\nbrokers = {{ min = 1, max = 2 }}\n\
         [[brokers.attached]]\nname = \"old\"\naddress = \"mqtt://{address}\"\n\
         [[brokers.attached]]\nname = \"gone\"\naddress = \"mqtt://127.0.0.1:1\"\n\
         [dns]\nname = \"fleet.example\"\nlisten = \"127.0.0.1:0\"\n"
    );
    let file = fleet.folder.write("fleet.toml", &text);
    let line = fleet.start(&["up", &file]);
    // The other one does not answer, and holds nothing up.
    let serves =
        |status: &serde_json::Value| status["levels"]["broker"]["serving"] == 1 && status["endpoints"][0].is_string();
    let status = fleet.status_when("one broker", serves);
    let brokers = &status["levels"]["broker"]["resources"];
    assert_eq!(brokers[0]["address"], format!("mqtt://{address}"));
    assert_eq!((&brokers[1]["name"], &brokers[1]["state"]), (&"gone".into(), &"dead".into()), "{brokers}");
    assert!(brokers[1]["note"].as_str().unwrap().contains("no answer to MQTT at 127.0.0.1:1"), "{brokers}");
    Fleet::carries_messages(&status);
    let dns = line.split_whitespace().find_map(|word| word.strip_prefix("dns=")).unwrap();
    assert_eq!(resolve(dns), [127, 0, 0, 1]);
    // A second manager of this fleet would find the port taken, too: the first manager is the reason.
    let taken = fleet.folder.write("taken.toml", &text.replace("127.0.0.1:0\"\n", &format!("{dns}\"\n")));
    let second = fleet.command(&["manager", "--fleet", &taken]).output().unwrap();
    let error = String::from_utf8_lossy(&second.stderr);
    assert!(error.contains("another manager runs the fleet"), "{error}");
    fleet.signal("INT");
    assert_eq!(fleet.wait(), Some(0));
    assert_eq!(broker.get("/readyz").0, "200");
}

#[test]
fn orchestrators_with_their_own_addresses_have_one_port() {
    let mut fleet = Fleet::new();
    let text = "[fleet]\nname = \"apart\"\ninterval = \"200ms\"\ncheck = \"50ms\"\n[sla]\nbrokers = { min = 1, max = 1 }\n\
                orchestrators = { min = 2, max = 3 }\n[orchestrators]\nhost = \"127.0.0.71-127.0.0.73\"\n\
                [dns]\nname = \"fleet.example\"\nlisten = \"127.0.0.1:0\"\n";
    let file = fleet.folder.write("fleet.toml", text);
    let line = fleet.start(&["up", &file]);
    let status = fleet.sized(1, 2);
    let resources = status["levels"]["orchestrator"]["resources"].as_array().unwrap();
    let addresses = resources.iter().map(|it| it["address"].as_str().unwrap().strip_prefix("mqtt://").unwrap());
    let apart: Vec<(&str, &str)> = addresses.map(|address| address.rsplit_once(':').unwrap()).collect();
    assert_eq!((apart[0].0, apart[1].0), ("127.0.0.71", "127.0.0.72"), "{apart:?}");
    assert_eq!(apart[0].1, apart[1].1, "both have the same port");
    Fleet::carries_messages(&status);
    let dns = line.split_whitespace().find_map(|word| word.strip_prefix("dns=")).unwrap();
    let mut named = [resolve(dns), resolve(dns)];
    named.sort_unstable();
    assert_eq!(named, [[127, 0, 0, 71], [127, 0, 0, 72]], "a name without a port leads to each of them");
    fleet.signal("INT");
    assert_eq!(fleet.wait(), Some(0));
    // As many addresses as members may come.
    let few = fleet.folder.write("few.toml", &text.replace("max = 3", "max = 4"));
    let refused = fleet.command(&["up", &few]).output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("has fewer addresses than the most members of the level, 4"), "{error}");
}

#[test]
fn errors_of_a_fleet_are_reported_before_anything_runs() {
    let fleet = Fleet::new();
    let told = |arguments: &[&str], code: i32, parts: &[&str]| {
        let ended: Ended = fleet.command(arguments).output().unwrap().into();
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{}", ended.err);
        for part in parts {
            assert!(ended.err.contains(part), "{part}: {}", ended.err);
        }
    };
    told(&["up", &fleet.folder.file("none.toml")], 2, &["fleet file: cannot read", "none.toml"]);
    let wrong = fleet.folder.write("wrong.toml", "[fleet]\nname = \"x\"\nintervall = \"1s\"\n[sla]\n");
    told(&["up", &wrong], 2, &["unknown key `fleet.intervall`", "wrong.toml:3:1", "did you mean `interval`?"]);
    told(&["fleet", "status"], 1, &["no fleet of this user is known", "tidegate up"]);
    let missing = fleet.folder.write(
        "missing.toml",
        "[fleet]\nname = \"missing\"\ncheck = \"50ms\"\n[sla]\n[brokers]\ntemplate = \"mine\"\n\
         [templates.mine]\ncommand = \"no-such-broker\"\nprobe = { kind = \"tcp\" }\n",
    );
    told(&["up", &missing], 1, &["no-such-broker", "template `mine`", "install"]);
    let head = "[fleet]\nname = \"x\"\n[sla]\n";
    // A documentation address, which no machine has (RFC 5737).
    let host = fleet.folder.write("host.toml", &format!("{head}[brokers]\nhost = \"192.0.2.1\"\n"));
    told(&["up", &host], 1, &["cannot listen on 192.0.2.1", "`brokers.host`"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let api = fleet.folder.write("api.toml", &head.replace("[sla]", &format!("api_port = {port}\n[sla]")));
    told(&["up", &api], 1, &[&format!("127.0.0.1:{port}"), "`fleet.api_port`"]);
    let dns = fleet.folder.write("dns.toml", &format!("{head}[dns]\nname = \"a.example\"\nlisten = \"nowhere\"\n"));
    told(&["up", &dns], 2, &["dns.toml:6:10", "cannot be listened on"]);
    let secret = format!("{head}[orchestrators]\nadmin_token_file = \"no-token\"\n");
    let secret = fleet.folder.write("token.toml", &secret);
    told(&["up", &secret], 1, &["no-token", "`orchestrators.admin_token_file`"]);
    let ports = fleet.folder.write("ports.toml", &format!("{head}[brokers]\nports = \"30-20\"\n"));
    told(&["up", &ports], 2, &["FIRST <= LAST", "30 comes after 20"]);
}

/// A broker that takes its time, as some do for half a minute.
#[test]
fn a_slow_start_names_the_resource_that_it_waits_for() {
    let fleet = Fleet::new();
    let text = "[fleet]\nname = \"slow\"\n[sla]\nbrokers = { min = 1, max = 1 }\norchestrators = { min = 1, max = 1 }\n\
                [brokers]\ntemplate = \"slow\"\n[templates.slow]\nlevel = \"broker\"\ncommand = \"sleep\"\nargs = [\"600\"]\n\
                ports = [\"mqtt\"]\naddress = \"mqtt://{host}:{port}\"\nprobe = { kind = \"mqtt\" }\n";
    let file = fleet.folder.write("fleet.toml", text);
    let mut up = fleet.command(&["up", &file]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(up.stderr.take().unwrap()).lines().map_while(Result::ok);
    let told = said.find(|line| line.starts_with("not ready after ")).unwrap_or_default();
    assert!(told.contains("start of broker: boot") && told.contains("broker-1 does not answer yet"), "{told}");
    kill("TERM", u64::from(up.id()));
    said.for_each(drop);
    assert_eq!(up.wait().unwrap().code(), Some(0));
}
