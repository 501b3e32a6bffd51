//! The notation in which the tests write bytes: pairs of hexadecimal digits, `'text'` for the bytes of a
//! text, `<text>` for a text with its length of two bytes in front, and `|` for the eye only.

/// The bytes that `notation` describes.
pub(crate) fn bytes(notation: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = notation.trim_start();
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '|' => &rest[1..],
            '\'' => {
                let (text, rest) = rest[1..].split_once('\'').expect("a closing quote");
                bytes.extend_from_slice(text.as_bytes());
                rest
            }
            '<' => {
                let (text, rest) = rest[1..].split_once('>').expect("a closing bracket");
                bytes.extend_from_slice(&(text.len() as u16).to_be_bytes());
                bytes.extend_from_slice(text.as_bytes());
                rest
            }
            _ => {
                let (digits, rest) = rest.split_at(2);
                bytes.push(u8::from_str_radix(digits, 16).expect("hexadecimal digits"));
                rest
            }
        }
        .trim_start();
    }
    bytes
}

/// Bytes as hexadecimal digits, for messages.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(" ")
}

#[test]
fn the_notation_denotes_bytes() {
    assert_eq!(bytes("10ff | 'ab' <MQTT> <> 00"), *b"\x10\xffab\x00\x04MQTT\x00\x00\x00");
}
