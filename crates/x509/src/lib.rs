//! Values of X.509 certificates and lists of revoked ones [RFC 5280]: DER, times, extensions and purposes; and the
//! reasons for which a verifier of `rustls` refuses a certificate. TLS of the client and of the server share them. `rustls` verifies certificates; for these few fields
//! `x509-parser` would bring about ten crates.

pub mod der;
pub mod extension;
pub mod purpose;
pub mod time;
pub mod verifier;
