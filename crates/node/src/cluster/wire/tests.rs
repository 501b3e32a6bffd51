//! Frames go to and fro unchanged, and no bytes upset their reader.

use proptest::prelude::*;

use super::*;
use crate::cluster::NodeName;

fn hello() -> Hello {
    Hello {
        nonce: [7; NONCE_BYTES],
        name: NodeName::new("a").unwrap(),
        to: NodeName::new("node-b").unwrap(),
        incarnation: 0x0102_0304_0506_0708,
        shards: 4,
        monotonic: 5_000_001,
        unix: 1_700_000_000_000,
        continues: 6,
    }
}

fn written(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    put_frame(frame, &mut out);
    out
}

#[test]
fn a_hello_has_these_bytes() {
    let mut expected = vec![90, 0, 0, 0, 1];
    expected.extend_from_slice(b"tidelink\x10\0");
    expected.extend_from_slice(&[7; 32]);
    expected.extend_from_slice(b"\x01a\x06node-b");
    expected.extend_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1, 4, 0]);
    expected.extend_from_slice(&5_000_001_u64.to_le_bytes());
    expected.extend_from_slice(&1_700_000_000_000_u64.to_le_bytes());
    expected.extend_from_slice(&6_u64.to_le_bytes());
    expected[0] = expected.len() as u8 - 4;
    assert_eq!(written(&Frame::Hello(hello())), expected);
}

/// A frame of each kind.
fn frames() -> Vec<Frame<'static>> {
    vec![
        Frame::Hello(hello()),
        Frame::Proof([3; PROOF_BYTES]),
        Frame::Refusal(Refusal::Secret),
        Frame::Refusal(Refusal::Protocol),
        Frame::Batch { from: 3, to: 0x0201, batch: b"records" },
        Frame::Ping { sent: u64::MAX },
        Frame::Pong { of: 1 },
        Frame::Question { number: 9, body: b"who" },
        Frame::Answer { number: 9, body: b"" },
        Frame::Carry(Portion::empty(NodeName::new("b").unwrap(), 3, Part::Begin)),
        Frame::Carried(Portion { node: NodeName::new("c").unwrap(), number: u64::MAX, part: Part::Data, body: b"x" }),
        Frame::Carried(Portion::empty(NodeName::new("c").unwrap(), 0, Part::Unreachable)),
        Frame::Carried(Portion::empty(NodeName::new("c").unwrap(), 5, Part::NoRoom)),
        Frame::Settled,
        Frame::Goodbye,
    ]
}

#[test]
fn every_frame_is_read_as_it_was_written() {
    let frames = frames();
    let stream: Vec<u8> = frames.iter().flat_map(written).collect();
    let mut rest = &stream[..];
    for frame in &frames {
        let (read, length) = split_frame(rest, MAX_FRAME_BYTES).unwrap().unwrap();
        assert_eq!(&read, frame);
        for part in 0..length {
            assert_eq!(split_frame(&rest[..part], MAX_FRAME_BYTES), Ok(None));
        }
        rest = &rest[length..];
    }
    assert_eq!(split_frame(rest, MAX_FRAME_BYTES), Ok(None));
}

/// Nodes of one version of the link understand each other, so its bytes never change: another layout of a frame, or of a
/// record within a batch, needs the next version, and with it other fixtures, which `UPDATE_FIXTURES=1` writes.
#[test]
fn a_version_of_the_link_has_the_bytes_of_its_fixtures() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join(format!("src/cluster/wire/fixtures/frames-{LINK_VERSION}.txt"));
    let hex = |frame: &Frame<'_>| written(frame).iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let written: Vec<String> = frames().iter().map(hex).collect();
    if std::env::var_os("UPDATE_FIXTURES").is_some() && !path.exists() {
        std::fs::write(&path, written.join("\n") + "\n").unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(kept.lines().collect::<Vec<_>>(), written, "a changed frame needs another version of the link");
    let records = root.join(format!("../engine/src/link/record/fixtures/link-{LINK_VERSION}.txt"));
    assert!(records.exists(), "{}: the number in the test of the engine's records is this version", records.display());
}

#[test]
fn a_batch_in_place_is_the_same_frame() {
    let mut out = b"before".to_vec();
    let at = begin_batch(1, 2, &mut out);
    out.extend_from_slice(b"records");
    end_batch(at, &mut out);
    assert_eq!(out[6..], written(&Frame::Batch { from: 1, to: 2, batch: b"records" }));
    assert_eq!(out.len() - 6, BATCH_HEAD_BYTES + 7);
}

#[test]
fn strangers_differ_from_nodes_of_another_version() {
    let http = b"GET / HTTP/1.1\r\n";
    assert!(matches!(split_frame(http, MAX_GREETING_BYTES), Err(FrameError::Length { .. })));
    let tls = [0x16, 3, 1, 0, 0xc8, 1];
    assert_eq!(split_frame(&tls, MAX_GREETING_BYTES), Err(FrameError::Tls));
    let mut other = written(&Frame::Hello(hello()));
    other[13] = LINK_VERSION as u8 + 1;
    assert_eq!(split_frame(&other, MAX_GREETING_BYTES), Err(FrameError::Version(LINK_VERSION + 1)));
    other[5] = b'T';
    assert_eq!(split_frame(&other, MAX_GREETING_BYTES), Err(FrameError::NoNode));
    assert_eq!(split_frame(&[1, 0, 0, 0, 99], MAX_GREETING_BYTES), Err(FrameError::Kind(99)));
    assert!(matches!(split_frame(&[0, 0, 0, 0, 1], MAX_GREETING_BYTES), Err(FrameError::Length { .. })));
}

#[test]
fn a_refusal_of_a_later_version_is_still_one() {
    assert_eq!(
        split_frame(&[2, 0, 0, 0, 3, 200], MAX_GREETING_BYTES),
        Ok(Some((Frame::Refusal(Refusal::Protocol), 6)))
    );
}

proptest! {
    #[test]
    fn no_bytes_upset_the_reader(
        start in prop::sample::select(vec![vec![], written(&Frame::Hello(hello())), written(&Frame::Goodbye)]),
        cut in any::<prop::sample::Index>(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut data = start[..cut.index(start.len() + 1)].to_vec();
        data.extend_from_slice(&bytes);
        for limit in [MAX_GREETING_BYTES, MAX_FRAME_BYTES] {
            if let Ok(Some((frame, length))) = split_frame(&data, limit) {
                prop_assert!(length <= data.len());
                let again = written(&frame);
                // A refusal of a later version is read as one that is known; all else has one form.
                if !matches!(frame, Frame::Refusal(_)) {
                    prop_assert_eq!(&again[..], &data[..length]);
                }
            }
        }
    }
}
