//! UTF-8 Encoded Strings.

use tidegate_mqtt::string::{StringError, from_utf8};

use crate::wire::bytes;

fn check(wire: &str, expected: Result<&str, StringError>) {
    assert_eq!(from_utf8(&bytes(wire)), expected, "{wire}");
}

#[test]
fn text_of_every_length_of_character() {
    check("", Ok(""));
    check("41 f0aa9b94", Ok("A\u{2A6D4}"));
    check("c3a9 e282ac", Ok("\u{E9}\u{20AC}"));
    check("f48fbfbf", Ok("\u{10FFFF}"));
}

/// [MQTT-1.5.4-1], [MQTT-1.5.3-1] of 3.1.1.
#[test]
fn ill_formed_utf_8() {
    let ill_formed = Err(StringError::IllFormed);
    for (case, wire) in [
        ("a lone continuation byte", "80"),
        ("a character cut short", "e282"),
        ("an overlong slash", "c0af"),
        ("an overlong null", "c080"),
        ("the surrogate U+D800", "eda080"),
        ("the surrogate U+DFFF", "edbfbf"),
        ("a pair of surrogates", "eda080 edb080"),
        ("above U+10FFFF", "f4908080"),
        ("a byte that never occurs", "ff"),
    ] {
        assert_eq!(from_utf8(&bytes(wire)), ill_formed, "{case}");
    }
}

/// [MQTT-1.5.4-2], [MQTT-1.5.3-2] of 3.1.1.
#[test]
fn the_null_character() {
    for wire in ["00", "'a' 00", "00 'a'", "'a' 00 'b'"] {
        check(wire, Err(StringError::Null));
    }
}

/// [MQTT-1.5.4-3], [MQTT-1.5.3-3] of 3.1.1.
#[test]
fn a_byte_order_mark_stays() {
    check("efbbbf", Ok("\u{FEFF}"));
    check("efbbbf 'a' efbbbf", Ok("\u{FEFF}a\u{FEFF}"));
}

/// Section 1.5.4 advises against control characters and non-characters, and leaves them valid.
#[test]
fn control_characters_and_non_characters_pass() {
    check("01 1f 7f c280", Ok("\u{1}\u{1F}\u{7F}\u{80}"));
    check("efbfbf", Ok("\u{FFFF}"));
    check("efb790", Ok("\u{FDD0}"));
}
