//! Certificates of X.509 version 1, which `webpki` does not parse: no version, no extensions [RFC 5280, section 4.1].
//!
//! They are accepted where the name of the server is not checked. The signature of a trusted authority and the dates
//! count as in any other certificate. The authority has to sign them itself, without an intermediate. They have no
//! purpose either: a certificate that was issued for a client is accepted as a server's.

use std::ops::Range;

use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    AlgorithmIdentifier, CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime,
};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved, RootCertStore};

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
pub(super) const SEQUENCE: u8 = 0x30;
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
        let mut input: &[u8] = certificate.as_ref();
        let mut whole = value(&mut input, SEQUENCE)?;
        let before = whole;
        let mut fields = value(&mut whole, SEQUENCE)?;
        let signed = &before[..before.len() - whole.len()];
        if fields.first() == Some(&VERSION) {
            return None;
        }
        value(&mut fields, INTEGER)?;
        let inner_algorithm = value(&mut fields, SEQUENCE)?;
        let issuer = value(&mut fields, SEQUENCE)?;
        let mut validity = value(&mut fields, SEQUENCE)?;
        let valid = (time(element(&mut validity)?.1)?, time(element(&mut validity)?.1)?);
        value(&mut fields, SEQUENCE)?;
        let before = fields;
        let key = value(&mut fields, SEQUENCE)?;
        let key_der = &before[..before.len() - fields.len()];
        let algorithm = value(&mut whole, SEQUENCE)?;
        let signature = bits(&mut whole)?;
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
    mut key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Option<bool> {
    let kind = value(&mut key, SEQUENCE)?;
    let expected: AlgorithmIdentifier = algorithm.public_key_alg_id();
    if kind != expected.as_ref() {
        return None;
    }
    let public = bits(&mut key)?;
    Some(algorithm.verify_signature(public, message, signature).is_ok())
}

/// The next value of DER [X.690]: its tag and its content. `None` at the end and for invalid DER.
pub(super) fn element<'a>(input: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        // A TLS message is shorter than 16 MiB: three bytes of length are enough.
        let count = usize::from(first & 0x7f);
        let (bytes, rest) = rest.split_at_checked(count).filter(|_| (1..=3).contains(&count))?;
        (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    *input = rest;
    Some((tag, content))
}

/// The content of the next value, which has this tag.
pub(super) fn value<'a>(input: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    element(input).filter(|(found, _)| *found == tag).map(|(_, content)| content)
}

/// The bytes of a bit string of whole bytes.
fn bits<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    value(input, BIT_STRING)?.strip_prefix(&[0])
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` as seconds since 1970 [RFC 5280, section 4.1.2.5].
fn time(text: &[u8]) -> Option<i64> {
    let digits = text.strip_suffix(b"Z")?;
    let number = |range: Range<usize>| {
        let part = digits.get(range)?;
        part.iter().try_fold(0_i64, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))
    };
    let (year, rest) = match digits.len() {
        12 => (number(0..2).map(|year| if year < 50 { 2000 + year } else { 1900 + year })?, 2),
        14 => (number(0..4)?, 4),
        _ => return None,
    };
    let part = |place: usize| number(rest + 2 * place..rest + 2 * place + 2);
    let (month, day) = (part(0)?, part(1)?);
    let (hour, minute, second) = (part(2)?, part(3)?, part(4)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Years begin in March here, so that the leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_forms_of_time_are_read() {
        assert_eq!(time(b"700101000000Z"), Some(0));
        assert_eq!(time(b"20240301000000Z"), Some(1_709_251_200));
        assert_eq!(time(b"491231235959Z"), Some(2_524_607_999));
        for text in [&b""[..], b"Z", b"700101000000", b"70010100000xZ", b"701301000000Z", b"700100000000Z"] {
            assert_eq!(time(text), None);
        }
        for text in [b"700101240000Z", b"700101006000Z", b"700101000060Z"] {
            assert_eq!(time(text), None, "a part of the time of day is out of its range");
        }
    }

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
