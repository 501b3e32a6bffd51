//! The credentials of a client.

use std::fmt;
use std::net::SocketAddr;

use zeroize::Zeroizing;

/// Bytes that are overwritten when they are dropped and that no `Debug` output shows.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the bytes over.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes. The caller must erase any copy of them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text.as_bytes().to_vec())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// The credentials and the origin of a CONNECT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The name of the listener.
    pub listener: String,
    /// The tenant of the listener.
    pub tenant: u32,
    /// The client id, as assigned by the server if the client gave none.
    pub client_id: String,
    /// The user name of CONNECT [MQTT-3.1.3-11].
    pub user_name: Option<String>,
    /// The password of CONNECT.
    pub password: Option<Secret>,
    /// The address of the client; `None` for a local socket.
    pub peer: Option<SocketAddr>,
    /// The client's certificate. The caller has verified its chain.
    pub certificate: Option<ClientCertificate>,
    /// The host name that the client asked for in its TLS handshake.
    pub sni: Option<String>,
    /// The data of an MQTT 5 client for enhanced authentication.
    pub enhanced: Option<Enhanced>,
}

impl Request {
    /// Its approximate size in memory, bytes.
    pub fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let texts = |texts: &[String]| texts.iter().map(|text| text.len() + size_of::<String>()).sum::<usize>();
        let certificate = self.certificate.as_ref().map_or(0, |certificate| {
            text(&certificate.common_name)
                + certificate.fingerprint.len()
                + [&certificate.dns, &certificate.emails, &certificate.uris]
                    .map(|names| texts(names))
                    .iter()
                    .sum::<usize>()
        });
        size_of::<Self>()
            + self.listener.len()
            + self.client_id.len()
            + text(&self.user_name)
            + text(&self.sni)
            + self.password.as_ref().map_or(0, |password| password.expose().len())
            + self.enhanced.as_ref().map_or(0, |enhanced| enhanced.method.len() + enhanced.data.len())
            + certificate
    }
}

/// The owner named by a verified certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The common name of its subject.
    pub common_name: Option<String>,
    /// DNS names among its alternative names, in their order.
    pub dns: Vec<String>,
    /// Mail addresses among its alternative names.
    pub emails: Vec<String>,
    /// URIs among its alternative names.
    pub uris: Vec<String>,
    /// SHA-256 of the certificate as hexadecimal digits.
    pub fingerprint: String,
}

/// Authentication Method and Authentication Data of a CONNECT (MQTT 5, 4.12).
#[derive(Clone, PartialEq, Eq)]
pub struct Enhanced {
    /// The method.
    pub method: String,
    /// The data; empty when the client sends it only when asked.
    pub data: Vec<u8>,
}

impl fmt::Debug for Enhanced {
    /// Leaves the data out, since a method may put a secret there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enhanced").field("method", &self.method).finish_non_exhaustive()
    }
}
