//! Kafka over TLS, with users and passwords.

#[cfg(feature = "kafka-tls")]
mod tls;

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use rcgen::{CertificateParams, KeyPair};
use tidegate_bus::{Address, Bus, BusError, Sasl, Settings};

#[cfg(feature = "kafka-tls")]
pub(super) use self::tls::tls_with_the_right_password_connects;
use super::Broker;
use crate::client::PATIENCE;
use crate::settings;

/// The users for the tool that formats a broker's storage.
pub(super) const USERS: [&str; 2] = ["--add-scram", "SCRAM-SHA-512=[name=node,password=known]"];

/// Adds the listener that wants TLS and a password, with its own certificate.
pub(super) fn add_listener(properties: &mut String, directory: &Path) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(directory.join("ca.pem"), certificate.pem()).unwrap();
    std::fs::write(directory.join("server.pem"), format!("{}{}", key.serialize_pem(), certificate.pem())).unwrap();
    let store = directory.join("server.pem");
    let login = "required username=\"node\" password=\"known\"";
    writeln!(
        properties,
        "listener.name.safe.ssl.keystore.type=PEM\nlistener.name.safe.ssl.keystore.location={}\n\
         listener.name.safe.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\n\
         listener.name.safe.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule {login} user_node=\"known\";\n\
         listener.name.safe.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule {login};",
        store.display()
    )
    .unwrap();
}

fn open(broker: &Broker, password: &str, settings: Settings) -> Result<(Bus, bool), BusError> {
    let address: Address = format!("kafka://node:{password}@127.0.0.1:{}", broker.safe_port).parse().unwrap();
    let (tell, told) = channel();
    let observer = Arc::new(move |connection: tidegate_bus::Connection| {
        let _ = tell.send(connection);
    });
    let bus = Bus::open(&address, settings, observer)?;
    // A refused password is not reported: it is tried again, since it may be right later.
    let patience = if password == "known" { PATIENCE } else { std::time::Duration::from_secs(2) };
    let connected = told.recv_timeout(patience).is_ok_and(tidegate_bus::Connection::is_connected);
    Ok((bus, connected))
}

fn safe(broker: &Broker, sasl: Sasl) -> Settings {
    let prefix = format!("safe-{}", sasl as u8);
    Settings { tls: true, tls_ca: Some(broker.directory.join("ca.pem")), sasl, prefix, ..settings() }
}

#[cfg(not(feature = "kafka-tls"))]
pub(super) fn tls_with_the_right_password_connects(broker: &Broker) {
    for settings in [safe(broker, Sasl::Plain), Settings { sasl: Sasl::ScramSha512, ..settings() }] {
        assert_eq!(open(broker, "known", settings).err(), Some(BusError::NoKafkaTls));
    }
}
