//! The extensions of a certificate [RFC 5280, section 4.2].

use crate::der::{Der, OCTET_STRING, OID, SEQUENCE};

/// `[3]`, the tag of the extensions among the fields of a certificate.
pub const EXTENSIONS: u8 = 0xa3;

/// The name and the content of each extension; `None` if they are invalid.
pub fn each(extensions: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut extensions = Der::new(extensions).enter(SEQUENCE)?;
    let mut all = Vec::new();
    while let Some(mut extension) = extensions.enter(SEQUENCE) {
        let name = extension.value(OID)?;
        // A flag says whether the extension is critical, unless it has its default.
        let (mut tag, mut content) = extension.next()?;
        if tag != OCTET_STRING {
            (tag, content) = extension.next()?;
        }
        if tag != OCTET_STRING {
            return None;
        }
        all.push((name, content));
    }
    extensions.is_empty().then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_extension_makes_all_invalid() {
        assert_eq!(each(&[SEQUENCE, 2, SEQUENCE, 9]), None);
    }
}
