//! The purposes that a certificate lists [RFC 5280, section 4.2.1.12].

use crate::der::{Der, OID, SEQUENCE};
use crate::extension::{EXTENSIONS, each};

/// `id-ce-extKeyUsage`, 2.5.29.37.
const PURPOSES: &[u8] = &[0x55, 0x1d, 0x25];

/// A purpose of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// `id-kp-serverAuth`, 1.3.6.1.5.5.7.3.1.
    Server,
    /// `id-kp-clientAuth`, 1.3.6.1.5.5.7.3.2.
    Client,
}

impl Purpose {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Server => &[0x2b, 6, 1, 5, 5, 7, 3, 1],
            Self::Client => &[0x2b, 6, 1, 5, 5, 7, 3, 2],
        }
    }

    /// Whether a certificate may be used for this: it lists no purposes, or this one. A damaged one may not.
    pub fn is_of(self, certificate: &[u8]) -> bool {
        let fields = Der::new(certificate).enter(SEQUENCE).and_then(|mut whole| whole.enter(SEQUENCE));
        let Some(mut fields) = fields else { return false };
        while let Some((tag, content)) = fields.next() {
            if tag == EXTENSIONS {
                let all = each(content).unwrap_or_default();
                let mut listed = all.iter().filter(|(name, _)| *name == PURPOSES).map(|(_, content)| *content);
                return !all.is_empty() && listed.all(|content| self.is_listed(content));
            }
        }
        fields.is_empty()
    }

    fn is_listed(self, content: &[u8]) -> bool {
        let Some(mut purposes) = Der::new(content).enter(SEQUENCE) else { return false };
        let named = std::iter::from_fn(|| purposes.value(OID)).filter(|purpose| *purpose == self.name()).count();
        named > 0 && purposes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair};

    use super::*;
    use crate::der::INTEGER;

    fn certificate(purposes: &[ExtendedKeyUsagePurpose]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = purposes.to_vec();
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_is_for_its_listed_purposes() {
        use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
        for (purposes, server, client) in [
            (&[][..], true, true),
            (&[ServerAuth], true, false),
            (&[ClientAuth, ServerAuth], true, true),
            (&[ClientAuth], false, true),
        ] {
            let certificate = certificate(purposes);
            let may_be = (Purpose::Server.is_of(&certificate), Purpose::Client.is_of(&certificate));
            assert_eq!(may_be, (server, client), "{purposes:?}");
        }
    }

    #[test]
    fn a_damaged_rest_is_for_no_purpose() {
        for purpose in [Purpose::Server, Purpose::Client] {
            // A list with this purpose, and behind it a value without its content.
            let list = |rest: &[u8]| {
                let purposes = [&[OID, 8][..], purpose.name(), rest].concat();
                [&[SEQUENCE, u8::try_from(purposes.len()).unwrap()][..], &purposes].concat()
            };
            assert!(purpose.is_listed(&list(&[])));
            assert!(!purpose.is_listed(&list(&[OID, 9])));
            // Fields that end within a value.
            assert!(purpose.is_of(&[SEQUENCE, 5, SEQUENCE, 3, INTEGER, 1, 1]));
            assert!(!purpose.is_of(&[SEQUENCE, 4, SEQUENCE, 2, INTEGER, 9]));
        }
    }

    #[test]
    fn truncated_certificates_never_panic() {
        let whole = certificate(&[ExtendedKeyUsagePurpose::ServerAuth]);
        for length in 0..whole.len() {
            assert!(!Purpose::Server.is_of(&whole[..length]), "{length}");
        }
    }
}
