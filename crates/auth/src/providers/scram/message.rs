//! The messages of SCRAM (RFC 5802, section 7), parsed from untrusted input.

use data_encoding::BASE64;

/// Longest message of a client, in bytes.
const MAX_MESSAGE_LEN: usize = 8 * 1024;

/// Longest nonce of a client.
const MAX_NONCE_LEN: usize = 1024;

/// The fault of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MessageError {
    /// It is no text of the form that the RFC gives.
    #[error("a SCRAM message is malformed")]
    Form,
    /// It is longer than any honest one.
    #[error("a SCRAM message is too long")]
    Length,
    /// The client insists on channel binding.
    #[error("the client insists on channel binding, which this broker does not offer")]
    ChannelBinding,
    /// The client insists on an extension.
    #[error("the client insists on an extension of SCRAM")]
    Extension,
}

/// The first message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientFirst<'a> {
    /// Everything before the bare message, such as `n,,`.
    pub(super) gs2_header: &'a str,
    /// The user that the client wants to act as, if given.
    pub(super) authorization: Option<String>,
    /// The rest of the message, which is signed.
    pub(super) bare: &'a str,
    pub(super) user: String,
    /// The client's nonce.
    pub(super) nonce: &'a str,
}

impl<'a> ClientFirst<'a> {
    pub(super) fn parse(data: &'a [u8]) -> Result<Self, MessageError> {
        let text = text(data)?;
        let (flag, rest) = text.split_once(',').ok_or(MessageError::Form)?;
        match flag {
            "n" | "y" => {}
            _ if flag.starts_with("p=") => return Err(MessageError::ChannelBinding),
            _ => return Err(MessageError::Form),
        }
        let (authorization, bare) = rest.split_once(',').ok_or(MessageError::Form)?;
        let authorization = match authorization.strip_prefix("a=") {
            Some(name) => Some(user_name(name)?),
            None if authorization.is_empty() => None,
            None => return Err(MessageError::Form),
        };
        let gs2_header = text.strip_suffix(bare).ok_or(MessageError::Form)?;
        let mut attributes = bare.split(',');
        let first = attributes.next().unwrap_or_default();
        if first.starts_with("m=") {
            return Err(MessageError::Extension);
        }
        let user = user_name(first.strip_prefix("n=").ok_or(MessageError::Form)?)?;
        let nonce = attributes.next().and_then(|text| text.strip_prefix("r=")).ok_or(MessageError::Form)?;
        if nonce.is_empty() || nonce.len() > MAX_NONCE_LEN || !nonce.bytes().all(is_printable) {
            return Err(MessageError::Form);
        }
        if !attributes.all(is_extension) {
            return Err(MessageError::Form);
        }
        Ok(Self { gs2_header, authorization, bare, user, nonce })
    }
}

/// The last message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientFinal<'a> {
    /// The message up to the proof, which is signed.
    pub(super) without_proof: &'a str,
    /// The client's data for channel binding: the header of its first message.
    pub(super) channel_binding: Vec<u8>,
    /// Both nonces.
    pub(super) nonce: &'a str,
    /// The proof that it knows the password.
    pub(super) proof: [u8; 32],
}

impl<'a> ClientFinal<'a> {
    pub(super) fn parse(data: &'a [u8]) -> Result<Self, MessageError> {
        let text = text(data)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(MessageError::Form)?;
        let mut attributes = without_proof.split(',');
        let binding = attributes.next().and_then(|text| text.strip_prefix("c=")).ok_or(MessageError::Form)?;
        let nonce = attributes.next().and_then(|text| text.strip_prefix("r=")).ok_or(MessageError::Form)?;
        if !attributes.all(is_extension) {
            return Err(MessageError::Form);
        }
        let decode = |text: &str| BASE64.decode(text.as_bytes()).map_err(|_| MessageError::Form);
        let proof = <[u8; 32]>::try_from(decode(proof)?).map_err(|_| MessageError::Form)?;
        Ok(Self { without_proof, channel_binding: decode(binding)?, nonce, proof })
    }
}

fn text(data: &[u8]) -> Result<&str, MessageError> {
    if data.len() > MAX_MESSAGE_LEN {
        return Err(MessageError::Length);
    }
    std::str::from_utf8(data).map_err(|_| MessageError::Form)
}

/// A name in which `=2C` is a comma and `=3D` an equals sign; any other `=` is an error.
fn user_name(text: &str) -> Result<String, MessageError> {
    let mut pieces = text.split('=');
    let mut name = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (character, rest) = if let Some(rest) = piece.strip_prefix("2C") {
            (',', rest)
        } else if let Some(rest) = piece.strip_prefix("3D") {
            ('=', rest)
        } else {
            return Err(MessageError::Form);
        };
        name.push(character);
        name.push_str(rest);
    }
    if name.is_empty() || name.contains(char::is_control) { Err(MessageError::Form) } else { Ok(name) }
}

/// Valid bytes of a nonce: printable ASCII but the comma.
fn is_printable(byte: u8) -> bool {
    (0x21..=0x7e).contains(&byte) && byte != b','
}

/// An extension that may be passed over: a letter, `=` and a value.
fn is_extension(text: &str) -> bool {
    matches!(text.as_bytes(), [letter, b'=', _, ..] if letter.is_ascii_alphabetic())
}
