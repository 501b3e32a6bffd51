//! The configuration from its sources: its errors, and the precedence of the sources.

use super::path::KeyPath;
use super::sections::SECTIONS;
use super::show::{Which, show};
use super::*;

mod pages;
mod secrets;
mod sources;

fn file(text: &str) -> FileText {
    FileText::new("t.toml", text)
}

pub(super) fn from_file(text: &str) -> Result<Config, String> {
    load(text, &[], Flags::default())
}

fn load(text: &str, environment: &[(&str, &str)], flags: Flags) -> Result<Config, String> {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Config::load(Inputs { file: Some(file(text)), environment, flags }).map_err(|findings| findings.to_string())
}

fn set(key: &str, value: &str) -> Flags {
    let flag = format!("--set {key}={value}");
    Flags { set: vec![(key.to_owned(), value.to_owned(), flag)], ..Flags::default() }
}

fn listen(addresses: &[&str]) -> Flags {
    let listen = addresses.iter().map(|address| ((*address).to_owned(), format!("--listen {address}")));
    Flags { listen: listen.collect(), ..Flags::default() }
}

/// Compares the findings of a file with the expected ones.
fn says(text: &str, expected: &str) {
    let said = from_file(text).unwrap_err();
    assert_eq!(said.trim(), expected.trim(), "\n{said}");
}

#[test]
fn nothing_at_all_is_a_configuration() {
    let config = from_file("").unwrap();
    assert_eq!(config.listeners.len(), 1);
    assert_eq!(config.listeners[0].address.to_string(), "127.0.0.1:1883");
    assert_eq!(config.listeners[0].name, "tcp-1883");
    assert_eq!(show(&config, Which::Set), "");
}

#[test]
fn an_unknown_key_is_quoted_with_the_likely_one() {
    says(
        "[[listener]]\n  adress = \"1883\"\n",
        "
error: unknown key `adress` in [[listener]]
 --> t.toml:2:3
  |
2 |   adress = \"1883\"
  |   ^^^^^^
hint: did you mean `address`?",
    );
}

#[test]
fn a_key_in_the_wrong_section_is_sent_to_the_right_one() {
    says(
        "[limits]\noverflow = \"block\"\n",
        "
error: unknown key `overflow` in [limits]
 --> t.toml:2:1
  |
2 | overflow = \"block\"
  | ^^^^^^^^
hint: it is a key of [queue]; `tidegate config explain limits` lists the keys of [limits]",
    );
    says(
        "max_inflight = 3\n",
        "
error: key `max_inflight` is outside its section
 --> t.toml:1:1
  |
1 | max_inflight = 3
  | ^^^^^^^^^^^^
hint: it is a key of [limits]",
    );
}

#[test]
fn an_unknown_section_is_quoted_with_the_likely_one() {
    says(
        "\n\n[retaind]\nx = 1\n",
        "
error: unknown section `retaind`
 --> t.toml:3:2
  |
3 | [retaind]
  |  ^^^^^^^
hint: did you mean `retained`?",
    );
    let names: Vec<&str> = SECTIONS.iter().map(|section| section.name).collect();
    let expected = format!(
        "
error: unknown section `colours`
 --> t.toml:1:2
  |
1 | [colours]
  |  ^^^^^^^
hint: sections are {}",
        names.join(", ")
    );
    says("[colours]\n", &expected);
}

#[test]
fn a_section_in_the_wrong_shape_is_shown_the_right_one() {
    says(
        "[listener]\naddress = \"1883\"\n",
        "
error: `listener` must be a section headed [[listener]]
 --> t.toml:1:2
  |
1 | [listener]
  |  ^^^^^^^^
hint: write [[listener]] on a line of its own, and the keys below it",
    );
    says(
        "queue = 3\n",
        "
error: `queue` must be a section headed [queue]
 --> t.toml:1:1
  |
1 | queue = 3
  | ^^^^^
hint: write [queue] on a line of its own, and the keys below it",
    );
}

#[test]
fn values_of_the_wrong_type_name_the_right_form() {
    says(
        "[limits]\nconnect_timeout = 30\n",
        "
error: `limits.connect_timeout` must be a duration, not the number 30
 --> t.toml:2:19
  |
2 | connect_timeout = 30
  |                   ^^
hint: say the unit: \"30s\" or \"30ms\"",
    );
    says(
        "[limits]\nmax_inflight = \"20\"\n",
        "
error: `limits.max_inflight` must be a whole number, 1 to 65535, not \"20\"
 --> t.toml:2:16
  |
2 | max_inflight = \"20\"
  |                ^^^^
hint: write 20 without quotes",
    );
    says(
        "[queue]\nmax_bytes = \"16 Mib\"\n",
        "
error: `queue.max_bytes` must be a size, not \"16 Mib\"
 --> t.toml:2:13
  |
2 | max_bytes = \"16 Mib\"
  |             ^^^^^^^^
hint: write a number of bytes, or text with a unit: \"64KiB\", \"2MiB\", \"1GiB\"",
    );
    says(
        "[shared]\navailable = \"yes\"\n",
        "
error: `shared.available` must be true or false, not \"yes\"
 --> t.toml:2:13
  |
2 | available = \"yes\"
  |             ^^^^^",
    );
    says(
        "[queue]\noverflow = \"drop_newest\"\n",
        "
error: `queue.overflow` must be \"drop-newest\", \"drop-oldest\", \"disconnect\", \"block\", \"keep-last\" or \"reject\", not \"drop_newest\"
 --> t.toml:2:12
  |
2 | overflow = \"drop_newest\"
  |            ^^^^^^^^^^^^^
hint: did you mean \"drop-newest\"?",
    );
}

#[test]
fn values_out_of_range_say_the_range() {
    says(
        "[[listener]]\nmax_packet_size = \"256MiB\"\n",
        "
error: `listener.0.max_packet_size` must be 20B to 268435455B, not 256MiB
 --> t.toml:2:19
  |
2 | max_packet_size = \"256MiB\"
  |                   ^^^^^^^^",
    );
    says(
        "[sys]\ninterval = \"1500ms\"\n",
        "
error: `sys.interval` must be whole seconds, not 1500ms
 --> t.toml:2:12
  |
2 | interval = \"1500ms\"
  |            ^^^^^^^^",
    );
    says(
        "[node]\nshards = 65\n",
        "
error: `node.shards` must be 1 to 64, or 0 (one for every two cores), not 65
 --> t.toml:2:10
  |
2 | shards = 65
  |          ^^",
    );
}

#[test]
fn a_syntax_error_is_reported_with_its_place() {
    let said = from_file("[queue]\nmax_messages 3\n").unwrap_err();
    assert!(said.contains("--> t.toml:2:"), "{said}");
    assert!(said.contains("2 | max_messages 3"), "{said}");
}

#[test]
fn all_problems_are_said_in_the_order_of_the_file() {
    let said = from_file("[sys]\nx = 1\n[admin]\ny = 2\n[log]\nlevel = \"loud\"\n").unwrap_err();
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("-->")).collect();
    assert_eq!(lines, [" --> t.toml:2:1", " --> t.toml:4:1", " --> t.toml:6:9"]);
}

#[test]
fn a_wider_address_must_be_asked_for() {
    says(
        "[[listener]]\naddress = \"0.0.0.0:1883\"\n",
        "
error: listener `tcp-1883` at 0.0.0.0:1883 would let in everybody who reaches it, without a password
 --> t.toml:2:11
  |
2 | address = \"0.0.0.0:1883\"
  |           ^^^^^^^^^^^^^^
hint: add `allow_anonymous = true` to this [[listener]] if you mean it, or stay on this machine: address = \"127.0.0.1:1883\"",
    );
    assert!(from_file("[[listener]]\naddress = \"0.0.0.0:1883\"\nallow_anonymous = true\n").is_ok());
    let said = load("", &[], listen(&["ws://[::]:9001/x"])).unwrap_err();
    assert_eq!(
        said,
        "error: listener `ws-9001` at ws://[::]:9001/x would let in everybody who reaches it, without a password\n  \
         --> command line, --listen ws://[::]:9001/x\n\
         hint: add --allow-anonymous if you mean it, or stay on this machine: --listen ws://127.0.0.1:9001/x\n"
    );
    let said = load("", &[("TIDEGATE__LISTENER__0__ADDRESS", "10.0.0.1:1")], Flags::default()).unwrap_err();
    assert!(said.contains("set TIDEGATE__LISTENER__0__ALLOW_ANONYMOUS=true"), "{said}");
}

#[test]
fn a_wider_admin_address_must_be_asked_for() {
    let said = from_file("[admin]\naddress = \"0.0.0.0:18083\"\n").unwrap_err();
    assert!(said.contains("`allow_anonymous = true`"), "{said}");
    let said = load("", &[], set("admin.address", "0.0.0.0:18083")).unwrap_err();
    assert!(said.contains("add --allow-anonymous"), "{said}");
    let open = Flags { allow_anonymous: true, ..set("admin.address", "0.0.0.0:18083") };
    assert!(load("", &[], open).is_ok());
}

#[test]
fn two_listeners_cannot_be_one() {
    let said = load("", &[], listen(&["1883", "127.0.0.1:1883"])).unwrap_err();
    assert!(said.contains("two listeners have the address 127.0.0.1:1883"), "{said}");
    let said = from_file("[[listener]]\nname = \"a\"\n[[listener]]\nname = \"a\"\naddress = \"1\"\n").unwrap_err();
    assert!(said.contains("two listeners have the name `a`"), "{said}");
    let said = load("", &[], Flags { listen: vec![("18083".into(), String::new())], ..Flags::default() }).unwrap_err();
    assert!(said.contains("the admin listener has the address"), "{said}");
    let free = load("", &[], listen(&["127.0.0.1:0", "127.0.0.1:0"])).unwrap();
    let names: Vec<&str> = free.listeners.iter().map(|listener| listener.name.as_str()).collect();
    assert_eq!(names, ["tcp-0", "tcp-0-2"]);
}

#[test]
fn names_of_trusted_listeners_are_reserved() {
    for name in ["relay", "tidegate-hub"] {
        let said = from_file(&format!("[[listener]]\nname = \"{name}\"\n")).unwrap_err();
        assert!(said.contains("is the broker's own"), "{said}");
    }
}

#[test]
fn listeners_are_bounded_in_number() {
    let addresses: Vec<String> = (0..=MAX_LISTENERS).map(|number| format!("{}", 20_000 + number)).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let said = load("", &[], listen(&addresses)).unwrap_err();
    assert!(said.contains("there are 65 listeners; a broker has at most 64"), "{said}");
}

#[test]
fn a_shown_configuration_reads_as_the_same() {
    let text = "[[listener]]\naddress = \"ws://0.0.0.0:9001/a\"\nallow_anonymous = true\nserver_reference = \"a\\\"b\"\n\
                [limits]\nmax_session_expiry = \"2h\"\n[retained]\nmax_bytes = \"3GiB\"\n[admin]\naddress = \"off\"\n";
    let config = from_file(text).unwrap();
    for which in [Which::Set, Which::Effective] {
        let again = from_file(&show(&config, which)).unwrap();
        for section in SECTIONS {
            let (one, other) = (config.sections(section.name), again.sections(section.name));
            assert_eq!(one.len(), other.len());
            for (one, other) in one.iter().zip(other) {
                for key in section.keys {
                    assert_eq!(one.show(key.name), other.show(key.name), "{}.{}", section.name, key.name);
                }
            }
        }
    }
}

#[test]
fn every_default_is_allowed_and_every_key_has_its_words() {
    for section in SECTIONS {
        assert!(section.doc.trim().ends_with('.'), "{}", section.name);
        for key in section.keys {
            assert!(key.doc().ends_with('.'), "{}.{}", section.name, key.name);
            let path = KeyPath { section: section.name, index: 0, key: key.name };
            assert_eq!(KeyPath::parse(&path.to_string(), ".").unwrap(), path);
            // The keys of [[auth]] depend on the kind of provider, and some are required.
            let required = match section.name {
                "tenant" => "name = 'x'\n",
                "bridge" => "name = 'x'\nbroker = 'mqtt://h:1'\ntopics = 't'\n",
                "source" => "name = 'x'\nurl = 'nats://h'\n",
                "sink" => "name = 'x'\npath = 'x'\n",
                "pipeline" => "name = 'x'\nfrom = 't'\nto = 's'\n",
                _ => "",
            };
            if section.name == "auth" || required.lines().any(|line| line.starts_with(&format!("{} =", key.name))) {
                continue;
            }
            let before = if section.name == "pipeline" { "[[sink]]\nname = 's'\npath = 'x'\n" } else { "" };
            let text = format!("{before}{}\n{required}{} = {}\n", section.header(), key.name, (key.default)());
            let config = from_file(&text).unwrap_or_else(|said| panic!("{said}"));
            let shown = config.sections(section.name)[0].show(key.name);
            // A listener without a name is given one.
            assert!(shown == (key.default)() || path.to_string() == "listener.0.name", "{path}");
        }
    }
}

#[test]
fn engine_defaults_are_ours() {
    let mut ours = from_file("").unwrap().engine_settings(1);
    let theirs = tidegate_engine::Settings::default();
    // The engine cannot know the machine's memory.
    assert_ne!((ours.limits.memory_ceiling, ours.retained.max_bytes), (0, 0));
    (ours.limits.memory_ceiling, ours.retained.max_bytes) = (0, 0);
    let mut listener = ours.listeners[0].clone();
    "default".clone_into(&mut listener.name);
    assert_eq!(format!("{listener:?}"), format!("{:?}", theirs.listeners[0]));
    assert_eq!(format!("{:?}", ours.limits), format!("{:?}", theirs.limits));
    assert_eq!(format!("{:?}", ours.queue), format!("{:?}", theirs.queue));
    assert_eq!(format!("{:?}", ours.retained), format!("{:?}", theirs.retained));
    assert_eq!(format!("{:?}", ours.shared), format!("{:?}", theirs.shared));
    assert_eq!(ours.sys_interval_seconds, theirs.sys_interval_seconds);
}

#[test]
fn the_limits_of_the_broker_are_divided_between_shards() {
    let config = from_file("[limits]\nmax_sessions = 10\n[[listener]]\nmax_connections = 3\n").unwrap();
    let settings = config.engine_settings(4);
    assert_eq!(settings.limits.max_sessions, 3);
    assert_eq!(settings.listeners[0].max_connections, 1);
    let ceiling = from_file("[limits]\nmemory_ceiling = \"1GiB\"\n[admin]\naddress = \"off\"\n")
        .unwrap()
        .engine_settings(4)
        .limits
        .memory_ceiling;
    assert_eq!(ceiling, 256 * 1024 * 1024);
    assert!(config.node.shards() >= 1);
}

#[test]
fn the_store_takes_a_share_of_the_memory_or_the_configured_size() {
    const MIB: u64 = 1024 * 1024;
    let config = from_file("").unwrap();
    assert_eq!(config.store.memory(Some(1024 * MIB)), (64 * MIB, 64 * MIB));
    assert_eq!(config.store.memory(Some(64 * MIB)), (16 * MIB, 16 * MIB));
    assert_eq!(config.store.memory(Some(64 * 1024 * MIB)), (256 * MIB, 256 * MIB));
    let config = from_file("[store]\nmerge_memory = \"32MiB\"\npending_memory = \"8MiB\"\n").unwrap();
    assert_eq!(config.store.memory(Some(1024 * MIB)), (32 * MIB, 8 * MIB));
    assert_eq!(config.store.file_bytes(32 * MIB), 16 * MIB, "a merge under a small limit reads whole files");
    assert_eq!(config.store.file_bytes(256 * MIB), 32 * MIB);
}

#[test]
fn queues_in_a_store_are_bounded_by_bytes_unless_configured() {
    const MIB: u64 = 1024 * 1024;
    let queue = |text: &str| from_file(text).unwrap().engine_settings(1).queue;
    let (plain, stored) = (queue(""), queue("[store]\ndirectory = \"data\"\nmax_bytes = \"4GiB\"\n"));
    assert_eq!((plain.max_messages, plain.max_bytes), (10_000, 16 * MIB));
    assert_eq!((plain.stored_max_messages, plain.stored_max_bytes), (None, None));
    assert_eq!((stored.max_messages, stored.max_bytes), (10_000, 16 * MIB));
    assert_eq!(stored.stored_max_messages, Some(u32::MAX));
    let bytes = stored.stored_max_bytes.unwrap();
    assert!((16 * MIB..=512 * MIB).contains(&bytes), "{bytes}");
    let narrow = queue("[limits]\nmemory_ceiling = \"64MiB\"\n[store]\ndirectory = \"data\"\n");
    assert_eq!(narrow.max_bytes, 4 * MIB, "a sixteenth of the ceiling");
    let set = queue("[store]\ndirectory = \"data\"\n[queue]\nmax_messages = 7\nmax_bytes = \"1MiB\"\n");
    assert_eq!((set.max_messages, set.stored_max_messages), (7, None));
    assert_eq!((set.max_bytes, set.stored_max_bytes), (MIB, None));
}

/// Every file that differs in one place from a right one, or ends too early.
fn neighbours(text: &str) -> impl Iterator<Item = String> {
    let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
    let inserted = ["", "\"", "[", "]", "=", ".", "\n", "\t", "#", "\0", "\u{e9}", "9", "-"];
    let owned = text.to_owned();
    places.into_iter().flat_map(move |place| {
        let (before, after) = owned.split_at(place);
        let rest: String = after.chars().skip(1).collect();
        let changed: Vec<String> = inserted.iter().map(|it| format!("{before}{it}{rest}")).collect();
        changed.into_iter().chain([before.to_owned()])
    })
}

#[test]
fn no_file_is_too_broken_to_be_reported() {
    let text = "# \u{e4}\n[node]\nname = \"a\"\n[[listener]]\naddress = \"ws://[::1]:9/a\"\n\
                [sys]\ninterval = \"1m\"\n[queue]\nmax_bytes = \"1KiB\"\nmax_messages = 1_0\n";
    assert!(from_file(text).is_ok());
    for broken in neighbours(text) {
        if let Err(said) = from_file(&broken) {
            assert!(said.starts_with("error: "), "{broken}\n{said}");
        }
    }
}

#[test]
fn a_directory_and_durability_must_fit_together() {
    for (text, said) in [
        ("[store]\ndirectory = \"d\"\ndurability = \"memory\"\n", "nothing would be kept in d"),
        ("[store]\ndurability = \"relaxed\"\n", "there is no directory to keep anything in"),
    ] {
        let error = from_file(text).unwrap_err();
        assert!(error.contains(said) && error.contains("hint: "), "{error}");
    }
    for text in ["[store]\ndurability = \"memory\"\n", "[store]\ndirectory = \"d\"\ndurability = \"relaxed\"\n"] {
        assert!(from_file(text).is_ok(), "{text}");
    }
}

#[test]
fn a_window_of_0_is_the_receive_maximum_of_the_broker() {
    let window = |keys: &str| {
        let config = from_file(&format!("[orchestrator]\nenabled = true\n{keys}")).unwrap();
        config.orchestrator.broker_link_settings().unwrap().window
    };
    assert_eq!((window(""), window("window = 0\n"), window("window = 7\n")), (None, None, Some(7)));
    assert!(from_file("[orchestrator]\nwindow = 65001\n").unwrap_err().contains("0 to 65000"));
}

#[test]
fn a_file_has_keys_where_it_sets_one() {
    let has_keys = |text: &str, flags: Flags| load(text, &[], flags).unwrap().origins.file_has_keys();
    assert!(!has_keys("# [log]\n[log]\n", set("log.level", "warn")));
    assert!(has_keys("[log]\nlevel = 'warn'\n", Flags::default()));
}
