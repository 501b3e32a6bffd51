use super::*;
use crate::manage::{LevelSeen, MemberSeen, Moment, Victim, Wish};

fn read_text(text: &str) -> Result<FleetFile, Findings> {
    FleetFile::read(&FileText::new("fleet.toml", text))
}

const DNS: &str = "[fleet]\nname = \"demo\"\n[sla]\n[dns]\nname = \"mqtt.fleet.example\"\n";
const AT: &str = "listen = \"127.0.0.1:0\"\n";
const LEAST: &str = "[fleet]\nname = \"demo\"\n[sla]\n";

#[test]
fn a_file_with_a_name_and_an_agreement_is_enough() {
    let file = read_text(LEAST).unwrap();
    assert_eq!((file.settings.fleet.as_str(), file.settings.interval), ("demo", SECOND * 15));
    let brokers = file.settings.level(Level::Broker).unwrap();
    assert_eq!((brokers.initial, brokers.least, brokers.most), (1, 1, 6));
    assert_eq!(brokers.templates, [("tidegate".to_owned(), 1)]);
    assert_eq!(file.policy(Level::Broker), PolicyName::Default);
    assert_eq!(file.judges().unwrap().len(), 2);
}

/// A fleet file with every kind of section.
const EVERY_KEY: &str = r#"
[fleet]
name = "all"
directory = "state"
interval = "1s"
check = "100ms"
api_port = 18090
down_after = 5
boot_limit = "2m"
join_limit = "30s"
drain_limit = "10s"
on_drain_limit = "wait"
evict_per_second = 10
evict_after = "5s"
bus_max_bytes = "8GiB"
[policy]
name = "hpa"
lower = 0.2
upper = 0.6
smoothing = 0.3
peak = "10s"
[policy.signals]
cpu = true
queue_depth = 1000
[sla]
brokers = { min = 2, max = 8 }
orchestrators = { min = 1, max = 3 }
max_in_all = 10
[brokers]
templates = { mosquitto = 2, own = 1 }
cpu = 0.2
initial = 3
scale_in = "least-loaded"
policy = "brokel"
ports = "21000-21999"
[[brokers.attached]]
name = "old"
address = "mqtts://192.0.2.1:1883"
[orchestrators]
routing = "round-robin"
host = "127.0.0.2"
[templates.own]
command = "broker"
probe = { kind = "tcp" }
[templates.own.login]
username = "fleet"
password_file = "secret"
[dns]
name = "mqtt.fleet.example"
listen = "127.0.0.1:5353"
ttl = "5s"
[metrics]
listen = "0.0.0.0:18084"
"#;

#[test]
fn every_key_is_read() {
    let file = read_text(EVERY_KEY).unwrap();
    let brokers = file.settings.level(Level::Broker).unwrap();
    assert_eq!((brokers.initial, brokers.cores, brokers.victim), (3, 0.2, Victim::LeastLoaded));
    assert_eq!(brokers.templates, [("mosquitto".to_owned(), 2), ("own".to_owned(), 1)]);
    assert_eq!(file.policy(Level::Broker), PolicyName::Brokel);
    assert_eq!(file.policy(Level::Orchestrator), PolicyName::Hpa);
    assert_eq!((file.settings.entry_ttl, file.settings.most_in_all), (SECOND * 5, Some(10)));
    assert_eq!(file.settings.on_drain_limit, OnDrainLimit::Wait);
    assert_eq!((&file.attached[0].mqtt, file.attached[0].secure), (&("192.0.2.1".to_owned(), 1883), true));
    let processes = file.processes(Path::new("/state"), PathBuf::from("tidegate"));
    assert_eq!(processes.places[&Level::Broker].ports, 21_000..=21_999);
    assert_eq!(processes.places[&Level::Orchestrator].hosts, "127.0.0.2".parse().unwrap());
    assert_eq!(processes.routing, "round-robin");
    assert_eq!(processes.directory, Path::new("/state/resources"));
    assert_eq!(processes.bus_max_bytes, 8 << 30);
}

#[test]
fn a_shipped_orchestrator_has_one_shard_and_the_bus_limit() {
    // With several shards a move keeps no messages back.
    let template = Template::shipped("orchestrator").unwrap().unwrap();
    let shards = template.args.iter().position(|arg| arg == "--shards").unwrap();
    assert_eq!(template.args[shards + 1], "1");
    let limit = ("TIDEGATE__CLUSTER__BUS_MAX_BYTES".to_owned(), "{bus.size}".to_owned());
    assert!(template.environment.contains(&limit), "{:?}", template.environment);
}

#[test]
fn mistakes_are_reported_with_place_and_remedy() {
    for (text, place, parts) in [
        ("[fleet]\nname = \"demo\"\n", ":1:1", ["`sla` is missing", "add"]),
        (&format!("{LEAST}brokers = {{ min = 3, max = 2 }}\n"), ":4:11", ["below the minimum", "hint"]),
        (
            &format!("{LEAST}[brokers]\ntemplate = \"mosquito\"\n"),
            ":5:12",
            ["unknown template `mosquito`", "mosquitto"],
        ),
        (&format!("{LEAST}[brokers]\ntemplate = \"orchestrator\"\n"), ":5:12", ["makes a orchestrator", "name one"]),
        (&format!("{LEAST}[brokers]\ninitial = 9\n"), ":5:11", ["`brokers.initial`", "from 1 to 6"]),
        (&format!("{LEAST}[broker]\n"), ":4:2", ["unknown key `broker`", "did you mean `brokers`?"]),
        ("[fleet]\nname = \"demo\"\ninterval = 15\n[sla]\n", ":3:12", ["`fleet.interval`", "\"15s\""]),
        (&format!("{LEAST}[policy]\nname = \"best\"\n"), ":5:8", ["`policy.name`", "brokel"]),
        (&format!("{LEAST}[policy]\nlower = 0.8\nupper = 0.7\n"), ":6:9", ["leave no band", "hint"]),
        (
            &format!(
                "{LEAST}[[brokers.attached]]\nname = \"a\"\naddress = \"mqtt://Host:1\"\n[[brokers.attached]]\nname = \"b\"\naddress = \"mqtt://host:1\"\n"
            ),
            ":4:",
            ["`a` and `b` both at mqtt://host:1", "attach each once"],
        ),
        (
            &format!(
                "{LEAST}[[brokers.attached]]\nname = \"a\"\naddress = \"mqtt://host:1\"\n[[brokers.attached]]\nname = \"a\"\naddress = \"mqtt://host:2\"\n"
            ),
            ":4:",
            ["two named `a`", "a name of its own"],
        ),
        (
            &format!("{LEAST}[policy.signals]\nloop_lag = \"1s\"\n"),
            ":5:12",
            ["`policy.signals.loop_lag` is not known of brokers", "[orchestrators.signals]"],
        ),
        (&format!("{LEAST}[brokers.signals]\nloop_lag = \"1s\"\n"), ":5:12", ["not known of brokers", "hint"]),
        (&format!("{LEAST}[brokers.signals]\nmemory = 512\n"), ":5:10", ["`brokers.signals.memory` must be", "512MiB"]),
        (&format!("{LEAST}[brokers.signals]\ndrops = 0\n"), ":5:9", ["`brokers.signals.drops` must be", "from 0.001"]),
        (&format!("{LEAST}[brokers.signals]\ncpu = false\n"), ":5:7", ["nothing to decide by", "at least one"]),
        (&format!("{DNS}listen = \"nowhere\"\n"), ":6:10", ["which cannot be listened on", "ADDRESS:PORT"]),
        (&format!("{LEAST}[dns]\nlisten = \"127.0.0.1:0\"\nname = \"a..b\"\n"), ":6:8", ["is no name", "hint"]),
        (&format!("{DNS}{AT}policy = \"nearest\"\n"), ":7:10", ["no place of any orchestrator", "at = "]),
        (&format!("{DNS}{AT}places = \"p\"\n"), ":7:10", ["no effect with this policy", "nearest"]),
        (&format!("{DNS}{AT}policy = \"weighted\"\n"), ":7:10", ["no endpoint has a weight", "weight = 3"]),
        (
            &format!("{DNS}{AT}[dns.endpoints.orchestrator-1]\nweight = 2\n"),
            ":7:6",
            ["no effect with this policy", "weighted"],
        ),
        (
            &format!("{DNS}{AT}[dns.endpoints.orchestra]\nsecure_port = 8883\n"),
            ":7:1",
            ["no orchestrator and no template", "orchestrator-1"],
        ),
        ("[fleet\n", ":1:7", ["error", "hint"]),
    ] {
        let found = format!("error\n{}", read_text(text).unwrap_err());
        assert!(found.contains(&format!("fleet.toml{place}")), "{place}: {found}");
        for part in parts {
            assert!(found.contains(part), "{part}: {found}");
        }
    }
}

#[test]
fn overlapping_ranges_have_an_address_for_each_process() {
    let text = |last: &str| {
        format!(
            "[fleet]\nname = \"demo\"\n[sla]\nbrokers = {{ min = 1, max = 3 }}\norchestrators = {{ min = 1, max = 2 }}\n\
             [brokers]\nhost = \"127.0.0.2-127.0.0.4\"\n[orchestrators]\nhost = \"127.0.0.3-{last}\"\n"
        )
    };
    let refused = read_text(&text("127.0.0.5")).unwrap_err().to_string();
    assert!(refused.contains("4 addresses for at most 5 members") && refused.contains("widen"), "{refused}");
    read_text(&text("127.0.0.6")).unwrap();
}

#[test]
fn levels_may_be_measured_by_different_signals() {
    let file = read_text(&format!(
        "{LEAST}[policy.signals]\nwaiting = \"2s\"\n[orchestrators.signals]\ncpu = false\nloop_lag = \"50ms\"\n"
    ));
    let mut judges = file.unwrap().judges().unwrap();
    let seen = |level| {
        let name = "a".parse().unwrap();
        let (rate, queued) = (Some(10.0), Some(20));
        let member = MemberSeen {
            name,
            cpu: Some(0.1),
            cores: 1.0,
            rate,
            queued,
            loop_lag_ms: Some(25.0),
            drops: None,
            memory: None,
        };
        let (serving, pending, leaving, elsewhere, lead_time) = (1, 0, 0, 1, None);
        LevelSeen { at: Moment(1), level, serving, pending, leaving, elsewhere, lead_time, members: vec![member] }
    };
    let loads = Level::ALL.map(|level| judges.get_mut(&level).unwrap().judge(&seen(level)).load);
    let of = |level| loads[Level::ALL.iter().position(|known| *known == level).unwrap()];
    assert_eq!((of(Level::Broker), of(Level::Orchestrator)), (Some(1.0), Some(0.5)));
}

#[test]
fn a_level_may_be_measured_by_drops_and_memory() {
    let file = read_text(&format!(
        "{LEAST}[policy.signals]\ncpu = false\ndrops = 100\nmemory = \"512MiB\"\n[policy]\nname = \"consecutive\"\n"
    ));
    let mut judges = file.unwrap().judges().unwrap();
    let mut judge = |drops, memory| {
        let name = "a".parse().unwrap();
        let (cpu, rate, queued, loop_lag_ms) = (None, None, None, None);
        let member = MemberSeen { name, cpu, cores: 1.0, rate, queued, loop_lag_ms, drops, memory };
        let level = Level::Broker;
        let (serving, pending, leaving, elsewhere, lead_time) = (1, 0, 0, 1, None);
        let seen =
            LevelSeen { at: Moment(1), level, serving, pending, leaving, elsewhere, lead_time, members: vec![member] };
        judges.get_mut(&level).unwrap().judge(&seen)
    };
    assert_eq!(judge(Some(50.0), Some(128 << 20)).load, Some(0.5));
    assert_eq!(judge(Some(50.0), Some(384 << 20)).load, Some(0.75));
    // The third observation in a row above 70 %.
    let decisions = [(); 2].map(|()| judge(Some(5.0), Some(500 << 20)));
    assert_eq!(decisions[1].wish, Wish::Grow(1), "{}", decisions[1].reason);
    assert_eq!(decisions[1].details["signal"], "memory");
}

#[test]
fn a_range_of_ports_has_one_for_each_process() {
    let ports = |range: &str, host: &str| {
        let level = format!("[brokers]\nports = \"{range}\"\nhost = \"{host}\"\n{TWO_PORTS}");
        let text = format!("{LEAST}brokers = {{ max = 3 }}\n{level}");
        read_text(&text).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(ports("21000-21005", "127.0.0.1"), Ok(()));
    let few = ports("21000-21004", "127.0.0.1").unwrap_err();
    assert!(few.contains("has 5 ports") && few.contains("need 6"), "{few}");
    assert_eq!(ports("21000-21001", "127.0.0.2-127.0.0.4"), Ok(()), "each process has its own address");
    assert!(ports("21000-21000", "127.0.0.2-127.0.0.4").is_err());
}

#[test]
fn attached_members_and_the_bound_in_all_save_ports() {
    let ports = |range: &str, sla: &str, attached: &str| {
        let text =
            format!("{LEAST}brokers = {{ max = 3 }}\n{sla}[brokers]\nports = \"{range}\"\n{TWO_PORTS}{attached}");
        read_text(&text).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(ports("21000-21003", "max_in_all = 3\n", ""), Ok(()));
    assert!(ports("21000-21002", "max_in_all = 3\n", "").is_err());
    let attached = "[[brokers.attached]]\nname = \"old\"\naddress = \"mqtt://127.0.0.1:1883\"\n";
    assert_eq!(ports("21000-21003", "", attached), Ok(()));
}

/// A template of brokers with two ports.
const TWO_PORTS: &str = "template = \"two\"\n[templates.two]\ncommand = \"broker\"\nports = [\"mqtt\", \"admin\"]\n\
                         probe = { kind = \"tcp\" }\n";

#[test]
fn the_entry_point_knows_places_weights_and_ports() {
    let file = read_text(&format!(
        "{DNS}listen = [\"localhost:5353\", \"127.0.0.2:5353\"]\npolicy = \"nearest\"\nplaces = \"p.txt\"\nstrict = true\nrate = 0\n\
         [dns.endpoints.orchestrator]\nsecure_port = 8883\nat = \"41.9, 12.5\"\n[dns.endpoints.orchestrator-2]\nat = \"52.5,13.4\"\n"
    ));
    let dns = file.unwrap().dns.unwrap();
    for address in ["127.0.0.1:5353", "127.0.0.2:5353"] {
        assert!(dns.listen.contains(&address.parse().unwrap()), "{:?}", dns.listen);
    }
    assert_eq!((dns.policy, dns.strict, dns.rate), (DnsPolicy::Nearest, true, Some(0)));
    let one = dns.endpoint("orchestrator-1", "orchestrator");
    let other = dns.endpoint("orchestrator-2", "orchestrator");
    assert_eq!((one.at, one.secure_port), (Some((41.9, 12.5)), Some(8883)));
    assert_eq!((other.at, other.secure_port), (Some((52.5, 13.4)), Some(8883)));
}

#[test]
fn the_examples_can_be_read() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        let file = FleetFile::load(&path).unwrap_or_else(|error| panic!("{error}"));
        names.push((path.file_name().unwrap().to_owned(), file.settings.level(Level::Broker).unwrap().templates.len()));
    }
    names.sort();
    let expected =
        [("mixed.toml", 2), ("mosquitto.toml", 1), ("nats.toml", 1), ("rabbitmq.toml", 1), ("tidegate.toml", 1)];
    assert_eq!(names, expected.map(|(name, count)| (name.into(), count)));
}

const PODS: &str = "[kubernetes.brokers]\nstateful_set = \"mosquitto\"\nscaled_by = \"other\"\n\
    login = { username = \"fleet\", password_file = \"p\" }\n[kubernetes.orchestrators]\nstateful_set = \"tidegate-orchestrator\"\n";

#[test]
fn a_build_without_kubernetes_says_how_to_make_one_with_it() {
    let read = |keys: &mut Keys<'_>| {
        kubernetes::refuse(keys);
        Some(())
    };
    let said = FileText::new("fleet.toml", PODS).read(read).unwrap_err().to_string();
    assert!(said.contains("needs a tidegate that was built with Kubernetes"), "{said}");
    assert!(said.contains("--features kubernetes"), "{said}");
    assert!(!said.contains("unknown key"), "{said}");
}

#[cfg(feature = "kubernetes")]
#[test]
fn stateful_sets_take_the_place_of_templates() {
    use crate::manage::Wish;
    let file = read_text(&format!("{LEAST}{PODS}")).unwrap();
    assert!(file.is_of_a_cluster());
    let brokers = file.settings.level(Level::Broker).unwrap();
    assert_eq!((brokers.templates.clone(), brokers.decided_elsewhere), (vec![("mosquitto".to_owned(), 1)], true));
    assert!(!file.settings.level(Level::Orchestrator).unwrap().decided_elsewhere);
    let mut judges = file.judges().unwrap();
    let idle = LevelSeen {
        at: Moment(0),
        level: Level::Broker,
        serving: 5,
        pending: 0,
        leaving: 0,
        elsewhere: 1,
        lead_time: None,
        members: Vec::new(),
    };
    assert_eq!(judges.get_mut(&Level::Broker).unwrap().judge(&idle).wish, Wish::Hold);

    for (wrong, said) in [
        ("[kubernetes]\nnamespace = \"a/b\"\n[kubernetes.brokers]\nstateful_set = \"b\"\n", "no name of Kubernetes"),
        ("[kubernetes]\nnamespace = \"a\"\n", "name no StatefulSet"),
        ("[kubernetes.brokers]\nport = 1\n", "`kubernetes.brokers.stateful_set` is missing"),
        ("[kubernetes.brokers]\nstateful_set = \"b\"\nscaled_by = \"me\"\n", "one of manager, other"),
        ("[kubernetes.brokers]\nstateful_set = \"b\"\nadmin_port = 1\n", "unknown key"),
    ] {
        let text = read_text(&format!("{LEAST}{wrong}")).unwrap_err().to_string();
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn updates_need_a_zone_that_contains_the_name() {
    let with = |update: &str| read_text(&format!("{DNS}update = {{ {update} }}\n"));
    let right = with("server = \"127.0.0.1:53\", zone = \"Fleet.Example.\", key_file = \"k\"").unwrap().dns.unwrap();
    assert!(right.listen.is_empty() && right.update.is_some());
    for (update, problem) in [
        ("zone = \"example\", key_file = \"k\"", "server"),
        ("server = \"x\", zone = \"example\", key_file = \"k\"", "which cannot be found"),
        ("server = \"127.0.0.1:53\", zone = \"eet.example\", key_file = \"k\"", "does not contain the name"),
        ("server = \"127.0.0.1:53\", zone = \"example\"", "key_file"),
    ] {
        assert!(with(update).unwrap_err().to_string().contains(problem), "{update}");
    }
}

#[test]
fn settings_of_the_own_server_need_an_address() {
    let update = "update = { server = \"127.0.0.1:53\", zone = \"example\", key_file = \"k\" }\n";
    for setting in ["strict = true", "rate = 5", "policy = \"least-loaded\"", "maxmind = \"m\""] {
        let error = read_text(&format!("{DNS}{update}{setting}\n")).unwrap_err().to_string();
        assert!(error.contains("has no effect without `listen`"), "{setting}: {error}");
    }
}

#[test]
fn a_listener_for_metrics_needs_an_address_and_both_files() {
    let listener = |text: &str| read_text(&format!("{LEAST}[metrics]\n{text}")).map(|file| file.metrics.unwrap());
    assert_eq!(listener("listen = \"[::]:18084\"").unwrap().listen, "[::]:18084".parse().unwrap());
    for (text, problem) in [
        ("", "listen"),
        ("listen = \"18084\"", "must be ADDRESS:PORT"),
        ("listen = \"[::]:1\"\ncertificate = \"c\"", "has no key"),
        ("listen = \"[::]:1\"\nkey = \"k\"", "has no certificate"),
    ] {
        assert!(listener(text).unwrap_err().to_string().contains(problem), "{text}");
    }
}

#[cfg(feature = "kubernetes")]
#[test]
fn the_shipped_manifest_holds_a_fleet_file() {
    let manifest = include_str!("../../../../deploy/kubernetes/manager.yaml");
    let lines =
        manifest.lines().skip_while(|line| *line != "  fleet.toml: |").skip(1).take_while(|line| *line != "---");
    let text = lines.map(str::trim_start).collect::<Vec<_>>().join("\n");
    let file = read_text(&text).unwrap();
    assert!(file.is_of_a_cluster() && file.admin_token.is_some());
}

const MACHINES: &str = "[machines]\nallocate = [\"./cloud\", \"{fleet}\", \"{name}\"]\nlist = [\"./list\", \"{fleet}\"]\n\
    release = [\"./cloud\", \"release\", \"{id}\"]\n";

#[test]
fn machines_take_the_place_of_templates() {
    let levels = "[machines.brokers]\nsize = \"small\"\nlogin = { username = \"fleet\", password_file = \"p\" }\n";
    let file = read_text(&format!("{LEAST}{MACHINES}lag = \"1m\"\n{levels}")).unwrap();
    let templates = |level| file.settings.level(level).unwrap().templates.clone();
    assert_eq!(templates(Level::Broker), [("machine".to_owned(), 1)]);
    assert_eq!(templates(Level::Orchestrator), [("orchestrator".to_owned(), 1)]);
    assert!(file.has_machines(Level::Broker) && !file.keeps_orchestrators());

    let both = format!("{levels}[machines.orchestrators]\n");
    let text = format!("{LEAST}{MACHINES}{both}")
        .replace("name = \"demo\"", "name = \"demo\"\nbus = \"nats://10.0.0.9:4222\"");
    assert!(read_text(&text).unwrap().keeps_orchestrators(), "{text}");
    let with = |command: &str, value: &str| {
        let line = MACHINES.lines().find(|line| line.starts_with(command)).unwrap();
        format!("{}{levels}", MACHINES.replace(line, &format!("{command} = {value}")))
    };
    for (wrong, said) in [
        (MACHINES.to_owned(), "`machines.brokers` and `orchestrators` are both missing"),
        (format!("{MACHINES}{both}"), "a bus that all machines reach"),
        (with("allocate", "[\"a\"]"), "does not pass the name of the machine on"),
        (with("allocate", "[\"a\", \"{name}\", \"{id}\"]"), "which the cloud has not given yet"),
        (with("allocate", "[\"a\", \"{name}\", \"{bus}\"]"), "there is no `fleet.bus`"),
        (with("allocate", "[\"a\", \"{nam}\"]"), "has the unknown placeholder {nam}"),
        (with("allocate", "[]"), "names no program"),
        (with("list", "[\"a\", \"{name}\"]"), "it lists all machines of the fleet"),
        (with("release", "[\"a\"]"), "does not say which machine"),
        (with("list", "[\"a\"]"), "`machines.list` does not say which fleet"),
        (with("allocate", "[\"a\", \"{name}\"]"), "`machines.allocate` does not say which fleet"),
        (levels.to_owned(), "`machines.allocate` is missing"),
        (format!("{MACHINES}tries = 0\n{levels}"), "a whole number from 1 to 100"),
        (format!("{MACHINES}[machines.brokers]\nadmin_port = 1\n"), "unknown key"),
    ] {
        let text = read_text(&format!("{LEAST}{wrong}")).map(drop).unwrap_err().to_string();
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn the_example_with_machines_can_be_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/machines/fleet.toml");
    assert!(FleetFile::load(&path).unwrap_or_else(|error| panic!("{error}")).has_machines(Level::Broker));
}
