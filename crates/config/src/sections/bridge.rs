//! Bridges to other brokers.

use std::time::Duration;

use crate::key::{Key, Section, SectionKeys, section};
use crate::list::Texts;
use crate::value::{Kind, Problem, Range, Raw, Value, Words, words};

use super::{DAY, SECOND};

/// Longest path, name or address, bytes.
const MAX_TEXT: usize = 4096;

words! {
    /// The version of MQTT for connections to the other broker.
    pub enum BridgeProtocol {
        Auto => "auto", "MQTT 5.0, or 3.1.1 where the broker does not know it";
        V5 => "5", "MQTT 5.0";
        V311 => "3.1.1", "MQTT 3.1.1: properties of messages are not carried";
    }
}

section! {
    /// A bridge: the broker is a client of another one, and carries topics between the two. See [bridges](bridges.md).
    "bridge" [repeated = true] => Bridge, BRIDGE {
        /// Its name, in logs, metrics and client ids, and in the topic of its state. No two may have the same one.
        name: String = String::new(), in Kind::Name { empty: true };
        /// The other broker: `mqtt://HOST:PORT`, or `mqtts://` for TLS.
        broker: String = String::new(), in Kind::Text { max_len: MAX_TEXT }, credentials = true;
        /// Topics to carry, a line for each: `PATTERN [out|in|both [QOS [LOCAL-PREFIX [REMOTE-PREFIX]]]]`, with `""`
        /// for no prefix; `out` and QoS 0 where a line does not say it. Of several lines for a topic the first one
        /// counts.
        topics: Texts = Texts::default(), in Kind::Texts;
        /// The client id at the other broker; empty is the name of this machine, a point, and the bridge's name, and in a
        /// cluster `cluster.prefix` in place of the machine.
        client_id: String = String::new(), in Kind::Text { max_len: 1024 };
        /// The user name at the other broker.
        username: Option<String> = None, in Kind::Text { max_len: 1024 };
        /// A file whose first line is the password at the other broker.
        password_file: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// The version of MQTT that the other broker is spoken to with.
        protocol: BridgeProtocol = BridgeProtocol::Auto, in Kind::OneOf(<BridgeProtocol as Words>::WORDS);
        /// Silence after which the other broker is asked whether it lives; one and a half times as long, and it takes
        /// the bridge for lost.
        keep_alive: Duration = Duration::from_secs(60), in Kind::Seconds(Range::of(5 * SECOND, 65_535 * SECOND));
        /// A file (PEM) of the authorities of the other broker's certificate (`mqtts://`); without it the system's
        /// authorities. The certificate has to be for the host that `broker` names.
        ca: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// A file (PEM) with the certificate that the other broker is shown, and those between it and the root; needs
        /// `key`.
        certificate: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// A file (PEM) with the key of that certificate, without a passphrase.
        key: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// Takes the other broker's certificate although it is for another host, or of X.509 version 1.
        /// Dangerous: a server with any certificate of a trusted authority can pose as that broker, and so can a client
        /// with one of version 1. Warned about at each start.
        any_host_name: bool = false, in Kind::Boolean;
        /// The listener of this broker that the bridge comes in by; empty is the first one without TLS and WebSocket.
        /// The bridge is a client like any other there, with the rights of its user.
        local_listener: String = String::new(), in Kind::Name { empty: true };
        /// The user name at this broker.
        local_username: Option<String> = None, in Kind::Text { max_len: 1024 };
        /// A file whose first line is the password at this broker.
        local_password_file: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// Messages above QoS 0 that are under way each way without an acknowledgement. Further messages wait in the
        /// queue of the broker that it comes from.
        window: u16 = 100, in Kind::Integer(Range::of(1, 65_535));
        /// Time that both brokers keep messages for the bridge while it is away.
        session_expiry: Duration = Duration::from_secs(7 * 24 * 3600), in Kind::Seconds(Range::of(SECOND, 365 * DAY));
        /// Whether `$SYS/broker/connection/NAME/state` is published here, retained: `1` while the other broker is
        /// reached, else `0`.
        notifications: bool = true, in Kind::Boolean;
    }
}
