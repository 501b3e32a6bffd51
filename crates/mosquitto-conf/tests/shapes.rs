//! Typical configurations: each file of `shapes/` states its expected result in its first lines.
//!
//! `#! exit N` is the exit code of the command, `#! has TEXT` and `#! lacks TEXT` are about the result without its
//! comments, `#! carried KEY`, `#! changed KEY` and `#! refused KEY` are about the line with that key,
//! `#! why KEY TEXT` is about its reason.
//! `#! probe equal` and `#! probe within` are for the test of the binary that starts Mosquitto and the result: each client
//! may do the same in both, or nothing in the result that it may not do in Mosquitto.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::Path;

use tidegate_mosquitto_conf::{Conversion, File, Form, NotMosquitto, convert, form};

fn converted(name: &str, text: &str) -> Conversion {
    convert(&File { name: name.to_owned(), text: text.to_owned() }, &|_| Err(std::io::ErrorKind::NotFound.into()))
        .unwrap()
}

/// The values of the result, without comments and with single spaces.
fn values(toml: &str) -> String {
    let line = |line: &str| line.split("  # ").next().unwrap_or_default().trim_end().to_owned() + "\n";
    toml.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

fn expect(name: &str, text: &str, expected: &str) {
    let conversion = converted(name, text);
    let values = values(&conversion.toml);
    let context = format!("{name}: {expected}\n{values}\n{:#?}", conversion.lines);
    let (kind, about) = expected.split_once(' ').unwrap();
    match kind {
        "exit" => assert_eq!(conversion.left_out, about == "3", "{context}"),
        "has" => assert!(values.contains(about), "{context}"),
        // A test of the binary does that, beside Mosquitto itself.
        "probe" => {}
        "lacks" => assert!(!values.contains(about), "{context}"),
        "why" => {
            let (key, why) = about.split_once(' ').unwrap();
            let mut lines = conversion.lines.iter().filter(|line| line.key == key);
            assert!(lines.any(|line| line.why.contains(why)), "{context}");
        }
        outcome => {
            let mut lines = conversion.lines.iter().filter(|line| line.key == about);
            assert!(lines.any(|line| line.outcome.word() == outcome), "{context}");
        }
    }
}

#[test]
fn typical_configurations_have_the_expected_result() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shapes");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let expected: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("#! ")).collect();
        assert!(expected.iter().any(|line| line.starts_with("exit ")), "{name} has to say its exit code");
        for line in expected {
            expect(&name, &text, line);
        }
        count += 1;
    }
    assert!(count >= 40, "{count}");
}

#[test]
fn another_file_is_refused_as_not_mosquittos() {
    let of = |text: &str| convert(&File { name: "x".into(), text: text.into() }, &|_| Ok(Vec::new())).map(drop);
    assert_eq!(of("root:x:0:0:root:/root:/bin/bash\nbin:x:1:1::/bin:/bin/false\n"), Err(NotMosquitto));
    assert_eq!(of("[[listener]]\naddress = \"1883\"\n"), Err(NotMosquitto));
    assert_eq!(of("# only a comment\n"), Ok(()));
}

#[test]
fn a_restricting_key_never_leaves_an_open_listener() {
    for key in tidegate_mosquitto_conf::KEYS.iter().filter(|key| key.restricts) {
        if key.outcome().starts_with("refused") {
            let conversion = converted("m.conf", &format!("listener 1883\nallow_anonymous true\n{} x\n", key.name));
            assert!(!conversion.toml.contains("allow_anonymous = true"), "{}\n{}", key.name, conversion.toml);
            assert!(conversion.left_out, "{}", key.name);
        }
    }
}

#[test]
fn the_default_listener_opens_as_in_mosquitto() {
    // As Mosquitto 2.0.11 does beside another listener: always, under `per_listener_settings` alone, or never.
    let always = "bind_address 127.0.0.2|bind_interface lo|cafile x|capath x|certfile x|ciphers x|ciphers_tls1.3 x|crlfile x|\
        dhparamfile x|keyfile x|max_connections 9|max_qos 1|maximum_qos 0|port 1885|protocol websockets|psk_hint x|\
        require_certificate true|socket_domain ipv4|tls_engine x|tls_keyform engine|use_identity_as_username 1|\
        use_subject_as_username true";
    let per_listener = "password_file x|psk_file x|allow_zero_length_clientid false";
    let never = "acl_file x|allow_anonymous true|auto_id_prefix x|check_retain_source false|http_dir x|max_topic_alias 3|\
        tls_version tlsv1.2|max_connections -1|max_qos 2|protocol mqtt|require_certificate false|tls_keyform pem|\
        use_username_as_clientid false|allow_zero_length_clientid true";
    for (lines, plain, split) in [(always, true, true), (per_listener, false, true), (never, false, false)] {
        for (head, opens) in [("", plain), ("per_listener_settings true\n", split)] {
            for line in lines.split('|') {
                let text = format!("{head}{line}\nlistener 1884 127.0.0.1\nallow_anonymous true\n");
                let conversion = converted("m.conf", &text);
                // A default listener that cannot be carried over is named as left out.
                let whole = format!("{conversion:?}");
                let opened = ["127.0.0.2:1883", "[::]:1883", ":1885", "0.0.0.0:1883", "127.0.0.1:1883"];
                assert_eq!(opened.iter().any(|address| whole.contains(address)), opens, "{text}\n{conversion:#?}");
            }
        }
    }
}

#[test]
fn a_setting_of_an_included_file_stays_in_its_file() {
    let main = File {
        name: "m.conf".into(),
        text: "per_listener_settings true\nlistener 1884\nallow_anonymous false\npassword_file users\ninclude_dir d\n"
            .into(),
    };
    let folder = |_: &str| Ok(vec![File { name: "d/a.conf".into(), text: "allow_anonymous true\n".into() }]);
    let conversion = convert(&main, &folder).unwrap();
    assert!(!conversion.toml.contains("allow_anonymous = true"), "{}", conversion.toml);
}

#[test]
fn included_files_stand_where_they_are_included() {
    let main = File {
        name: "m.conf".into(),
        text: "allow_anonymous true\ninclude_dir /etc/conf.d\nmax_connections 7\n".into(),
    };
    let folder = |path: &str| match path {
        "/etc/conf.d" => Ok(vec![File { name: "conf.d/a.conf".into(), text: "listener 1884\r\nmax_qos 1".into() }]),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let conversion = convert(&main, &folder).unwrap();
    for line in ["address = \"[::]:1884\"", "# conf.d/a.conf:1", "# m.conf:3", "maximum_qos = 1"] {
        assert!(conversion.toml.contains(line), "{line}\n{}", conversion.toml);
    }
    let unread = File { text: main.text.replace("/etc/conf.d", "/nowhere") + "listener 1883\n", ..main };
    let conversion = convert(&unread, &folder).unwrap();
    assert!(conversion.left_out && !conversion.toml.contains("allow_anonymous = true"), "{}", conversion.toml);
}

fn is_open(line: &str) -> bool {
    // Lines of bridges follow one; other lines do not mind.
    let bridge = "connection b\naddress 127.0.0.1:2883\ntopic # out\n";
    let text = format!("listener 1883\nallow_anonymous true\n{bridge}{line}\n");
    converted("m.conf", &text).toml.contains("allow_anonymous = true")
}

#[test]
fn a_value_of_a_wrong_form_closes_all_listeners() {
    let keys = tidegate_mosquitto_conf::KEYS.iter().map(|key| key.name);
    let of_bridge = ["local_cleansession", "remote_password", "local_username", "bridge_insecure", "bridge_cafile"];
    for key in keys.chain(of_bridge) {
        let wrong = match form(key) {
            Some(Form::Truth) => vec![format!("{key} maybe"), key.to_owned()],
            Some(Form::Text) => vec![key.to_owned(), format!("{key} \t"), format!("{key} a\u{1}b")],
            Some(Form::Number(least, most)) => {
                let beyond = [least.checked_sub(1), most.checked_add(1)].into_iter().flatten();
                beyond.map(|number| format!("{key} {number}")).chain([key.to_owned()]).collect()
            }
            Some(Form::Words) => Vec::new(),
            None => panic!("{key} has no form"),
        };
        for line in wrong {
            assert!(!is_open(&line), "{line:?}");
        }
    }
}

#[test]
fn a_line_that_stops_mosquitto_closes_all_listeners() {
    // With each of these lines Mosquitto 2.0.11 does not start.
    for line in [
        "mount_point a/#",
        "mount_point a+b",
        "log_dest bogus",
        "log_dest",
        "log_dest file",
        "log_dest file a\nlog_dest file b",
        "memory_limit -1",
        "max_topic_alias 65536",
        "max_keepalive -1",
        "sys_interval 65536",
        "message_size_limit 268435456",
        "message_size_limit -1",
        "max_packet_size 19",
        "max_packet_size 4000000000",
        "max_inflight_messages 65536",
        "persistent_client_expiration 0d",
        "log_facility 8",
        "websockets_headers_size 65536",
        "port 0",
        "listener 65536",
        "address 127.0.0.2",
        "connection c\naddress 127.0.0.1",
        "connection c\ntopic #",
        "connection",
        "bridge_identity x",
        "bridge_psk 00",
        "bridge_cafile ca\nbridge_psk 00",
        "bridge_foo x",
        "local_foo x",
        "remote_foo x",
        "start_type manual",
        "bridge_protocol_version mqttv50 # x",
        "restart_timeout 10 5",
        "restart_timeout",
        "keepalive_interval 65536",
        "topic a/# in 3",
        "topic # # c",
        "topic # out 0 l r",
        "topic # out 1 l/+ r",
        "topic \"\" out",
        "connection c\naddress 127.0.0.1:0\ntopic #",
        "connection c\naddress #\ntopic #",
        "local_clientid x\nconnection c\naddress h\ntopic #\nlocal_clientid x",
        "remote_clientid x\nconnection c\naddress h\ntopic #\nlocal_clientid local.x",
        "psk_hint x\ncafile ca",
        "tls_engine_kpass_sha1 00",
        "listener 1883",
        "listener 1883 127.0.0.1",
        "port 1883",
        "listener 1884 ::\nlistener 1884 ::1",
        "listener 1884\nbind_interface lo\nlistener 1884",
        "listener 1884 127.0.0.1\nlistener 1884 localhost",
        "listener 1884 [::1]",
    ] {
        assert!(!is_open(line), "{line:?}");
    }
}

#[test]
fn a_line_that_mosquitto_takes_closes_no_listener() {
    // Mosquitto 2.0.11 starts with each of these.
    for line in [
        "log_dest stderr # x",
        "log_dest none",
        "log_dest file /tmp/x",
        "memory_limit 0",
        "max_topic_alias 65535",
        // Later versions than 2.0.11.
        "max_keepalive 0",
        "max_keepalive 9",
        "sys_interval 65535",
        "message_size_limit 268435455",
        "max_inflight_messages -1",
        "log_facility 7",
        "autosave_interval x",
        "retry_interval",
        "log_type",
        "max_connections",
        "persistent_client_expiration",
        "restart_timeout 0",
        "keepalive_interval -1",
        "topic a/# IN 1",
        "topic # out 0 l/ r/ extra",
        "topic a in x",
        "topic a in 1 \"\" \"\"",
        "topic \"\" out 0 a b",
        "bridge_identity x\nbridge_psk 00",
        "round_robin 1",
        "listener 1884 127.0.0.1\nlistener 1884 ::1",
        "listener 1884 ::\nlistener 1884 0.0.0.0",
        "connection c d\naddress h:1883 i\ntopic #",
    ] {
        assert!(is_open(line), "{line:?}");
    }
}

#[test]
fn only_spaces_are_removed_around_keys_and_words() {
    // With each of these lines Mosquitto 2.0.11 does not start.
    let refused = [
        "\tmax_qos 1",
        "  # comment",
        "\t# comment",
        "\t",
        " \t",
        "\u{feff}max_qos 1",
        "\u{a0}max_qos 1",
        "\u{b}max_qos 1",
        "\u{a0}",
        "\u{c}",
        "queue_qos0_messages true\t",
        "allow_anonymous true\t",
        "allow_anonymous true\u{a0}",
        "log_type all\t",
        "socket_domain ipv4\t",
        "persistent_client_expiration 1d\t",
        "listener 1884 127.0.0.1\t",
        "queue_qos0_messages true#x",
        "include_dir  d",
        "include_dir d ",
        "max_qos \\\n1",
    ];
    // And it starts with these.
    let taken = [
        "   max_qos 1",
        "   ",
        "\r",
        " \r",
        "#\tcomment",
        "queue_qos0_messages true  ",
        "queue_qos0_messages true\r\r",
        "max_qos 1\t",
        "max_qos 1\tx",
        "auto_id_prefix x\t",
        "listener 1884\t",
        "listener \t1884",
        "listener 1884\t127.0.0.1",
        "max_qos 1 # x",
    ];
    let folder = |name: &str| if name == "d" { Ok(Vec::new()) } else { Err(std::io::ErrorKind::NotFound.into()) };
    for (lines, starts) in [(&refused[..], false), (&taken[..], true)] {
        for line in lines {
            let text = format!("listener 1883\nallow_anonymous true\n{line}\n");
            let conversion = convert(&File { name: "m.conf".into(), text }, &folder).unwrap();
            let open = conversion.toml.contains("allow_anonymous = true");
            assert_eq!(open, starts, "{line:?}\n{conversion:#?}");
        }
    }
    let marked = converted("m.conf", "\u{feff}listener 1883\nallow_anonymous true\n");
    assert!(marked.left_out && !marked.toml.contains("allow_anonymous = true"), "{}", marked.toml);
}

#[test]
fn passwords_are_not_repeated() {
    let text =
        "listener 1883\nconnection b\nremote_password hunter2\nauth_opt_mysql_pass hunter2\nbridge_psk hunter2\n";
    let conversion = converted("m.conf", text);
    assert!(!format!("{conversion:?}").contains("hunter2"), "{conversion:#?}");
}

#[test]
fn the_page_of_keys_has_each_key() {
    let page = tidegate_mosquitto_conf::key_page();
    for key in tidegate_mosquitto_conf::KEYS {
        assert!(page.contains(&format!("\n| `{}` | {} | ", key.name, key.outcome())), "{}", key.name);
    }
    for beginning in tidegate_mosquitto_conf::PREFIXES {
        assert!(
            page.contains(&format!("\n| `{}*` | {} | ", beginning.name, beginning.outcome())),
            "{}",
            beginning.name
        );
    }
}

#[test]
fn keys_are_in_order_and_named_once() {
    let names: Vec<&str> = tidegate_mosquitto_conf::KEYS.iter().map(|key| key.name).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
}
