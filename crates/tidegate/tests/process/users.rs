//! Users of a password file: their connections after a reload that removes them, and clients that guess passwords.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::broker::{Broker, Ended, Folder, PATIENCE, run};

/// Few rounds, so that no test waits for a hash.
fn set_user(file: &str, name: &str, password: &str) {
    let ended = run(&["passwd", "-b", "-H", "sha512-pbkdf2", "-I", "100", file, name, password]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
}

/// A broker whose users are in a file, with further settings.
fn broker(folder: &Folder, settings: &str) -> Broker {
    let users = folder.file("users");
    let auth = format!("[[auth]]\nkind = 'password-file'\nfile = {users:?}\n[access]\ndefault = 'allow'\n");
    let config = folder.write("t.toml", &format!("{auth}{settings}"));
    Broker::start(&["--config", &config])
}

fn reload(broker: &Broker) -> Ended {
    let ended = run(&["reload", "--admin", &format!("http://{}", broker.address("admin=http://"))]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    ended
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&u16::try_from(text.len()).unwrap().to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Connects with MQTT 3.1.1; the stream and the return code, or none when the broker closed at once.
fn dial(broker: &Broker, client_id: &str, user: &str, password: &str) -> (TcpStream, Option<u8>) {
    let mut body = b"\0\x04MQTT\x04\xc2\0\0".to_vec();
    for field in [client_id, user, password] {
        text(&mut body, field);
    }
    let packet = [&[0x10, u8::try_from(body.len()).unwrap()], body.as_slice()].concat();
    let mut stream = TcpStream::connect(broker.address("mqtt://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = [0; 4];
    let answered = stream.write_all(&packet).and_then(|()| stream.read_exact(&mut answer)).is_ok();
    (stream, answered.then_some(answer[3]))
}

fn is_closed(stream: &mut TcpStream) -> bool {
    stream.read(&mut [0]).map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |read| read == 0)
}

fn is_served(stream: &mut TcpStream) -> bool {
    let mut answer = [0; 2];
    stream.write_all(b"\xc0\0").and_then(|()| stream.read_exact(&mut answer)).is_ok() && answer == [0xd0, 0]
}

#[test]
fn a_reload_ends_connections_of_changed_users_only() {
    let folder = Folder::new();
    let users = folder.write("users", "");
    for name in ["alice", "bob", "carol"] {
        set_user(&users, name, "old");
    }
    let broker = broker(&folder, "");
    let [mut alice, mut bob, mut carol] = ["alice", "bob", "carol"].map(|name| {
        let (stream, code) = dial(&broker, name, name, "old");
        assert_eq!(code, Some(0), "{name}");
        stream
    });
    let gone = run(&["passwd", "-D", &users, "alice"]);
    assert_eq!(gone.code, Some(0), "{}", gone.err);
    set_user(&users, "bob", "new");
    assert!(is_served(&mut alice) && is_served(&mut bob), "nothing changes without a reload");
    reload(&broker);
    assert!(is_closed(&mut alice) && is_closed(&mut bob));
    assert!(is_served(&mut carol));
    assert_ne!(dial(&broker, "alice", "alice", "old").1, Some(0));
    assert_ne!(dial(&broker, "bob", "bob", "old").1, Some(0));
    assert_eq!(dial(&broker, "bob", "bob", "new").1, Some(0));
    reload(&broker);
    assert!(is_served(&mut carol), "a reload without changed users ends no connection");
    let story = run(&["why", "client", "alice", "--admin", broker.address("admin=")]);
    assert!(story.out.contains("bad_credentials"), "{}", story.out);
}

#[test]
fn a_ban_of_a_user_closes_its_connections() {
    let folder = Folder::new();
    let users = folder.write("users", "");
    set_user(&users, "alice", "old");
    set_user(&users, "bob", "old");
    let broker = broker(&folder, "");
    let [mut alice, mut bob] = ["alice", "bob"].map(|name| dial(&broker, name, name, "old").0);
    let banned = run(&["ban", "add", "user", "alice", "--admin", broker.address("admin=")]);
    assert_eq!(banned.out, "banned user alice; connections closed: 1\n", "{}", banned.err);
    assert!(is_closed(&mut alice) && is_served(&mut bob));
}

#[test]
fn connections_stay_where_the_configuration_says_so() {
    let folder = Folder::new();
    let users = folder.write("users", "");
    set_user(&users, "alice", "old");
    set_user(&users, "bob", "old");
    let broker = broker(&folder, "[authentication]\ndisconnect_on_reload = false\n");
    let (mut alice, code) = dial(&broker, "alice", "alice", "old");
    assert_eq!(code, Some(0));
    run(&["passwd", "-D", &users, "alice"]);
    reload(&broker);
    assert!(is_served(&mut alice));
    assert_ne!(dial(&broker, "again", "alice", "old").1, Some(0));
}

#[test]
fn a_password_guesser_is_banned_and_this_machine_never() {
    let folder = Folder::new();
    let users = folder.write("users", "");
    set_user(&users, "alice", "let-me-in");
    set_user(&users, "bob", "let-me-in");
    let limits = "[admission]\nfailed_logins_per_user = 3\nfailed_logins_per_address = 2\n";
    let broker = broker(&folder, limits);
    let admin = broker.address("admin=").to_owned();
    for _ in 0..3 {
        assert_eq!(dial(&broker, "guesser", "alice", "a-guess").1, Some(4));
    }
    assert_eq!(dial(&broker, "guesser", "alice", "let-me-in").1, Some(5), "the user name is banned");
    assert_eq!(dial(&broker, "other", "bob", "let-me-in").1, Some(0), "loopback is not");
    let listed = run(&["ban", "list", "--admin", &admin]).out;
    assert!(listed.contains("user alice") && listed.contains("by failed logins"), "{listed}");
    assert!(!listed.contains("address"), "{listed}");
    let (_, metrics) = broker.get("/metrics");
    assert!(metrics.contains("\ntidegate_bans_added_total{origin=\"failed_logins\"} 1\n"), "{metrics}");
    let story = run(&["why", "client", "guesser", "--admin", &admin]).out;
    for part in ["bad_credentials", "banned"] {
        assert!(story.contains(part), "{part}: {story}");
    }
    broker.signal("TERM");
    let log = broker.wait().err;
    assert!(log.contains("banned=") && log.contains("3 failed logins"), "{log}");
    assert!(!log.contains("a-guess") && !log.contains("let-me-in"), "no password is logged: {log}");
}

#[test]
fn a_flapping_client_and_a_failing_address_are_banned() {
    let folder = Folder::new();
    let users = folder.write("users", "");
    set_user(&users, "alice", "let-me-in");
    let limits = "[admission]\nflapping_connects = 3\nfailed_logins_per_address = 2\nexempt_networks = []\n";
    let broker = broker(&folder, limits);
    let admin = broker.address("admin=").to_owned();
    for _ in 0..3 {
        assert_eq!(dial(&broker, "flapper", "alice", "let-me-in").1, Some(0));
    }
    assert_eq!(dial(&broker, "flapper", "alice", "let-me-in").1, Some(5));
    for _ in 0..2 {
        assert_eq!(dial(&broker, "c", "alice", "a-guess").1, Some(4));
    }
    assert_eq!(dial(&broker, "c", "alice", "let-me-in").1, None, "closed at once");
    let listed = run(&["ban", "list", "--admin", &admin]).out;
    for part in ["client flapper", "flapping", "address 127.0.0.1", "by failed logins"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
}

/// A field of `/proc/PID/status`, KiB.
pub(crate) fn memory(broker: &Broker, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", broker.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

/// Each hash takes 19 MiB while it is worked out: forty of them left 760 MiB in the allocator's arenas.
#[test]
fn wrong_passwords_leave_no_memory_behind() {
    let folder = Folder::new();
    let users = folder.write("users", "");
    let made = run(&["passwd", "-b", &users, "alice", "right"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let broker = broker(&folder, "[authentication]\nhash_memory = '40MiB'\nmax_hashing = 8\ntimeout = '60s'\n");
    let before = memory(&broker, "RssAnon");
    std::thread::scope(|scope| {
        for guesser in 0..8 {
            let broker = &broker;
            scope.spawn(move || {
                for guess in 0..5 {
                    let password = format!("{guesser}-{guess}");
                    assert_eq!(dial(broker, "a", "alice", &password).1, Some(4), "a wrong password");
                }
            });
        }
    });
    let (peak, after) = (memory(&broker, "VmHWM"), memory(&broker, "RssAnon"));
    assert!(after < before + 16 * 1024, "{before} KiB before, {after} KiB after");
    assert!(peak < before + 128 * 1024, "two hashes and the program: {before} KiB before, {peak} KiB at most");
}

#[test]
fn a_hash_that_needs_too_much_memory_stops_the_start() {
    let folder = Folder::new();
    let argon2 = "$argon2id$v=19$m=65536,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let users = folder.write("users", &format!("# people\nalice:{argon2}\n"));
    let settings = "[authentication]\nhash_memory = '32MiB'\n[access]\ndefault = 'allow'\n";
    let config = folder.write("t.toml", &format!("[[auth]]\nfile = {users:?}\n{settings}"));
    let checked = run(&["config", "check", &config]);
    assert_ne!(checked.code, Some(0), "{}", checked.out);
    let said = format!("{}{}", checked.out, checked.err);
    assert!(said.contains(&format!("{users}:2: the hash needs 64 MiB of memory")), "{said}");
}

#[test]
fn the_log_has_each_refusal_once_and_the_denied_action() {
    let folder = Folder::new();
    let users = folder.write("users", "");
    set_user(&users, "alice", "right");
    let config = folder.write("t.toml", &format!("[[auth]]\nfile = {users:?}\n[access]\ndefault = 'deny'\n"));
    let broker = Broker::start(&["--config", &config]);
    assert_eq!(dial(&broker, "guesser", "alice", "wrong").1, Some(4));
    let (mut stream, code) = dial(&broker, "denied", "alice", "right");
    assert_eq!(code, Some(0));
    stream.write_all(b"\x32\x07\0\x03a/b\0\x01").and_then(|()| stream.read_exact(&mut [0; 4])).unwrap();
    broker.signal("TERM");
    let ended = broker.wait();
    let refused: Vec<&str> = ended.err.lines().filter(|line| line.contains("bad_credentials")).collect();
    assert_eq!(refused.len(), 1, "{}", ended.err);
    let told =
        |line: &str| line.contains("peer=127.0.0.1:") && line.contains("client_id=guesser") && line.contains("why=");
    assert!(refused.iter().all(|line| told(line)), "{refused:?}");
    let denied =
        |line: &&str| line.contains("denied") && line.contains("topic=a/b") && line.contains("client_id=denied");
    assert_eq!(ended.err.lines().filter(denied).count(), 1, "{}", ended.err);
}
