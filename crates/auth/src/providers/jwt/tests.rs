use std::path::Path;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use proptest::prelude::*;
use ring::hmac;
use serde_json::{Value, json};

use super::jwk::Secrets;
use super::*;
use crate::clock::HandClock;
use crate::decision::Identity;
use crate::fake_server::FakeServer;
use crate::permits::Permits;
use crate::request::Secret;
use crate::scratch::Scratch;
use crate::settings::JwtKeys;

const SECRET: &[u8] = b"a shared secret of thirty-two bytes or more, for tests";

/// Keys and tokens made by another program; the tokens end an hour after the clock of tests begins.
fn recorded(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/jwt").join(name)
}

fn tokens() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(recorded("tokens.txt")).unwrap();
    text.lines().map(|line| line.split_once(' ').unwrap()).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

fn token(algorithm: &str) -> String {
    tokens().into_iter().find(|(name, _)| name == algorithm).unwrap().1
}

fn provider(settings: &JwtSettings) -> Jwt {
    let workshop = Workshop { clock: Arc::new(HandClock::default()), hashing: Arc::new(Permits::new(1)) };
    Jwt::make("tokens", settings, &workshop).unwrap()
}

fn decide(provider: &Jwt, password: &str) -> Decision {
    let request = Request { client_id: "c7".to_owned(), password: Some(Secret::from(password)), ..Request::default() };
    provider.decide(&request, Context { left: Duration::from_secs(5) })
}

fn identity(decision: Decision) -> Identity {
    match decision {
        Decision::Allow(identity) => identity,
        other => panic!("not let in: {other:?}"),
    }
}

fn why(decision: Decision) -> String {
    match decision {
        Decision::Deny(refusal) => refusal.why,
        other => panic!("not refused: {other:?}"),
    }
}

/// A provider with the shared secret, after the settings were changed.
fn with_secret(scratch: &Scratch, change: impl FnOnce(&mut JwtSettings)) -> Jwt {
    let mut settings = JwtSettings::with_keys(JwtKeys::SecretFile(scratch.write("secret", [SECRET, b"\n"].concat())));
    change(&mut settings);
    provider(&settings)
}

/// A token signed by HMAC with SHA-256, whatever its header says.
fn signed(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let text = format!("{}.{}", part(header), part(claims));
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes());
    format!("{text}.{}", BASE64URL_NOPAD.encode(mac.as_ref()))
}

fn hs256(claims: &Value) -> String {
    signed(&json!({"alg": "HS256"}), claims, SECRET)
}

const NOW: u64 = HandClock::UNIX_START_MS / 1000;

fn good() -> Value {
    json!({"sub": "meter-7", "exp": NOW + 60})
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = good();
    claims[name] = value;
    claims
}

#[test]
fn tokens_of_another_program_are_verified_with_each_algorithm() {
    let scratch = Scratch::new();
    let public = provider(&JwtSettings::with_keys(JwtKeys::JwksFile(recorded("keys.json"))));
    let shared = with_secret(&scratch, |_| {});
    for (algorithm, token) in tokens() {
        let (right, wrong) = if algorithm.starts_with("HS") { (&shared, &public) } else { (&public, &shared) };
        let identity = identity(decide(right, &token));
        assert_eq!(identity.user_name.as_deref(), Some("meter-7"), "{algorithm}");
        assert_eq!(identity.expires_at, Some((NOW + 3600 + 30) * 1000));
        assert_eq!(identity.rules.unwrap().rules[0].filter, "m/%c/#");
        why(decide(wrong, &token));
    }
    assert_eq!(tokens().len(), 12);
}

#[test]
fn keys_are_read_from_pem_and_from_certificates() {
    for (file, algorithms) in [
        ("rsa.pem", ["RS256", "PS512"].as_slice()),
        ("rsa-certificate.pem", &["RS384", "PS256"]),
        ("elliptic.pem", &["ES256", "ES384", "EdDSA"]),
    ] {
        let provider = provider(&JwtSettings::with_keys(JwtKeys::PemFile(recorded(file))));
        for algorithm in algorithms {
            identity(decide(&provider, &token(algorithm)));
        }
    }
}

#[test]
fn a_changed_token_is_refused() {
    let public = provider(&JwtSettings::with_keys(JwtKeys::JwksFile(recorded("keys.json"))));
    let token = token("ES256");
    let parts: Vec<&str> = token.split('.').collect();
    let claims = BASE64URL_NOPAD.encode(json!({"sub": "admin", "exp": NOW + 60}).to_string().as_bytes());
    assert_eq!(why(decide(&public, &[parts[0], &claims, parts[2]].join("."))), "the token's signature is wrong");
    why(decide(&public, &[parts[0], parts[1], ""].join(".")));
}

/// CVE-2015-9235 and its kin: a public key is not a shared secret, whatever the token says.
#[test]
fn cve_2015_9235_a_public_key_does_not_verify_an_hmac() {
    for file in ["rsa.pem", "elliptic.pem"] {
        let pem = std::fs::read(recorded(file)).unwrap();
        let provider = provider(&JwtSettings::with_keys(JwtKeys::PemFile(recorded(file))));
        let forged = signed(&json!({"alg": "HS256"}), &good(), &pem);
        assert_eq!(why(decide(&provider, &forged)), "no key fits the token's algorithm and key id");
    }
    let mut pinned = JwtSettings::with_keys(JwtKeys::JwksFile(recorded("keys.json")));
    pinned.algorithms = vec!["ES256".to_owned()];
    let pinned = provider(&pinned);
    identity(decide(&pinned, &token("ES256")));
    why(decide(&pinned, &token("RS256")));
}

/// CVE-2015-2951 and its kin: a token without a signature is no token.
#[test]
fn cve_2015_2951_the_algorithm_none_is_never_taken() {
    let scratch = Scratch::new();
    let provider = with_secret(&scratch, |_| {});
    for name in ["none", "None", "NONE", "nOnE", ""] {
        let signed = signed(&json!({"alg": name}), &good(), SECRET);
        why(decide(&provider, &signed));
        let unsigned = format!("{}.", signed.rsplit_once('.').unwrap().0);
        why(decide(&provider, &unsigned));
    }
    why(decide(&provider, &signed(&json!({"typ": "JWT"}), &good(), SECRET)));
    why(decide(&provider, &signed(&json!({"alg": "HS256", "crit": ["b64"], "b64": false}), &good(), SECRET)));
}

#[test]
fn times_are_checked_with_the_leeway() {
    let scratch = Scratch::new();
    let provider = with_secret(&scratch, |_| {});
    let try_with = |name: &str, value: Value| decide(&provider, &hs256(&with(name, value)));
    assert_eq!(identity(try_with("exp", json!(NOW - 29))).expires_at, Some((NOW + 1) * 1000));
    assert_eq!(why(try_with("exp", json!(NOW - 30))), "the token has expired");
    assert_eq!(identity(try_with("exp", json!(1_700_000_000.5))).expires_at, Some((NOW + 30) * 1000 + 500));
    why(try_with("exp", json!("tomorrow")));
    why(try_with("exp", json!(-5)));
    identity(try_with("exp", json!(u64::MAX)));
    for name in ["nbf", "iat"] {
        identity(try_with(name, json!(NOW + 30)));
        why(try_with(name, json!(NOW + 31)));
    }
    assert_eq!(why(decide(&provider, &hs256(&json!({"sub": "a"})))), "the token has no `exp`");
    let lenient = with_secret(&scratch, |settings| settings.require_expiry = false);
    assert_eq!(identity(decide(&lenient, &hs256(&json!({"sub": "a"})))).expires_at, None);
}

#[test]
fn issuer_and_audience_must_match_the_settings() {
    let scratch = Scratch::new();
    let provider = with_secret(&scratch, |settings| {
        settings.issuer = Some("me".to_owned());
        settings.audience = Some("broker".to_owned());
    });
    let claims = |iss: &str, aud: Value| hs256(&json!({"sub": "a", "exp": NOW + 60, "iss": iss, "aud": aud}));
    identity(decide(&provider, &claims("me", json!("broker"))));
    identity(decide(&provider, &claims("me", json!(["x", "broker"]))));
    why(decide(&provider, &claims("you", json!("broker"))));
    why(decide(&provider, &claims("me", json!(["x"]))));
    why(decide(&provider, &hs256(&good())));
}

#[test]
fn claims_become_the_identity_of_the_client() {
    let scratch = Scratch::new();
    let provider = with_secret(&scratch, |settings| {
        settings.user_claim = Some("ext.name".to_owned());
        settings.client_id_claim = Some("device".to_owned());
        settings.tenant_claim = Some("tenant".to_owned());
        settings.superuser_claim = Some("root".to_owned());
    });
    let claims = json!({
        "exp": NOW + 60, "ext": {"name": "Ann"}, "device": "c7", "tenant": "t", "root": true, "level": 3,
        "acl": [{"permission": "deny", "action": "all", "topic": "#"}],
    });
    let identity = identity(decide(&provider, &hs256(&claims)));
    assert_eq!(identity.user_name.as_deref(), Some("Ann"));
    assert_eq!(identity.tenant.as_deref(), Some("t"));
    assert!(identity.superuser);
    assert!(identity.attributes.contains(&("level".to_owned(), "3".to_owned())));
    assert!(!identity.attributes.iter().any(|(name, _)| name == "exp"));
    let mut other = claims.clone();
    other["device"] = json!("c8");
    assert_eq!(why(decide(&provider, &hs256(&other))), "the client id is not what the claim `device` says");
    let mut broken = claims.clone();
    broken["acl"] = json!("everything");
    why(decide(&provider, &hs256(&broken)));
    let mut word = claims;
    word["root"] = json!("true");
    assert!(!self::identity(decide(&provider, &hs256(&word))).superuser);
}

#[test]
fn a_plain_password_is_left_to_the_next_provider() {
    let scratch = Scratch::new();
    let provider = with_secret(&scratch, |_| {});
    for text in ["", "password", "a.b.c", "..", "e30.e30", "W10.e30.AA", "e30.e30.e30.e30"] {
        assert_eq!(decide(&provider, text), Decision::Ignore, "{text}");
    }
    assert_eq!(provider.decide(&Request::default(), Context { left: Duration::ZERO }), Decision::Ignore);
}

#[test]
fn a_token_may_stand_in_the_user_name_and_does_not_become_it() {
    let scratch = Scratch::new();
    let provider = with_secret(&scratch, |settings| {
        settings.token = TokenPlace::UserName;
        settings.user_claim = None;
    });
    let request = Request { user_name: Some(hs256(&good())), ..Request::default() };
    let decision = provider.decide(&request, Context { left: Duration::from_secs(1) });
    assert_eq!(identity(decision).user_name, None);
}

#[test]
fn invalid_keys_are_refused_with_the_fault() {
    let scratch = Scratch::new();
    let problem = |keys: JwtKeys| {
        let workshop = Workshop { clock: Arc::new(HandClock::default()), hashing: Arc::new(Permits::new(1)) };
        Jwt::make("tokens", &JwtSettings::with_keys(keys), &workshop).map(|_| ()).unwrap_err().to_string()
    };
    let short = problem(JwtKeys::SecretFile(scratch.write("short", "too short")));
    assert!(short.contains("at least 32 bytes") && !short.contains("too short"), "{short}");
    assert!(problem(JwtKeys::PemFile(scratch.write("none", "nothing"))).contains("there is no key"));
    let private = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(problem(JwtKeys::PemFile(scratch.write("private", private))).contains("private key"));
    let broken = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";
    assert!(problem(JwtKeys::PemFile(scratch.write("broken", broken))).contains("key 1 cannot be read"));
    assert!(problem(JwtKeys::JwksFile(scratch.write("set", "[]"))).contains("JWK set"));
    assert!(problem(JwtKeys::JwksFile(scratch.path("missing"))).contains("cannot read"));
}

#[test]
fn a_published_set_holds_no_shared_secrets() {
    let set = json!({"keys": [{"kty": "oct", "k": BASE64URL_NOPAD.encode(SECRET)}]}).to_string();
    assert_eq!(jwk::parse_set(set.as_bytes(), Secrets::Allowed).unwrap().len(), 1);
    assert_eq!(jwk::parse_set(set.as_bytes(), Secrets::Skipped).err(), Some(KeyProblem::None));
    let many = json!({"keys": vec![json!({"kty": "OKP", "crv": "Ed25519", "x": "AAAA"}); 65]}).to_string();
    assert_eq!(jwk::parse_set(many.as_bytes(), Secrets::Allowed).err(), Some(KeyProblem::TooMany));
    let pinned = json!({"keys": [{"kty": "oct", "alg": "RS256", "k": BASE64URL_NOPAD.encode(SECRET)}]}).to_string();
    assert_eq!(jwk::parse_set(pinned.as_bytes(), Secrets::Allowed).err(), Some(KeyProblem::Broken(1)));
}

/// A provider whose keys come from a server, and its clock.
fn remote(server: &FakeServer) -> (Jwt, Arc<HandClock>) {
    let clock = Arc::new(HandClock::default());
    let workshop = Workshop { clock: Arc::clone(&clock) as Arc<dyn Clock>, hashing: Arc::new(Permits::new(1)) };
    let keys = JwtKeys::JwksUrl {
        url: server.url("/keys"),
        refresh: Duration::from_secs(600),
        min_refresh: Duration::from_secs(10),
        timeout: Duration::from_secs(30),
        ca_file: None,
    };
    (Jwt::make("tokens", &JwtSettings::with_keys(keys), &workshop).unwrap(), clock)
}

/// The set of keys without the named ones.
fn set_without(names: &[&str]) -> String {
    let mut set: Value = serde_json::from_slice(&std::fs::read(recorded("keys.json")).unwrap()).unwrap();
    let list = set["keys"].as_array_mut().unwrap();
    list.retain(|key| !names.contains(&key["kid"].as_str().unwrap()));
    set.to_string()
}

#[test]
fn keys_are_fetched_once_and_again_when_they_are_old() {
    let server = FakeServer::start();
    let (provider, clock) = remote(&server);
    server.answer(200, &set_without(&[]));
    for _ in 0..3 {
        identity(decide(&provider, &token("ES256")));
    }
    clock.advance(600_000);
    server.answer(200, &set_without(&["p256"]));
    // The set no longer has this key; it was fetched just now, so that it is not fetched once more for it.
    assert_eq!(why(decide(&provider, &token("ES256"))), "no key fits the token's algorithm and key id");
    assert_eq!(server.questions.try_iter().count(), 2);
}

#[test]
fn an_unknown_key_is_fetched_once_for_many_requests() {
    let server = FakeServer::start();
    let (provider, clock) = remote(&server);
    server.answer(200, &set_without(&["ed"]));
    for _ in 0..5 {
        why(decide(&provider, &token("EdDSA")));
    }
    assert_eq!(server.questions.try_iter().count(), 1);
    clock.advance(10_000);
    server.answer(200, &set_without(&[]));
    identity(decide(&provider, &token("EdDSA")));
    assert_eq!(server.questions.try_iter().count(), 1);
}

#[test]
fn keys_stay_while_their_server_does_not_work() {
    let server = FakeServer::start();
    let (provider, clock) = remote(&server);
    server.answer(500, "");
    let Decision::Deny(refusal) = decide(&provider, &token("ES384")) else { panic!("let in") };
    assert_eq!(refusal.kind, RefusalKind::Unavailable);
    clock.advance(10_000);
    server.answer(200, &set_without(&[]));
    identity(decide(&provider, &token("ES384")));
    for broken in ["", "{}", r#"{"keys": []}"#] {
        clock.advance(600_000);
        server.answer(200, broken);
        identity(decide(&provider, &token("ES384")));
    }
    assert_eq!(server.questions.try_iter().count(), 5);
}

proptest! {
    #[test]
    fn no_text_breaks_the_reader_of_tokens(text in "[A-Za-z0-9_.-]{0,120}|\\PC{0,40}") {
        let _ = Token::parse(&text);
    }

    #[test]
    fn no_bytes_break_the_readers_of_keys(
        at in 0usize..2000,
        byte in any::<u8>(),
        noise in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        for file in ["rsa.pem", "elliptic.pem", "rsa-certificate.pem"] {
            let mut text = std::fs::read(recorded(file)).unwrap();
            let place = at % text.len();
            text[place] = byte;
            let _ = pem::parse(&text);
        }
        let mut set = std::fs::read(recorded("keys.json")).unwrap();
        let place = at % set.len();
        set[place] = byte;
        let _ = jwk::parse_set(&set, Secrets::Allowed);
        let _ = jwk::parse_set(&noise, Secrets::Allowed);
        let _ = pem::parse(&noise);
    }
}

#[test]
fn a_token_is_accepted_while_its_key_is_in_the_set() {
    let scratch = Scratch::new();
    let own = json!({"kty": "oct", "kid": "own", "k": BASE64URL_NOPAD.encode(SECRET)});
    let other = json!({"kty": "oct", "kid": "other", "k": BASE64URL_NOPAD.encode(&[7; 40])});
    let with = |name: &str, keys: &[&Value], change: fn(&mut JwtSettings)| {
        let file = scratch.write(name, json!({ "keys": keys }).to_string());
        let mut settings = JwtSettings::with_keys(JwtKeys::JwksFile(file));
        change(&mut settings);
        provider(&settings)
    };
    let ann = identity(decide(&with("one", &[&own], |_| {}), &hs256(&good())));
    let accepts = |provider: Jwt| provider.accepts(&ann, &|mark| Some(mark) == ann.mark);
    assert!(ann.mark.is_some() && accepts(with("two", &[&other, &own], |_| {})), "a key more, in another file");
    assert!(accepts(with("three", &[&own], |settings| settings.leeway = Duration::from_secs(1))));
    assert!(!accepts(with("four", &[&other], |_| {})), "its key is gone");
    for change in [
        (|settings| settings.issuer = Some("issuer".to_owned())) as fn(&mut JwtSettings),
        |settings| settings.audience = Some("audience".to_owned()),
        |settings| settings.user_claim = Some("name".to_owned()),
        |settings| settings.algorithms = vec!["HS512".to_owned()],
    ] {
        assert!(!accepts(with("five", &[&own], change)));
    }
}

#[test]
fn tokens_of_a_server_stay_while_it_has_new_keys() {
    let server = FakeServer::start();
    server.answer(200, &set_without(&[]));
    let (provider, clock) = remote(&server);
    let decision = decide(&provider, &token("ES256"));
    let ann = identity(decision);
    let accepts = |provider: &Jwt| provider.accepts(&ann, &|mark| Some(mark) == ann.mark);
    clock.advance(700_000);
    assert!(accepts(&provider));
    let (fresh, _) = remote(&server);
    assert!(accepts(&fresh), "it has fetched no keys yet");
    let elsewhere = FakeServer::start();
    assert!(!accepts(&remote(&elsewhere).0));
}
