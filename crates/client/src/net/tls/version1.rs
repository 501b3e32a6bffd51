//! Certificates of X.509 version 1, which `webpki` does not parse: no version, no extensions [RFC 5280, section 4.1].
//!
//! They are accepted where the name of the server is not checked. The signature of a trusted authority and the dates
//! count as in any other certificate. The authority has to sign them itself, without an intermediate. They have no
//! purpose either: a certificate that was issued for a client is accepted as a server's.

use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    AlgorithmIdentifier, CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime,
};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved, RootCertStore};
use tidegate_x509::der::{Der, INTEGER, SEQUENCE};
use tidegate_x509::time;

/// `[0]`, the version, which certificates of version 1 do not have.
const VERSION: u8 = 0xa0;

/// The parts of a certificate of version 1 that a verifier needs.
#[derive(Debug)]
pub(super) struct Version1<'a> {
    /// The signed bytes.
    signed: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
    issuer: &'a [u8],
    /// First and last second, seconds since 1970.
    valid: (i64, i64),
    /// The public key with its algorithm, and the same with tag and length.
    key: &'a [u8],
    key_der: &'a [u8],
}

impl<'a> Version1<'a> {
    /// Reads a certificate; `None` if it is of another version or damaged.
    pub(super) fn read(certificate: &'a CertificateDer<'_>) -> Option<Self> {
        let mut input = Der::new(certificate);
        let mut whole = input.enter(SEQUENCE)?;
        let (signed, fields) = whole.encoded(SEQUENCE)?;
        let mut fields = Der::new(fields);
        if fields.peek() == Some(VERSION) {
            return None;
        }
        fields.value(INTEGER)?;
        let inner_algorithm = fields.value(SEQUENCE)?;
        let issuer = fields.value(SEQUENCE)?;
        let mut validity = fields.enter(SEQUENCE)?;
        let valid = (time::parse(validity.next()?.1)?, time::parse(validity.next()?.1)?);
        fields.value(SEQUENCE)?;
        let (key_der, key) = fields.encoded(SEQUENCE)?;
        let algorithm = whole.value(SEQUENCE)?;
        let signature = whole.bits()?;
        let ended = input.is_empty() && whole.is_empty() && fields.is_empty() && validity.is_empty();
        let read = Self { signed, algorithm, signature, issuer, valid, key, key_der };
        (ended && algorithm == inner_algorithm).then_some(read)
    }

    /// Checks the dates and the signature of a trusted authority.
    ///
    /// # Errors
    /// When no authority of `roots` has signed the certificate, or it is not valid at `now`.
    pub(super) fn verify(
        &self,
        roots: &RootCertStore,
        algorithms: &WebPkiSupportedAlgorithms,
        now: UnixTime,
    ) -> Result<(), Error> {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now < self.valid.0 {
            return Err(CertificateError::NotValidYet.into());
        }
        if now > self.valid.1 {
            return Err(CertificateError::Expired.into());
        }
        // The names of a version 1 certificate are not read, so it cannot prove that it keeps to constraints.
        let issues =
            |anchor: &&TrustAnchor<'_>| anchor.subject.as_ref() == self.issuer && anchor.name_constraints.is_none();
        let mut found = CertificateError::UnknownIssuer;
        for anchor in roots.roots.iter().filter(issues) {
            let fitting = algorithms.all.iter().filter(|one| one.signature_alg_id().as_ref() == self.algorithm);
            for algorithm in fitting {
                let key = anchor.subject_public_key_info.as_ref();
                match verify(*algorithm, key, self.signed, self.signature) {
                    Some(true) => return Ok(()),
                    Some(false) => found = CertificateError::BadSignature,
                    None => {}
                }
            }
        }
        Err(found.into())
    }

    /// Checks the signature of the handshake before TLS 1.3.
    ///
    /// # Errors
    /// When it is not that of the key of this certificate.
    pub(super) fn verify_tls12(
        &self,
        message: &[u8],
        signed: &DigitallySignedStruct,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Result<(), Error> {
        let offered = algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let (_, candidates) = offered.ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        let fitting = candidates.iter().find_map(|one| verify(*one, self.key, message, signed.signature()));
        if fitting == Some(true) { Ok(()) } else { Err(CertificateError::BadSignature.into()) }
    }

    /// Checks the signature of the handshake of TLS 1.3.
    ///
    /// # Errors
    /// When it is not that of the key of this certificate.
    pub(super) fn verify_tls13(
        &self,
        message: &[u8],
        signed: &DigitallySignedStruct,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Result<(), Error> {
        let key = SubjectPublicKeyInfoDer::from(self.key_der);
        verify_tls13_signature_with_raw_key(message, &key, signed, algorithms).map(|_| ())
    }
}

/// Whether the signature is that of a key; `None` if the key is of another algorithm or damaged.
fn verify(
    algorithm: &dyn SignatureVerificationAlgorithm,
    key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Option<bool> {
    let mut key = Der::new(key);
    let kind = key.value(SEQUENCE)?;
    let expected: AlgorithmIdentifier = algorithm.public_key_alg_id();
    if kind != expected.as_ref() {
        return None;
    }
    let public = key.bits()?;
    Some(algorithm.verify_signature(public, message, signature).is_ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_make_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Version1::read(&CertificateDer::from(bytes));
        }

        #[test]
        fn a_damaged_length_makes_no_panic(at in 0..60_usize, byte: u8) {
            // SEQUENCE { SEQUENCE { INTEGER, SEQUENCE, SEQUENCE, SEQUENCE { two times }, SEQUENCE, SEQUENCE }, … }
            let times = [&b"\x17\x0d700101000000Z"[..], b"\x17\x0d490101000000Z"].concat();
            let fields = [&b"\x02\x01\x05\x30\x00\x30\x00\x30"[..], &[times.len() as u8], &times, b"\x30\x00\x30\x00"].concat();
            let rest = b"\x30\x00\x03\x02\x00\x07";
            let mut whole = vec![SEQUENCE, (fields.len() + 2 + rest.len()) as u8, SEQUENCE, fields.len() as u8];
            whole.extend_from_slice(&fields);
            whole.extend_from_slice(rest);
            prop_assert!(Version1::read(&CertificateDer::from(whole.clone())).is_some());
            let at = at % whole.len();
            whole[at] = byte;
            let _ = Version1::read(&CertificateDer::from(whole));
        }
    }
}
