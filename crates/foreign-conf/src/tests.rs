//! The influence of single settings on access.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::io;

use super::*;

fn converted(broker: Broker, text: &str) -> Conversion {
    let file = File { name: "f".to_owned(), text: text.to_owned() };
    convert(broker, &file, "users", &|_| Err(io::ErrorKind::NotFound.into()), &|_, _| false).unwrap().conversion
}

#[test]
fn an_unknown_setting_closes_all_listeners() {
    for (broker, text) in [
        (Broker::Emqx, "listeners.tcp.default.bind = 1883\nauthorization.sources = []\nnew { key = 1 }"),
        (
            Broker::HiveMq,
            "<hivemq><listeners><tcp-listener><port>1883</port></tcp-listener></listeners><new><key>1</key></new></hivemq>",
        ),
        (Broker::NanoMq, "listeners.tcp.bind = \"0.0.0.0:1883\"\nnew.key = 1"),
        (Broker::RabbitMq, "mqtt.listeners.tcp.default = 1883\ndefault_user = ann\ndefault_pass = x\nnew.key = 1"),
        (Broker::VerneMq, "listener.tcp.default = 127.0.0.1:1883\nallow_anonymous = on\nnew.key = 1"),
    ] {
        let result = converted(broker, text);
        let values: Vec<&str> = result.toml.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(result.left_out && result.toml.contains("127.0.0.1:1883"), "{}", result.toml);
        assert!(result.toml.contains("/dev/null") && !values.join("\n").contains("allow_anonymous"), "{}", result.toml);
    }
}

#[test]
fn a_file_of_another_kind_is_refused() {
    for broker in Broker::ALL {
        let file = File { name: "f".to_owned(), text: "root:x:0:0:root:/root:/bin/bash\n".to_owned() };
        assert!(
            convert(broker, &file, "users", &|_| Err(io::ErrorKind::NotFound.into()), &|_, _| false).is_err(),
            "{broker:?}"
        );
    }
}
