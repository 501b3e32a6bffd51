//! Messages of CoAP [RFC 7252, 3]: strict, and without a panic for any bytes.

use std::fmt;

/// The marker between options and payload.
const MARKER: u8 = 0xFF;
/// Bytes of a message without a token, options and payload.
const HEADER: usize = 4;
/// Longest token, bytes.
const MAX_TOKEN: usize = 8;

/// Numbers of options.
pub mod option {
    /// The requested host.
    pub const URI_HOST: u16 = 3;
    /// The version of a representation.
    pub const ETAG: u16 = 4;
    /// Registers an observer, and numbers notifications.
    pub const OBSERVE: u16 = 6;
    /// The requested port.
    pub const URI_PORT: u16 = 7;
    /// A segment of the path.
    pub const URI_PATH: u16 = 11;
    /// The format of the payload.
    pub const CONTENT_FORMAT: u16 = 12;
    /// For how many seconds an answer is fresh.
    pub const MAX_AGE: u16 = 14;
    /// A parameter of the query.
    pub const URI_QUERY: u16 = 15;
    /// The format that the client wants.
    pub const ACCEPT: u16 = 17;
    /// A block of an answer.
    pub const BLOCK2: u16 = 23;
    /// A block of a request.
    pub const BLOCK1: u16 = 27;
    /// The size of an answer's body.
    pub const SIZE2: u16 = 28;
    /// Asks for a resource of another server.
    pub const PROXY_URI: u16 = 35;
    /// The same in parts.
    pub const PROXY_SCHEME: u16 = 39;
    /// The size of a request's body.
    pub const SIZE1: u16 = 60;
    /// Proves the address of a client [RFC 9175].
    pub const ECHO: u16 = 252;
    /// Tells bodies of requests apart [RFC 9175].
    pub const REQUEST_TAG: u16 = 292;
}

/// How a message is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is sent again until it is acknowledged.
    Confirmable = 0,
    /// It is sent once.
    NonConfirmable = 1,
    /// It acknowledges a confirmable message.
    Acknowledgement = 2,
    /// It says that a message was not expected.
    Reset = 3,
}

/// A method or the code of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u8);

impl Code {
    /// A message without content.
    pub const EMPTY: Self = Self(0);
    /// Reads.
    pub const GET: Self = Self(1);
    /// Publishes.
    pub const POST: Self = Self(2);
    /// Publishes.
    pub const PUT: Self = Self(3);
    /// The request is carried out.
    pub const CHANGED: Self = Self::of(2, 4);
    /// The client knows the representation already.
    pub const VALID: Self = Self::of(2, 3);
    /// The representation.
    pub const CONTENT: Self = Self::of(2, 5);
    /// A block is taken, and the next one is expected.
    pub const CONTINUE: Self = Self::of(2, 31);
    /// The request cannot be understood.
    pub const BAD_REQUEST: Self = Self::of(4, 0);
    /// The client has to say who it is, or to prove its address.
    pub const UNAUTHORIZED: Self = Self::of(4, 1);
    /// A critical option is not known.
    pub const BAD_OPTION: Self = Self::of(4, 2);
    /// The client may not do that.
    pub const FORBIDDEN: Self = Self::of(4, 3);
    /// There is no such thing.
    pub const NOT_FOUND: Self = Self::of(4, 4);
    /// The method is not for this resource.
    pub const NOT_ALLOWED: Self = Self::of(4, 5);
    /// There is no representation in this format.
    pub const NOT_ACCEPTABLE: Self = Self::of(4, 6);
    /// A block is missing.
    pub const INCOMPLETE: Self = Self::of(4, 8);
    /// The body is too long.
    pub const TOO_LARGE: Self = Self::of(4, 13);
    /// The format of the payload is not known.
    pub const UNSUPPORTED_FORMAT: Self = Self::of(4, 15);
    /// The broker refuses the message.
    pub const UNPROCESSABLE: Self = Self::of(4, 22);
    /// A quota or a limit is used up.
    pub const TOO_MANY: Self = Self::of(4, 29);
    /// Another node of the broker cannot answer through this one.
    pub const BAD_GATEWAY: Self = Self::of(5, 2);
    /// The broker cannot carry it out now.
    pub const UNAVAILABLE: Self = Self::of(5, 3);
    /// The broker does not answer.
    pub const TIMEOUT: Self = Self::of(5, 4);
    /// Other servers are not asked.
    pub const NO_PROXY: Self = Self::of(5, 5);

    const fn of(class: u8, detail: u8) -> Self {
        Self(class << 5 | detail)
    }

    /// The first number.
    pub const fn class(self) -> u8 {
        self.0 >> 5
    }

    /// Whether it is a method.
    pub const fn is_request(self) -> bool {
        self.class() == 0 && self.0 != 0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.class(), self.0 & 0x1F)
    }
}

/// Names a request to the client that has sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Token {
    bytes: [u8; MAX_TOKEN],
    len: u8,
}

impl Token {
    /// A token of at most 8 bytes; further ones are left out.
    pub fn new(text: &[u8]) -> Self {
        let mut token = Self::default();
        for (place, byte) in token.bytes.iter_mut().zip(text) {
            *place = *byte;
        }
        token.len = text.len().min(MAX_TOKEN) as u8;
        token
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// Numbers and values of options.
pub type OptionList = Vec<(u16, Vec<u8>)>;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// How it is confirmed.
    pub kind: Kind,
    /// Its method or code.
    pub code: Code,
    /// Its id, which belongs to the sender.
    pub id: u16,
    /// Its token.
    pub token: Token,
    /// Its options; options of one number are in their order.
    pub options: OptionList,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// Not of this version of CoAP, or too short: nothing is answered.
    Foreign,
    /// A format error in a message of this kind and id.
    Malformed(Kind, u16),
}

impl Message {
    /// A message without token, options and payload.
    pub const fn empty(kind: Kind, id: u16) -> Self {
        Self {
            kind,
            code: Code::EMPTY,
            id,
            token: Token { bytes: [0; MAX_TOKEN], len: 0 },
            options: Vec::new(),
            payload: Vec::new(),
        }
    }

    /// Reads a datagram.
    ///
    /// # Errors
    /// When it is no message.
    pub fn decode(datagram: &[u8]) -> Result<Self, FormatError> {
        let Some(([first, code, id @ ..], rest)) = datagram.split_first_chunk::<HEADER>() else {
            return Err(FormatError::Foreign);
        };
        if first >> 6 != 1 {
            return Err(FormatError::Foreign);
        }
        let kind = match first >> 4 & 3 {
            0 => Kind::Confirmable,
            1 => Kind::NonConfirmable,
            2 => Kind::Acknowledgement,
            _ => Kind::Reset,
        };
        let (code, id) = (Code(*code), u16::from_be_bytes(*id));
        let malformed = FormatError::Malformed(kind, id);
        let token_len = usize::from(first & 0xF);
        let is_empty = code == Code::EMPTY;
        if token_len > MAX_TOKEN || is_empty && datagram.len() > HEADER || matches!(code.class(), 1 | 6 | 7) {
            return Err(malformed);
        }
        let (token, rest) = rest.split_at_checked(token_len).ok_or(malformed)?;
        let (options, payload) = read_options(rest).ok_or(malformed)?;
        Ok(Self { kind, code, id, token: Token::new(token), options, payload: payload.to_vec() })
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let token = self.token.as_bytes();
        let mut out = vec![0x40 | (self.kind as u8) << 4 | token.len() as u8, self.code.0];
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(token);
        let mut sorted: Vec<&(u16, Vec<u8>)> = self.options.iter().collect();
        sorted.sort_by_key(|(number, _)| *number);
        let mut before = 0;
        for (number, value) in sorted {
            write_option(*number - before, value, &mut out);
            before = *number;
        }
        if !self.payload.is_empty() {
            out.push(MARKER);
            out.extend_from_slice(&self.payload);
        }
        out
    }
}

/// The options, and the payload behind them.
fn read_options(mut rest: &[u8]) -> Option<(OptionList, &[u8])> {
    let (mut options, mut number) = (Vec::new(), 0_u16);
    while let Some((&head, behind)) = rest.split_first() {
        if head == MARKER {
            // A marker without a payload is a format error [RFC 7252, 3].
            return (!behind.is_empty()).then_some((options, behind));
        }
        rest = behind;
        number = number.checked_add(extended(head >> 4, &mut rest)?)?;
        let len = extended(head & 0xF, &mut rest)?;
        let (value, behind) = rest.split_at_checked(usize::from(len))?;
        options.push((number, value.to_vec()));
        rest = behind;
    }
    Some((options, &[]))
}

/// A number of four bits, or its extension.
fn extended(nibble: u8, rest: &mut &[u8]) -> Option<u16> {
    match nibble {
        13 => {
            let (byte, behind) = rest.split_first()?;
            *rest = behind;
            Some(u16::from(*byte) + 13)
        }
        14 => {
            let (bytes, behind) = rest.split_first_chunk()?;
            *rest = behind;
            u16::from_be_bytes(*bytes).checked_add(269)
        }
        15 => None,
        short => Some(u16::from(short)),
    }
}

fn write_option(delta: u16, value: &[u8], out: &mut Vec<u8>) {
    // No datagram holds a longer value.
    let len = value.len().min(usize::from(u16::MAX)) as u16;
    out.push(nibble(delta) << 4 | nibble(len));
    for number in [delta, len] {
        match number {
            0..13 => {}
            13..269 => out.push((number - 13) as u8),
            _ => out.extend_from_slice(&(number - 269).to_be_bytes()),
        }
    }
    out.extend_from_slice(value.get(..usize::from(len)).unwrap_or_default());
}

const fn nibble(number: u16) -> u8 {
    match number {
        0..13 => number as u8,
        13..269 => 13,
        _ => 14,
    }
}

/// A number in as few bytes as it needs [RFC 7252, 3.2].
pub fn shortest(number: u32) -> Vec<u8> {
    number.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect()
}

/// The number in at most four bytes.
pub fn number(bytes: &[u8]) -> Option<u32> {
    (bytes.len() <= 4).then(|| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_has_the_bytes_of_the_standard() {
        let request = Message {
            kind: Kind::Confirmable,
            code: Code::PUT,
            id: 0x1234,
            token: Token::new(b"\x09"),
            options: vec![
                (option::CONTENT_FORMAT, vec![50]),
                (option::URI_PATH, b"topics".to_vec()),
                (option::URI_PATH, b"a-long-segment".to_vec()),
                (option::ECHO, vec![7]),
                (option::SIZE1, vec![]),
            ],
            payload: b"hi".to_vec(),
        };
        let bytes = b"\x41\x03\x12\x34\x09\xB6topics\x0D\x01a-long-segment\x11\x32\xD0\x23\xD1\xB3\x07\xFFhi";
        assert_eq!(request.encode(), bytes);
        let read = Message::decode(bytes).unwrap();
        assert_eq!(read.encode(), bytes);
        assert_eq!((read.payload, read.options.len()), (b"hi".to_vec(), 5));
    }

    #[test]
    fn a_malformed_message_is_refused() {
        for foreign in [&b""[..], b"\x40\x01\0", b"\x80\x01\0\x01", b"\0\x01\0\x01"] {
            assert_eq!(Message::decode(foreign), Err(FormatError::Foreign), "{foreign:?}");
        }
        let malformed: [&[u8]; 11] = [
            b"\x49\x01\0\x01123456789",
            b"\x44\x01\0\x01abc",
            b"\x41\0\0\x01a",
            b"\x40\0\0\x01\xFFa",
            b"\x40\x20\0\x01",
            b"\x40\xC0\0\x01",
            b"\x40\x01\0\x01\xFF",
            b"\x40\x01\0\x01\xF0",
            b"\x40\x01\0\x01\x0F",
            b"\x40\x01\0\x01\xE0\xFF\xFF",
            b"\x40\x01\0\x01\xB3ab",
        ];
        for bytes in malformed {
            assert_eq!(Message::decode(bytes), Err(FormatError::Malformed(Kind::Confirmable, 1)), "{bytes:?}");
        }
        assert!(Message::decode(b"\x40\x01\0\x01\xE0\xFE\xF2").is_ok(), "the largest number of an option");
    }

    #[test]
    fn numbers_take_as_few_bytes_as_they_need() {
        for (value, bytes) in [(0, vec![]), (255, vec![255]), (256, vec![1, 0]), (u32::MAX, vec![255; 4])] {
            assert_eq!(shortest(value), bytes);
            assert_eq!(number(&bytes), Some(value));
        }
        assert_eq!(number(&[0; 5]), None);
        assert_eq!(Code::UNAVAILABLE.to_string(), "5.03");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
            }
        }

        #[test]
        fn every_message_survives_its_bytes(
            id in any::<u16>(), code in 1_u8..32, token in proptest::collection::vec(any::<u8>(), 0..9),
            mut options in proptest::collection::vec((any::<u16>(), proptest::collection::vec(any::<u8>(), 0..300)), 0..6),
            payload in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            options.sort_by_key(|(number, _)| *number);
            let message = Message { kind: Kind::NonConfirmable, code: Code(code), id, token: Token::new(&token), options, payload };
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }
}
