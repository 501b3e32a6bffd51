//! Pipelines and bridges as clients of their own broker: bans and quotas of others do not hold for them.

use std::process::Stdio;

use super::{client, publish, status};
use crate::broker::{Broker, Ended, Folder, command, get, run, until};
use crate::ports::free_port;

/// A pipeline whose records and dead letters go to topics.
fn pipeline(name: &str, tenant: &str) -> String {
    format!(
        "[[pipeline]]\nname = '{name}'\n{tenant}from = ['{name}/#']\nsql = \"SELECT payload.n AS n FROM '{name}/#'\"\n\
         topic = \"'out/' + topic\"\nto = ['back']\ndead_letter_topic = 'dead/{name}'\n"
    )
}

fn admin(broker: &Broker, words: &[&str]) -> Ended {
    run(&[words, &["--admin", &format!("http://{}", broker.address("admin=http://"))]].concat())
}

fn stop(broker: Broker) {
    broker.signal("TERM");
    broker.wait();
}

#[test]
fn a_ban_of_loopback_stops_no_pipeline_and_no_bridge() {
    let (folder, other) = (Folder::new(), Broker::start(&[]));
    let door = folder.file("door");
    let text = format!(
        "[[listener]]\naddress = 'tcp://127.0.0.1:0'\n[[listener]]\naddress = 'unix:{door}'\n\
         [[sink]]\nname = 'back'\nkind = 'topic'\nretain = true\n{}\
         [[bridge]]\nname = 'cloud'\nbroker = 'mqtt://{}'\ntopics = ['out/# out 1']\n",
        pipeline("hot", ""),
        other.address("mqtt://")
    );
    let (config, data) = (folder.write("hub.toml", &text), folder.file("data"));
    let start = || Broker::start_with(&["--config", &config, "--data", &data, "--admin", "127.0.0.1:0"]);
    let carried = |number: u32| {
        let payload = format!("{{\"n\": {number}}}");
        let sent = run(&["pub", "--unix", &door, "-q", "1", "-r", "-t", &format!("hot/{number}"), "-m", &payload]);
        assert_eq!((sent.code, sent.err.as_str()), (Some(0), ""));
        let port = other.address("mqtt://").rsplit_once(':').unwrap().1;
        let got = run(&["sub", "-p", port, "-t", &format!("out/hot/{number}"), "-C", "1", "-W", "120"]);
        assert_eq!((got.code, got.out.trim()), (Some(0), format!("{{\"n\":{number}}}").as_str()), "{}", got.err);
    };
    let broker = start();
    let banned = admin(&broker, &["ban", "add", "address", "127.0.0.0/8"]);
    assert_eq!(banned.code, Some(0), "{}", banned.err);
    carried(1);
    stop(broker);
    let broker = start();
    let port = broker.address("mqtt://").rsplit_once(':').unwrap().1;
    let stranger = run(&["pub", "-h", "127.0.0.1", "-p", port, "-t", "hot/a", "-m", "x", "-q", "1"]);
    assert_ne!(stranger.code, Some(0), "the ban holds for clients");
    carried(2);
    let ended = admin(&broker, &["ban", "remove", "address", "127.0.0.0/8"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    publish(&broker, "device", "hot/a", "{\"n\": 3}");
}

#[test]
fn a_tenants_quota_counts_no_pipeline_and_refuses_none() {
    let folder = Folder::new();
    let tenant = "tenant = 'acme'\n";
    let text = format!(
        "[access]\ndefault = 'allow'\n[[listener]]\nname = 'acme'\naddress = 'tcp://127.0.0.1:0'\nallow_anonymous = true\n\
         [[tenant]]\nname = 'acme'\nlisteners = ['acme']\nmax_connections = 2\nmax_sessions = 2\nmax_subscriptions = 2\n\
         [[sink]]\nname = 'back'\nkind = 'topic'\nparallel = 2\n{}{}{}",
        pipeline("p1", tenant),
        pipeline("p2", tenant),
        pipeline("p3", tenant)
    );
    let (config, data) = (folder.write("hub.toml", &text), folder.file("data"));
    let broker = Broker::start_with(&["--config", &config, "--data", &data, "--admin", "127.0.0.1:0"]);
    let (host, port) = broker.address("mqtt://").rsplit_once(':').unwrap();
    let client = |words: &[&str]| command(&[&words[..1], &["-h", host, "-p", port], &words[1..]].concat());
    // The session of one customer, beside which each publisher is the second.
    for name in ["p1", "p2", "p3"] {
        let device = ["sub", "-i", "device", "-c", "-q", "1", "-t", "#"];
        let kept = Ended::from(client(&[&device[..], &["-E"]].concat()).output().unwrap());
        assert_eq!(kept.code, Some(0), "{}", kept.err);
        for payload in ["{\"n\": 7}", "no JSON"] {
            publish(&broker, "publisher", &format!("{name}/a"), payload);
        }
        let take = [&device[..], &["-C", "4", "-W", "120", "-v"]].concat();
        let took = Ended::from(client(&take).stdout(Stdio::piped()).output().unwrap());
        let mut topics: Vec<&str> = took.out.lines().filter_map(|line| line.split(' ').next()).collect();
        topics.sort_unstable();
        let (record, letter, source) = (format!("out/{name}/a"), format!("dead/{name}"), format!("{name}/a"));
        assert_eq!(topics, [&letter[..], &record, &source, &source], "{}", took.err);
    }
    let third = client(&["sub", "-i", "third", "-c", "-t", "x", "-E"]).output().unwrap();
    assert!(third.status.success(), "the publisher's session has ended");
    let fourth = client(&["sub", "-i", "fourth", "-c", "-t", "x", "-E"]).output().unwrap();
    assert!(!fourth.status.success(), "the quota holds for clients");
}

#[test]
fn a_starting_broker_says_why_it_is_not_ready() {
    let folder = Folder::new();
    let text = format!("[[sink]]\nname = 'back'\nkind = 'topic'\n{}", pipeline("hot", ""));
    let (config, data) = (folder.write("hub.toml", &text), folder.file("data"));
    let address = format!("127.0.0.1:{}", free_port());
    let arguments = ["--config", &config, "--data", &data, "--listen", "127.0.0.1:0", "--admin", &address];
    let broker = Broker::start_with(&arguments);
    let banned = admin(&broker, &["ban", "add", "client", "tidegate-hub-hot"]);
    assert_eq!(banned.code, Some(0), "{}", banned.err);
    stop(broker);
    let mut starting = command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let ask = |words: &[&str]| run(&[words, &["--admin", &format!("http://{address}")]].concat());
    until("the refusal of the pipeline", || {
        let ended = ask(&["hub", "status", "--json"]);
        let view: serde_json::Value = serde_json::from_str(&ended.out).unwrap_or_default();
        let waits = view["hot"]["state"] == "connecting" && view["hot"]["error"].is_string();
        assert!(!ended.out.starts_with("{}"), "there are pipelines");
        waits.then_some(())
    });
    let (_, ready) = get(&address, "/readyz").unwrap();
    assert!(ready.starts_with("starting: it waits for the subscriptions of pipeline `hot`: "), "{ready}");
    let why = ask(&["why", "pipeline", "hot"]);
    assert!(why.out.starts_with("pipeline hot is connecting"), "{} {}", why.out, why.err);
    assert!(ask(&["ban", "list"]).out.contains("tidegate-hub-hot"));
    let ended = ask(&["ban", "remove", "client", "tidegate-hub-hot"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    until("the broker", || get(&address, "/readyz").ok().filter(|(_, text)| text == "ready\n"));
    starting.kill().unwrap();
    starting.wait().unwrap();
}

#[test]
fn the_status_of_a_pipeline_says_since_when_it_counts() {
    let folder = Folder::new();
    let text = format!("[[sink]]\nname = 'back'\nkind = 'topic'\n{}", pipeline("hot", ""));
    let (config, data) = (folder.write("hub.toml", &text), folder.file("data"));
    let mut seen = String::new();
    for _ in 0..2 {
        let broker = Broker::start(&["--config", &config, "--data", &data]);
        let view = status(&broker, |view| view["hot"]["since"].is_string());
        let since = view["hot"]["since"].as_str().unwrap().to_owned();
        assert!(since > seen && since.ends_with('Z'), "{seen} then {since}");
        seen = since;
    }
}

#[test]
fn a_pipeline_does_not_take_its_own_messages() {
    let folder = Folder::new();
    let text = "[[listener]]\naddress = 'tcp://127.0.0.1:0'\nallow_anonymous = true\n[[sink]]\nname = 'back'\nkind = 'topic'\n\
                [[pipeline]]\nname = 'echo'\nfrom = ['a/#']\nto = ['back']\n";
    let (config, data) = (folder.write("hub.toml", text), folder.file("data"));
    let broker = Broker::start_with(&["--config", &config, "--data", &data, "--admin", "127.0.0.1:0"]);
    let port = broker.address("mqtt://").rsplit_once(':').unwrap().1.to_owned();
    let watch = |more: &[&str]| {
        let session = ["sub", "-p", &port, "-c", "-i", "watch", "-q", "1", "-t", "a/#"];
        let ended = run(&[&session[..], more].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        ended.out
    };
    watch(&["-E"]);
    // The pipeline has its own copy of a message before the next message: a loop would publish it once more before that.
    for payload in ["1", "2"] {
        publish(&broker, "device", "a/b", payload);
        assert_eq!(watch(&["-C", "2", "-W", "120"]), format!("{payload}\n{payload}\n"));
    }
    publish(&broker, "device", "a/b", "end");
    assert_eq!(watch(&["-C", "2", "-W", "120"]), "end\nend\n");
    stop(broker);
}

#[test]
fn pipelines_in_a_circle_end_each_message() {
    let folder = Folder::new();
    // A condition may end the circle, so the configuration is not refused. This one holds for each message.
    let pipeline = |name: &str, to: &str| {
        format!(
            "[[sink]]\nname = 'to-{to}'\nkind = 'topic'\ntopic = '{to}/x'\n\
             [[pipeline]]\nname = '{name}'\nfrom = ['{name}/x']\nfilter = 'qos >= 0'\nto = ['to-{to}']\n\
             dead_letter_topic = 'dead'\n"
        )
    };
    let (config, data) = (folder.write("hub.toml", &(pipeline("a", "b") + &pipeline("b", "a"))), folder.file("data"));
    let broker = Broker::start(&["--config", &config, "--data", &data]);
    let keeper = ["sub", "-i", "keeper", "-c", "-q", "1", "-t", "dead"];
    assert_eq!(client(&broker, &[&keeper[..], &["-E"]].concat()).code, Some(0));
    publish(&broker, "device", "a/x", "7");
    let is_over =
        |it: &serde_json::Value| it["a"]["looped"] == 1 && ["a", "b"].iter().all(|name| it[name]["waiting"] == 0);
    let view = status(&broker, is_over);
    // Each has published it 8 times.
    let counts = |name: &str| ["in", "out", "failed", "dead_letters"].map(|key| view[name][key].as_u64().unwrap());
    assert_eq!((counts("a"), counts("b")), ([9, 8, 1, 1], [8, 8, 0, 0]), "{view}");
    let why = view["a"]["last_failure"]["why"].as_str().unwrap();
    assert!(why.contains("passed 16 pipelines"), "{why}");
    let letter = client(&broker, &[&keeper[..], &["-C", "1", "-W", "120"]].concat());
    assert!(letter.out.contains("passed 16 pipelines"), "{} {}", letter.out, letter.err);
    let admin = format!("http://{}", broker.address("admin=http://"));
    let table = run(&["hub", "status", "--admin", &admin]);
    assert!(table.out.contains("went round in a loop"), "{}", table.out);
}

#[test]
fn a_record_beyond_the_limit_of_retained_messages_fails() {
    let folder = Folder::new();
    let text = "[retained]\nmax_messages = 1\n\
                [[sink]]\nname = 'last'\nkind = 'topic'\nretain = true\nretry_min = '1ms'\nretry_max = '2ms'\n\
                [[pipeline]]\nname = 'hot'\nfrom = ['in/+']\ntopic = \"'last/' + topic\"\nto = ['last']\n\
                dead_letter_topic = 'dead'\n";
    let (config, data) = (folder.write("hub.toml", text), folder.file("data"));
    let broker = Broker::start(&["--config", &config, "--data", &data]);
    for topic in ["in/1", "in/2", "in/1"] {
        publish(&broker, "device", topic, "7");
    }
    let view = status(&broker, |it| it["hot"]["failed"].as_u64() == Some(1) && it["hot"]["out"].as_u64() == Some(2));
    assert_eq!((&view["hot"]["waiting"], &view["hot"]["state"]), (&0.into(), &"running".into()), "{view}");
    let why = view["hot"]["last_failure"]["why"].as_str().unwrap();
    assert!(why.contains("the limit of retained messages is reached"), "{why}");
}
