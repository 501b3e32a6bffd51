//! Numbers, bytes and records as the files and the socket of the embedded bus carry them.

use bytes::Bytes;

use crate::{Header, Position, Record};

pub(super) fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(super) fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

pub(super) fn take(from: &mut Bytes, count: usize) -> Option<Bytes> {
    (from.len() >= count).then(|| from.split_to(count))
}

pub(super) fn take_u32(from: &mut Bytes) -> Option<u32> {
    Some(u32::from_le_bytes(take(from, 4)?.as_ref().try_into().ok()?))
}

pub(super) fn take_u64(from: &mut Bytes) -> Option<u64> {
    Some(u64::from_le_bytes(take(from, 8)?.as_ref().try_into().ok()?))
}

pub(super) fn take_bytes(from: &mut Bytes) -> Option<Bytes> {
    let count = take_u32(from)?;
    take(from, count as usize)
}

pub(super) fn take_header(from: &mut Bytes) -> Option<Header> {
    let (name, value) = (take_bytes(from)?, take_bytes(from)?);
    Some(Header { name: String::from_utf8(name.into()).ok()?, value: String::from_utf8(value.into()).ok()? })
}

pub(super) fn put_headers(out: &mut Vec<u8>, headers: &[Header]) {
    put_u32(out, headers.len() as u32);
    for header in headers {
        put_bytes(out, header.name.as_bytes());
        put_bytes(out, header.value.as_bytes());
    }
}

pub(super) fn take_headers(from: &mut Bytes) -> Option<Vec<Header>> {
    let count = take_u32(from)?;
    (0..count).map(|_| take_header(from)).collect()
}

pub(super) fn put_record(out: &mut Vec<u8>, record: &Record) {
    put_u64(out, record.position.0);
    put_bytes(out, &record.key);
    put_headers(out, &record.headers);
    put_bytes(out, &record.payload);
}

pub(super) fn take_record(from: &mut Bytes) -> Option<Record> {
    let (position, key) = (Position(take_u64(from)?), take_bytes(from)?);
    let headers = take_headers(from)?;
    Some(Record { position, key, headers, payload: take_bytes(from)? })
}

pub(super) fn take_text(from: &mut Bytes) -> Option<String> {
    String::from_utf8(take_bytes(from)?.into()).ok()
}
