//! Hashes of texts as hexadecimal digits, and identifiers made of them.

use ::md5::{Digest, Md5};
use ring::digest;

use super::environment::Environment;
use super::texts::hexadecimal;

/// For places that ask for it; it protects nothing.
pub(super) fn md5(text: &str) -> String {
    hexadecimal(&Md5::digest(text.as_bytes()))
}

/// For places that ask for it; it protects nothing.
pub(super) fn sha1(text: &str) -> String {
    hexadecimal(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref())
}

pub(super) fn sha256(text: &str) -> String {
    hexadecimal(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}

/// An identifier in the form of a UUID of version 4 \[RFC 9562\]. It is made of the id of the message, so a message that comes
/// again has the same one, and each call for a message another one.
pub(super) fn uuid(environment: &Environment<'_>, hyphen: &str) -> String {
    let call = environment.uuids.get();
    environment.uuids.set(call + 1);
    let message = environment.message;
    let text = format!("uuid {call} {} {} {}", message.timestamp, message.topic, message.id);
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(digest.as_ref()).for_each(|(byte, from)| *byte = *from);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let parts = [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]];
    parts.map(hexadecimal).join(hyphen)
}
