//! The fields of an X.509 certificate that say who it is for and until when [RFC 5280, section 4.1].
//!
//! `rustls` verifies certificates; this module reads names from verified ones, and from our own.

use ring::digest::{SHA256, digest};

use tidegate_x509::der::{Der, INTEGER, OID, SEQUENCE, SET};
use tidegate_x509::{extension, time};

use super::facts::ClientCertificate;

/// `id-at-commonName`, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// `id-ce-subjectAltName`, 2.5.29.17.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// `[0]`, the version.
const VERSION: u8 = 0xa0;
/// Alternative names: `rfc822Name`, `dNSName`, `uniformResourceIdentifier`.
const EMAIL: u8 = 0x81;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;

const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const BMP_STRING: u8 = 0x1e;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Most alternative names of one kind that are looked at.
const MAX_NAMES: usize = 64;

/// Reads a certificate; `None` if it is invalid.
pub(super) fn read(certificate: &[u8]) -> Option<ClientCertificate> {
    let mut tbs = Der::new(certificate).enter(SEQUENCE)?.enter(SEQUENCE)?;
    if tbs.peek() == Some(VERSION) {
        tbs.next()?;
    }
    let serial = tbs.value(INTEGER)?;
    let _signature = tbs.value(SEQUENCE)?;
    let _issuer = tbs.value(SEQUENCE)?;
    let mut validity = tbs.enter(SEQUENCE)?;
    let _not_before = validity.next()?;
    let (_, not_after) = validity.next()?;
    let subject = tbs.enter(SEQUENCE)?;
    let mut read = ClientCertificate {
        common_name: common_name(subject),
        dns: Vec::new(),
        emails: Vec::new(),
        uris: Vec::new(),
        serial: serial.into(),
        not_after: time::parse(not_after)?,
        fingerprint_sha256: fingerprint(certificate),
    };
    while let Some((tag, content)) = tbs.next() {
        if tag == extension::EXTENSIONS {
            read_names(content, &mut read)?;
        }
    }
    Some(read)
}

/// Whether a certificate is of version 1: it has no version and no extensions. OpenSSL issues such ones by default.
pub(super) fn is_version_1(certificate: &[u8]) -> bool {
    let tbs = Der::new(certificate).enter(SEQUENCE).and_then(|mut whole| whole.enter(SEQUENCE));
    tbs.is_some_and(|tbs| tbs.peek() != Some(VERSION))
}

/// The next update of a list of revoked certificates [RFC 5280, section 5.1]; `None` if the list is invalid, or has no
/// such field.
pub(super) fn next_update(list: &[u8]) -> Option<i64> {
    let mut tbs = Der::new(list).enter(SEQUENCE)?.enter(SEQUENCE)?;
    if tbs.peek() == Some(INTEGER) {
        tbs.next()?;
    }
    let _signature = tbs.value(SEQUENCE)?;
    let _issuer = tbs.value(SEQUENCE)?;
    let (_, _this_update) = tbs.next()?;
    let (tag, next_update) = tbs.next()?;
    if matches!(tag, UTC_TIME | GENERALIZED_TIME) { time::parse(next_update) } else { None }
}

fn fingerprint(certificate: &[u8]) -> [u8; 32] {
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest(&SHA256, certificate).as_ref());
    fingerprint
}

fn common_name(mut subject: Der<'_>) -> Option<Box<str>> {
    while let Some(mut set) = subject.enter(SET) {
        while let Some(mut attribute) = set.enter(SEQUENCE) {
            if attribute.value(OID)? == COMMON_NAME {
                let (tag, content) = attribute.next()?;
                return text(tag, content);
            }
        }
    }
    None
}

fn read_names(extensions: &[u8], read: &mut ClientCertificate) -> Option<()> {
    for (_, content) in extension::each(extensions)?.into_iter().filter(|(name, _)| *name == SUBJECT_ALT_NAME) {
        let mut names = Der::new(content).enter(SEQUENCE)?;
        while let Some((kind, name)) = names.next() {
            let list = match kind {
                EMAIL => &mut read.emails,
                DNS => &mut read.dns,
                URI => &mut read.uris,
                _ => continue,
            };
            if let Some(name) = text(IA5_STRING, name).filter(|_| list.len() < MAX_NAMES) {
                list.push(name);
            }
        }
    }
    Some(())
}

/// Text of one of the common kinds. A name with a control character is rejected: U+0000 in a name has been used to pose
/// as another.
fn text(tag: u8, content: &[u8]) -> Option<Box<str>> {
    let text = match tag {
        UTF8_STRING | PRINTABLE_STRING | IA5_STRING => String::from_utf8(content.to_vec()).ok()?,
        BMP_STRING if content.len().is_multiple_of(2) => {
            let units = content.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            char::decode_utf16(units).collect::<Result<String, _>>().ok()?
        }
        _ => return None,
    };
    (!text.is_empty() && !text.contains(char::is_control)).then(|| text.into_boxed_str())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair, SanType};

    use super::*;

    fn certificate(edit: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let mut params = CertificateParams::default();
        edit(&mut params);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn names_and_times_are_read() {
        let der = certificate(|params| {
            params.distinguished_name.push(DnType::OrganizationName, "Org");
            params.distinguished_name.push(DnType::CommonName, "dev\u{ef}ce 1");
            params.subject_alt_names = vec![
                SanType::DnsName("a.example".try_into().unwrap()),
                SanType::DnsName("b.example".try_into().unwrap()),
                SanType::Rfc822Name("a@example.org".try_into().unwrap()),
                SanType::URI("urn:dev:1".try_into().unwrap()),
                SanType::IpAddress([127, 0, 0, 1].into()),
            ];
            params.not_after = rcgen::date_time_ymd(2031, 2, 3);
        });
        let read = read(&der).unwrap();
        assert_eq!(read.common_name.as_deref(), Some("dev\u{ef}ce 1"));
        assert_eq!(read.dns, ["a.example".into(), "b.example".into()]);
        assert_eq!(read.emails, ["a@example.org".into()]);
        assert_eq!(read.uris, ["urn:dev:1".into()]);
        assert_eq!(read.not_after, 1_927_843_200);
        assert_eq!(read.fingerprint_sha256, digest(&SHA256, &der).as_ref());
    }

    #[test]
    fn a_common_name_in_utf_16_and_none_at_all() {
        let der = certificate(|params| {
            params.distinguished_name = rcgen::DistinguishedName::new();
            let name = DnValue::BmpString("g\u{fc}n".try_into().unwrap());
            params.distinguished_name.push(DnType::CommonName, name);
        });
        assert_eq!(read(&der).unwrap().common_name.as_deref(), Some("g\u{fc}n"));
        let der = certificate(|params| params.distinguished_name = rcgen::DistinguishedName::new());
        assert_eq!(read(&der).unwrap().common_name, None);
    }

    #[test]
    fn a_list_says_when_the_next_one_is_due() {
        let list = |year| {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::default();
            params.key_usages = vec![rcgen::KeyUsagePurpose::CrlSign];
            let issuer = rcgen::CertifiedIssuer::self_signed(params, key).unwrap();
            let params = rcgen::CertificateRevocationListParams {
                this_update: rcgen::date_time_ymd(2024, 1, 1),
                next_update: rcgen::date_time_ymd(year, 2, 3),
                crl_number: rcgen::SerialNumber::from(1_u64),
                issuing_distribution_point: None,
                revoked_certs: Vec::new(),
                key_identifier_method: rcgen::KeyIdMethod::Sha256,
            };
            params.signed_by(&issuer).unwrap().der().to_vec()
        };
        assert_eq!(next_update(&list(2031)), Some(1_927_843_200));
        assert_eq!(next_update(&list(2051)), Some(2_558_995_200), "from 2050 on times have another form");
        let short = list(2031);
        for length in 0..short.len() {
            assert_eq!(next_update(&short[..length]), None);
        }
        assert_eq!(next_update(&certificate(|_| {})), None);
    }

    #[test]
    fn a_name_with_a_control_character_is_refused() {
        assert_eq!(text(UTF8_STRING, b"admin\0.example"), None);
        assert_eq!(text(UTF8_STRING, b"\xff"), None);
        assert_eq!(text(BMP_STRING, b"\0a\0"), None);
    }

    #[test]
    fn a_certificate_without_a_version_is_of_version_1() {
        assert!(is_version_1(&[SEQUENCE, 5, SEQUENCE, 3, INTEGER, 1, 1]));
        assert!(!is_version_1(&certificate(|_| {})));
        assert!(!is_version_1(b"no certificate"));
    }

    #[test]
    fn truncated_or_damaged_input_never_panics() {
        let der = certificate(|params| params.subject_alt_names = vec![SanType::DnsName("a".try_into().unwrap())]);
        for length in 0..der.len() {
            assert_eq!(read(&der[..length]), None, "the outer length no longer holds");
        }
        for place in 0..der.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bent = der.clone();
                bent[place] ^= flip;
                let _ = read(&bent);
            }
        }
    }
}
