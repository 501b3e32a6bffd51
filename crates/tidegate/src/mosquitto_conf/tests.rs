//! What becomes of a `mosquitto.conf`.

use super::*;

fn converted(text: &str) -> Converted {
    let file = FileText::new("mosquitto.conf", text);
    let converted = convert(file, |path| match path {
        "/etc/conf.d" => Ok(vec![
            FileText::new("conf.d/a.conf", "\u{feff}listener 1884\r\nmax_qos 1"),
            FileText::new("conf.d/b.conf", "port x\n"),
        ]),
        _ => Err(io::ErrorKind::NotFound.into()),
    });
    // Whatever comes out can be run.
    let inputs = Inputs { file: Some(FileText::new("out", &*converted.toml)), ..Inputs::default() };
    if let Err(findings) = Config::load(inputs) {
        panic!("{findings}\n{}", converted.toml);
    }
    converted
}

/// Compares the result without its sources.
fn becomes(text: &str, expected: &str) -> String {
    let converted = converted(text);
    let values: Vec<&str> = converted
        .toml
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split("  #").next().unwrap_or_default().trim_end())
        .collect();
    assert_eq!(values.join("\n"), expected.trim(), "\n{}\n{}", converted.toml, converted.notes);
    converted.notes
}

#[test]
fn settings_of_the_broker_are_carried_over() {
    let notes = becomes(
        "max_inflight_messages 20\nmax_queued_messages 0\nmax_queued_bytes 1048576\nqueue_qos0_messages true\n\
         retain_available false\npersistent_client_expiration 2w\nsys_interval 30\nmemory_limit 104857600\n\
         global_max_clients -1\nset_tcp_nodelay true\nlog_dest stderr\n",
        "
[limits]
max_sessions = 0
max_session_expiry = \"14d\"
max_inflight = 20
memory_ceiling = \"100MiB\"
[queue]
max_messages = 1000000000
max_bytes = \"1MiB\"
keep_qos0_offline = true
[retained]
available = false
[sys]
interval = \"30s\"",
    );
    assert_eq!(notes, "mosquitto.conf: 11 lines carried over, 0 remarks\n");
}

#[test]
fn what_a_folder_includes_stands_where_it_is_included() {
    for (end, last) in [("\n", 4), ("", 4)] {
        let text = format!("allow_anonymous true\n\ninclude_dir /etc/conf.d\nmax_connections 7{end}");
        let converted = converted(&text);
        let expected = format!(
            "# Converted from mosquitto.conf.\n\n[[listener]]\naddress = \"0.0.0.0:1884\"  # conf.d/a.conf:1:1\n\
             allow_anonymous = true    # conf.d/a.conf:1:1\nmax_connections = 7       # mosquitto.conf:{last}:1\n\
             maximum_qos = 1           # conf.d/a.conf:2:1\n"
        );
        assert_eq!(converted.toml, expected);
        assert_eq!(
            converted.notes,
            "conf.d/b.conf:1: port x\n    not carried over: \"x\" is no port\n\
             mosquitto.conf: 5 lines carried over, 1 remarks\n"
        );
    }
    let last = converted("allow_anonymous true\ninclude_dir /etc/conf.d");
    assert!(last.toml.contains("0.0.0.0:1884"), "{}", last.toml);
    let twice = converted("include_dir /etc/y\ninclude_dir /etc/conf.d\nport x\n");
    assert!(twice.notes.starts_with("mosquitto.conf:1: include_dir /etc/y\n    not carried over: cannot read /etc/y"));
    assert!(twice.notes.contains("mosquitto.conf:3: port x"), "{}", twice.notes);
}

#[test]
fn sources_name_the_line() {
    let toml = converted("# comment\n\n  max_queued_messages 7\n").toml;
    assert_eq!(toml, "# Converted from mosquitto.conf.\n\n[queue]\nmax_messages = 7  # mosquitto.conf:3:1\n");
}

#[test]
fn listeners_keep_their_settings() {
    becomes(
        "allow_anonymous true\nmax_keepalive 300\nlistener 1883\nmax_connections -1\nmax_qos 1\n\
         listener 9001 127.0.0.1\nprotocol websockets\nmax_topic_alias 5\nlistener 0 /run/m.sock\nlistener 1884 ::1\n",
        "
[[listener]]
address = \"0.0.0.0:1883\"
allow_anonymous = true
max_connections = 0
maximum_qos = 1
keep_alive_maximum = \"5m\"
[[listener]]
address = \"ws://127.0.0.1:9001/mqtt\"
topic_alias_maximum = 5
keep_alive_maximum = \"5m\"
[[listener]]
address = \"unix:/run/m.sock\"
keep_alive_maximum = \"5m\"
[[listener]]
address = \"[::1]:1884\"
keep_alive_maximum = \"5m\"",
    );
}

#[test]
fn the_default_listener_is_where_theirs_is() {
    becomes("max_packet_size 65536\n", "[[listener]]\naddress = \"127.0.0.1:1883\"\nmax_packet_size = \"64KiB\"");
    becomes("port 1884\nallow_anonymous true\n", "[[listener]]\naddress = \"0.0.0.0:1884\"\nallow_anonymous = true");
    becomes("bind_address 127.0.0.1\n", "[[listener]]\naddress = \"127.0.0.1:1883\"");
    becomes("max_connections 9\n", "[[listener]]\naddress = \"127.0.0.1:1883\"\nmax_connections = 9");
    becomes("", "");
    let notes = becomes("max_connections 9\nlistener 1 127.0.0.1\n", "[[listener]]\naddress = \"127.0.0.1:1\"");
    assert!(notes.contains("a default listener that is not opened"), "{notes}");
}

#[test]
fn what_asks_for_users_that_are_not_there_stays_on_loopback() {
    let notes = becomes("listener 1883\n", "[[listener]]\naddress = \"127.0.0.1:1883\"");
    assert_eq!(
        notes,
        "mosquitto.conf:1: listener 1883\n    moved from 0.0.0.0:1883 to 127.0.0.1:1883: it asks for user names, which \
         could not be carried over, and without it everybody would get in\n\
         mosquitto.conf: 1 lines carried over, 1 remarks\n"
    );
}

#[test]
fn what_a_plugin_guards_stays_on_loopback() {
    let notes = becomes(
        "listener 1883\nallow_anonymous true\nplugin /rules.so\n",
        "[[listener]]\naddress = \"127.0.0.1:1883\"",
    );
    assert!(notes.contains("moved from 0.0.0.0:1883 to 127.0.0.1:1883: it asks for access rules"), "{notes}");
}

#[test]
fn tls_is_carried_over_with_its_files() {
    becomes(
        "listener 8883\ncertfile /c.pem\nkeyfile /k.pem\ncafile /ca.pem\ncrlfile /crl.pem\nrequire_certificate true\n\
         use_identity_as_username true\ntls_version tlsv1.3\n",
        "
[[listener]]
address = \"mqtts://0.0.0.0:8883\"
certificate = \"/c.pem\"
key = \"/k.pem\"
client_certificate = \"required\"
client_ca = \"/ca.pem\"
crl = \"/crl.pem\"
crl_outdated = \"refuse\"
identity_as = \"username\"
tls_minimum = \"1.3\"
[access]
default = \"allow\"",
    );
    let notes = becomes(
        "allow_anonymous true\nlistener 8884\nprotocol websockets\ncertfile /c.pem\nkeyfile /k.pem\ncafile /ca.pem\n",
        "
[[listener]]
address = \"wss://0.0.0.0:8884/mqtt\"
allow_anonymous = true
certificate = \"/c.pem\"
key = \"/k.pem\"",
    );
    assert!(notes.contains("mosquitto.conf:6: cafile /ca.pem\n    says nothing here"), "{notes}");
}

#[test]
fn what_asks_for_tls_that_cannot_be_had_stays_on_loopback() {
    for lines in ["certfile /c.pem\n", "certfile /c.pem\nkeyfile /k.pem\nrequire_certificate true\n", "psk_hint x\n"] {
        let notes = becomes(
            &format!("allow_anonymous true\nlistener 8883\n{lines}"),
            "[[listener]]\naddress = \"127.0.0.1:8883\"",
        );
        assert!(notes.contains("it asks for TLS"), "{notes}");
    }
}

#[test]
fn users_and_rules_are_carried_over_and_keep_the_door() {
    becomes(
        "listener 1883\npassword_file /etc/passwd\nacl_file /etc/acl\n",
        "
[[listener]]
address = \"0.0.0.0:1883\"
[[auth]]
kind = \"password-file\"
file = \"/etc/passwd\"
[access]
acl_file = \"/etc/acl\"",
    );
    // Without rules everybody who came in might do everything.
    becomes(
        "password_file /etc/passwd\nlistener 1883\nallow_anonymous true\n",
        "
[[listener]]
address = \"0.0.0.0:1883\"
allow_anonymous = true
[[auth]]
kind = \"password-file\"
file = \"/etc/passwd\"
[access]
default = \"allow\"",
    );
}

#[test]
fn users_and_rules_of_single_listeners_are_not_carried_over_and_close_them() {
    let notes = becomes(
        "per_listener_settings true\nlistener 1883\nallow_anonymous true\nacl_file /a\nlistener 1884\npassword_file /p\n",
        "[[listener]]\naddress = \"127.0.0.1:1883\"\n[[listener]]\naddress = \"127.0.0.1:1884\"",
    );
    assert!(notes.contains("`acl_file` is for one listener there"), "{notes}");
    assert!(notes.contains("`password_file` is for one listener there"), "{notes}");
}

#[test]
fn anonymous_clients_may_be_a_matter_of_each_listener() {
    becomes(
        "per_listener_settings true\nlistener 1\nallow_anonymous true\nlistener 2\nallow_anonymous false\n",
        "[[listener]]\naddress = \"0.0.0.0:1\"\nallow_anonymous = true\n[[listener]]\naddress = \"127.0.0.1:2\"",
    );
}

#[test]
fn the_log_keeps_its_most_verbose_kind() {
    becomes("log_type error\nlog_type information\nlog_type warning\n", "[log]\nlevel = \"info\"");
    becomes("log_type all\n", "[log]\nlevel = \"debug\"");
}

#[test]
fn what_was_kept_is_kept_in_the_same_place() {
    let notes = becomes(
        "persistence true\npersistence_location /var/lib/mosquitto/\npersistence_file mosquitto.db\n",
        "[store]\ndirectory = \"/var/lib/mosquitto/\"",
    );
    assert!(notes.contains("Mosquitto's own file is not read"), "{notes}");
    becomes("persistence true\n", "[store]\ndirectory = \"data\"");
    becomes("persistence false\n", "");
    let notes = becomes("persistence_location /var/lib/mosquitto/\n", "");
    assert!(notes.contains("`persistence` is not true"), "{notes}");
}

#[test]
fn a_reason_that_holds_for_several_lines_is_said_once() {
    let notes = converted("psk_file /c\npsk_hint h\nconnection_messages true\ntls_engine a\n").notes;
    let whats: Vec<&str> = notes.lines().map(|line| line.trim_start().split(',').next().unwrap_or_default()).collect();
    assert_eq!(
        whats,
        [
            "mosquitto.conf:1: psk_file /c",
            "mosquitto.conf:2: psk_hint h",
            "not carried over: TLS has no such setting here",
            "mosquitto.conf:3: connection_messages true",
            "not carried over: connects and disconnects are logged at level `info`",
            "mosquitto.conf:4: tls_engine a",
            "not carried over: TLS has no such setting here",
            "mosquitto.conf: 0 lines carried over",
        ]
    );
}

#[test]
fn a_bridge_is_carried_over() {
    let notes = becomes(
        "listener 1883 127.0.0.1\nconnection cloud\naddress broker.example\nbridge_cafile /ca.pem\n\
         topic sensors/# out 1 plant/ plants/7/\ntopic # in\nremote_username me\nremote_clientid plant-7\n\
         keepalive_interval 30\ncleansession false\nnotifications false\ntry_private true\nstart_type automatic\n",
        "
[[listener]]
address = \"127.0.0.1:1883\"
[[bridge]]
name = \"cloud\"
broker = \"mqtts://broker.example:1883\"
topics = [\"sensors/# out 1 plant/ plants/7/\", \"# in 0 \\\"\\\" \\\"\\\"\"]
client_id = \"plant-7\"
username = \"me\"
keep_alive = \"30s\"
ca = \"/ca.pem\"
notifications = false",
    );
    assert!(notes.ends_with("13 lines carried over, 0 remarks\n"), "{notes}");
}

#[test]
fn a_password_of_a_line_that_is_not_carried_over_is_not_repeated() {
    let notes = converted("connection b\nremote_password hunter2\n").notes;
    assert!(notes.contains("remote_password ***") && !notes.contains("hunter2"), "{notes}");
}

#[test]
fn each_line_that_is_not_carried_over_has_its_reason() {
    let reasons = [
        ("autosave_interval 60", "nothing to save now and then"),
        ("persistence_file x.db", "is not read"),
        ("psk_file /x", "TLS has no such setting here"),
        ("ciphers x", "only versions, ciphers and certificates that are safe"),
        ("clientid_prefixes x", "have no such setting here"),
        ("remote_username x", "before the first `connection`"),
        ("plugin /x.so", "plugins cannot be loaded"),
        ("plugin_opt_a 1", "plugins cannot be loaded"),
        ("include_dir /etc/x", "cannot read /etc/x: entity not found"),
        ("enable_proxy_protocol 2", "add `proxy_protocol = true` to the listener"),
        ("log_dest file /x", "not to file"),
        ("max_qos 3", "listener.0.maximum_qos must be 0 to 2, not 3"),
        ("max_keepalive x", "is no number of seconds"),
        ("persistent_client_expiration 3", "is no number of h, d, w, m"),
        ("persistent_client_expiration é", "is no number of h, d, w, m"),
        ("retain_available maybe", "neither true nor false"),
        ("protocol http_api", "the protocol \"http_api\" is not served"),
        ("port x", "is no port"),
        ("listener", "is no port"),
        ("nonsense 1", "no key that Mosquitto documents"),
    ];
    for (line, reason) in reasons {
        let notes = converted(line).notes;
        assert!(notes.starts_with(&format!("mosquitto.conf:1: {line}\n    ")), "{notes}");
        assert!(notes.contains(reason), "{line}: {notes}");
    }
}

#[test]
fn what_a_bridge_has_no_setting_for_has_its_reason_too() {
    for (lines, reason) in [
        ("remote_password x\naddress h\ntopic a", "name that with `password_file`"),
        ("bridge_protocol_version mqttv31\naddress h\ntopic a", "bridges do not speak \"mqttv31\""),
        ("addresses h:1 h:2\ntopic a", "a bridge has one broker here, and it is h:1"),
        ("topic a up\naddress h\ntopic a", "write out, in or both"),
        ("round_robin true\naddress h\ntopic a", "bridges have no such setting here"),
        ("topic a", "it has no `address`"),
        ("address h", "it has no `topic`"),
    ] {
        let notes = converted(&format!("connection b\n{lines}\n")).notes;
        assert!(notes.contains(reason), "{lines}: {notes}");
    }
}

#[test]
fn lines_are_found_with_their_place() {
    let found = lines("# a\r\n\r\nkey value more \r\n\tother");
    let found: Vec<_> = found.iter().map(|line| (line.offset, line.key, line.value)).collect();
    assert_eq!(found, [(7, "key", "value more"), (24, "other", "")]);
}

#[test]
fn whatever_a_value_is_the_result_can_be_run() {
    let keys = [
        "listener",
        "port",
        "bind_address",
        "protocol",
        "max_qos",
        "max_connections",
        "max_packet_size",
        "max_keepalive",
        "max_queued_messages",
        "max_queued_bytes",
        "memory_limit",
        "persistent_client_expiration",
        "sys_interval",
        "max_topic_alias_broker",
        "max_inflight_messages",
        "allow_anonymous",
        "log_type",
        "log_dest",
    ];
    let values = [
        "",
        "-1",
        "0",
        "1",
        "1 ::",
        "1 [x",
        "0 /",
        "0 x",
        "65536",
        "99999999999999999999",
        "true",
        "a b",
        "\u{e9}",
        "\"",
        "[",
        "all",
    ];
    for key in keys {
        for value in values {
            converted(&format!("{key} {value}\nallow_anonymous true\nmax_qos 1\n"));
        }
    }
}

#[test]
fn listeners_that_would_meet_are_left_out() {
    let notes =
        becomes("listener 1883 127.0.0.1\nlistener 1883 10.0.0.1\n", "[[listener]]\naddress = \"127.0.0.1:1883\"");
    assert!(notes.contains("left out: another listener is at 127.0.0.1:1883 already"), "{notes}");
}

#[test]
fn a_configuration_of_mosquitto_in_place_of_ours_is_taken_for_one() {
    let said = |text: &str| {
        let inputs = Inputs { file: Some(FileText::new("t.toml", text)), ..Inputs::default() };
        Config::load(inputs).map(drop).unwrap_err().to_string()
    };
    for text in ["# mine\n\npid_file /run/m.pid\nlistener 1883\n", "listener 1883 0.0.0.0\n", "plugin_opt_x y z\n"] {
        let said = said(text);
        assert_eq!(said.matches("error: ").count(), 1, "{said}");
        assert!(said.contains("`tidegate config convert t.toml -o tidegate.toml`"), "{said}");
    }
    for text in ["[queue\n", "listener = 1883 x\n", "nonsense 1\n"] {
        assert!(!said(text).contains("convert"), "{}", said(text));
    }
}
