use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::provider_set::Member;
use super::*;
use crate::clock::HandClock;
use crate::mark::Mark;
use crate::password::{HashKind, PasswordHash};
use crate::permits::Permits;
use crate::provider::{Context, Mechanism, Provider, Step};
use crate::request::{Enhanced, Secret};
use crate::scratch::Scratch;
use crate::settings::{CacheSettings, ProviderKind, ProviderSettings, UserFileSettings};

/// A provider that answers as a test says, as soon as the test lets it.
#[derive(Debug, Default)]
struct Scripted {
    asked: AtomicUsize,
    gate: Option<Gate>,
    answer: Script,
}

#[derive(Debug, Default)]
enum Script {
    #[default]
    Ignore,
    Allow,
    Deny,
    Panic,
}

/// Reports a request and waits for permission to continue.
#[derive(Debug)]
struct Gate {
    entered: Sender<()>,
    open: Mutex<Receiver<()>>,
}

/// The test's side of a gate.
struct Keeper {
    entered: Receiver<()>,
    open: Sender<()>,
}

fn gate() -> (Gate, Keeper) {
    let (entered, to_see) = channel();
    let (open, to_pass) = channel();
    (Gate { entered, open: Mutex::new(to_pass) }, Keeper { entered: to_see, open })
}

impl Provider for Scripted {
    fn decide(&self, request: &Request, _: Context) -> Decision {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if let Some(gate) = &self.gate {
            gate.entered.send(()).unwrap();
            gate.open.lock().unwrap().recv().unwrap();
        }
        match self.answer {
            Script::Ignore => Decision::Ignore,
            Script::Allow => Decision::Allow(Identity { user_name: request.user_name.clone(), ..Identity::default() }),
            Script::Deny => Decision::Deny(Refusal::new(RefusalKind::BadCredentials, "scripted", "no")),
            Script::Panic => panic!("as the test wants it"),
        }
    }

    fn mark(&self, _: &Identity) -> Option<Mark> {
        None
    }
}

fn scripted(answer: Script) -> Arc<Scripted> {
    Arc::new(Scripted { answer, ..Scripted::default() })
}

fn member(name: &str, provider: Arc<dyn Provider>) -> Member {
    // The kind is never made into anything here.
    let kind = ProviderKind::PasswordFile(UserFileSettings { file: "unused".into() });
    Member { settings: ProviderSettings { name: name.to_owned(), listeners: Vec::new(), kind }, provider }
}

fn settings() -> ChainSettings {
    ChainSettings { threads: 1, queue: 3, ..ChainSettings::default() }
}

fn chain_of(members: Vec<Member>, settings: ChainSettings) -> (Chain, Arc<HandClock>) {
    let clock = Arc::new(HandClock::default());
    let set = ProviderSet::of(settings, members, 1, Arc::new(Permits::new(1))).unwrap();
    (Chain::over(set, Arc::clone(&clock) as Arc<dyn Clock>).unwrap(), clock)
}

fn request(client: &str) -> Request {
    Request {
        client_id: client.to_owned(),
        user_name: Some("ann".to_owned()),
        password: Some(Secret::from("hunter2")),
        ..Request::default()
    }
}

/// Asks, and gives the end where the answer comes out.
fn ask(chain: &Chain, request: Request) -> Receiver<Decision> {
    let (sender, receiver) = channel();
    chain.decide(request, Box::new(move |decision| sender.send(decision).unwrap()));
    receiver
}

fn decide(chain: &Chain, request: Request) -> Decision {
    ask(chain, request).recv().unwrap()
}

fn kind(decision: Decision) -> RefusalKind {
    match decision {
        Decision::Deny(refusal) => refusal.kind,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn the_first_that_does_not_ignore_decides() {
    let (ignoring, allowing, denying) = (scripted(Script::Ignore), scripted(Script::Allow), scripted(Script::Deny));
    let members = vec![member("a", ignoring.clone()), member("b", allowing.clone()), member("c", denying.clone())];
    let (chain, _) = chain_of(members, settings());
    let Decision::Allow(identity) = decide(&chain, request("1")) else { panic!("refused") };
    assert_eq!(identity.provider, "b");
    assert_eq!([&ignoring, &allowing, &denying].map(|one| one.asked.load(Ordering::SeqCst)), [1, 1, 0]);
    let (chain, _) = chain_of(vec![member("c", denying), member("b", allowing)], settings());
    assert_eq!(kind(decide(&chain, request("1"))), RefusalKind::BadCredentials);
}

#[test]
fn an_unknown_client_is_refused() {
    let (chain, _) = chain_of(vec![member("a", scripted(Script::Ignore))], settings());
    assert_eq!(kind(decide(&chain, request("1"))), RefusalKind::BadCredentials);
    let (chain, _) = chain_of(Vec::new(), settings());
    assert_eq!(kind(decide(&chain, request("1"))), RefusalKind::NotAuthorized);
}

#[test]
fn a_provider_is_asked_for_its_listeners_alone() {
    let mut only = member("a", scripted(Script::Allow));
    only.settings.listeners = vec!["tls".to_owned()];
    let (chain, _) = chain_of(vec![only], settings());
    assert_eq!(kind(decide(&chain, request("1"))), RefusalKind::BadCredentials);
    let on_tls = Request { listener: "tls".to_owned(), ..request("1") };
    assert!(matches!(decide(&chain, on_tls), Decision::Allow(_)));
}

#[test]
fn a_reconnect_storm_is_answered_from_the_cache() {
    let provider = scripted(Script::Allow);
    let (chain, clock) = chain_of(vec![member("a", provider.clone())], settings());
    for _ in 0..100 {
        assert!(matches!(decide(&chain, request("1")), Decision::Allow(_)));
    }
    assert_eq!(provider.asked.load(Ordering::SeqCst), 1);
    assert_eq!(chain.counters().cache_hits, 99);
    assert_eq!(chain.counters().allowed, 100);
    clock.advance(300_000);
    decide(&chain, request("1"));
    assert_eq!(provider.asked.load(Ordering::SeqCst), 2);
    chain.forget();
    decide(&chain, request("1"));
    assert_eq!(provider.asked.load(Ordering::SeqCst), 3);
}

#[test]
fn a_request_with_any_difference_is_not_cached() {
    let provider = scripted(Script::Allow);
    let (chain, _) = chain_of(vec![member("a", provider.clone())], settings());
    let base = request("1");
    let others = [
        Request { client_id: "2".to_owned(), ..base.clone() },
        Request { user_name: None, ..base.clone() },
        Request { user_name: Some(String::new()), ..base.clone() },
        Request { user_name: Some("annh".to_owned()), password: Some(Secret::from("unter2")), ..base.clone() },
        Request { password: None, ..base.clone() },
        Request { password: Some(Secret::from("")), ..base.clone() },
        Request { password: Some(Secret::from("hunter3")), ..base.clone() },
        Request { listener: "tls".to_owned(), ..base.clone() },
        Request { tenant: 1, ..base.clone() },
        Request { sni: Some("x".to_owned()), ..base.clone() },
        Request { certificate: Some(crate::request::ClientCertificate::default()), ..base.clone() },
    ];
    decide(&chain, base.clone());
    for (number, other) in (2..).zip(others) {
        decide(&chain, other);
        assert_eq!(provider.asked.load(Ordering::SeqCst), number);
    }
    // Without a provider that looks at it, the address makes no difference.
    decide(&chain, Request { peer: Some("192.0.2.1:1".parse().unwrap()), ..base });
    assert_eq!(chain.counters().cache_hits, 1);
}

#[test]
fn requests_that_are_the_same_are_decided_once() {
    let (gate, keeper) = gate();
    let provider = Arc::new(Scripted { gate: Some(gate), answer: Script::Allow, ..Scripted::default() });
    let (chain, _) = chain_of(vec![member("a", provider.clone())], settings());
    let first = ask(&chain, request("1"));
    keeper.entered.recv().unwrap();
    let others = [ask(&chain, request("1")), ask(&chain, request("1"))];
    assert_eq!(chain.counters().waiting, 3);
    // All requests count towards the bound, also small ones.
    assert_eq!(kind(decide(&chain, request("1"))), RefusalKind::Unavailable);
    keeper.open.send(()).unwrap();
    assert!(matches!(first.recv().unwrap(), Decision::Allow(_)));
    for other in others {
        assert!(matches!(other.recv().unwrap(), Decision::Allow(_)));
    }
    assert_eq!(provider.asked.load(Ordering::SeqCst), 1);
    let counters = chain.counters();
    assert_eq!((counters.coalesced, counters.overflowed, counters.waiting), (2, 1, 0));
}

#[test]
fn a_request_beyond_the_queue_fails_at_once_and_may_retry() {
    let (gate, keeper) = gate();
    let provider = Arc::new(Scripted { gate: Some(gate), answer: Script::Allow, ..Scripted::default() });
    let (chain, _) = chain_of(vec![member("a", provider)], settings());
    let waiting: Vec<_> = ["1", "2", "3"].map(|client| ask(&chain, request(client))).into();
    assert_eq!(kind(decide(&chain, request("4"))), RefusalKind::Unavailable);
    for answer in waiting {
        keeper.open.send(()).unwrap();
        assert!(matches!(answer.recv().unwrap(), Decision::Allow(_)));
    }
    keeper.open.send(()).unwrap();
    assert!(matches!(decide(&chain, request("4")), Decision::Allow(_)));
    assert_eq!(chain.counters().unavailable, 1);
}

#[test]
fn whose_time_is_over_is_not_asked_about_any_more() {
    let (gate, keeper) = gate();
    let provider = Arc::new(Scripted { gate: Some(gate), answer: Script::Allow, ..Scripted::default() });
    let (chain, clock) = chain_of(vec![member("a", provider.clone())], settings());
    let first = ask(&chain, request("1"));
    keeper.entered.recv().unwrap();
    let late = ask(&chain, request("2"));
    clock.advance(8_000);
    keeper.open.send(()).unwrap();
    assert!(matches!(first.recv().unwrap(), Decision::Allow(_)));
    assert_eq!(kind(late.recv().unwrap()), RefusalKind::Unavailable);
    assert_eq!(provider.asked.load(Ordering::SeqCst), 1);
    assert_eq!(chain.counters().late, 1);
}

#[test]
fn a_user_removed_during_its_check_is_refused() {
    let (gate, keeper) = gate();
    let provider = Arc::new(Scripted { gate: Some(gate), answer: Script::Allow, ..Scripted::default() });
    let (chain, _) = chain_of(vec![member("a", provider)], settings());
    let answer = ask(&chain, request("1"));
    keeper.entered.recv().unwrap();
    let differences = chain.reload(settings()).unwrap();
    assert_eq!(differences.to_string(), "providers removed: a");
    keeper.open.send(()).unwrap();
    assert_eq!(kind(answer.recv().unwrap()), RefusalKind::BadCredentials);
}

#[test]
fn a_provider_that_panics_refuses_and_ends_no_thread() {
    let (chain, _) = chain_of(vec![member("a", scripted(Script::Panic))], settings());
    for _ in 0..3 {
        assert_eq!(kind(decide(&chain, request("1"))), RefusalKind::Unavailable);
    }
}

#[test]
fn a_stop_answers_all_waiting_requests() {
    let (gate, keeper) = gate();
    let provider = Arc::new(Scripted { gate: Some(gate), answer: Script::Allow, ..Scripted::default() });
    let (chain, _) = chain_of(vec![member("a", provider)], settings());
    let first = ask(&chain, request("1"));
    keeper.entered.recv().unwrap();
    let second = ask(&chain, request("2"));
    drop(chain);
    keeper.open.send(()).unwrap();
    assert!(matches!(first.recv().unwrap(), Decision::Allow(_)));
    assert_eq!(kind(second.recv().unwrap()), RefusalKind::Unavailable);
}

#[test]
fn requests_that_wait_are_bounded_in_bytes() {
    let (gate, keeper) = gate();
    let one = request("1").bytes();
    let settings = ChainSettings { queue: 100, queue_bytes: 3 * one, ..settings() };
    let (chain, _clock) = chain_of(
        vec![member("gated", Arc::new(Scripted { gate: Some(gate), answer: Script::Allow, ..Scripted::default() }))],
        settings,
    );
    let first = ask(&chain, request("1"));
    keeper.entered.recv().unwrap();
    let same = ask(&chain, request("1"));
    let other = ask(&chain, request("2"));
    assert_eq!(kind(ask(&chain, request("3")).recv().unwrap()), RefusalKind::Unavailable, "no room");
    for _ in 0..2 {
        keeper.open.send(()).unwrap();
    }
    for answer in [first, same, other] {
        assert!(matches!(answer.recv().unwrap(), Decision::Allow(_)));
    }
    keeper.open.send(()).unwrap();
    assert!(matches!(ask(&chain, request("3")).recv().unwrap(), Decision::Allow(_)), "there is room again");
}

/// A hash that needs more memory than allowed is refused when its file is read, not at a login.
#[test]
fn a_hash_beyond_the_memory_limit_is_refused() {
    let scratch = Scratch::new();
    let argon2 = "bob:$argon2id$v=19$m=65536,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n";
    let file = scratch.write("users", line("ann", "hunter2") + argon2);
    let limited = |mib: u64| ChainSettings { hash_memory: mib * 1024 * 1024, ..file_chain(&file) };
    let error = Chain::check(limited(63)).unwrap_err().to_string();
    assert!(error.contains("users:2: the hash needs 64 MiB of memory, more than the 63 MiB"), "{error}");
    assert!(error.contains("`authentication.hash_memory`; raise that limit, or set the password again"), "{error}");
    assert!(Chain::check(limited(64)).is_ok());
    let scram = ProviderKind::Scram(crate::settings::ScramSettings { file: file.clone() });
    let provider = ProviderSettings { name: "scram".to_owned(), listeners: Vec::new(), kind: scram };
    assert!(
        Chain::check(ChainSettings { providers: vec![provider], ..limited(1) }).is_ok(),
        "it is not verified there"
    );
}

/// A user's line with the cheapest hash there is.
fn line(name: &str, password: &str) -> String {
    let hash = PasswordHash::create(HashKind::Pbkdf2Sha512 { rounds: 1 }, password.as_bytes()).unwrap();
    format!("{name}:{hash}\n")
}

fn file_chain(file: &std::path::Path) -> ChainSettings {
    let kind = ProviderKind::PasswordFile(UserFileSettings { file: file.to_owned() });
    let provider = ProviderSettings { name: "users".to_owned(), listeners: Vec::new(), kind };
    ChainSettings { providers: vec![provider], ..settings() }
}

fn comes_in(chain: &Chain) -> bool {
    matches!(decide(chain, request("1")), Decision::Allow(_))
}

/// CVE-2018-12550: an empty file does not open the broker to all clients.
#[test]
fn cve_2018_12550_an_empty_users_file_closes_the_door() {
    let scratch = Scratch::new();
    for text in ["", "# no users yet\n\n"] {
        let file = scratch.write("users", text);
        let chain = Chain::start(file_chain(&file)).unwrap();
        assert_eq!(kind(decide(&chain, request("1"))), RefusalKind::NotAuthorized);
        assert_eq!(kind(decide(&chain, Request::default())), RefusalKind::NotAuthorized);
    }
}

/// CVE-2018-12550, too: a broken file is not used in part, and without it there is no chain that could let anybody in.
#[test]
fn cve_2018_12550_a_broken_users_file_closes_the_door() {
    let scratch = Scratch::new();
    let file = scratch.write("users", line("ann", "hunter2") + "bob:not hashed\n");
    let error = Chain::start(file_chain(&file)).unwrap_err().to_string();
    assert!(error.starts_with("provider `users`: ") && error.contains("users:2: "), "{error}");
    let error = Chain::start(file_chain(&scratch.path("missing"))).unwrap_err().to_string();
    assert!(error.contains("cannot read"), "{error}");
}

/// CVE-2017-7652 was a reload that went wrong and left the broker without its rules.
#[test]
fn cve_2017_7652_a_failed_reload_keeps_the_old_users() {
    let scratch = Scratch::new();
    let file = scratch.write("users", line("ann", "hunter2"));
    let chain = Chain::start(file_chain(&file)).unwrap();
    assert!(comes_in(&chain));
    for broken in ["ann", "ann:x\n", "\u{0}"] {
        scratch.write("users", broken);
        assert!(chain.reload(file_chain(&file)).is_err());
        chain.forget();
        assert!(comes_in(&chain));
    }
    std::fs::remove_file(&file).unwrap();
    assert!(chain.reload(file_chain(&file)).is_err());
    assert!(comes_in(&chain));
    let mut twice = file_chain(&scratch.write("users", line("ann", "other")));
    twice.providers.push(twice.providers[0].clone());
    assert!(matches!(chain.reload(twice), Err(SettingsError::SameName(_))));
    assert!(comes_in(&chain));
}

#[test]
fn a_reload_is_atomic_and_reports_its_changes() {
    let scratch = Scratch::new();
    let file = scratch.write("users", line("ann", "hunter2") + &line("bob", "x") + &line("carl", "x"));
    let chain = Chain::start(file_chain(&file)).unwrap();
    assert!(comes_in(&chain));
    let same = chain.reload(file_chain(&file)).unwrap();
    assert!(same.is_empty(), "{same}");
    let text = std::fs::read_to_string(&file).unwrap();
    let carl = text.lines().find(|line| line.starts_with("carl")).unwrap().to_owned();
    scratch.write("users", format!("{carl}\n") + &line("ann", "other") + &line("dora", "x"));
    assert!(comes_in(&chain), "nothing happens before it is asked for");
    let differences = chain.reload(ChainSettings { threads: 2, ..file_chain(&file) }).unwrap();
    let text =
        "users added: 1; users removed: 1; users changed: 1; needs a restart: the number of threads for authentication";
    assert_eq!(differences.to_string(), text);
    assert_eq!(differences.users_ended.iter().collect::<Vec<_>>(), ["ann", "bob"]);
    assert!(!comes_in(&chain), "the cache is empty");
}

#[test]
fn users_of_a_file_come_in_and_others_are_left_to_the_next() {
    let scratch = Scratch::new();
    let file = scratch.write("users", line("ann", "hunter2"));
    let mut settings = file_chain(&file);
    let other = scratch.write("others", line("eve", "x"));
    let kind_of = ProviderKind::PasswordFile(UserFileSettings { file: other });
    settings.providers.push(ProviderSettings { name: "others".to_owned(), listeners: Vec::new(), kind: kind_of });
    let chain = Chain::start(settings).unwrap();
    let with = |user: &str, password: &str| Request {
        user_name: Some(user.to_owned()),
        password: Some(Secret::from(password)),
        ..Request::default()
    };
    for (user, password, provider) in [("ann", "hunter2", "users"), ("eve", "x", "others")] {
        let Decision::Allow(identity) = decide(&chain, with(user, password)) else { panic!("refused") };
        assert_eq!((identity.user_name.as_deref(), identity.provider.as_str()), (Some(user), provider));
    }
    for (user, password) in [("ann", "x"), ("eve", "hunter2"), ("unknown", "x"), ("", "")] {
        assert_eq!(kind(decide(&chain, with(user, password))), RefusalKind::BadCredentials);
    }
}

/// A method of two steps that says who comes in.
#[derive(Debug)]
struct TwoSteps(&'static str);

#[derive(Debug)]
struct Stepping(&'static str);

impl Mechanism for Stepping {
    fn step(&mut self, data: &[u8]) -> Step {
        match data {
            b"first" => Step::Continue(b"go on".to_vec()),
            b"forever" => Step::Continue(Vec::new()),
            _ => {
                let identity = Identity { user_name: Some(self.0.to_owned()), ..Identity::default() };
                Step::Done(Decision::Allow(identity), Some(b"welcome".to_vec()))
            }
        }
    }
}

impl Provider for TwoSteps {
    fn decide(&self, _: &Request, _: Context) -> Decision {
        Decision::Ignore
    }

    fn mark(&self, _: &Identity) -> Option<Mark> {
        None
    }

    fn begin(&self, request: &Request) -> Option<Box<dyn Mechanism>> {
        let method = &request.enhanced.as_ref()?.method;
        (method == "TWO-STEPS").then(|| Box::new(Stepping(self.0)) as Box<dyn Mechanism>)
    }
}

fn enhanced(method: &str) -> Request {
    Request { enhanced: Some(Enhanced { method: method.to_owned(), data: Vec::new() }), ..Request::default() }
}

fn stepping() -> Chain {
    chain_of(vec![member("a", Arc::new(TwoSteps("ann")))], settings()).0
}

#[test]
fn enhanced_authentication_goes_step_by_step() {
    let chain = stepping();
    let mut exchange = chain.begin_enhanced(&enhanced("TWO-STEPS")).unwrap();
    assert_eq!(exchange.step(b"first"), Step::Continue(b"go on".to_vec()));
    assert!(matches!(exchange.step(b"last"), Step::Done(Decision::Allow(_), Some(_))));
    assert!(matches!(exchange.step(b"last"), Step::Done(Decision::Deny(_), None)), "it is over");
}

#[test]
fn an_unsupported_method_is_refused() {
    let chain = stepping();
    assert_eq!(chain.begin_enhanced(&enhanced("OTHER")).unwrap_err().kind, RefusalKind::BadMethod);
    assert_eq!(chain.begin_enhanced(&Request::default()).unwrap_err().kind, RefusalKind::BadMethod);
    assert!(chain.speaks(&enhanced("TWO-STEPS")) && !chain.speaks(&enhanced("OTHER")));
}

#[test]
fn an_exchange_takes_no_end_of_steps() {
    let chain = stepping();
    let mut exchange = chain.begin_enhanced(&enhanced("TWO-STEPS")).unwrap();
    let steps = (0..100).take_while(|_| matches!(exchange.step(b"forever"), Step::Continue(_))).count();
    assert_eq!(steps, 7);
}

#[test]
fn reauthentication_keeps_the_user() {
    let chain = stepping();
    let again = |name: &str| {
        let current = Identity { user_name: Some(name.to_owned()), ..Identity::default() };
        chain.begin_reauthentication(&enhanced("TWO-STEPS"), current).unwrap().step(b"last")
    };
    assert!(matches!(again("ann"), Step::Done(Decision::Allow(_), Some(_))));
    assert!(matches!(again("eve"), Step::Done(Decision::Deny(_), None)));
}

#[test]
fn an_exchange_overtaken_by_a_reload_is_refused() {
    let chain = stepping();
    let mut exchange = chain.begin_enhanced(&enhanced("TWO-STEPS")).unwrap();
    exchange.step(b"first");
    chain.reload(settings()).unwrap();
    let Step::Done(decision, None) = exchange.step(b"last") else { panic!("let in") };
    assert_eq!(kind(decision), RefusalKind::Unavailable);
}

#[test]
fn without_a_cache_everybody_is_asked_about_each_time() {
    let provider = scripted(Script::Allow);
    let cache = CacheSettings { entries: 0, ttl: Duration::ZERO, refused_entries: 0, refused_ttl: Duration::ZERO };
    let (chain, _) = chain_of(vec![member("a", provider.clone())], ChainSettings { cache, ..settings() });
    decide(&chain, request("1"));
    decide(&chain, request("1"));
    assert_eq!(provider.asked.load(Ordering::SeqCst), 2);
}
