use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use tidegate_auth::password::{HashKind, PasswordHash, UserFile, UserName};
use tidegate_engine::{Enhanced, ListenerId, Reason, TenantId};
use tidegate_node::{ClientCertificate, ContinuedClient, Identity as CertificateIdentity, TlsFacts, TlsVersion};

use super::*;
use crate::access::tenants::TenantMap;
use tidegate_config::Inputs;
use tidegate_config::source::FileText;

/// A folder of a test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tidegate-authentication-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// A file of users whose passwords are their names backwards.
    fn users(&self, names: &[&str]) -> PathBuf {
        let mut users = UserFile::default();
        for name in names {
            let password: String = name.chars().rev().collect();
            for kind in [HashKind::Pbkdf2Sha512 { rounds: 1 }, HashKind::ScramSha256 { rounds: 4096 }] {
                let hash = PasswordHash::create(kind, password.as_bytes()).unwrap();
                users.set(UserName::new(name).unwrap(), hash);
            }
        }
        let file = self.0.join("users");
        users.save(&file).unwrap();
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn load(text: &str) -> Result<Config, String> {
    let file = Some(FileText::new("test.toml", text));
    Config::load(Inputs { file, ..Inputs::default() }).map_err(|findings| findings.to_string())
}

const OPEN_RULES: &str = "[access]\ndefault = 'allow'\n";

/// One listener with these keys, and a provider over a file.
fn with_users(listener: &str, users: &Path) -> String {
    format!("{OPEN_RULES}[[listener]]\n{listener}\n[[auth]]\nfile = '{}'\n", users.display())
}

fn start(text: &str) -> Authentication {
    let config = load(text).unwrap();
    Authentication::start(&config, Tenancy::of(&config), asker()).unwrap()
}

/// Asks a fleet without brokers.
fn asker() -> FleetAsker {
    crate::authentication::asker("tidegate", tidegate_node::Brokers::default())
}

fn request(user_name: Option<&str>, password: Option<&str>) -> AuthRequest {
    AuthRequest {
        tenant: TenantId::DEFAULT,
        listener: ListenerId(0),
        client_id: "client".to_owned(),
        user_name: user_name.map(str::to_owned),
        password: password.map(|password| password.as_bytes().to_vec()),
        enhanced: None,
        again: false,
    }
}

fn place() -> ConnectionAddress {
    (ShardId(0), ConnectionKey { index: 1, generation: 1 })
}

fn decide_with(authentication: &Authentication, request: AuthRequest, facts: &ConnectionFacts) -> AuthOutcome {
    let (sender, receiver) = channel();
    authentication.decide(request, facts, place(), move |outcome| sender.send(outcome).unwrap());
    receiver.recv().unwrap()
}

fn decide(authentication: &Authentication, user_name: Option<&str>, password: Option<&str>) -> AuthOutcome {
    decide_with(authentication, request(user_name, password), &ConnectionFacts::default())
}

/// The clients that are accepted.
#[derive(Debug, PartialEq, Eq)]
enum Comes {
    In(String),
    WithoutName,
    Not,
}

fn user(outcome: &AuthOutcome) -> Comes {
    match outcome {
        AuthOutcome::Accept(accepted) => {
            let name = accepted.identity.as_ref().and_then(|identity| identity.user_name.clone());
            name.map_or(Comes::WithoutName, Comes::In)
        }
        _ => Comes::Not,
    }
}

fn named(name: &str) -> Comes {
    Comes::In(name.to_owned())
}

fn certificate(value: &str, role: IdentityRole) -> ConnectionFacts {
    let client = ClientCertificate {
        common_name: Some(value.into()),
        dns: Vec::new(),
        emails: Vec::new(),
        uris: Vec::new(),
        serial: Box::default(),
        not_after: 0,
        fingerprint_sha256: [0xab; 32],
    };
    let tls = TlsFacts {
        version: TlsVersion::Tls13,
        server_name: None,
        alpn: None,
        client: Some(client),
        identity: Some(CertificateIdentity { value: value.into(), role }),
    };
    ConnectionFacts { tls: Some(Arc::new(tls)), ..ConnectionFacts::default() }
}

#[test]
fn only_users_with_their_passwords_are_let_in() {
    let folder = Folder::new("users");
    let door = start(&with_users("", &folder.users(&["ann"])));
    assert_eq!(user(&decide(&door, Some("ann"), Some("nna"))), named("ann"));
    for (user, password) in [(Some("ann"), Some("x")), (Some("eve"), Some("nna")), (Some("ann"), None), (None, None)] {
        assert_eq!(decide(&door, user, password), AuthOutcome::Refuse(Reason::BadCredentials));
    }
    let elsewhere = AuthRequest { listener: ListenerId(9), ..request(Some("ann"), Some("nna")) };
    let facts = ConnectionFacts::default();
    assert_eq!(decide_with(&door, elsewhere, &facts), AuthOutcome::Refuse(Reason::NotAuthorized));
}

#[test]
fn anonymous_clients_may_enter_where_allowed_wrong_names_never() {
    let folder = Folder::new("anonymous");
    let door = start(&with_users("allow_anonymous = true", &folder.users(&["ann"])));
    assert_eq!(user(&decide(&door, None, None)), Comes::WithoutName);
    assert_eq!(user(&decide(&door, Some("ann"), Some("nna"))), named("ann"));
    assert_eq!(decide(&door, Some("ann"), Some("x")), AuthOutcome::Refuse(Reason::BadCredentials));
    assert_eq!(decide(&door, Some("eve"), Some("x")), AuthOutcome::Refuse(Reason::BadCredentials));
    // A certificate that no provider takes does not shut out who could have come without one.
    let facts = certificate("x", IdentityRole::None);
    assert_eq!(user(&decide_with(&door, request(None, None), &facts)), Comes::WithoutName);
}

/// A door whose first listener takes names from certificates. Its policy is made by hand: the configuration asks for
/// files that such a listener needs.
fn with_role(role: IdentityRole, text: &str) -> Authentication {
    let door = start(text);
    let policy = door.policy();
    let gates = policy.gates.iter().map(|gate| Gate { certificate: role, ..gate.clone() }).collect();
    let policy = Policy { gates, tenants: policy.tenants.clone(), providers: policy.providers };
    *door.policy.write().unwrap() = Arc::new(policy);
    door
}

#[test]
fn a_certificate_names_the_user_without_a_password() {
    let folder = Folder::new("certificate");
    let role = IdentityRole::Username;
    for text in [with_users("", &folder.users(&["ann"])), OPEN_RULES.to_owned()] {
        let door = with_role(role, &text);
        let outcome = decide_with(&door, request(Some("ann"), Some("wrong")), &certificate("meter", role));
        assert_eq!(user(&outcome), named("meter"));
        let AuthOutcome::Accept(accepted) = outcome else { panic!("refused") };
        assert_eq!(accepted.identity.unwrap().certificate.as_deref(), Some("meter"));
        assert_eq!(user(&decide(&door, Some("eve"), Some("x"))), Comes::Not);
        assert_eq!(user(&decide(&door, None, None)), Comes::Not);
    }
}

#[test]
fn a_certificate_names_the_client_and_admits_no_other() {
    let folder = Folder::new("client-id");
    let role = IdentityRole::ClientId;
    let door = with_role(role, &with_users("", &folder.users(&["ann"])));
    let with =
        |user_name, password, name: &str| decide_with(&door, request(user_name, password), &certificate(name, role));
    assert_eq!(user(&with(None, None, "client")), Comes::WithoutName);
    assert_eq!(user(&with(Some("ann"), Some("nna"), "client")), named("ann"));
    assert_eq!(user(&with(Some("ann"), Some("x"), "client")), Comes::Not);
    assert_eq!(user(&with(None, None, "other")), Comes::Not);
    assert_eq!(user(&with(Some("ann"), Some("nna"), "other")), Comes::Not);
}

#[test]
fn a_name_without_a_provider_does_not_count() {
    let door = start(OPEN_RULES);
    assert_eq!(user(&decide(&door, Some("admin"), Some("x"))), Comes::WithoutName);
}

#[test]
fn a_client_of_another_tenant_is_refused() {
    let folder = Folder::new("tenant");
    let tenants = "[[tenant]]\nname = 'acme'\nusers = ['ann']\n";
    let door = start(&(with_users("", &folder.users(&["ann", "bob"])) + tenants));
    assert_eq!(decide(&door, Some("ann"), Some("nna")), AuthOutcome::Refuse(Reason::NotAuthorized));
    assert_eq!(user(&decide(&door, Some("bob"), Some("bob"))), named("bob"));
    let facts = ConnectionFacts::default();
    let inside = AuthRequest { tenant: TenantId(1), ..request(Some("ann"), Some("nna")) };
    assert_eq!(user(&decide_with(&door, inside, &facts)), named("ann"));
}

#[test]
fn a_client_that_its_provider_calls_otherwise_does_not_come_in() {
    let arrival = Arrival::new(
        request(None, None),
        &ConnectionFacts::default(),
        &Gate { name: "l".to_owned(), allow_anonymous: false, certificate: IdentityRole::None },
    );
    let identity = |client_id: &str| Identity { client_id: Some(client_id.to_owned()), ..Identity::default() };
    let tenants = TenantMap::default();
    assert!(arrival.admit(&tenants, identity("client")).is_ok());
    assert_eq!(arrival.admit(&tenants, identity("other")).unwrap_err().kind, RefusalKind::NotAuthorized);
    let elsewhere = Identity { tenant: Some("nowhere".to_owned()), ..Identity::default() };
    assert!(arrival.admit(&tenants, elsewhere).is_err());
}

#[test]
fn enhanced_steps_authenticate_a_known_connection_only() {
    let folder = Folder::new("scram");
    let text = with_users("", &folder.users(&["ann"])).replace("[[auth]]", "[[auth]]\nkind = 'scram'");
    let door = start(&text);
    let begin = |method: &str, data: &[u8]| {
        let enhanced = Some(Enhanced { method: method.to_owned(), data: data.to_vec() });
        decide_with(&door, AuthRequest { enhanced, ..request(None, None) }, &ConnectionFacts::default())
    };
    let AuthOutcome::Challenge(challenge) = begin("SCRAM-SHA-256", b"n,,n=ann,r=abc") else { panic!("no challenge") };
    assert!(challenge.starts_with(b"r=abc"));
    assert_eq!(door.answer_challenge(place(), b"nonsense"), AuthOutcome::Refuse(Reason::BadCredentials));
    assert_eq!(door.answer_challenge(place(), b"nonsense"), AuthOutcome::Refuse(Reason::AuthenticationUnavailable));
    assert_eq!(begin("GSSAPI", b""), AuthOutcome::Refuse(Reason::BadAuthenticationMethod));
}

#[test]
fn cve_2017_7652_a_failed_reload_lets_in_who_came_in_before() {
    let folder = Folder::new("reload");
    let file = folder.users(&["ann"]);
    let text = with_users("", &file);
    let door = start(&text);
    std::fs::write(&file, "ann:broken\n").unwrap();
    assert!(door.prepare(&load(&text).unwrap()).is_err());
    assert_eq!(user(&decide(&door, Some("ann"), Some("nna"))), named("ann"));
    folder.users(&["bob"]);
    let next = door.prepare(&load(&text).unwrap()).unwrap();
    assert_eq!(user(&decide(&door, Some("ann"), Some("nna"))), named("ann"), "nothing is in force yet");
    assert_eq!(door.commit(next).to_string(), "users added: 1; users removed: 1");
    assert_eq!(user(&decide(&door, Some("ann"), Some("nna"))), Comes::Not);
    assert_eq!(user(&decide(&door, Some("bob"), Some("bob"))), named("bob"));
    assert_eq!(door.counters().allowed, 3);
}

#[test]
fn anonymous_access_changes_with_a_reload() {
    let folder = Folder::new("reload-anonymous");
    let file = folder.users(&["ann"]);
    let door = start(&with_users("name = 'l'", &file));
    assert_eq!(user(&decide(&door, None, None)), Comes::Not);
    let open = load(&with_users("name = 'l'\nallow_anonymous = true", &file)).unwrap();
    door.commit(door.prepare(&open).unwrap());
    assert_eq!(user(&decide(&door, None, None)), Comes::WithoutName);
}

#[test]
fn the_use_of_certificates_changes_with_a_reload() {
    let folder = Folder::new("reload-certificate");
    let file = folder.users(&["ann"]);
    let tls = "name = 'l'\naddress = 'mqtts://8883'\ncertificate = 'a'\nkey = 'b'\n\
               client_ca = 'c'\nclient_certificate = 'required'";
    let door = start(&with_users(tls, &file));
    let role = IdentityRole::Username;
    let shown = || user(&decide_with(&door, request(None, None), &certificate("meter", role)));
    assert_eq!(shown(), Comes::Not);
    let naming = load(&with_users(&format!("{tls}\nidentity_as = 'username'"), &file)).unwrap();
    door.commit(door.prepare(&naming).unwrap());
    assert_eq!(shown(), named("meter"));
}

#[test]
fn cve_2018_12550_a_missing_file_of_users_stops_the_start() {
    let folder = Folder::new("missing");
    let text = with_users("", &folder.0.join("nothing"));
    let config = load(&text).unwrap();
    let error = Authentication::start(&config, Tenancy::of(&config), asker()).unwrap_err().to_string();
    assert!(error.starts_with("provider `password-file`: cannot read "), "{error}");
}

#[test]
fn a_reachable_listener_needs_no_consent_with_authentication() {
    let outside = "address = '0.0.0.0:1883'";
    assert!(load(&format!("{OPEN_RULES}[[listener]]\n{outside}\n")).unwrap_err().contains("without a password"));
    let config = load(&with_users(outside, Path::new("users"))).unwrap();
    assert!(config.needs_authentication() && config.asks_who(&config.listeners[0]));
    let config = load(&with_users(&format!("{outside}\nallow_anonymous = true"), Path::new("users"))).unwrap();
    assert!(!config.asks_who(&config.listeners[0]));
    assert!(!load(OPEN_RULES).unwrap().needs_authentication());
}

#[test]
fn invalid_providers_are_found() {
    for (keys, found) in [
        ("", "this provider needs a file of users"),
        ("kind = 'scram'", "this provider needs a file of users"),
        ("kind = 'http'", "this provider needs the server that it asks"),
        ("kind = 'jwt'", "this provider needs one source of keys"),
        ("kind = 'jwt'\nsecret_file = 'a'\njwks_url = 'b'", "this provider needs one source of keys"),
        ("kind = 'jwt'\nsecret_file = 'a'\nalgorithms = ['none']", "there is no algorithm \"none\""),
        ("kind = 'jwt'\nsecret_file = 'a'\nfile = 'b'", "`file` is no key of this kind"),
        ("file = 'a'\nlisteners = ['x']", "there is no listener `x`"),
        ("file = 'a'\n[[auth]]\nname = 'password-file'\nfile = 'b'", "two providers have the name `password-file`"),
        ("kind = 'certificate'", "no listener of this provider asks clients for a certificate"),
        ("kind = 'certificate'\nuser_name_from = 'none'", "this provider needs a user name"),
        ("kind = 'ldap'", "must be \"password-file\""),
    ] {
        let findings = load(&format!("{OPEN_RULES}[[auth]]\n{keys}\n")).unwrap_err();
        assert!(findings.contains(found), "{keys}: {findings}");
    }
    let good =
        "kind = 'jwt'\njwks_url = 'https://x/'\nalgorithms = 'ES256'\n[[auth]]\nkind = 'http'\nurl = 'http://x/'";
    assert!(load(&format!("{OPEN_RULES}[[auth]]\n{good}\n")).is_ok());
}

/// Whether a node continues a client that another node, or this one, has accepted with this identity. The certificate of
/// the client, if any, has a name.
fn continues_of(
    door: &Authentication,
    identity: Option<&tidegate_engine::Identity>,
    shown: Option<&CertificateIdentity>,
    is_of_here: bool,
) -> bool {
    let (tenant, shown_to, secret) = (TenantId::DEFAULT, shown.map(|_| ListenerId(0)), &secret());
    let (listener, client_id, certificate) = (ListenerId(0), "client", shown);
    let client = ContinuedClient { listener, shown_to, certificate, tenant, client_id, identity, is_of_here, secret };
    let answer = door.accept_continued(&client);
    assert!(answer.is_ok() || answer == Err(Reason::UseAnotherServer), "{answer:?}");
    answer.is_ok()
}

fn continues(
    door: &Authentication,
    identity: Option<&tidegate_engine::Identity>,
    shown: Option<&CertificateIdentity>,
) -> bool {
    continues_of(door, identity, shown, false)
}

#[test]
fn a_continued_client_has_the_name_of_its_certificate() {
    let folder = Folder::new("continued-certificate");
    let users = with_users("", &folder.users(&["ann"]));
    for (role, name, user) in
        [(IdentityRole::Username, "meter", Some("meter")), (IdentityRole::ClientId, "client", None)]
    {
        let door = with_role(role, &users);
        let known = tidegate_engine::Identity { user_name: user.map(str::to_owned), ..Default::default() };
        let shown = |name: &str| CertificateIdentity { value: name.into(), role };
        assert!(continues(&door, Some(&known), Some(&shown(name))));
        assert!(!continues(&door, Some(&known), Some(&shown("other"))) && !continues(&door, Some(&known), None));
    }
}

/// The secret of the cluster.
fn secret() -> tidegate_node::Secret {
    tidegate_node::Secret::new(&[7; 32]).unwrap()
}

/// The identity as the image of a connection has it.
fn identity(outcome: AuthOutcome) -> Arc<tidegate_engine::Identity> {
    let AuthOutcome::Accept(accepted) = outcome else { panic!("refused: {outcome:?}") };
    let mut identity = accepted.identity.expect("an identity");
    if let Some(proof) = &mut Arc::make_mut(&mut identity).proof {
        proof.mark = secret().seal_mark(&proof.provider, proof.mark);
    }
    identity
}

#[test]
fn a_client_whose_move_is_called_off_stays_as_after_a_reload() {
    let folder = Folder::new("called-off");
    let file = folder.users(&["ann"]);
    let ann = identity(decide(&start(&with_users("", &file)), Some("ann"), Some("nna")));
    let gone = start(&with_users("", &folder.users(&["bob"])));
    assert!(!continues_of(&gone, Some(&ann), None, true), "a reload ends it, too");
    let proof = Some(tidegate_engine::Proof { provider: "http".into(), mark: [9; tidegate_engine::Proof::MARK_BYTES] });
    let asked = tidegate_engine::Identity { user_name: Some("ann".to_owned()), proof, ..Default::default() };
    let http =
        with_users("", &file).replace("[[auth]]", "[[auth]]\nkind = 'http'\nurl = 'http://127.0.0.1:1/'\n[[auth]]");
    let door = start(&http);
    assert!(continues_of(&door, Some(&asked), None, true) && !continues_of(&door, Some(&asked), None, false));
}

#[test]
fn a_client_of_another_node_continues_with_the_same_user() {
    let (here, other) = (Folder::new("users-here"), Folder::new("users-other"));
    let file = here.users(&["ann", "bob"]);
    let door = start(&with_users("", &file));
    let ann = identity(decide(&door, Some("ann"), Some("nna")));
    // A copy of the file at another node.
    let copy = other.0.join("users");
    std::fs::copy(&file, &copy).unwrap();
    assert!(continues(&start(&with_users("", &copy)), Some(&ann), None));
    // The same password with another salt counts as another one, as for a reload.
    assert!(!continues(&start(&with_users("", &other.users(&["ann"]))), Some(&ann), None));
    assert!(!continues(&start(&with_users("", &other.users(&["bob"]))), Some(&ann), None), "she is gone");
    let elsewhere = with_users("", &file).replace("[[auth]]", "[[auth]]\nlisteners = ['other']");
    let elsewhere = elsewhere.replace("[[listener]]\n", "[[listener]]\nname = 'plain'\n")
        + "[[listener]]\nname = 'other'\naddress = '127.0.0.1:2883'\n";
    assert!(!continues(&start(&elsewhere), Some(&ann), None), "its listener does not ask that provider");
    assert!(!continues(&start(&with_users("allow_anonymous = true", &other.users(&["bob"]))), Some(&ann), None));
}

#[test]
fn a_client_without_a_name_continues_where_such_clients_come_in() {
    let folder = Folder::new("anonymous");
    let file = folder.users(&["ann"]);
    let (closed, open) = (start(&with_users("", &file)), start(&with_users("allow_anonymous = true", &file)));
    let anonymous = identity(decide(&open, None, None));
    for known in [Some(&*anonymous), None] {
        assert!(continues(&open, known, None) && !continues(&closed, known, None));
    }
}

#[test]
fn a_user_of_scram_continues_while_the_keys_are_the_same() {
    let folder = Folder::new("scram-elsewhere");
    let file = folder.users(&["ann"]);
    let scram = |file: &Path| with_users("", file).replace("[[auth]]", "[[auth]]\nkind = 'scram'");
    // SCRAM keys verify a plain password, too.
    let ann = identity(decide(&start(&scram(&file)), Some("ann"), Some("nna")));
    assert!(continues(&start(&scram(&file)), Some(&ann), None));
    let other = folder.users(&["ann"]);
    assert!(!continues(&start(&scram(&other)), Some(&ann), None));
}
