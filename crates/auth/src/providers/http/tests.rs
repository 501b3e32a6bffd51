use std::net::TcpListener;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::clock::HandClock;
use crate::fake_server::FakeServer;
use crate::request::{ClientCertificate, Secret};

struct Case {
    server: FakeServer,
    clock: Arc<HandClock>,
    provider: Http,
}

fn case(change: impl FnOnce(&mut HttpSettings)) -> Case {
    let server = FakeServer::start();
    let clock = Arc::new(HandClock::default());
    let mut settings = HttpSettings::with_url(server.url("/auth"));
    change(&mut settings);
    let workshop = Workshop { clock: Arc::clone(&clock) as Arc<dyn Clock>, hashing: Arc::new(Permits::new(1)) };
    let provider = Http::make("callback", &settings, &workshop).unwrap();
    Case { server, clock, provider }
}

impl Case {
    fn decide(&self) -> Decision {
        self.provider.decide(&request(), Context { left: Duration::from_secs(30) })
    }

    fn refusal(&self) -> Refusal {
        match self.decide() {
            Decision::Deny(refusal) => refusal,
            other => panic!("not refused: {other:?}"),
        }
    }
}

fn request() -> Request {
    Request {
        listener: "tls".to_owned(),
        client_id: "c1".to_owned(),
        user_name: Some("ann \"x\"".to_owned()),
        password: Some(Secret::from("hunter2")),
        peer: Some("192.0.2.7:5000".parse().unwrap()),
        certificate: Some(ClientCertificate {
            common_name: Some("cn".to_owned()),
            fingerprint: "ab".to_owned(),
            ..ClientCertificate::default()
        }),
        sni: Some("broker.example".to_owned()),
        ..Request::default()
    }
}

#[test]
fn the_server_gets_the_client_and_connections_are_kept() {
    let case = case(|settings| {
        settings.headers = vec![("Authorization".to_owned(), Secret::from("Bearer token"))];
    });
    for number in 1..=3 {
        case.server.answer(200, r#"{"result": "allow"}"#);
        assert_eq!(case.decide(), Decision::Allow(crate::decision::Identity::default()));
        let question = case.server.questions.recv().unwrap();
        assert_eq!(question.connection, 1, "request {number}");
        assert!(question.head.starts_with("post /auth http/1.1\r\n"));
        assert!(question.head.contains("authorization: bearer token\r\n"));
        let expected = json!({
            "clientid": "c1", "username": "ann \"x\"", "password": "hunter2", "listener": "tls",
            "peerhost": "192.0.2.7", "peerport": "5000", "cert_common_name": "cn", "cert_fingerprint": "ab",
            "tls_server_name": "broker.example",
        });
        assert_eq!(question.body, expected);
    }
}

#[test]
fn a_password_that_is_no_text_goes_as_base64() {
    let request = Request { password: Some(Secret::new(vec![0xff, 0])), ..Request::default() };
    let body: Value = serde_json::from_slice(&question(&request).unwrap()).unwrap();
    assert_eq!(body, json!({"clientid": "", "listener": "", "password_base64": "/wA="}));
}

#[test]
fn an_answer_gives_the_identity_of_the_client() {
    let case = case(|_| {});
    let answer = json!({
        "result": "allow", "is_superuser": true, "client_attrs": {"group": "g1"}, "expire_at": 1_800_000_000,
        "username": "Ann", "acl": [{"permission": "allow", "action": "publish", "topic": "a/#"}],
    });
    case.server.answer(200, &answer.to_string());
    let Decision::Allow(identity) = case.decide() else { panic!("refused") };
    assert!(identity.superuser);
    assert_eq!(identity.user_name.as_deref(), Some("Ann"));
    assert_eq!(identity.attributes, [("group".to_owned(), "g1".to_owned())]);
    assert_eq!(identity.expires_at, Some(1_800_000_000_000));
    assert_eq!(identity.rules.unwrap().rules.len(), 1);
}

#[test]
fn each_status_has_one_meaning() {
    let case = case(|settings| settings.breaker_failures = 100);
    case.server.answer(204, "");
    assert!(matches!(case.decide(), Decision::Allow(_)));
    case.server.answer(200, r#"{"result": "ignore"}"#);
    assert_eq!(case.decide(), Decision::Ignore);
    for (status, body, kind) in [
        (200, r#"{"result": "deny"}"#, RefusalKind::BadCredentials),
        (401, "", RefusalKind::BadCredentials),
        (403, "", RefusalKind::NotAuthorized),
        (500, "", RefusalKind::Unavailable),
        (404, "", RefusalKind::Unavailable),
    ] {
        case.server.answer(status, body);
        assert_eq!(case.refusal().kind, kind, "{status}");
    }
}

#[test]
fn a_redirection_is_not_followed() {
    let case = case(|_| {});
    let elsewhere = "HTTP/1.1 307 X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    case.server.answers.send(elsewhere.to_owned()).unwrap();
    assert_eq!(case.refusal().why, "the server answered with status 307");
}

#[test]
fn an_invalid_answer_refuses_the_client() {
    let case = case(|_| {});
    for body in [
        "",
        "allow",
        "[]",
        "{}",
        r#"{"result": true}"#,
        r#"{"result": "ALLOW"}"#,
        r#"{"result": "allow", "is_superuser": "yes"}"#,
        r#"{"result": "allow", "acl": "all"}"#,
        r#"{"result": "allow", "client_attrs": []}"#,
        r#"{"result": "allow", "expire_at": "soon"}"#,
        r#"{"result": "allow", "username": ""}"#,
    ] {
        case.server.answer(200, body);
        assert_eq!(case.refusal().kind, RefusalKind::Unavailable, "{body}");
    }
}

#[test]
fn an_answer_without_end_is_not_read_to_its_end() {
    let case = case(|_| {});
    let body = "x".repeat(1024 * 1024 + 1);
    case.server.answer(200, &body);
    assert_eq!(case.refusal().why, "the answer is larger than 1 MiB");
}

#[test]
fn a_failing_server_is_not_asked_until_one_request_succeeds() {
    let case = case(|settings| settings.breaker_failures = 2);
    for _ in 0..2 {
        case.server.answer(500, "");
        assert_eq!(case.refusal().why, "the server answered with status 500");
        case.server.questions.recv().unwrap();
    }
    for _ in 0..10 {
        assert!(case.refusal().why.contains("left alone"));
    }
    assert!(case.server.questions.try_recv().is_err(), "no request meanwhile");
    case.clock.advance(10_000);
    case.server.answer(204, "");
    assert!(matches!(case.decide(), Decision::Allow(_)));
    case.server.answer(204, "");
    assert!(matches!(case.decide(), Decision::Allow(_)));
}

#[test]
fn while_the_server_cannot_be_asked_the_setting_decides() {
    let unreachable = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    let deny = case(|settings| settings.url = unreachable());
    assert_eq!(deny.refusal().kind, RefusalKind::Unavailable);
    let ignore = case(|settings| {
        settings.url = unreachable();
        settings.unreachable = WhenUnreachable::Ignore;
    });
    assert_eq!(ignore.decide(), Decision::Ignore);
}

#[test]
fn a_closed_kept_connection_fails_no_login() {
    let case = case(|settings| settings.breaker_failures = 1);
    case.server.answer(204, "");
    assert!(matches!(case.decide(), Decision::Allow(_)));
    // The second request finds the connection closed without an answer, and is sent again on a new one.
    case.server.answers.send(String::new()).unwrap();
    case.server.answer(204, "");
    assert!(matches!(case.decide(), Decision::Allow(_)));
    let connections: Vec<u32> = case.server.questions.try_iter().map(|question| question.connection).collect();
    assert_eq!(connections, [1, 1, 2]);
}

#[test]
fn no_debug_output_shows_a_password_or_a_header() {
    let case = case(|settings| settings.headers = vec![("x".to_owned(), Secret::from("hunter3"))]);
    let shown = format!("{:?} {:?}", request(), case.provider);
    assert!(!shown.contains("hunter"), "{shown}");
}

proptest! {
    #[test]
    fn no_answer_breaks_the_reader(text in "\\{\"result\": \"allow\"(, \"(acl|expire_at|client_attrs|username)\": [\\[\\]{}\"a-z0-9:,-]{0,20}){0,3}\\}|\\PC{0,60}") {
        let _ = answer::read("p", 200, text.as_bytes());
    }
}

#[test]
fn a_mark_is_of_the_server_and_of_no_limit() {
    let mark = |url: &str, change: fn(&mut HttpSettings)| {
        let mut settings = HttpSettings::with_url(url);
        change(&mut settings);
        let workshop = Workshop { clock: Arc::new(HandClock::default()), hashing: Arc::new(Permits::new(1)) };
        Http::make("callback", &settings, &workshop).unwrap().mark(&Identity::default()).unwrap()
    };
    let before = mark("http://127.0.0.1:1/a", |_| {});
    let other = mark("http://127.0.0.1:1/a", |settings| {
        settings.timeout = Duration::from_secs(1);
        settings.concurrency = 99;
        (settings.breaker_failures, settings.breaker_pause) = (1, Duration::ZERO);
        settings.cache_ttl = Duration::ZERO;
        settings.headers = vec![("X-Key".to_owned(), Secret::from("another"))];
    });
    assert_eq!(other, before);
    assert_ne!(mark("http://127.0.0.1:1/b", |_| {}), before);
}
