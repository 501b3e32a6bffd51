//! Messages between clients of different nodes.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::thread;

use super::{A, B, C, Cluster, NAMES, connect, until};
use crate::broker::{command, get};

#[test]
fn messages_cross_only_to_nodes_with_subscribers() {
    let cluster = Cluster::start(3);
    let mut readers = Vec::new();
    for which in [A, B, C] {
        let (port, id) = (cluster.port(which).to_string(), cluster.id_at((which + 1) % 3, "reader"));
        let arguments =
            ["sub", "-h", "127.0.0.1", "-p", &port, "-i", &id, "-q", "2", "-t", "all/#", "-v", "-C", "9", "-W", "120"];
        readers.push(command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    }
    // Three subscriptions that each of the nodes knows of.
    until("subscribers", || {
        let metric = |which: usize| {
            let (_, metrics) = cluster.node(which).get("/metrics");
            metrics.lines().any(|line| line == "mqtt_subscriptions{kind=\"plain\"} 1")
        };
        [A, B, C].into_iter().all(metric).then_some(())
    });
    for which in [A, B, C] {
        for qos in ["0", "1", "2"] {
            cluster.client(which, &["pub", "-t", "all/x", "-m", &format!("{}{qos}", NAMES[which]), "-q", qos]);
        }
        cluster.client(which, &["pub", "-t", "no/subscriber", "-m", "it", "-q", "1"]);
    }
    for reader in readers {
        let ended = reader.wait_with_output().unwrap();
        let mut lines: Vec<String> = String::from_utf8(ended.stdout).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        let expected: Vec<String> =
            NAMES.iter().flat_map(|name| (0..3).map(move |qos| format!("all/x {name}{qos}"))).collect();
        assert_eq!(lines, expected, "{}", String::from_utf8_lossy(&ended.stderr));
    }
}

#[test]
fn a_retained_message_is_found_at_every_node() {
    let cluster = Cluster::start(3);
    for (number, topic) in ["kept/one", "kept/two", "kept/three"].into_iter().enumerate() {
        cluster.client(number, &["pub", "-t", topic, "-m", topic, "-q", "1", "-r"]);
    }
    for which in [A, B, C] {
        let out = cluster.client(which, &["sub", "-t", "kept/#", "-C", "3", "-W", "120"]);
        let mut lines: Vec<&str> = out.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["kept/one", "kept/three", "kept/two"]);
    }
    cluster.client(C, &["pub", "-t", "kept/two", "-n", "-q", "1", "-r"]);
    let out = cluster.client(A, &["sub", "-t", "kept/#", "-C", "2", "-W", "120"]);
    assert!(!out.contains("two"), "{out}");
}

#[test]
fn a_client_id_is_one_client_on_all_nodes() {
    let cluster = Cluster::start(3);
    for home in [A, B, C] {
        let id = cluster.id_at(home, "twice");
        let mut one = connect(cluster.port(A), &id).unwrap();
        let _other = connect(cluster.port(B), &id).unwrap();
        let mut goodbye = Vec::new();
        one.read_to_end(&mut goodbye).unwrap();
        assert_eq!((goodbye[0], goodbye[2]), (0xe0, 0x8e), "{goodbye:02x?}");
    }
}

#[test]
fn a_session_is_found_wherever_its_client_turns_up() {
    let cluster = Cluster::start(3);
    for home in [A, B, C] {
        let (id, topic) = (cluster.id_at(home, "roams"), format!("in/{home}"));
        cluster.subscribe(A, &id);
        cluster.publish(B, &topic, 0..6);
        cluster.expect_owed(C, &id, 6);
        // Nothing of it comes twice, and the session ends where all know it.
        cluster.client(B, &["sub", "-i", &id, "-t", "in/#", "-E"]);
    }
}

#[test]
fn a_shared_subscription_deals_over_nodes() {
    let cluster = Cluster::start(3);
    let ids = [A, B, C].map(|which| cluster.id_at(which, "worker"));
    for (which, id) in ids.iter().enumerate() {
        cluster.client((which + 1) % 3, &["sub", "-i", id, "-c", "-q", "1", "-t", "$share/g/work/#", "-E"]);
    }
    let (mut readers, (line, lines)) = (Vec::new(), channel());
    for (which, id) in ids.iter().enumerate() {
        let port = cluster.port(which).to_string();
        let arguments =
            ["sub", "-h", "127.0.0.1", "-p", &port, "-i", id, "-c", "-q", "1", "-t", "$share/g/work/#", "-W", "120"];
        let mut reader = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (out, line) = (BufReader::new(reader.stdout.take().unwrap()), line.clone());
        let all_read = thread::spawn(move || out.lines().map_while(Result::ok).for_each(|it| line.send(it).unwrap()));
        readers.push((reader, all_read));
    }
    for number in 0..12 {
        cluster.client(number % 3, &["pub", "-q", "1", "-t", "work/a", "-m", &number.to_string()]);
    }
    let mut all: Vec<String> =
        (0..12).map(|count| until(&format!("{count} and more"), || lines.try_recv().ok())).collect();
    for (mut reader, all_read) in readers {
        reader.kill().unwrap();
        reader.wait().unwrap();
        all_read.join().unwrap();
    }
    // A second copy of a message may have come behind the last one.
    all.extend(lines.try_iter());
    let mut all: Vec<u32> = all.iter().map(|line| line.parse().unwrap()).collect();
    all.sort_unstable();
    assert_eq!(all, (0..12).collect::<Vec<_>>());
}

#[test]
fn a_retained_message_is_read_over_http_at_every_node() {
    let cluster = Cluster::of(3, "10s", None, Box::new(super::Nats::start()), &["--listen=http://127.0.0.1:0"]);
    for home in [A, B, C] {
        let topic = cluster.id_at(home, "kept");
        cluster.client(A, &["pub", "-t", &topic, "-m", "21.5", "-q", "1", "-r"]);
        for which in [A, B, C] {
            let address = cluster.node(which).address("http://");
            let read = get(address, &format!("/topics/{topic}")).unwrap();
            assert_eq!(read, ("200".to_owned(), "21.5".to_owned()), "{} asked of {}", NAMES[home], NAMES[which]);
            let none = get(address, &format!("/topics/{}", cluster.id_at(home, "none"))).unwrap();
            assert_eq!(none.0, "404", "{}", none.1);
        }
    }
    // As clients do behind a load balancer.
    let (topic, address) = (cluster.id_at(A, "kept"), cluster.node(B).address("http://"));
    std::thread::scope(|scope| {
        // On a busy machine a read may wait longer than the node lets it: then it says so, and a client asks again.
        let read = || {
            until("one of 32 reads at once", || {
                let (code, body) = get(address, &format!("/topics/{topic}")).unwrap();
                assert!(["200", "421", "503"].contains(&code.as_str()), "{code}: {body}");
                (code == "200").then_some(body)
            })
        };
        let reads: Vec<_> = (0..32).map(|_| scope.spawn(read)).collect();
        for read in reads {
            assert_eq!(read.join().unwrap(), "21.5");
        }
    });
}
