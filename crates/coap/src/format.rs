//! Content formats: the numbers that CoAP has for content types.

/// Numbers of the registry "CoAP Content-Formats", and their content types.
const FORMATS: &[(u16, &str)] = &[
    (0, "text/plain;charset=utf-8"),
    (40, "application/link-format"),
    (41, "application/xml"),
    (42, "application/octet-stream"),
    (47, "application/exi"),
    (50, "application/json"),
    (51, "application/json-patch+json"),
    (52, "application/merge-patch+json"),
    (60, "application/cbor"),
    (61, "application/cwt"),
    (62, "application/multipart-core"),
    (63, "application/cbor-seq"),
    (64, "application/link-format+cbor"),
    (110, "application/senml+json"),
    (111, "application/sensml+json"),
    (112, "application/senml+cbor"),
    (113, "application/sensml+cbor"),
    (310, "application/senml+xml"),
    (311, "application/sensml+xml"),
    (11_050, "application/json;deflate"),
    (11_060, "application/cbor;deflate"),
    (11_542, "application/vnd.oma.lwm2m+tlv"),
    (11_543, "application/vnd.oma.lwm2m+json"),
    (11_544, "application/vnd.oma.lwm2m+cbor"),
];

pub(crate) const JSON: u16 = 50;
/// Links to resources [RFC 6690].
pub(crate) const LINKS: u16 = 40;

/// The content type of a number.
pub(crate) fn content_type(format: u16) -> Option<&'static str> {
    FORMATS.iter().find(|(number, _)| *number == format).map(|(_, name)| *name)
}

/// The number of a content type. Case and spaces make no difference, and text is UTF-8 if nothing else is said.
pub(crate) fn format(content_type: &str) -> Option<u16> {
    let mut plain: String = content_type.chars().filter(|it| !it.is_whitespace()).collect();
    plain.make_ascii_lowercase();
    if plain == "text/plain" {
        return Some(0);
    }
    FORMATS.iter().find(|(_, name)| *name == plain).map(|(number, _)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_and_its_content_type_lead_to_each_other() {
        for (number, name) in FORMATS {
            assert_eq!((content_type(*number), format(name)), (Some(*name), Some(*number)));
        }
        assert_eq!(format("Text/Plain; charset=UTF-8"), Some(0));
        assert_eq!(format("text/plain"), Some(0));
        assert_eq!((format("image/x-own"), content_type(9)), (None, None));
        assert!(FORMATS.is_sorted());
    }
}
