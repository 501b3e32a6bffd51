//! The console over a real socket: its answers and its limits.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod broker;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_admin::members::BanChanged;
use tidegate_admin::{ClientEntry, Clients, DrainRequest, MemberAnswer, Story};
use tidegate_console::api::Access;
use tidegate_console::{Console, ConsoleError, Limits, Running, metrics};

use broker::{Broker, HUNG, Others, READY, STOPPING, status};

struct Fixture {
    broker: Arc<Broker>,
    address: std::net::SocketAddr,
    running: Running,
}

impl Fixture {
    fn start(limits: Limits) -> Self {
        Self::guarded(limits, &Access::local())
    }

    fn guarded(limits: Limits, access: &Access) -> Self {
        let broker = Arc::new(Broker::default());
        let console = Console::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = console.address();
        let running = console.start(limits, access, Arc::clone(&broker)).unwrap();
        Self { broker, address, running }
    }

    /// Sends a request as it is and reads until the console closes.
    fn raw(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        // A reset after an answer is as good an end as any.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    fn get(&self, path: &str) -> String {
        self.raw(format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").as_bytes())
    }

    /// Sends a request with a body and any headers.
    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n");
        self.raw(format!("{head}Content-Length: {length}\r\n{headers}\r\n{body}").as_bytes())
    }
}

fn code(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn readiness_follows_the_broker_and_health_does_not() {
    let fixture = Fixture::start(Limits::default());
    for (phase, expected, word) in [(0, "503", "starting"), (READY, "200", "ready"), (STOPPING, "503", "stopping")] {
        fixture.broker.phase.store(phase, Ordering::Relaxed);
        let answer = fixture.get("/readyz");
        assert_eq!(code(&answer), expected, "{answer}");
        assert!(answer.ends_with(&format!("{word}\n")), "{answer}");
        assert_eq!(code(&fixture.get("/healthz")), "200");
    }
    *fixture.broker.block_reason.lock().unwrap() = Some("the disk is full".to_owned());
    fixture.broker.phase.store(0, Ordering::Relaxed);
    assert!(fixture.get("/readyz").ends_with("\r\n\r\nstarting: the disk is full\n"), "the reason of the wait");
    fixture.broker.phase.store(READY, Ordering::Relaxed);
    let answer = fixture.get("/readyz");
    assert!(code(&answer) == "503" && answer.ends_with("\r\n\r\nthe disk is full\n"), "{answer}");
    *fixture.broker.block_reason.lock().unwrap() = None;
    assert_eq!(code(&fixture.get("/readyz")), "200");
    fixture.running.stop();
}

#[test]
fn metrics_are_answered_as_prometheus_reads_them() {
    let fixture = Fixture::start(Limits::default());
    let answer = fixture.get("/metrics");
    assert_eq!(code(&answer), "200");
    assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
    for sample in ["mqtt_connections 2", "tidegate_group_messages_kept 9", "tidegate_group_messages_not_kept_total 8"] {
        assert!(answer.contains(&format!("\n{sample}\n")), "{answer}");
    }
    fixture.broker.phase.store(HUNG, Ordering::Relaxed);
    assert_eq!(code(&fixture.get("/metrics")), "503");
    fixture.running.stop();
}

#[test]
fn the_first_page_names_paths_that_are_there() {
    let fixture = Fixture::start(Limits::default());
    let index = fixture.get("/");
    let paths: Vec<&str> = index.lines().filter(|line| line.starts_with('/')).collect();
    assert!(["/api/v1/cluster", "/api/v1/totals", "/metrics"].iter().all(|path| paths.contains(path)), "{index}");
    for path in paths {
        assert!(!fixture.get(path).contains("there is /metrics"), "{path}");
    }
    fixture.running.stop();
}

#[test]
fn other_paths_and_methods_are_refused() {
    let fixture = Fixture::start(Limits::default());
    assert_eq!(code(&fixture.get("/api")), "404");
    let post = fixture.raw(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    assert_eq!(code(&post), "405");
    assert_eq!(code(&fixture.raw(b"nonsense\r\n\r\n")), "400");
    fixture.running.stop();
}

#[test]
fn a_head_too_long_is_refused() {
    let fixture = Fixture::start(Limits { max_header_size: 8 * 1024, ..Limits::default() });
    let request = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(9 * 1024));
    assert_eq!(code(&fixture.raw(request.as_bytes())), "431");
    fixture.running.stop();
}

#[test]
fn a_head_that_never_ends_is_cut_off() {
    let fixture = Fixture::start(Limits { header_timeout: Duration::from_millis(20), ..Limits::default() });
    // The read ends because the console closes; no clock is looked at.
    let answer = fixture.raw(b"GET / HTTP/1.1\r\nHost: x\r\n");
    assert!(answer.is_empty() || code(&answer) == "408", "{answer}");
    fixture.running.stop();
}

/// Nothing but room made for it lets health be answered here: silent clients may stay for an hour.
#[test]
fn health_is_answered_while_clients_hold_connections_open() {
    for max_connections in [1, 3] {
        let limits = Limits { max_connections, header_timeout: Duration::from_secs(3600), ..Limits::default() };
        let fixture = Fixture::start(limits);
        let silent: Vec<TcpStream> = (0..10).map(|_| TcpStream::connect(fixture.address).unwrap()).collect();
        for mut stream in &silent {
            // Half a request is as bad as none.
            let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\n");
        }
        for _ in 0..5 {
            assert_eq!(code(&fixture.get("/healthz")), "200");
        }
        drop(silent);
        fixture.running.stop();
    }
}

#[test]
fn bans_are_added_listed_and_removed() {
    let fixture = Fixture::start(Limits::default());
    let json = "Content-Type: application/json\r\n";
    let added = fixture.send("POST", "/api/v1/bans", json, r#"{"client": "a/b c", "reason": "why", "for_seconds": 5}"#);
    assert!(added.contains(r#"{"closed":1,"nodes":[{"node":"a","closed":1}],"unreachable":[]}"#), "{added}");
    let listed = fixture.get("/api/v1/bans");
    for part in [r#""name":"a/b c""#, r#""kind":"client""#, r#""until_ms":5000"#, r#""origin":"operator""#] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert_eq!(code(&fixture.send("DELETE", "/api/v1/bans?client=a%2Fb+c", "", "")), "200");
    let gone = fixture.send("DELETE", "/api/v1/bans?client=a%2Fb+c", "", "");
    assert!(code(&gone) == "409" && gone.contains("there is no such ban"), "{gone}");
    assert!(fixture.get("/api/v1/bans").contains("\"bans\":[]"));
    assert_eq!(code(&fixture.send("POST", "/api/v1/bans", json, r#"{"client": "c", "tenant": "acme"}"#)), "200");
    assert!(fixture.get("/api/v1/bans").contains(r#""tenant":"acme""#));
    assert_eq!(code(&fixture.send("DELETE", "/api/v1/bans?client=c", "", "")), "409", "another tenant's");
    assert_eq!(code(&fixture.send("DELETE", "/api/v1/bans?tenant=acme&client=c", "", "")), "200");
    assert_eq!(code(&fixture.send("POST", "/api/v1/bans", "", r#"{"client": "x"}"#)), "415", "as a form would come");
    assert_eq!(code(&fixture.send("POST", "/api/v1/bans", json, "{}")), "400");
    let long = format!("{{\"client\": \"{}\"}}", "x".repeat(300 * 1024));
    let refused = fixture.send("POST", "/api/v1/bans", json, &long);
    assert!(
        code(&refused) == "413" && refused.contains(r#"{"error":"the body has more than 262144 bytes"}"#),
        "{refused}"
    );
    fixture.running.stop();
}

#[test]
fn a_node_answers_for_all_nodes_and_names_the_silent_ones() {
    let fixture = Fixture::start(Limits::default());
    let client = ClientEntry { client: "aa".to_owned(), ..ClientEntry::default() };
    let answers = vec![
        MemberAnswer::Clients(Clients { clients: vec![client], ..Clients::default() }),
        MemberAnswer::Why(Story { suppressed: 3, ..Story::default() }),
        MemberAnswer::BanChanged(BanChanged { changed: true, closed: 4 }),
        MemberAnswer::Kicked(5),
    ];
    *fixture.broker.others.lock().unwrap() = Some(Others { answers });
    let clients = fixture.get("/api/v1/clients?limit=1000");
    for part in [r#""client":"aa","node":"b""#, r#""client":"-0","node":"a""#, r#""unreachable":["c"]"#] {
        assert!(clients.contains(part), "{part}: {clients}");
    }
    let story = fixture.get("/api/v1/why?client=x");
    assert!(
        story.contains(r#""suppressed":3,"nodes":["a","b"],"unreachable":["c"]"#) && story.contains(r#""node":"a""#),
        "{story}"
    );
    let json = "Content-Type: application/json\r\n";
    let banned = fixture.send("POST", "/api/v1/bans", json, r#"{"client": "x"}"#);
    assert!(banned.contains(r#""closed":5"#) && banned.contains(r#"{"node":"b","closed":4}"#), "{banned}");
    let kicked = fixture.send("POST", "/api/v1/kick", json, r#"{"client": "x"}"#);
    assert!(kicked.contains(r#""closed":7"#) && kicked.contains(r#""unreachable":["c"]"#), "{kicked}");
    assert_eq!(code(&fixture.send("POST", "/api/v1/kick", "", r#"{"client": "x"}"#)), "415");
    // Only the other node has the ban.
    assert_eq!(code(&fixture.send("DELETE", "/api/v1/bans?user=y", "", "")), "200");
    let answers = vec![MemberAnswer::Refused("it is full".to_owned())];
    *fixture.broker.others.lock().unwrap() = Some(Others { answers });
    let refused = fixture.send("POST", "/api/v1/bans", json, r#"{"client": "x"}"#);
    assert!(code(&refused) == "409" && refused.contains("node b: it is full"), "{refused}");
    fixture.running.stop();
}

#[test]
fn a_story_has_reason_text_and_advice() {
    let fixture = Fixture::start(Limits::default());
    let story = fixture.get("/api/v1/why?client=dev%20ice");
    for part in [
        r#""client":"dev ice""#,
        r#""number":19"#,
        r#""label":"bad_credentials""#,
        r#""text":"user name or password was refused""#,
        r#""advice":"Correct the credentials.""#,
        r#""code":134"#,
        r#""suppressed":2"#,
    ] {
        assert!(story.contains(part), "{part}: {story}");
    }
    for wrong in ["/api/v1/why", "/api/v1/why?client=a&topic=b", "/api/v1/why?who=me", "/api/v1/why?topic=t"] {
        assert_eq!(code(&fixture.get(wrong)), "400", "{wrong}");
    }
    fixture.running.stop();
}

#[test]
fn a_fleet_is_shown_and_changed_on_command() {
    let fixture = Fixture::start(Limits::default());
    let path = "/api/v1/fleet/brokers/b-1";
    let body = r#"{"address": "mqtt://127.0.0.1:1884"}"#;
    assert_eq!(code(&fixture.send("PUT", path, "", body)), "403", "without the header");
    let meant = "Tidegate-Command: fleet\r\n";
    assert_eq!(code(&fixture.send("PUT", path, meant, "{}")), "400");
    assert_eq!(code(&fixture.send("PUT", path, meant, body)), "200");
    let shown = fixture.get("/api/v1/fleet");
    for part in [r#""name":"b-1""#, r#""owed":7"#, r#""state":"serving""#, r#""policy":"topic-hash""#, r#""clients":5"#]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let drain = format!("{path}/drain");
    assert_eq!(code(&fixture.send("POST", &drain, "", "")), "403");
    assert_eq!(code(&fixture.send("POST", &drain, meant, "")), "200");
    assert_eq!(code(&fixture.send("POST", "/api/v1/fleet/brokers/x/drain", meant, "")), "409");
    assert_eq!(code(&fixture.send("DELETE", path, meant, "")), "409", "it owes messages");
    assert_eq!(code(&fixture.send("DELETE", &format!("{path}?force=maybe"), meant, "")), "400");
    assert_eq!(code(&fixture.send("DELETE", &format!("{path}?force=true"), "", "")), "403");
    assert_eq!(code(&fixture.send("DELETE", &format!("{path}?force=true"), meant, "")), "200");
    assert!(fixture.get("/api/v1/fleet").contains(r#""brokers":[]"#));
    fixture.running.stop();
}

#[test]
fn clients_are_sent_elsewhere_and_taken_again() {
    let fixture = Fixture::start(Limits::default());
    let meant = "Tidegate-Command: fleet\r\n";
    let path = "/api/v1/drain";
    assert!(fixture.get(path).contains(r#""draining":false"#));
    assert_eq!(code(&fixture.send("POST", path, "", "{}")), "403");
    assert_eq!(code(&fixture.send("POST", path, meant, r#"{"per_second": 0}"#)), "400");
    let body = r#"{"server_reference": "b:1883", "per_second": 50, "evict_after_s": 1}"#;
    assert_eq!(code(&fixture.send("POST", path, meant, body)), "200");
    let asked = fixture.broker.drain.lock().unwrap().clone().unwrap();
    assert_eq!(asked, DrainRequest { server_reference: Some("b:1883".to_owned()), per_second: 50, evict_after_s: 1 });
    assert!(fixture.get(path).contains(r#""draining":true"#));
    assert_eq!(code(&fixture.send("DELETE", path, meant, "")), "200");
    assert!(fixture.get(path).contains(r#""draining":false"#));
    fixture.running.stop();
}

#[test]
fn totals_are_of_all_members() {
    let fixture = Fixture::start(Limits::default());
    let totals = fixture.get("/api/v1/totals");
    assert_eq!(code(&totals), "200", "{totals}");
    for part in [r#""sum":{"clients_connected":"#, r#""nodes":[{"node":"#, r#""unreachable":["#] {
        assert!(totals.contains(part), "{part}: {totals}");
    }
    fixture.running.stop();
}

#[test]
fn slow_clients_are_named_as_many_as_are_asked_for() {
    let fixture = Fixture::start(Limits::default());
    let slow = fixture.get("/api/v1/slow");
    assert_eq!((code(&slow), slow.matches("slow-").count()), ("200", 20), "{slow}");
    for part in
        [r#""client":"slow-0""#, r#""unacknowledged_packet_id":7"#, r#""waiting_ms":31000"#, r#""queued_messages":5"#]
    {
        assert!(slow.contains(part), "{part}: {slow}");
    }
    assert_eq!(fixture.get("/api/v1/slow?limit=2").matches("slow-").count(), 2);
    for wrong in ["/api/v1/slow?limit=0", "/api/v1/slow?limit=1001", "/api/v1/slow?limit=a", "/api/v1/slow?top=1"] {
        assert_eq!(code(&fixture.get(wrong)), "400", "{wrong}");
    }
    fixture.running.stop();
}

#[test]
fn a_list_of_clients_has_the_limit_and_says_if_there_are_more() {
    let fixture = Fixture::start(Limits::default());
    let all = fixture.get("/api/v1/clients?containing=sensor");
    assert_eq!((code(&all), all.matches("sensor-").count()), ("200", 100), "{all}");
    assert!(all.contains(r#""more":true"#) && all.contains(r#""filters":[]"#), "{all}");
    let rest = fixture.get("/api/v1/clients?limit=150&filters=2&after=a%26b&after_tenant=acme");
    for part in [
        r#""more":false"#,
        r#""filters":["t/#","t/#"]"#,
        r#""user":"a&b""#,
        r#""tenant":"acme""#,
        r#""connected":false"#,
    ] {
        assert!(rest.contains(part), "{part}: {rest}");
    }
    for wrong in ["limit=0", "limit=1001", "filters=101", "limit=x", "client=a"] {
        assert_eq!(code(&fixture.get(&format!("/api/v1/clients?{wrong}"))), "400", "{wrong}");
    }
    fixture.running.stop();
}

#[test]
fn a_browser_gets_a_page_that_loads_nothing_but_its_own_files() {
    let fixture = Fixture::start(Limits::default());
    let page = fixture.send("GET", "/", "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n", "");
    assert_eq!(code(&page), "200");
    assert!(page.contains("content-type: text/html; charset=utf-8") && page.contains("<!doctype html>"), "{page}");
    assert!(
        page.contains("content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';"),
        "{page}"
    );
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script>"), "{page}");
    for (path, kind) in [("/console.js", "text/javascript"), ("/console.css", "text/css")] {
        let file = fixture.get(path);
        assert!(code(&file) == "200" && file.contains(&format!("content-type: {kind}; charset=utf-8")), "{file}");
        assert!(page.contains(&path[1..]), "the page does not load {path}");
    }
    let text = fixture.get("/");
    assert!(text.contains("content-type: text/plain") && text.contains("/api/v1/clients"), "{text}");
    fixture.running.stop();
}

#[test]
fn the_api_is_behind_its_token_and_health_is_not() {
    let access = Access::remote(false).with_token(&"0123456789abcdef".parse().unwrap());
    let fixture = Fixture::guarded(Limits::default(), &access);
    let token = "Authorization: Bearer 0123456789abcdef\r\n";
    for path in ["/api/v1/bans", "/api/v1/why?client=c", "/api/v1/slow", "/metrics"] {
        assert_eq!(code(&fixture.get(path)), "401", "{path}");
        assert_eq!(code(&fixture.send("GET", path, token, "")), "200", "{path}");
    }
    assert_eq!(code(&fixture.get("/healthz")), "200");
    assert_eq!(code(&fixture.get("/readyz")), "503", "not ready, but answered");
    fixture.running.stop();
    let fixture = Fixture::start(Limits::default());
    let page = fixture.send("GET", "/api/v1/bans", "Origin: http://evil.example\r\n", "");
    assert_eq!(code(&page), "403");
    fixture.running.stop();
}

#[test]
fn a_taken_address_is_said_to_be_taken() {
    let first = Console::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let error = Console::bind(first.address()).unwrap_err();
    assert!(matches!(&error, ConsoleError::Bind { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse));
    let text = error.to_string();
    assert!(text.contains(&first.address().to_string()), "{text}");
}

#[test]
fn every_line_of_the_exposition_belongs_to_its_metric() {
    let text = metrics::exposition(&status());
    let mut current = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            current = rest.split(' ').next().unwrap();
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            assert!(name == current || of_histogram == Some(current), "{name} below {current}");
            line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        }
    }
    for expected in [
        "mqtt_packets_total{type=\"connect\",direction=\"received\"} 3",
        "mqtt_messages_total{direction=\"sent\",qos=\"2\"} 7",
        "mqtt_messages_dropped_total{reason=\"message_expired\"} 5",
        "mqtt_connect_total{result=\"accepted\"} 2",
        "tidegate_build_info{version=\"1.2.3\"} 1",
        "tidegate_shards 4",
        "tidegate_connections_refused_total{reason=\"banned\"} 4",
        "tidegate_bans_added_total{origin=\"operator\"} 1",
        "tidegate_tenant_holdings{tenant=\"acme\",kind=\"subscriptions\"} 5",
        "tidegate_tenant_messages_total{tenant=\"acme\",direction=\"received\"} 7",
        "tidegate_tenant_connection_seconds_total{tenant=\"acme\"} 1.5",
        "tidegate_tenant_quota{tenant=\"acme\",kind=\"connections\"} 3",
        "tidegate_tenant_refused_total{tenant=\"acme\",kind=\"connections\"} 1",
        "tidegate_bridge_connected{bridge=\"cloud\",end=\"local\"} 1",
        "tidegate_bridge_connected{bridge=\"cloud\",end=\"remote\"} 0",
        "tidegate_bridge_messages_total{bridge=\"cloud\",direction=\"in\"} 8",
        "tidegate_bridge_dropped_total{bridge=\"cloud\",direction=\"out\"} 9",
        "tidegate_bridge_looped_total{bridge=\"cloud\",direction=\"out\"} 2",
        "tidegate_bridge_beyond_window_total{bridge=\"cloud\",end=\"remote\"} 5",
        "tidegate_loop_lag_seconds 1.5",
        "tidegate_store_syncs_total 0",
        "tidegate_http_requests_total{route=\"queue\",outcome=\"refused\"} 3",
        "tidegate_http_messages_sent_total{way=\"history\"} 5",
        "tidegate_http_message_bytes_sent_total{way=\"history\"} 600",
        "tidegate_http_connections_refused_total 4",
        "tidegate_http_websockets 1",
        "tidegate_coap_requests_total{method=\"publish\",outcome=\"answered\"} 9",
        "tidegate_coap_bytes_total{direction=\"sent\"} 120",
        "tidegate_coap_dropped_total{cause=\"unproven\"} 2",
        "tidegate_coap_sessions 5",
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected}\n{text}");
    }
    assert!(!text.contains("type=\"connack\",direction=\"received\""));
    assert!(!text.contains("tidegate_tenant_quota{tenant=\"acme\",kind=\"sessions\"}"), "there is no limit");
}

#[test]
fn names_follow_the_conventions() {
    let mut names: Vec<&str> = metrics::all().map(|metric| metric.name).collect();
    for metric in metrics::all() {
        let known = ["mqtt_", "tidegate_", "process_"].iter().any(|prefix| metric.name.starts_with(prefix));
        assert!(known, "{}", metric.name);
        assert_eq!(metric.name.ends_with("_total"), metric.kind == metrics::Kind::Counter, "{}", metric.name);
        assert!(metric.help.ends_with('.'), "{}", metric.name);
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), metrics::all().count());
}

#[test]
fn the_reference_has_each_metric() {
    let page = metrics::page();
    for metric in metrics::all() {
        let row = format!("\n| `{}` | {} | ", metric.name, metric.kind.name());
        assert!(page.contains(&row) && page.contains(metric.help), "{}", metric.name);
    }
}
