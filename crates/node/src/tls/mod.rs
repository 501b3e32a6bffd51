//! TLS 1.2 and 1.3 of the server [RFC 5246, RFC 8446]: certificates and the requirements for clients, read from files
//! and read again while clients stay connected.
//!
//! This module does not touch a client's socket; that is `transport/tls.rs`.

mod configuration;
mod error;
mod explain;
mod facts;
mod files;
mod identity;
mod link;
mod listed;
mod listener;
mod resolver;
mod settings;
mod time;
mod watch;
mod x509;

pub use error::TlsError;
pub(crate) use error::certificate_problem;
pub(crate) use explain::explain;
pub use facts::{ClientCertificate, ConnectionFacts, Identity, IdentityRole, TlsFacts, TlsVersion};
pub(crate) use identity::client_facts;
pub use link::LinkTls;
pub(crate) use link::binding;
pub(crate) use listener::{ALPN_HTTP, ALPN_MQTT, HandshakeSlot, TlsListener, TlsListeners};
pub use listener::{PreparedTls, RevocationLists};
pub(crate) use resolver::take_server_name;
pub use settings::{
    CertificateFiles, ClientCertificates, DEFAULT_MAX_HANDSHAKES, IdentityField, OutdatedLists, TlsSettings,
};
pub(crate) use watch::FileWatch;
