//! Pipelines in the broker and beside it.

mod bus;
mod full;
mod own;
mod refuse;
mod sources;
mod windows;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate_client::net::{Address, Driver, SocketOptions, Step};
use tidegate_client::{Event, Options, Publish, QoS, TopicNameBuf, Version};

use crate::broker::{Broker, Ended, Folder, PATIENCE, run};

/// Runs a client command against a broker.
fn client(broker: &Broker, arguments: &[&str]) -> Ended {
    let (host, port) = broker.address("mqtt://").rsplit_once(':').unwrap();
    run(&[&arguments[..1], &["-h", host, "-p", port], &arguments[1..]].concat())
}

fn publish(broker: &Broker, client_id: &str, topic: &str, payload: &str) {
    let ended = client(broker, &["pub", "-q", "1", "-i", client_id, "-t", topic, "-m", payload]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
}

/// The output of `hub status --json`, once `wanted` holds for it.
fn status(broker: &Broker, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let admin = format!("http://{}", broker.address("admin=http://"));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let ended = run(&["hub", "status", "--json", "--admin", &admin]);
        let status: serde_json::Value = serde_json::from_str(&ended.out).unwrap_or_default();
        if wanted(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "{status} {}", ended.err);
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// A server that takes batches, answers with a status that can be changed, and reports the batches taken.
struct Server {
    url: String,
    status: Arc<AtomicU16>,
    taken: Receiver<serde_json::Value>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/in", listener.local_addr().unwrap());
        let (tell, taken) = mpsc::channel();
        let status = Arc::new(AtomicU16::new(200));
        let answers = Arc::clone(&status);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (tell, answers) = (tell.clone(), Arc::clone(&answers));
                std::thread::spawn(move || serve(stream.unwrap(), &answers, &tell));
            }
        });
        Self { url, status, taken }
    }

    /// Waits until it has taken each of these numbers.
    fn wait_for(&self, mut wanted: BTreeSet<u64>) {
        while !wanted.is_empty() {
            let batch = self.taken.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{} are missing", wanted.len()));
            for record in batch.as_array().unwrap() {
                wanted.remove(&record["n"].as_u64().unwrap());
            }
        }
    }
}

fn serve(stream: TcpStream, status: &AtomicU16, tell: &mpsc::Sender<serde_json::Value>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let len = head.to_lowercase().split("content-length: ").nth(1)?.lines().next()?.parse().ok()?;
        let mut body = vec![0; len];
        reader.read_exact(&mut body).ok()?;
        let code = status.load(Ordering::Acquire);
        if code == 200 {
            tell.send(serde_json::from_slice(&body).ok()?).ok()?;
        }
        write!(stream, "HTTP/1.1 {code} x\r\ncontent-length: 0\r\n\r\n").ok()?;
    }
}

fn lines(path: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The numbers in a file.
fn numbers(path: &str) -> BTreeSet<u64> {
    lines(path).iter().map(|line| line["n"].as_u64().unwrap()).collect()
}

#[test]
fn the_example_of_the_contract_runs_in_the_broker() {
    let folder = Folder::new();
    let (out, data) = (folder.file("out/readings.ndjson"), folder.file("data"));
    let config = folder.write(
        "hub.toml",
        &format!(
            "[[sink]]\nname = \"archive\"\nkind = \"file\"\npath = \"{out}\"\n\
             [[pipeline]]\nname = \"hot\"\nfrom = [\"plant/+/temp\"]\n\
             sql = \"SELECT payload.temp AS temp, topic, clientid FROM 'plant/+/temp' WHERE payload.temp > 30\"\n\
             to = [\"archive\"]\n"
        ),
    );
    let broker = Broker::start(&["-c", &config, "--data", &data]);
    publish(&broker, "pump-7", "plant/a/temp", r#"{"temp":31.5}"#);
    publish(&broker, "pump-7", "plant/a/temp", r#"{"temp":30}"#);
    publish(&broker, "pump-8", "plant/b/temp", r#"{"temp":99}"#);
    publish(&broker, "pump-8", "plant/b/hum", r#"{"temp":99}"#);
    let status = status(&broker, |status| status["hot"]["out"] == 2 && status["hot"]["in"] == 3);
    assert_eq!((&status["hot"]["failed"], &status["hot"]["waiting"]), (&0.into(), &0.into()), "{status}");
    assert_eq!((&status["hot"]["state"], &status["hot"]["filtered"]), (&"running".into(), &1.into()), "{status}");
    assert!(status["hot"]["lag_s"].is_number(), "{status}");
    let expected = [
        serde_json::json!({ "temp": 31.5, "topic": "plant/a/temp", "clientid": "pump-7" }),
        serde_json::json!({ "temp": 99, "topic": "plant/b/temp", "clientid": "pump-8" }),
    ];
    assert_eq!(lines(&out), expected);
    let (_, metrics) = broker.get("/metrics");
    assert!(metrics.contains("tidegate_hub_messages_total{pipeline=\"hot\",outcome=\"delivered\"} 2\n"), "{metrics}");
    assert!(!broker.ready.contains("tidegate-hub") && broker.ready.matches("mqtt://").count() == 1, "{}", broker.ready);
}

#[test]
fn a_broker_without_a_store_refuses_pipelines_that_need_one() {
    let folder = Folder::new();
    let text = |keep: &str| {
        let out = folder.file("out.ndjson");
        format!(
            "[[sink]]\nname = \"a\"\npath = \"{out}\"\n\
             [[pipeline]]\nname = \"p\"\nfrom = [\"t\"]\nto = [\"a\"]\n{keep}"
        )
    };
    let disk = folder.write("disk.toml", &text(""));
    let ended = run(&["-c", &disk, "--listen", "127.0.0.1:0", "--admin", "off"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert!(ended.err.contains("pipeline `p`") && ended.err.contains("--data"), "{}", ended.err);
    let memory = folder.write("memory.toml", &text("keep = \"memory\"\n"));
    let broker = Broker::start(&["-c", &memory]);
    publish(&broker, "c", "t", "1");
    status(&broker, |status| status["p"]["out"] == 1);
    let wrong = folder.write("wrong.toml", &text("filter = \"payload >\"\n"));
    let checked = run(&["config", "check", &wrong]);
    assert_ne!(checked.code, Some(0));
    let said = format!("{}{}", checked.out, checked.err);
    assert!(said.contains("wrong.toml:8:") && said.contains('^'), "{said}");
}

#[test]
fn messages_wait_for_an_absent_sink_and_for_a_paused_pipeline() {
    let (folder, server) = (Folder::new(), Server::start());
    server.status.store(503, Ordering::Release);
    let config = folder.write(
        "hub.toml",
        &format!(
            "[[sink]]\nname = \"web\"\nkind = \"http\"\nurl = \"{}\"\nretry_min = \"1ms\"\nretry_max = \"10ms\"\n\
             [[pipeline]]\nname = \"p\"\nsql = \"SELECT payload.n AS n FROM 't/#'\"\nto = [\"web\"]\nwindow = 2\n",
            server.url
        ),
    );
    let broker = Broker::start(&["-c", &config, "--data", &folder.file("data")]);
    for number in 0..5 {
        publish(&broker, "c", "t/a", &format!("{{\"n\":{number}}}"));
    }
    let waiting = status(&broker, |it| it["p"]["state"] == "retrying" && it["p"]["waiting"] == 5);
    let error = waiting["p"]["error"].as_str().unwrap();
    assert!(error.starts_with("web: 127.0.0.1:") && error.contains("the server answers 503"), "{waiting}");
    server.status.store(200, Ordering::Release);
    server.wait_for((0..5).collect());
    status(&broker, |it| it["p"]["state"] == "running" && it["p"]["waiting"] == 0 && it["p"]["out"] == 5);
    let admin = format!("http://{}", broker.address("admin=http://"));
    let order = |command: &str, name: &str| run(&["hub", command, name, "--admin", &admin]);
    assert_eq!(order("pause", "p").out, "paused p\n");
    publish(&broker, "c", "t/a", "{\"n\":9}");
    status(&broker, |it| it["p"]["state"] == "paused" && it["p"]["waiting"] == 1);
    assert_eq!(order("resume", "p").out, "resumed p\n");
    server.wait_for(BTreeSet::from([9]));
    let unknown = order("pause", "q");
    assert!(unknown.code == Some(1) && unknown.err.contains("no pipeline `q`"), "{}", unknown.err);
}

#[test]
fn a_replay_needs_no_bus_and_continues_after_kill_9() {
    const ALL: u64 = 2_000;
    let (folder, server) = (Folder::new(), Server::start());
    let config = folder.write(
        "hub.toml",
        &format!(
            "[[sink]]\nname = \"web\"\nkind = \"http\"\nurl = \"{}\"\nbatch_messages = 10\n\
             [[pipeline]]\nname = \"p\"\nkeep = \"1h\"\nwindow = 50\nto = [\"web\"]\n\
             sql = \"SELECT payload.n AS n, topic FROM 'plant/+/temp'\"\n",
            server.url
        ),
    );
    let start = || Broker::start(&["-c", &config, "--data", &folder.file("data")]);
    let broker = start();
    let books = Mutex::new(BTreeSet::new());
    publish_numbers(broker.address("mqtt://"), 0..ALL, &books);
    let all: BTreeSet<u64> = (0..ALL).collect();
    server.wait_for(all.clone());
    status(&broker, |it| it["p"]["waiting"] == 0);
    let admin = format!("http://{}", broker.address("admin=http://"));
    let asked = run(&["hub", "replay", "p", "--from", "1h", "--admin", &admin]);
    assert_eq!((asked.code, asked.err.as_str()), (Some(0), ""));
    broker.signal("KILL");
    broker.wait();
    let broker = start();
    // Messages delivered before the kill may come again; all others have to come.
    server.wait_for(all);
    status(&broker, |it| it["p"]["waiting"] == 0 && it["p"]["failed"] == 0);
}

#[test]
fn a_message_that_cannot_be_worked_on_is_a_dead_letter() {
    let folder = Folder::new();
    let other = Broker::start(&[]);
    let config = folder.write(
        "hub.toml",
        &format!(
            "[[sink]]\nname = \"cloud\"\nkind = \"mqtt\"\nurl = \"mqtt://{}\"\nretain = true\n\
             [[pipeline]]\nname = \"p\"\nfrom = [\"t/#\"]\nset = [\"double = payload.n * 2\"]\n\
             topic = \"'out/' + clientid\"\nto = [\"cloud\"]\ndead_letter_topic = \"dead\"\n",
            other.address("mqtt://")
        ),
    );
    let broker = Broker::start(&["-c", &config, "--data", &folder.file("data")]);
    let subscribed = client(&broker, &["sub", "-i", "keeper", "-c", "-q", "1", "-t", "dead", "-E"]);
    assert_eq!(subscribed.code, Some(0), "{}", subscribed.err);
    publish(&broker, "pump", "t/a", "no json");
    publish(&broker, "pump", "t/a", "{\"n\":4}");
    let status = status(&broker, |it| it["p"]["waiting"] == 0 && it["p"]["in"] == 2);
    assert_eq!((&status["p"]["out"], &status["p"]["failed"]), (&1.into(), &1.into()), "{status}");
    let letter = client(&broker, &["sub", "-i", "keeper", "-c", "-q", "1", "-t", "dead", "-C", "1", "-W", "120"]);
    let letter: serde_json::Value = serde_json::from_str(&letter.out).unwrap();
    assert_eq!((&letter["payload"], &letter["clientid"]), (&"no json".into(), &"pump".into()));
    assert!(letter["dead_letter_reason"].as_str().unwrap().contains("not JSON"), "{letter}");
    let sent = client(&other, &["sub", "-t", "out/pump", "-C", "1", "-W", "120"]);
    let sent: serde_json::Value = serde_json::from_str(&sent.out).unwrap();
    assert_eq!((&sent["double"], &sent["payload"]["n"]), (&8.into(), &4.into()));
}

#[test]
fn processes_beside_a_broker_share_the_work() {
    let folder = Folder::new();
    let broker = Broker::start(&["--data", &folder.file("data")]);
    let address = format!("mqtt://{}", broker.address("mqtt://"));
    let member = |name: &str| {
        let out = folder.file(&format!("{name}.ndjson"));
        let config = folder.write(
            &format!("{name}.toml"),
            &format!(
                "[[sink]]\nname = \"a\"\npath = \"{out}\"\n\
                 [[pipeline]]\nname = \"p\"\nsql = \"SELECT payload.n AS n FROM 't'\"\nto = [\"a\"]\n"
            ),
        );
        let arguments = ["hub", "-c", &config, "--broker", &address, "--member", name, "--admin", "127.0.0.1:0"];
        let member = Broker::start_with(&arguments);
        status(&member, |it| it["p"]["state"] == "running");
        (member, out)
    };
    let (one, other) = (member("one"), member("other"));
    for number in 0..20 {
        publish(&broker, "c", "t", &format!("{{\"n\":{number}}}"));
    }
    let out = |member: &Broker| status(member, |it| it["p"]["waiting"] == 0)["p"]["out"].as_u64().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while out(&one.0) + out(&other.0) < 20 {
        assert!(Instant::now() < deadline);
    }
    let (first, second) = (numbers(&one.1), numbers(&other.1));
    assert!(first.is_disjoint(&second), "each message is taken once: {first:?} {second:?}");
    assert_eq!(first.union(&second).copied().collect::<BTreeSet<_>>(), (0..20).collect());
    let without = run(&["hub", "-c", &folder.file("one.toml")]);
    assert!(
        without.code == Some(2) && without.err.contains("--bus") && without.err.contains("--broker"),
        "{}",
        without.err
    );
}

/// Publishes numbers until they end or the connection does; adds the acknowledged ones to `books`.
fn publish_numbers(address: &str, numbers: std::ops::Range<u64>, books: &Mutex<BTreeSet<u64>>) {
    let (host, port) = address.rsplit_once(':').unwrap();
    let mut options = Options::new(format!("device-{}", numbers.start));
    options.version = Version::V5;
    options.max_queued_messages = usize::MAX;
    let address = Address::Tcp { host: host.to_owned(), port: port.parse().unwrap() };
    let mut driver = Driver::new(options, address, SocketOptions::default()).unwrap();
    driver.connect().unwrap();
    let mut under_way = std::collections::HashMap::new();
    let mut done = 0;
    let count = numbers.end - numbers.start;
    let deadline = Instant::now() + PATIENCE;
    while done < count {
        match driver.next(Some(deadline)) {
            Ok(Step::Event(Event::Connected(_))) => {
                for number in numbers.clone() {
                    let topic = TopicNameBuf::new(format!("plant/{}/temp", number % 7)).unwrap();
                    let publish = Publish::new(topic, format!("{{\"n\":{number}}}")).with_qos(QoS::AtLeastOnce);
                    under_way.insert(driver.client().publish(Instant::now(), publish).unwrap(), number);
                }
            }
            Ok(Step::Event(Event::Published(published))) => {
                assert!(!published.reason_code.is_error(), "{published:?}");
                books.lock().unwrap().extend(under_way.remove(&published.token));
                done += 1;
            }
            Ok(Step::Event(Event::Disconnected(_))) => return,
            Ok(Step::Event(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn nothing_acknowledged_is_missing_in_any_sink_after_kill_9() {
    const ALL: u64 = 5_000;
    let (folder, server) = (Folder::new(), Server::start());
    let (out, data) = (folder.file("out.ndjson"), folder.file("data"));
    let config = folder.write(
        "hub.toml",
        &format!(
            "[[sink]]\nname = \"archive\"\npath = \"{out}\"\n\
             [[sink]]\nname = \"web\"\nkind = \"http\"\nurl = \"{}\"\nretry_min = \"10ms\"\n\
             [[pipeline]]\nname = \"p\"\nsql = \"SELECT payload.n AS n, topic FROM 'plant/+/temp'\"\n\
             to = [\"archive\", \"web\"]\n",
            server.url
        ),
    );
    let books = Arc::new(Mutex::new(BTreeSet::new()));
    let broker = Broker::start(&["-c", &config, "--data", &data]);
    let address = broker.address("mqtt://").to_owned();
    let publisher = {
        let books = Arc::clone(&books);
        std::thread::spawn(move || publish_numbers(&address, 0..ALL, &books))
    };
    let deadline = Instant::now() + PATIENCE;
    while books.lock().unwrap().len() < 2_000 {
        assert!(Instant::now() < deadline && !publisher.is_finished());
        std::thread::park_timeout(Duration::from_millis(1));
    }
    broker.signal("KILL");
    broker.wait();
    publisher.join().unwrap();
    let first = books.lock().unwrap().clone();
    // A torn line, as a crash may leave one.
    std::fs::OpenOptions::new().append(true).open(&out).unwrap().write_all(b"{\"n\":").unwrap();
    let broker = Broker::start(&["-c", &config, "--data", &data]);
    publish_numbers(broker.address("mqtt://"), ALL..ALL + 1_000, &books);
    let all = books.lock().unwrap().clone();
    assert_eq!(all.len(), first.len() + 1_000);
    server.wait_for(all.clone());
    status(&broker, |it| it["p"]["waiting"] == 0);
    let kept = numbers(&out);
    let missing: Vec<&u64> = all.difference(&kept).collect();
    assert!(missing.is_empty(), "acknowledged and not in the file: {missing:?}");
}
