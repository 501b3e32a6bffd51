//! The purposes that a certificate lists [RFC 5280, section 4.2.1.12].

use super::version1::{SEQUENCE, element, value};

const OID: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
/// `[3]`, the extensions.
const EXTENSIONS: u8 = 0xa3;
/// `id-ce-extKeyUsage`, 2.5.29.37, and the purpose `id-kp-serverAuth`, 1.3.6.1.5.5.7.3.1.
const PURPOSES: &[u8] = &[0x55, 0x1d, 0x25];
const SERVER_PURPOSE: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];

/// Whether a certificate may be that of a server: it lists no purposes, or this one. A damaged one may not.
pub(super) fn is_for_servers(certificate: &[u8]) -> bool {
    read(certificate).unwrap_or(false)
}

fn read(mut certificate: &[u8]) -> Option<bool> {
    let mut fields = value(&mut value(&mut certificate, SEQUENCE)?, SEQUENCE)?;
    while let Some((tag, mut content)) = element(&mut fields) {
        if tag == EXTENSIONS {
            return names_purpose(value(&mut content, SEQUENCE)?);
        }
    }
    fields.is_empty().then_some(true)
}

fn names_purpose(mut extensions: &[u8]) -> Option<bool> {
    while !extensions.is_empty() {
        let mut extension = value(&mut extensions, SEQUENCE)?;
        if value(&mut extension, OID)? != PURPOSES {
            continue;
        }
        // A flag says whether the extension is critical, unless it has its default.
        let (mut tag, mut content) = element(&mut extension)?;
        if tag != OCTET_STRING {
            (tag, content) = element(&mut extension)?;
        }
        let mut purposes = value(&mut content, SEQUENCE).filter(|_| tag == OCTET_STRING)?;
        let named =
            std::iter::from_fn(|| value(&mut purposes, OID)).filter(|purpose| *purpose == SERVER_PURPOSE).count();
        return Some(named > 0 && purposes.is_empty());
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair};

    use super::*;

    fn certificate(purposes: &[ExtendedKeyUsagePurpose]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = purposes.to_vec();
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_is_for_its_listed_purposes() {
        use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
        for (purposes, expected) in
            [(&[][..], true), (&[ServerAuth], true), (&[ClientAuth, ServerAuth], true), (&[ClientAuth], false)]
        {
            assert_eq!(is_for_servers(&certificate(purposes)), expected, "{purposes:?}");
        }
    }

    #[test]
    fn a_damaged_rest_is_for_no_purpose() {
        // The content of the extension: a list with this purpose, and behind it a value without its content.
        let list = [&[OID, 8][..], SERVER_PURPOSE, &[OID, 9]].concat();
        let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
        let extension = |list: &[u8]| {
            let content = [&[SEQUENCE, length(list)][..], list].concat();
            let value = [&[OID, 3][..], PURPOSES, &[OCTET_STRING, length(&content)], &content].concat();
            [&[SEQUENCE, length(&value)][..], &value].concat()
        };
        assert_eq!(names_purpose(&extension(&list[..10])), Some(true));
        assert_eq!(names_purpose(&extension(&list)), Some(false));
        // Fields that end within a value.
        assert!(!is_for_servers(&[SEQUENCE, 4, SEQUENCE, 2, 2, 9]));
    }

    #[test]
    fn truncated_certificates_never_panic() {
        let whole = certificate(&[ExtendedKeyUsagePurpose::ServerAuth]);
        for length in 0..whole.len() {
            assert!(!is_for_servers(&whole[..length]), "{length}");
        }
    }
}
