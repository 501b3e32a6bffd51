use std::num::NonZero;

use tidegate_client::net::Address;
use tidegate_client::{PayloadFormat, QoS, TopicNameBuf, Version};

use super::connection::{ConnectionFlags, Plan};
use super::url::Url;
use super::{Tool, parse};

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, args_override_self = true)]
struct Flags {
    #[command(flatten)]
    connection: ConnectionFlags,
}

fn plan_of(tool: Tool, flags: &[&str]) -> Result<Plan, String> {
    let flags: Flags = parse(flags).map_err(|error| error.to_string())?;
    flags.connection.plan(tool, &[("--new", false)]).map_err(|error| error.to_string())
}

fn plan(flags: &[&str]) -> Plan {
    plan_of(Tool::Publish, flags).unwrap()
}

fn problem(flags: &[&str]) -> String {
    plan_of(Tool::Publish, flags).unwrap_err()
}

#[test]
fn defaults() {
    let plan = plan(&[]);
    assert_eq!(plan.address, Address::Tcp { host: "localhost".into(), port: 1883 });
    let options = plan.options;
    assert_eq!(options.version, Version::V311);
    assert_eq!(options.keep_alive, 60);
    assert!(options.clean_start && !options.trace);
    assert_eq!(options.client_id.len(), 23, "{}", options.client_id);
    assert_eq!(plan_of(Tool::Request, &[]).unwrap().options.version, Version::V5);
}

#[test]
fn short_and_long_flags() {
    let short = ["-h", "h", "-p", "1", "-u", "me", "-P", "pw", "-i", "id", "-k", "5", "-V", "31", "-c", "-d"];
    let long = [
        "--host",
        "h",
        "--port",
        "1",
        "--username",
        "me",
        "--pw",
        "pw",
        "--id",
        "id",
        "--keepalive",
        "5",
        "--protocol-version",
        "mqttv31",
        "--disable-clean-session",
        "--debug",
    ];
    for flags in [short, long] {
        let plan = plan(&flags);
        assert_eq!(plan.address, Address::Tcp { host: "h".into(), port: 1 });
        let options = plan.options;
        assert_eq!((options.version, options.keep_alive), (Version::V31, 5));
        assert_eq!(options.username.as_deref(), Some("me"));
        assert_eq!(options.password.as_deref(), Some(&b"pw"[..]));
        assert_eq!(options.client_id, "id");
        assert!(!options.clean_start && options.trace);
    }
}

#[test]
fn values_may_begin_with_a_hyphen_and_the_last_of_two_counts() {
    let plan = plan(&["-u", "-x", "-P", "-1", "-i", "a", "-i", "-b", "-d", "-d"]);
    assert_eq!(plan.options.username.as_deref(), Some("-x"));
    assert_eq!(plan.options.password.as_deref(), Some(&b"-1"[..]));
    assert_eq!(plan.options.client_id, "-b");
}

#[test]
fn where_the_server_is() {
    let unix = plan(&["--unix", "some/socket"]);
    assert_eq!(unix.address, Address::Unix { path: "some/socket".into() });
    let web = plan(&["--ws", "-h", "h", "-p", "9001", "--ws-path", "/x"]);
    assert_eq!(web.address, Address::WebSocket { host: "h".into(), port: 9001, path: "/x".into() });
    let url = plan(&["-L", "mqtt://me:pw@h/some/topic"]);
    assert_eq!(url.address, Address::Tcp { host: "h".into(), port: 1883 });
    assert_eq!(url.url_topic.as_deref(), Some("some/topic"));
    assert_eq!(url.options.username.as_deref(), Some("me"));
    let web = plan(&["-L", "ws://h:80/t"]);
    assert_eq!(web.address, Address::WebSocket { host: "h".into(), port: 80, path: "/mqtt".into() });
    let other_user = plan(&["-L", "mqtt://me:pw@h/t", "-u", "you", "-A", "127.0.0.1"]);
    assert_eq!(other_user.options.username.as_deref(), Some("you"));
    assert_eq!(other_user.sockets.bind.as_deref(), Some("127.0.0.1"));
    for flags in [
        &["--unix", "s", "-h", "h"][..],
        &["-L", "mqtt://h/t", "-h", "h"],
        &["-p", "70000"],
        &["--ws", "--ws-path", "x"],
        &["--ws", "--ws-path", "/a b"],
    ] {
        problem(flags);
    }
}

#[test]
fn flags_of_mqtt_5_select_that_version() {
    for flags in [&["-x", "9"][..], &["-D", "connect", "receive-maximum", "5"]] {
        assert_eq!(plan(flags).options.version, Version::V5, "{flags:?}");
        let old = [flags, &["-V", "311"]].concat();
        assert!(problem(&old).contains("needs MQTT 5.0"), "{old:?}");
    }
    let flags: Flags = parse(&["-V", "31"]).unwrap();
    let refused = flags.connection.plan(Tool::Subscribe, &[("--new", true)]).unwrap_err();
    assert_eq!(refused.to_string(), "--new needs MQTT 5.0, and -V asks for 3.1");
}

#[test]
fn sessions_that_outlive_the_command() {
    assert!(problem(&["-c"]).contains("add -i ID"));
    assert!(problem(&["-c", "-I", "p"]).contains("add -i ID"));
    assert!(problem(&["-x", "-1"]).contains("add -i ID"));
    problem(&["-i", "a", "-I", "b"]);
    let expiry = |flags: &[&str]| plan(flags).options.properties.session_expiry_interval;
    assert_eq!(expiry(&["-c", "-i", "a", "-V", "5"]), Some(u32::MAX));
    assert_eq!(expiry(&["-c", "-i", "a"]), None);
    assert_eq!(expiry(&["-c", "-i", "a", "-x", "60"]), Some(60));
    assert_eq!(expiry(&["-x", "∞", "-i", "a"]), Some(u32::MAX));
    assert_eq!(expiry(&["-D", "connect", "session-expiry-interval", "7"]), Some(7));
    assert!(problem(&["-x", "1", "-D", "connect", "session-expiry-interval", "7"]).contains("twice"));
    let prefixed = plan(&["-I", "me-"]).options.client_id;
    assert_eq!(prefixed, format!("me-{}", std::process::id()));
}

#[test]
fn a_password_needs_a_name_before_mqtt_5() {
    assert!(problem(&["-P", "x"]).contains("user name"));
    assert!(plan(&["-P", "x", "-V", "5"]).options.password.is_some());
}

#[test]
fn wills() {
    let flags = ["--will-topic", "w", "--will-payload", "-bye", "--will-qos", "2", "--will-retain"];
    let will = plan(&flags).options.will.unwrap();
    assert_eq!(
        (will.topic.as_str(), &will.payload[..], will.qos, will.retain),
        ("w", &b"-bye"[..], QoS::ExactlyOnce, true)
    );
    let with_properties =
        ["--will-topic", "w", "-D", "will", "will-delay-interval", "5", "-D", "will", "content-type", "text/plain"];
    let will = plan(&with_properties).options.will.unwrap();
    assert_eq!(will.delay_interval, Some(5));
    assert_eq!(will.properties.content_type.as_deref(), Some("text/plain"));
    assert!(problem(&["--will-payload", "x"]).contains("--will-topic"));
    assert!(problem(&["--will-topic", "a/#"]).contains("wildcard"));
    assert!(problem(&["-D", "will", "will-delay-interval", "5"]).contains("--will-topic"));
}

#[test]
fn every_property() {
    let flags = "-D CONNECT user-property n v \
        -D connect user-property n w \
        -D connect maximum-packet-size 1000 \
        -D connect topic-alias-maximum 7 \
        -D connect request-response-information 1 \
        -D connect request-problem-information 0 \
        -D connect authentication-method m \
        -D connect authentication-data d \
        --property publish payload-format-indicator 1 \
        -D publish message-expiry-interval 60 \
        -D publish content-type text/plain \
        -D publish response-topic r/t \
        -D publish correlation-data c \
        -D publish topic-alias 3 \
        -D publish user-property a b \
        -D disconnect session-expiry-interval 0 \
        -D disconnect reason-string bye";
    let plan = plan(&flags.split(' ').collect::<Vec<_>>());
    let connect = &plan.options.properties;
    assert_eq!(connect.user_properties, [("n".into(), "v".into()), ("n".into(), "w".into())]);
    assert_eq!(connect.maximum_packet_size.map(NonZero::get), Some(1000));
    assert_eq!(connect.topic_alias_maximum, Some(7));
    assert_eq!(connect.request_response_information, Some(true));
    assert_eq!(connect.request_problem_information, Some(false));
    assert_eq!(connect.authentication_method.as_deref(), Some("m"));
    assert_eq!(connect.authentication_data.as_deref(), Some(&b"d"[..]));
    let publish = &plan.properties.publish;
    assert_eq!(publish.message.payload_format, Some(PayloadFormat::Utf8));
    assert_eq!(publish.message.message_expiry, Some(60));
    assert_eq!(publish.message.content_type.as_deref(), Some("text/plain"));
    assert_eq!(publish.message.response_topic.as_ref().map(TopicNameBuf::as_str), Some("r/t"));
    assert_eq!(publish.message.correlation_data.as_deref(), Some(&b"c"[..]));
    assert_eq!(publish.topic_alias.map(NonZero::get), Some(3));
    assert_eq!(publish.message.user_properties, [("a".into(), "b".into())]);
    assert_eq!(plan.properties.disconnect.session_expiry_interval, Some(0));
    assert_eq!(plan.properties.disconnect.reason_string.as_deref(), Some("bye"));
    let plan = plan_of(
        Tool::Subscribe,
        &["-D", "subscribe", "subscription-identifier", "5", "-D", "unsubscribe", "user-property", "k", "v"],
    )
    .unwrap();
    assert_eq!(plan.properties.subscribe.identifier.map(NonZero::get), Some(5));
    assert_eq!(plan.properties.unsubscribe, [("k".into(), "v".into())]);
}

#[test]
fn properties_that_do_not_exist() {
    let cases: [(&[&str], &str); 9] = [
        (&["-D", "connect", "bogus", "1"], "connect has no such property"),
        (
            &["-D", "subscribe", "user-property", "a", "b"],
            "`pub` sets properties of connect, publish, disconnect, will",
        ),
        (&["-D", "connect", "user-property", "a"], "user-property takes a name and a value"),
        (&["-D", "connect", "receive-maximum", "1", "2"], "receive-maximum takes one value"),
        (&["-D", "connect", "receive-maximum", "0"], "out of range"),
        (&["-D", "connect", "session-expiry-interval", "-1"], "out of range"),
        (&["-D", "publish", "payload-format-indicator", "2"], "0 or 1"),
        (&["-D", "publish", "response-topic", "a/+"], "wildcard"),
        (&["-D", "connect", "authentication-data", "x"], "needs an authentication-method"),
    ];
    for (flags, text) in cases {
        let problem = problem(flags);
        assert!(problem.contains(text), "{problem}");
    }
    problem(&["-D", "connect", "receive-maximum"]);
}

#[test]
fn tls_is_spoken_when_anything_asks_for_it() {
    let tls = |host: &str, port| Address::Tls { host: host.into(), port };
    let web = |port| Address::WebSocketTls { host: "h".into(), port, path: "/mqtt".into() };
    let cases: [(&[&str], Address); 9] = [
        (&["-p", "8883"], tls("localhost", 8883)),
        (&["-L", "mqtts://h/t"], tls("h", 8883)),
        (&["-L", "mqtts://h:1/t"], tls("h", 1)),
        (&["-L", "mqtt://h:8883/t"], tls("h", 8883)),
        (&["-L", "wss://h:443/t"], web(443)),
        (&["-h", "h", "--ws", "--tls-use-os-certs"], web(8883)),
        (&["-p", "1883", "--insecure"], tls("localhost", 1883)),
        (&["--tls-version", "tlsv1.3"], tls("localhost", 8883)),
        (&["--tls-alpn", "mqtt"], tls("localhost", 8883)),
    ];
    for (flags, address) in cases {
        let plan = plan_of(Tool::Publish, flags);
        match plan {
            Ok(plan) => assert!(plan.address == address && plan.sockets.tls.is_some(), "{flags:?}: {}", plan.address),
            // A machine without any authority says so; everything else is wrong.
            Err(text) => assert!(text.contains("the system has no list"), "{flags:?}: {text}"),
        }
    }
    assert_eq!(plan(&["-p", "8883", "--no-tls"]).address, Address::Tcp { host: "localhost".into(), port: 8883 });
}

#[test]
fn a_unix_socket_is_a_host_as_a_listener_writes_it() {
    for flags in [&["-h", "unix:/run/mqtt.sock"][..], &["-h", "unix:///run/mqtt.sock"], &["--unix", "/run/mqtt.sock"]] {
        assert_eq!(plan(flags).address, Address::Unix { path: "/run/mqtt.sock".into() });
    }
    for (flags, text) in [
        (&["-h", "unix:"][..], "write unix:/PATH"),
        (&["-h", "mqtts://h:8883"], "a URL is -L mqtts://HOST:PORT/TOPIC"),
        (&["-h", "unix:/s", "-p", "1883"], "-p is of no use"),
        (&["-h", "unix:/s", "--ws"], "--ws is of no use"),
    ] {
        let problem = problem(flags);
        assert!(problem.contains(text), "{problem}");
    }
}

#[test]
fn a_url_of_tls_is_one_of_mqtts() {
    for scheme in ["mqtts", "tls", "ssl"] {
        let url = Url::parse(&format!("{scheme}://h:1/t")).unwrap();
        assert_eq!((url.tls, url.web, url.quic, url.port), (true, false, false, Some(1)), "{scheme}");
    }
}

#[test]
fn tls_is_never_left_out_in_silence() {
    let cases: [(&[&str], &str); 18] = [
        (&["--cafile", "/no/file"], "cannot read /no/file"),
        (&["--capath", "/no/directory"], "cannot read /no/directory"),
        (&["--cert", "x"], "--key"),
        (&["--key", "x"], "--cert"),
        (&["--tls-version", "tlsv1.1"], "tlsv1.2 or tlsv1.3"),
        (&["--cafile", "x", "--no-tls"], "contradict"),
        (&["-L", "mqtts://h/t", "--no-tls"], "the URL asks for TLS"),
        (&["-L", "mqtt://h/t", "--insecure"], "write mqtts://"),
        (&["--unix", "/s", "--insecure"], "not spoken over a Unix socket"),
        (&["-h", "unix:/s", "--insecure"], "not spoken over a Unix socket"),
        (&["--keyform", "pem"], "PEM files"),
        (&["--ciphers", "x"], "automatically"),
        (&["--tls-engine", "x"], "PEM files"),
        (&["--tls-engine-kpass-sha1", "x"], "PEM files"),
        (&["--tls-keylog", "x"], "not written"),
        (&["--psk", "x"], "use certificates"),
        (&["--psk-identity", "x"], "use certificates"),
        (&["--cafile", "x", "--tls-use-os-certs"], "cannot be used with"),
    ];
    for (flags, text) in cases {
        let problem = problem(flags);
        assert!(problem.contains(text), "{flags:?}: {problem}");
    }
    for flags in [&["--proxy", "socks5h://h"][..], &["-S"], &["--mptcp"]] {
        problem(flags);
    }
    plan(&["--nodelay"]);
}
