//! Facts about a connection beside its MQTT packets: its address, and the result of TLS.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::proxy_protocol::RelayedTenant;

/// Facts about a connection when its client asks for admission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionFacts {
    /// The client's address: from the PROXY protocol if used, else the other end of the socket. `None` for a Unix
    /// socket, or when the socket no longer knows it.
    pub peer: Option<SocketAddr>,
    /// The result of the TLS handshake, if TLS is used.
    pub tls: Option<Arc<TlsFacts>>,
    /// The tenant that a PROXY protocol header names. Only the listener for relayed clients may believe it.
    pub relayed_tenant: Option<RelayedTenant>,
}

/// The result of a TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFacts {
    /// The version.
    pub version: TlsVersion,
    /// The name that the client asked for (SNI), in lower case.
    pub server_name: Option<Box<str>>,
    /// The protocol agreed on (ALPN).
    pub alpn: Option<Box<[u8]>>,
    /// The client's certificate, verified up to an authority that the listener trusts.
    pub client: Option<ClientCertificate>,
    /// The client's identity by its certificate, if the listener takes a part of it for that and the certificate has it.
    pub identity: Option<Identity>,
}

/// The use of the identity in a client's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdentityRole {
    /// None: it only proves that the client may connect.
    #[default]
    None,
    /// The user name.
    Username,
    /// The client id.
    ClientId,
}

/// The identity of a client by its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The part of the certificate that the listener names.
    pub value: Box<str>,
    /// Its use; never [`IdentityRole::None`].
    pub role: IdentityRole,
}

/// The identifying fields of a client's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The first common name of the subject.
    pub common_name: Option<Box<str>>,
    /// DNS names among the alternative names.
    pub dns: Vec<Box<str>>,
    /// Email addresses among the alternative names.
    pub emails: Vec<Box<str>>,
    /// URIs among the alternative names.
    pub uris: Vec<Box<str>>,
    /// Serial number, the bytes of the certificate.
    pub serial: Box<[u8]>,
    /// When it ends to be valid, seconds since 1970.
    pub not_after: i64,
    /// SHA-256 of the whole certificate.
    pub fingerprint_sha256: [u8; 32],
}

/// A version of TLS that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// 1.2
    #[default]
    Tls12,
    /// 1.3
    Tls13,
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        })
    }
}
