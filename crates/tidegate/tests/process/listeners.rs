//! Listeners for HTTP and CoAP beside MQTT: quotas of tenants, mailboxes, and clients whose user is removed.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

use crate::broker::{Broker, Folder, PATIENCE, run, until};

/// Sends a request and leaves the answer to be read.
fn send(broker: &Broker, method: &str, path: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(broker.address("http://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = "Content-Length: 0\r\n";
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{length}{headers}\r\n")
        .unwrap();
    stream
}

/// Reads an answer to its end.
fn whole(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The status of the answer to a request.
fn status(broker: &Broker, method: &str, path: &str) -> String {
    let answer = whole(send(broker, method, path, ""));
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// Sends a request again until its answer has this status: the places of ended connections are free a little later.
fn succeed(broker: &Broker, method: &str, path: &str, wanted: &str) {
    let mut last = String::new();
    until(&format!("{method} {path}"), || {
        last = status(broker, method, path);
        (last == wanted).then_some(())
    });
}

/// Publishes by MQTT.
fn publishes(broker: &Broker) -> bool {
    let port = broker.address("mqtt://").rsplit_once(':').unwrap().1;
    run(&["pub", "-h", "127.0.0.1", "-p", port, "-q", "1", "-t", "x", "-m", "1"]).code == Some(0)
}

/// A broker whose listeners belong to a tenant with these quotas.
fn of_tenant(folder: &Folder, quotas: &str) -> Broker {
    let listener =
        |(name, scheme): (&str, &str)| format!("[[listener]]\nname = '{name}'\naddress = '{scheme}127.0.0.1:0'\n");
    let listeners: String = [("door", ""), ("web", "http://"), ("sensors", "coap://")].map(listener).concat();
    let tenant = format!("[[tenant]]\nname = 'acme'\nlisteners = ['door', 'web', 'sensors']\n{quotas}");
    let config = folder.write("t.toml", &format!("[access]\ndefault = 'allow'\n{listeners}{tenant}"));
    Broker::start_with(&["--admin", "off", "--config", &config])
}

#[test]
fn a_tenant_at_its_quota_can_delete_its_queues() {
    let folder = Folder::new();
    let broker = of_tenant(&folder, "max_connections = 2\nmax_sessions = 3\n");
    for queue in ["q1", "q2", "q3"] {
        succeed(&broker, "PUT", &format!("/queue/{queue}?filter=t"), "200");
    }
    assert!(!publishes(&broker), "three queues are as many sessions as there may be");
    succeed(&broker, "DELETE", "/queue/q1", "204");
    until("a client of MQTT has the place", || publishes(&broker).then_some(()));
    succeed(&broker, "GET", "/queue/q2?wait=0s", "200");
}

/// A confirmable PUT of CoAP; true if it was answered with 2.04.
fn puts(socket: &UdpSocket, id: u16) -> bool {
    let path = [&[0xb6][..], b"topics", &[0x01], b"x"].concat();
    let request = [&[0x40, 0x03][..], &id.to_be_bytes(), &path, &[0xff], b"1"].concat();
    socket.send(&request).unwrap();
    let mut answer = [0; 256];
    loop {
        let length = socket.recv(&mut answer).unwrap();
        match answer.get(..length).and_then(|answer| answer.get(1)) {
            // An acknowledgement before the answer.
            Some(0) => {}
            code => return code == Some(&0x44),
        }
    }
}

#[test]
fn idle_coap_clients_leave_their_tenant_room() {
    let folder = Folder::new();
    let broker = of_tenant(&folder, "max_connections = 2\nmax_sessions = 2\n");
    let mut clients = Vec::new();
    for _ in 0..5 {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.connect(broker.address("coap://")).unwrap();
        let mut id = 0;
        until("a PUT of CoAP", || {
            id += 1;
            puts(&socket, id).then_some(())
        });
        clients.push(socket);
    }
    until("a client of MQTT has a place", || publishes(&broker).then_some(()));
}

#[test]
fn requests_of_http_leave_no_mailboxes() {
    let folder = Folder::new();
    let listeners =
        "[[listener]]\naddress = '127.0.0.1:0'\n[[listener]]\nname = 'web'\naddress = 'http://127.0.0.1:0'\n";
    let limits = "[node]\nshards = 1\n[limits]\nmax_sessions = 5\n[addresses]\nenabled = true\nguarded = false\n";
    let config = folder.write("t.toml", &format!("{limits}[access]\ndefault = 'allow'\n{listeners}"));
    let broker = Broker::start_with(&["--admin", "off", "--config", &config]);
    for _ in 0..12 {
        assert_eq!(status(&broker, "POST", "/topics/a"), "200");
    }
    assert!(publishes(&broker));
}

#[test]
fn waits_and_streams_of_a_removed_user_end_with_401() {
    let folder = Folder::new();
    let users = folder.write("users", "");
    let set = run(&["passwd", "-b", "-H", "sha512-pbkdf2", "-I", "100", &users, "ann", "x"]);
    assert_eq!(set.code, Some(0), "{}", set.err);
    let listener = "[[listener]]\nname = 'web'\naddress = 'http://127.0.0.1:0'\n";
    let auth = format!("[[auth]]\nkind = 'password-file'\nfile = {users:?}\n[access]\ndefault = 'allow'\n");
    let config = folder.write("t.toml", &format!("{listener}{auth}"));
    let broker = Broker::start_with(&["--admin", "127.0.0.1:0", "--config", &config]);
    let ann = "Authorization: Basic YW5uOng=\r\n";
    let queue = whole(send(&broker, "PUT", "/queue/q?filter=q", ann));
    assert!(queue.starts_with("HTTP/1.1 200 "), "{queue}");
    let stream = send(&broker, "GET", "/topics/s", &format!("{ann}Accept: text/event-stream\r\n"));
    let wait = send(&broker, "GET", "/topics/w?wait=60s", ann);
    let poll = send(&broker, "GET", "/queue/q?wait=60s", ann);
    until("subscriptions", || {
        let (_, metrics) = broker.get("/metrics");
        metrics.contains("\nmqtt_subscriptions{kind=\"plain\"} 3\n").then_some(())
    });
    run(&["passwd", "-D", &users, "ann"]);
    let reloaded = run(&["reload", "--admin", broker.address("admin=")]);
    assert_eq!(reloaded.code, Some(0), "{}", reloaded.err);
    let events = whole(stream);
    assert!(events.contains("event: error\ndata: {") && events.contains("\"status\":401}"), "{events}");
    for answer in [whole(wait), whole(poll)] {
        assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("user name or password"), "{answer}");
    }
}
