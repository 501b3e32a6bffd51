//! The types of AMQP 1.0 [OASIS AMQP 1.0, part 1] that the driver needs, written in their shortest forms, read in all
//! of them.

use crate::drivers::Problem;
use crate::drivers::driver::Bytes;

/// Descriptors and tags deeper than this are no message of a broker.
const DEEPEST: usize = 4;

/// A list that is written, described by a number: a performative, a source, an outcome.
pub(super) struct List {
    descriptor: u8,
    count: u8,
    fields: Vec<u8>,
}

impl List {
    pub(super) const fn new(descriptor: u8) -> Self {
        Self { descriptor, count: 0, fields: Vec::new() }
    }

    fn field(mut self, parts: &[&[u8]]) -> Self {
        self.count += 1;
        for part in parts {
            self.fields.extend_from_slice(part);
        }
        self
    }

    pub(super) fn null(self) -> Self {
        self.field(&[&[0x40]])
    }

    pub(super) fn bool(self, value: bool) -> Self {
        self.field(&[&[if value { 0x41 } else { 0x42 }]])
    }

    pub(super) fn ubyte(self, value: u8) -> Self {
        self.field(&[&[0x50, value]])
    }

    pub(super) fn ushort(self, value: u16) -> Self {
        self.field(&[&[0x60], &value.to_be_bytes()])
    }

    pub(super) fn uint(self, value: u32) -> Self {
        match (value, u8::try_from(value)) {
            (0, _) => self.field(&[&[0x43]]),
            (_, Ok(small)) => self.field(&[&[0x52, small]]),
            _ => self.field(&[&[0x70], &value.to_be_bytes()]),
        }
    }

    /// Bytes, at most 255 of them.
    pub(super) fn binary(self, value: &[u8]) -> Self {
        self.field(&[&[0xA0, value.len() as u8], value])
    }

    /// A text, at most 255 bytes long.
    pub(super) fn string(self, value: &str) -> Self {
        self.field(&[&[0xA1, value.len() as u8], value.as_bytes()])
    }

    /// A symbol, at most 255 bytes long.
    pub(super) fn symbol(self, value: &str) -> Self {
        self.field(&[&[0xA3, value.len() as u8], value.as_bytes()])
    }

    pub(super) fn list(self, list: &Self) -> Self {
        let mut whole = Vec::new();
        list.write(&mut whole);
        self.field(&[&whole])
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0x00, 0x53, self.descriptor]);
        match u8::try_from(self.fields.len() + 1) {
            _ if self.count == 0 => out.push(0x45),
            Ok(len) => out.extend_from_slice(&[0xC0, len, self.count]),
            Err(_) => {
                out.push(0xD0);
                out.extend_from_slice(&(self.fields.len() as u32 + 4).to_be_bytes());
                out.extend_from_slice(&u32::from(self.count).to_be_bytes());
            }
        }
        out.extend_from_slice(&self.fields);
    }
}

/// A value. Compound values are decoded on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Number(u64),
    /// Bytes, a text or a symbol.
    Text(&'a [u8]),
    /// The values of a list or a map, not opened.
    Several(Fields<'a>),
    /// The values of an array, not opened.
    Array(&'a [u8]),
    /// A type that the lab does not need: a fraction, a time, an identity.
    Other,
}

impl<'a> Value<'a> {
    pub(super) fn number(self) -> Option<u64> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }

    pub(super) fn is_true(self) -> bool {
        self == Self::Bool(true)
    }

    pub(super) fn text(self) -> &'a [u8] {
        if let Self::Text(text) = self { text } else { &[] }
    }

    /// The texts of an array of symbols, or of a single one.
    pub(super) fn texts(self) -> Vec<&'a [u8]> {
        let Self::Array(inside) = self else { return vec![self.text()] };
        let mut bytes = Bytes(inside);
        let mut read = || -> Result<Vec<&'a [u8]>, Problem> {
            let constructor = bytes.u8()?;
            let mut texts = Vec::new();
            while !bytes.0.is_empty() {
                let Value::Text(text) = plain(constructor, &mut bytes)? else { break };
                texts.push(text);
            }
            Ok(texts)
        };
        read().unwrap_or_default()
    }
}

/// Values one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next one; null behind the last one, as fields that are left out are.
    pub(super) fn next(&mut self) -> Result<Value<'a>, Problem> {
        if self.0.is_empty() {
            return Ok(Value::Null);
        }
        let mut bytes = Bytes(self.0);
        let (_, value) = read(&mut bytes)?;
        self.0 = bytes.0;
        Ok(value)
    }

    /// The field at this position.
    pub(super) fn nth(&mut self, others: usize) -> Result<Value<'a>, Problem> {
        for _ in 0..others {
            self.next()?;
        }
        self.next()
    }

    /// The next one, when it is described by this number: the fields of its list.
    pub(super) fn described(&mut self) -> Result<(Option<u64>, Fields<'a>), Problem> {
        let mut bytes = Bytes(self.0);
        let (descriptor, value) = if self.0.is_empty() { (None, Value::Null) } else { read(&mut bytes)? };
        self.0 = bytes.0;
        let Value::Several(fields) = value else { return Ok((descriptor, Fields(&[]))) };
        Ok((descriptor, fields))
    }
}

/// Reads a value, with its descriptor.
pub(super) fn read<'a>(bytes: &mut Bytes<'a>) -> Result<(Option<u64>, Value<'a>), Problem> {
    let mut descriptor = None;
    for _ in 0..DEEPEST {
        match bytes.u8()? {
            0 => {
                let constructor = bytes.u8()?;
                descriptor = plain(constructor, bytes)?.number();
            }
            constructor => return Ok((descriptor, plain(constructor, bytes)?)),
        }
    }
    Err(Problem::new("a value is described too often"))
}

/// Reads a value without a descriptor.
fn plain<'a>(constructor: u8, bytes: &mut Bytes<'a>) -> Result<Value<'a>, Problem> {
    Ok(match constructor {
        0x40 => Value::Null,
        0x41 => Value::Bool(true),
        0x42 => Value::Bool(false),
        0x56 => Value::Bool(bytes.u8()? != 0),
        0x43 | 0x44 => Value::Number(0),
        0x45 => Value::Several(Fields(&[])),
        0x50 | 0x52 | 0x53 => Value::Number(u64::from(bytes.u8()?)),
        0x60 => Value::Number(u64::from(bytes.u16()?)),
        0x70 => Value::Number(u64::from(bytes.u32()?)),
        0x80 => Value::Number(bytes.u64()?),
        0xA0 | 0xA1 | 0xA3 => Value::Text(bytes.short()?),
        0xB0 | 0xB1 | 0xB3 => Value::Text(long(bytes)?),
        0xC0 | 0xC1 => Value::Several(Fields(bytes.short()?.get(1..).unwrap_or_default())),
        0xD0 | 0xD1 => Value::Several(Fields(long(bytes)?.get(4..).unwrap_or_default())),
        0xE0 => Value::Array(bytes.short()?.get(1..).unwrap_or_default()),
        0xF0 => Value::Array(long(bytes)?.get(4..).unwrap_or_default()),
        other => {
            // How many bytes a value has, its constructor's first half says.
            let len = match other >> 4 {
                0x4 => 0,
                0x5 => 1,
                0x6 => 2,
                0x7 => 4,
                0x8 => 8,
                0x9 => 16,
                _ => return Err(Problem::new(format!("0x{other:02x} is no type of AMQP 1.0"))),
            };
            bytes.take(len)?;
            Value::Other
        }
    })
}

/// A length of four bytes, and its bytes.
fn long<'a>(bytes: &mut Bytes<'a>) -> Result<&'a [u8], Problem> {
    let len = bytes.u32()?;
    bytes.take(len as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_written_in_its_shortest_form() {
        let written = |list: &List| {
            let mut out = Vec::new();
            list.write(&mut out);
            out
        };
        assert_eq!(written(&List::new(0x24)), [0, 0x53, 0x24, 0x45]);
        let inner = List::new(0x28).string("a/b").null();
        let list = List::new(0x12).uint(0).uint(255).uint(256).bool(true).bool(false).ubyte(1).ushort(2).list(&inner);
        let fields = [0x43, 0x52, 255, 0x70, 0, 0, 1, 0, 0x41, 0x42, 0x50, 1, 0x60, 0, 2];
        let inside = [0, 0x53, 0x28, 0xC0, 7, 2, 0xA1, 3, b'a', b'/', b'b', 0x40];
        assert_eq!(written(&list), [&[0, 0x53, 0x12, 0xC0, 28, 8][..], &fields, &inside].concat());
        let long = written(&List::new(1).binary(&[7; 200]).symbol(&"s".repeat(100)));
        assert_eq!(long[..12], [0, 0x53, 1, 0xD0, 0, 0, 1, 0x34, 0, 0, 0, 2]);
    }

    #[test]
    fn every_form_of_a_value_is_read() {
        let bytes = [
            &[0x56, 1, 0x44, 0x53, 9, 0x80, 0, 0, 0, 0, 0, 0, 0, 8][..],
            &[0xB1, 0, 0, 0, 2, b'h', b'i', 0xD1, 0, 0, 0, 6, 0, 0, 0, 2, 0x43, 0x41, 0x83],
            &[1; 8],
            &[0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x24, 0x45],
        ]
        .concat();
        let mut fields = Fields(&bytes);
        let values: Vec<Value<'_>> = (0..6).map(|_| fields.next().unwrap()).collect();
        let expected = [Value::Bool(true), Value::Number(0), Value::Number(9), Value::Number(8), Value::Text(b"hi")];
        assert_eq!(values[..5], expected);
        assert_eq!(values[5], Value::Several(Fields(&[0x43, 0x41])));
        assert_eq!(fields.next(), Ok(Value::Other), "a time");
        assert_eq!(fields.described(), Ok((Some(0x24), Fields(&[]))));
        assert_eq!(fields.next(), Ok(Value::Null), "fields that are left out are null");
    }

    #[test]
    fn an_array_of_symbols_and_a_single_one_are_the_same() {
        let array = [0xE0, 9, 2, 0xA3, 2, b'a', b'b', 3, b'c', b'd', b'e'];
        assert_eq!(Fields(&array).next().unwrap().texts(), [b"ab".as_slice(), b"cde"]);
        assert_eq!(Fields(&[0xA3, 2, b'a', b'b']).next().unwrap().texts(), [b"ab"]);
    }

    #[test]
    fn truncated_or_unknown_values_are_problems() {
        for bytes in [&[0xB0, 0, 0, 0, 9][..], &[0x01], &[0, 0x53], &[0, 0x43, 0, 0x43, 0, 0x43, 0, 0x43, 0x43]] {
            assert!(Fields(bytes).next().is_err(), "{bytes:?}");
        }
    }
}
