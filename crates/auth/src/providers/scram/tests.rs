use std::time::Duration;

use proptest::prelude::*;

use super::message::{ClientFinal, ClientFirst, MessageError};
use super::*;
use crate::clock::HandClock;
use crate::decision::{Refusal, RefusalKind};
use crate::password::{HashKind, UserFile, UserName};
use crate::permits::Permits;
use crate::provider::Step;
use crate::request::{Enhanced, Secret};
use crate::scratch::Scratch;

/// The example of RFC 7677, section 3: user `user`, password `pencil`.
const CLIENT_FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
const CLIENT_FINAL: &str =
    "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
const SERVER_FINAL: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

/// The line of that user in a file.
fn example_line() -> String {
    let salt = data_encoding::BASE64.decode(b"W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    let hash = ScramHash::derive(b"pencil", std::num::NonZeroU32::new(4096).unwrap(), salt);
    format!("user:{hash}\n")
}

fn provider(scratch: &Scratch) -> Scram {
    let file = scratch.write("users", example_line());
    let workshop = Workshop { clock: Arc::new(HandClock::default()), hashing: Arc::new(Permits::new(1)) };
    Scram::load("scram", &ScramSettings { file }, &workshop).unwrap()
}

fn conversation(provider: &Scram) -> Conversation {
    Conversation::new(Arc::clone(&provider.name), Arc::clone(&provider.users)).with_nonce(SERVER_NONCE)
}

fn refusal(step: Step) -> Refusal {
    match step {
        Step::Done(Decision::Deny(refusal), None) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

/// The answer to the first message, as text.
fn challenge(conversation: &mut Conversation, first: &str) -> String {
    match conversation.step(first.as_bytes()) {
        Step::Continue(data) => String::from_utf8(data).unwrap(),
        other @ Step::Done(..) => panic!("no challenge: {other:?}"),
    }
}

/// The last message of a client that knows a password.
fn answer(first_bare: &str, header: &str, challenge: &str, password: &str) -> String {
    let field = |name: &str| challenge.split(',').find_map(|part| part.strip_prefix(name)).unwrap();
    let salt = data_encoding::BASE64.decode(field("s=").as_bytes()).unwrap();
    let rounds = field("i=").parse().unwrap();
    let mut salted = [0; 32];
    ring::pbkdf2::derive(ring::pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password.as_bytes(), &mut salted);
    let client_key = hmac_sha256(&salted, b"Client Key");
    let header = data_encoding::BASE64.encode(header.as_bytes());
    let without_proof = format!("c={header},r={}", field("r="));
    let signed = format!("{first_bare},{challenge},{without_proof}");
    let signature = hmac_sha256(&crate::password::sha256(&client_key), signed.as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, mask)| key ^ mask).collect();
    format!("{without_proof},p={}", data_encoding::BASE64.encode(&proof))
}

#[test]
fn the_example_of_rfc_7677_goes_byte_by_byte() {
    let scratch = Scratch::new();
    let mut conversation = conversation(&provider(&scratch));
    assert_eq!(challenge(&mut conversation, CLIENT_FIRST), SERVER_FIRST);
    let Step::Done(Decision::Allow(identity), Some(data)) = conversation.step(CLIENT_FINAL.as_bytes()) else {
        panic!("refused");
    };
    assert_eq!(String::from_utf8(data).unwrap(), SERVER_FINAL);
    assert_eq!(identity.user_name.as_deref(), Some("user"));
}

#[test]
fn a_wrong_password_and_an_unknown_user_look_the_same() {
    let scratch = Scratch::new();
    let provider = provider(&scratch);
    let mut refusals = Vec::new();
    for user in ["user", "unknown"] {
        let mut conversation = conversation(&provider);
        let bare = format!("n={user},r=abc");
        let challenge = challenge(&mut conversation, &format!("n,,{bare}"));
        assert!(challenge.contains(",i=4096"));
        let salt = challenge.split(',').find_map(|part| part.strip_prefix("s=")).unwrap().len();
        assert_eq!(salt, "W22ZaJ0SNY7soEsUEjb6gQ==".len());
        let last = answer(&bare, "n,,", &challenge, "wrong");
        refusals.push(refusal(conversation.step(last.as_bytes())));
    }
    assert_eq!(refusals[0], refusals[1]);
    assert_eq!(refusals[0].kind, RefusalKind::BadCredentials);
}

#[test]
fn the_salt_of_an_unknown_user_stays_the_same_over_a_restart() {
    let scratch = Scratch::new();
    let ask = |user: &str| challenge(&mut conversation(&provider(&scratch)), &format!("n,,n={user},r=abc"));
    assert_eq!(ask("unknown"), ask("unknown"));
    assert_ne!(ask("unknown"), ask("another"));
}

#[test]
fn the_keys_of_an_unknown_user_let_no_client_in() {
    let scratch = Scratch::new();
    let provider = provider(&scratch);
    let (hash, known) = provider.users.find("unknown");
    assert!(!known);
    assert_ne!(hash.stored_key, provider.users.find("user").0.stored_key);
}

#[test]
fn a_user_name_with_a_comma_and_an_equals_sign_is_read() {
    let scratch = Scratch::new();
    let hash = PasswordHash::create(HashKind::ScramSha256 { rounds: 4096 }, b"p").unwrap();
    let mut users = UserFile::default();
    users.set(UserName::new("a,b=c").unwrap(), hash);
    users.save(&scratch.path("users")).unwrap();
    let workshop = Workshop { clock: Arc::new(HandClock::default()), hashing: Arc::new(Permits::new(1)) };
    let provider = Scram::load("scram", &ScramSettings { file: scratch.path("users") }, &workshop).unwrap();
    let mut conversation = conversation(&provider);
    let bare = "n=a=2Cb=3Dc,r=abc";
    let challenge = challenge(&mut conversation, &format!("y,a=a=2Cb=3Dc,{bare}"));
    let last = answer(bare, "y,a=a=2Cb=3Dc,", &challenge, "p");
    assert!(matches!(conversation.step(last.as_bytes()), Step::Done(Decision::Allow(_), Some(_))));
}

#[test]
fn changed_messages_are_refused() {
    let scratch = Scratch::new();
    let provider = provider(&scratch);
    for (from, to) in [("c=biws", "c=eSws"), ("k0,p=", "k1,p="), ("p=dHz", "p=eHz"), ("c=biws,", ""), (",p=", ",q=")] {
        let mut conversation = conversation(&provider);
        challenge(&mut conversation, CLIENT_FIRST);
        let last = CLIENT_FINAL.replace(from, to);
        assert_ne!(last, CLIENT_FINAL);
        assert_eq!(refusal(conversation.step(last.as_bytes())).kind, RefusalKind::BadCredentials, "{from}");
        refusal(conversation.step(CLIENT_FINAL.as_bytes()));
    }
}

#[test]
fn acting_as_another_user_and_channel_binding_are_refused() {
    let scratch = Scratch::new();
    let provider = provider(&scratch);
    for first in ["n,a=admin,n=user,r=abc", "p=tls-exporter,,n=user,r=abc", "n,,m=ext,n=user,r=abc"] {
        refusal(conversation(&provider).step(first.as_bytes()));
    }
}

#[test]
fn a_client_that_sends_nothing_is_asked_to_begin_once() {
    let scratch = Scratch::new();
    let provider = provider(&scratch);
    let mut patient = conversation(&provider);
    assert_eq!(patient.step(b""), Step::Continue(Vec::new()));
    assert_eq!(challenge(&mut patient, CLIENT_FIRST), SERVER_FIRST);
    let mut silent = conversation(&provider);
    silent.step(b"");
    refusal(silent.step(b""));
}

#[test]
fn another_method_is_not_begun() {
    let scratch = Scratch::new();
    let provider = provider(&scratch);
    let with = |method: &str| Request {
        enhanced: Some(Enhanced { method: method.to_owned(), data: Vec::new() }),
        ..Request::default()
    };
    assert!(provider.begin(&with("SCRAM-SHA-1")).is_none());
    assert!(provider.begin(&Request::default()).is_none());
    assert!(provider.begin(&with("SCRAM-SHA-256")).is_some());
}

#[test]
fn a_plain_password_is_checked_against_the_same_keys() {
    let scratch = Scratch::new();
    let provider = provider(&scratch);
    let decide = |user: &str, password: &str| {
        let request =
            Request { user_name: Some(user.to_owned()), password: Some(Secret::from(password)), ..Request::default() };
        provider.decide(&request, Context { left: Duration::from_secs(1) })
    };
    assert!(matches!(decide("user", "pencil"), Decision::Allow(_)));
    assert!(matches!(decide("user", "pen"), Decision::Deny(_)));
    assert_eq!(decide("unknown", "pencil"), Decision::Ignore);
}

#[test]
fn an_invalid_message_is_refused_with_its_reason() {
    for (text, error) in [
        ("", MessageError::Form),
        ("n", MessageError::Form),
        ("x,,n=user,r=a", MessageError::Form),
        ("n,b=x,n=user,r=a", MessageError::Form),
        ("n,,n=,r=a", MessageError::Form),
        ("n,,n=us=20er,r=a", MessageError::Form),
        ("n,,n=user,r=", MessageError::Form),
        ("n,,n=user,r=a b", MessageError::Form),
        ("n,,n=user,r=a,?", MessageError::Form),
        ("p=x,,n=user,r=a", MessageError::ChannelBinding),
        ("n,,m=x,n=user,r=a", MessageError::Extension),
    ] {
        assert_eq!(ClientFirst::parse(text.as_bytes()).err(), Some(error), "{text}");
    }
    assert_eq!(ClientFirst::parse(&[b'n'; 9000]).err(), Some(MessageError::Length));
    assert!(ClientFirst::parse(b"n,,n=user,r=a,x=1").is_ok());
}

proptest! {
    #[test]
    fn no_bytes_break_the_reader(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = ClientFirst::parse(&data);
        let _ = ClientFinal::parse(&data);
    }

    #[test]
    fn no_text_breaks_the_reader(text in "[ny],(a=)?[a-z=2C3D]{0,6},[nmr]=[ -~]{0,20}(,[rcp]=[A-Za-z0-9=]{0,50}){0,3}") {
        let _ = ClientFirst::parse(text.as_bytes());
        let _ = ClientFinal::parse(text.as_bytes());
    }
}
