//! Frames between the members of a bus and the process that serves it.
//!
//! A frame is the length of its body (4 bytes, little endian) and the body, whose first byte is its kind. A member
//! begins with [`Ask::Hello`], the server answers [`Tell::Welcome`] or [`Tell::Refused`].

use bytes::{Buf, Bytes, BytesMut};

use super::coding::{
    put_bytes, put_headers, put_record, put_u32, put_u64, take, take_bytes, take_headers, take_record, take_text,
    take_u32, take_u64,
};
use crate::{
    Append, BusError, Epoch, Keep, LogName, LogPartition, LogSpec, Position, Record, Subject, SubjectFilter, Writers,
};

/// The version of these frames. Both sides have to have the same one.
pub(super) const VERSION: u32 = 1;
/// The first bytes of a member.
const MAGIC: &[u8] = b"tidegate-bus";
/// Bytes of a frame beside its records.
pub(super) const SPARE: usize = 4 << 20;
/// Largest first frame of a member, bytes.
pub(super) const MAX_HELLO: usize = 1_024;
const NO_EPOCH: u64 = u64::MAX;

/// A frame of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// Its identity: the prefix of its names, and a number that no other member has.
    Hello {
        version: u32,
        prefix: String,
        member: u64,
    },
    Create {
        id: u64,
        spec: LogSpec,
    },
    Own {
        id: u64,
        place: LogPartition,
    },
    Append {
        id: u64,
        place: LogPartition,
        append: Append,
    },
    Bounds {
        id: u64,
        place: LogPartition,
    },
    Trim {
        id: u64,
        place: LogPartition,
        below: Position,
    },
    Publish {
        subject: Subject,
        payload: Bytes,
    },
    Subscribe {
        id: u64,
        filter: SubjectFilter,
    },
    EndSubscribe {
        id: u64,
    },
    /// Begins a reading; records come when they are pulled.
    Read {
        id: u64,
        place: LogPartition,
        from: Position,
    },
    /// Requests up to a number of records and bytes of a reading, as soon as records exist.
    Pull {
        id: u64,
        records: u32,
        bytes: u32,
    },
    EndRead {
        id: u64,
    },
    Ping,
}

/// A frame of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tell {
    /// The member is served, and its records may be as large as this.
    Welcome {
        max_record_bytes: u32,
    },
    /// The member is not served.
    Refused {
        why: String,
    },
    /// A request has ended well, with up to two numbers.
    Done {
        id: u64,
        first: u64,
        second: u64,
    },
    Failed {
        id: u64,
        failure: AskFailure,
    },
    /// Records of a reading, and the position of the next one.
    Records {
        id: u64,
        next: Position,
        records: Vec<Record>,
    },
    ReadFailed {
        id: u64,
        failure: AskFailure,
    },
    /// Live messages of a subscription, and how many found no room on their way so far.
    Live {
        id: u64,
        dropped: u64,
        messages: Vec<(Subject, Bytes)>,
    },
    Pong,
}

/// Why a request has failed, without facts that the member knows itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AskFailure {
    Fenced,
    Full(String),
    Unknown,
    /// The property of the log that differs, by its place in [`DIFFERENCES`].
    Mismatch(u8),
    Trimmed(Position),
    Directory(String),
    Other(String),
}

/// Properties in which a log that exists may differ.
pub(super) const DIFFERENCES: [&str; 3] = ["number of partitions", "kind of writers", "way of keeping records"];

impl AskFailure {
    pub(super) fn of(error: BusError) -> Self {
        match error {
            BusError::Fenced { .. } => Self::Fenced,
            BusError::Full { limit, .. } => Self::Full(limit),
            BusError::Unknown(_) => Self::Unknown,
            BusError::Mismatch { difference, .. } => {
                Self::Mismatch((0..).zip(DIFFERENCES).find(|(_, it)| *it == difference).map_or(0, |(number, _)| number))
            }
            BusError::Trimmed { first, .. } => Self::Trimmed(first),
            BusError::Directory(why) => Self::Directory(why),
            BusError::Refused { reason, .. } => Self::Other(reason),
            error => Self::Other(error.to_string()),
        }
    }

    /// The error of a request at a place, with its owner and its position where it has them.
    pub(super) fn into_error(self, place: &LogPartition, epoch: Option<Epoch>, from: Position) -> BusError {
        let place = place.clone();
        match self {
            Self::Fenced => BusError::Fenced { place, epoch: epoch.unwrap_or(Epoch(Position::START)) },
            Self::Full(limit) => BusError::Full { place, limit },
            Self::Unknown => BusError::Unknown(place),
            Self::Mismatch(number) => {
                let difference = DIFFERENCES.get(usize::from(number)).copied().unwrap_or("description");
                BusError::Mismatch { log: place.log.to_string(), difference }
            }
            Self::Trimmed(first) => BusError::Trimmed { place, from, first },
            Self::Directory(why) => BusError::Directory(why),
            Self::Other(reason) => BusError::Refused { action: "carry out a request", reason },
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let (kind, number, text) = match self {
            Self::Fenced => (0, 0, ""),
            Self::Full(limit) => (1, 0, limit.as_str()),
            Self::Unknown => (2, 0, ""),
            Self::Mismatch(number) => (3, u64::from(*number), ""),
            Self::Trimmed(first) => (4, first.0, ""),
            Self::Directory(why) => (5, 0, why.as_str()),
            Self::Other(why) => (6, 0, why.as_str()),
        };
        out.push(kind);
        put_u64(out, number);
        put_bytes(out, text.as_bytes());
    }

    fn decode(from: &mut Bytes) -> Option<Self> {
        let (kind, number, text) = (take(from, 1)?[0], take_u64(from)?, take_text(from)?);
        Some(match kind {
            0 => Self::Fenced,
            1 => Self::Full(text),
            2 => Self::Unknown,
            3 => Self::Mismatch(u8::try_from(number).ok()?),
            4 => Self::Trimmed(Position(number)),
            5 => Self::Directory(text),
            6 => Self::Other(text),
            _ => return None,
        })
    }
}

/// Puts a frame behind the others of the output.
fn put_frame(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    put_u32(out, 0);
    body(out);
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Takes the body of the next frame when it is whole.
///
/// # Errors
/// Its length, when it is larger than this.
pub(super) fn next_frame(input: &mut BytesMut, max: usize) -> Result<Option<Bytes>, usize> {
    let Some(head) = input.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*head) as usize;
    if length > max {
        return Err(length);
    }
    if input.len() < 4 + length {
        input.reserve(4 + length - input.len());
        return Ok(None);
    }
    input.advance(4);
    Ok(Some(input.split_to(length).freeze()))
}

fn put_place(out: &mut Vec<u8>, place: &LogPartition) {
    put_bytes(out, place.log.as_str().as_bytes());
    put_u32(out, place.partition.0);
}

fn take_place(from: &mut Bytes) -> Option<LogPartition> {
    let log = LogName::received(&take_text(from)?)?;
    Some(LogPartition { log, partition: crate::Partition(take_u32(from)?) })
}

fn put_spec(out: &mut Vec<u8>, spec: &LogSpec) {
    put_bytes(out, spec.name.as_str().as_bytes());
    put_u32(out, spec.partitions);
    out.push(u8::from(spec.writers == Writers::Owner) | u8::from(spec.keep == Keep::LatestOfKey) << 1);
    put_u64(out, spec.max_records);
    put_u64(out, spec.max_bytes);
}

fn take_spec(from: &mut Bytes) -> Option<LogSpec> {
    let name = LogName::received(&take_text(from)?)?;
    let (partitions, flags) = (take_u32(from)?, take(from, 1)?[0]);
    let writers = if flags & 1 == 0 { Writers::Many } else { Writers::Owner };
    let keep = if flags & 2 == 0 { Keep::All } else { Keep::LatestOfKey };
    let (max_records, max_bytes) = (take_u64(from)?, take_u64(from)?);
    Some(LogSpec { writers, keep, max_records, max_bytes, ..LogSpec::shared(name, partitions) })
}

/// Puts the frame of an append, which is not taken apart for it.
pub(super) fn put_append(out: &mut Vec<u8>, id: u64, place: &LogPartition, append: &Append) {
    put_frame(out, |out| {
        out.push(3);
        put_u64(out, id);
        put_place(out, place);
        put_u64(out, append.epoch.map_or(NO_EPOCH, |epoch| epoch.0.0));
        put_bytes(out, &append.key);
        put_headers(out, &append.headers);
        put_bytes(out, &append.payload);
    });
}

fn take_append(from: &mut Bytes) -> Option<Append> {
    let epoch = take_u64(from)?;
    let epoch = (epoch != NO_EPOCH).then_some(Epoch(Position(epoch)));
    let (key, headers, payload) = (take_bytes(from)?, take_headers(from)?, take_bytes(from)?);
    // A record that is kept must not keep the whole input in memory.
    let (key, payload) = (Bytes::copy_from_slice(&key), Bytes::copy_from_slice(&payload));
    Some(Append { key, headers, payload, epoch })
}

impl Ask {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        if let Self::Append { id, place, append } = self {
            return put_append(out, *id, place, append);
        }
        put_frame(out, |out| match self {
            Self::Hello { version, prefix, member } => {
                out.push(0);
                out.extend_from_slice(MAGIC);
                put_u32(out, *version);
                put_bytes(out, prefix.as_bytes());
                put_u64(out, *member);
            }
            Self::Create { id, spec } => {
                put_kind(out, 1, *id);
                put_spec(out, spec);
            }
            Self::Own { id, place } => {
                put_kind(out, 2, *id);
                put_place(out, place);
            }
            Self::Append { .. } => {}
            Self::Bounds { id, place } => {
                put_kind(out, 4, *id);
                put_place(out, place);
            }
            Self::Trim { id, place, below } => {
                put_kind(out, 5, *id);
                put_place(out, place);
                put_u64(out, below.0);
            }
            Self::Publish { subject, payload } => {
                out.push(6);
                put_bytes(out, subject.as_str().as_bytes());
                put_bytes(out, payload);
            }
            Self::Subscribe { id, filter } => {
                put_kind(out, 7, *id);
                put_bytes(out, filter.as_str().as_bytes());
            }
            Self::EndSubscribe { id } => put_kind(out, 8, *id),
            Self::Read { id, place, from } => {
                put_kind(out, 9, *id);
                put_place(out, place);
                put_u64(out, from.0);
            }
            Self::Pull { id, records, bytes } => {
                put_kind(out, 10, *id);
                put_u32(out, *records);
                put_u32(out, *bytes);
            }
            Self::EndRead { id } => put_kind(out, 11, *id),
            Self::Ping => out.push(12),
        });
    }

    /// Reads the body of a frame; `None` where it is malformed.
    pub(super) fn decode(mut body: Bytes) -> Option<Self> {
        let from = &mut body;
        let kind = take(from, 1)?[0];
        if kind == 0 {
            take(from, MAGIC.len()).filter(|magic| magic == MAGIC)?;
            return Some(Self::Hello { version: take_u32(from)?, prefix: take_text(from)?, member: take_u64(from)? });
        }
        if kind == 6 {
            let subject = Subject::new(&take_text(from)?).ok()?;
            return Some(Self::Publish { subject, payload: Bytes::copy_from_slice(&take_bytes(from)?) });
        }
        if kind == 12 {
            return Some(Self::Ping);
        }
        let id = take_u64(from)?;
        Some(match kind {
            1 => Self::Create { id, spec: take_spec(from)? },
            2 => Self::Own { id, place: take_place(from)? },
            3 => Self::Append { id, place: take_place(from)?, append: take_append(from)? },
            4 => Self::Bounds { id, place: take_place(from)? },
            5 => Self::Trim { id, place: take_place(from)?, below: Position(take_u64(from)?) },
            7 => Self::Subscribe { id, filter: SubjectFilter::new(&take_text(from)?).ok()? },
            8 => Self::EndSubscribe { id },
            9 => Self::Read { id, place: take_place(from)?, from: Position(take_u64(from)?) },
            10 => Self::Pull { id, records: take_u32(from)?, bytes: take_u32(from)? },
            11 => Self::EndRead { id },
            _ => return None,
        })
    }
}

fn put_kind(out: &mut Vec<u8>, kind: u8, id: u64) {
    out.push(kind);
    put_u64(out, id);
}

impl Tell {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_frame(out, |out| match self {
            Self::Welcome { max_record_bytes } => {
                out.push(0);
                put_u32(out, *max_record_bytes);
            }
            Self::Refused { why } => {
                out.push(1);
                put_bytes(out, why.as_bytes());
            }
            Self::Done { id, first, second } => {
                put_kind(out, 2, *id);
                put_u64(out, *first);
                put_u64(out, *second);
            }
            Self::Failed { id, failure } => {
                put_kind(out, 3, *id);
                failure.encode(out);
            }
            Self::Records { id, next, records } => {
                put_kind(out, 4, *id);
                put_u64(out, next.0);
                put_u32(out, records.len() as u32);
                for record in records {
                    put_record(out, record);
                }
            }
            Self::ReadFailed { id, failure } => {
                put_kind(out, 5, *id);
                failure.encode(out);
            }
            Self::Live { id, dropped, messages } => {
                put_kind(out, 6, *id);
                put_u64(out, *dropped);
                put_u32(out, messages.len() as u32);
                for (subject, payload) in messages {
                    put_bytes(out, subject.as_str().as_bytes());
                    put_bytes(out, payload);
                }
            }
            Self::Pong => out.push(7),
        });
    }

    /// Reads the body of a frame; `None` where it is malformed.
    pub(super) fn decode(mut body: Bytes) -> Option<Self> {
        let from = &mut body;
        Some(match take(from, 1)?[0] {
            0 => Self::Welcome { max_record_bytes: take_u32(from)? },
            1 => Self::Refused { why: take_text(from)? },
            2 => Self::Done { id: take_u64(from)?, first: take_u64(from)?, second: take_u64(from)? },
            3 => Self::Failed { id: take_u64(from)?, failure: AskFailure::decode(from)? },
            4 => {
                let (id, next, count) = (take_u64(from)?, Position(take_u64(from)?), take_u32(from)?);
                let records = (0..count).map(|_| take_record(from)).collect::<Option<_>>()?;
                Self::Records { id, next, records }
            }
            5 => Self::ReadFailed { id: take_u64(from)?, failure: AskFailure::decode(from)? },
            6 => {
                let (id, dropped, count) = (take_u64(from)?, take_u64(from)?, take_u32(from)?);
                let message = |from: &mut Bytes| Some((Subject::new(&take_text(from)?).ok()?, take_bytes(from)?));
                let messages = (0..count).map(|_| message(from)).collect::<Option<_>>()?;
                Self::Live { id, dropped, messages }
            }
            7 => Self::Pong,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Header;

    /// The bodies of frames that were put one after the other.
    fn bodies(out: &[u8]) -> Vec<Bytes> {
        let mut input = BytesMut::from(out);
        std::iter::from_fn(|| next_frame(&mut input, 10_000).unwrap()).collect()
    }

    #[test]
    fn frames_of_members_are_read_as_they_were_written() {
        let place = LogPartition { log: LogName::new("state").unwrap(), partition: crate::Partition(3) };
        let append = Append::new("payload").with_key("k").with_header("qos", "1").by(Epoch(Position(9)));
        let spec = LogSpec { max_records: 5, ..LogSpec::fenced(place.log.clone(), 4).latest_of_key() };
        let asks = [
            Ask::Hello { version: VERSION, prefix: "tidegate".to_owned(), member: 7 },
            Ask::Create { id: 1, spec },
            Ask::Own { id: 2, place: place.clone() },
            Ask::Append { id: 3, place: place.clone(), append },
            Ask::Bounds { id: 4, place: place.clone() },
            Ask::Trim { id: 5, place: place.clone(), below: Position(6) },
            Ask::Publish { subject: Subject::new("a.b").unwrap(), payload: "x".into() },
            Ask::Subscribe { id: 6, filter: SubjectFilter::new("a.>").unwrap() },
            Ask::EndSubscribe { id: 6 },
            Ask::Read { id: 7, place, from: Position(8) },
            Ask::Pull { id: 7, records: 9, bytes: 10 },
            Ask::EndRead { id: 7 },
            Ask::Ping,
        ];
        let mut out = Vec::new();
        for ask in &asks {
            ask.put(&mut out);
        }
        let read = bodies(&out);
        assert_eq!(read.iter().cloned().map(Ask::decode).collect::<Option<Vec<_>>>().unwrap(), asks);
        for body in read {
            assert!((0..body.len()).all(|end| Ask::decode(body.slice(..end)).is_none()), "a part of {body:?}");
        }
    }

    #[test]
    fn frames_of_servers_are_read_as_they_were_written() {
        let headers = vec![Header { name: "qos".to_owned(), value: "1".to_owned() }];
        let record = Record { position: Position(7), key: "k".into(), headers, payload: "content".into() };
        let failures = [
            AskFailure::Fenced,
            AskFailure::Full("max_bytes".to_owned()),
            AskFailure::Unknown,
            AskFailure::Mismatch(2),
            AskFailure::Trimmed(Position(4)),
            AskFailure::Directory("no space".to_owned()),
            AskFailure::Other("x".to_owned()),
        ];
        let mut tells = vec![
            Tell::Welcome { max_record_bytes: 5 },
            Tell::Refused { why: "version".to_owned() },
            Tell::Done { id: 1, first: 2, second: 3 },
            Tell::Records { id: 4, next: Position(8), records: vec![record] },
            Tell::ReadFailed { id: 5, failure: AskFailure::Unknown },
            Tell::Live { id: 6, dropped: 2, messages: vec![(Subject::new("a").unwrap(), "x".into())] },
            Tell::Pong,
        ];
        tells.extend(failures.map(|failure| Tell::Failed { id: 9, failure }));
        let mut out = Vec::new();
        for tell in &tells {
            tell.put(&mut out);
        }
        let read = bodies(&out);
        assert_eq!(read.iter().cloned().map(Tell::decode).collect::<Option<Vec<_>>>().unwrap(), tells);
        for body in read {
            assert!((0..body.len()).all(|end| Tell::decode(body.slice(..end)).is_none()), "a part of {body:?}");
        }
    }

    #[test]
    fn a_frame_is_taken_when_it_is_whole_and_not_too_large() {
        let mut out = Vec::new();
        Ask::Ping.put(&mut out);
        let mut input = BytesMut::from(&out[..4]);
        assert_eq!(next_frame(&mut input, 1), Ok(None));
        input.extend_from_slice(&out[4..]);
        assert_eq!(next_frame(&mut input, 1).unwrap().map(Ask::decode), Some(Some(Ask::Ping)));
        assert_eq!(next_frame(&mut BytesMut::from(&[9, 0, 0, 0][..]), 8), Err(9));
    }
}
