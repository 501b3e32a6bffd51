//! Compressed batches of records: gzip, Snappy, LZ4 and Zstandard.

use std::io::{self, Read};

use tidegate_panics::contain;

/// Most bytes of the batches of one partition in an answer when they are unpacked, and of the window of a batch of
/// Zstandard. The batches have 1 MiB, or one larger batch.
pub(super) const MAX_UNPACKED: usize = 32 << 20;
/// The head of blocks of Snappy that producers in Java write: a name, a version, and the oldest version that reads it.
const SNAPPY_MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
/// Bytes before the first of these blocks.
const SNAPPY_HEAD: usize = 16;

/// The first bytes of a frame of Zstandard (RFC 8878, 3.1.1).
const ZSTD_MAGIC: &[u8; 4] = b"\x28\xb5\x2f\xfd";

/// Why a batch cannot be unpacked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnpackError {
    /// It has more bytes than may be unpacked, or its window has.
    #[error("it needs more than {MAX_UNPACKED} bytes when it is unpacked")]
    TooLarge,
    /// The bytes are not of the codec.
    #[error("its bytes are not of the codec {0}: {1}")]
    Broken(&'static str, String),
    /// The codec is not known.
    #[error("its codec {0} is not known")]
    Unknown(i16),
}

/// Unpacks the records of a batch. `room` is the most bytes that they may have.
///
/// # Errors
/// When they have more, or are not of the codec.
pub(super) fn unpack(codec: i16, bytes: &[u8], room: usize) -> Result<Vec<u8>, UnpackError> {
    // The libraries are not ours, and producers write the bytes.
    let unpacked = |name: &'static str, read: &dyn Fn() -> io::Result<Vec<u8>>| {
        let broken = |why: String| UnpackError::Broken(name, why);
        contain(read).map_err(|panicked| broken(panicked.to_string()))?.map_err(|error| broken(error.to_string()))
    };
    let bounded = |reader: &mut dyn Read| {
        let mut out = Vec::new();
        reader.take(room as u64 + 1).read_to_end(&mut out)?;
        Ok(out)
    };
    let out = match codec {
        1 => unpacked("gzip", &|| bounded(&mut flate2::read::MultiGzDecoder::new(bytes))),
        2 => unpacked("snappy", &|| snappy(bytes, room)),
        3 => unpacked("lz4", &|| bounded(&mut lz4_flex::frame::FrameDecoder::new(bytes))),
        // The decoder holds a window of bytes back, of any size that the batch says.
        4 if zstd_window(bytes).is_some_and(|window| window > MAX_UNPACKED as u64) => {
            return Err(UnpackError::TooLarge);
        }
        4 => unpacked("zstd", &|| {
            let mut decoder = ruzstd::decoding::StreamingDecoder::new(bytes).map_err(io::Error::other)?;
            bounded(&mut decoder)
        }),
        other => return Err(UnpackError::Unknown(other)),
    }?;
    if out.len() > room { Err(UnpackError::TooLarge) } else { Ok(out) }
}

/// The bytes that a decoder of a frame of Zstandard holds back (RFC 8878, 3.1.1.1); nothing where its head is not whole.
fn zstd_window(bytes: &[u8]) -> Option<u64> {
    let (descriptor, rest) = bytes.strip_prefix(ZSTD_MAGIC)?.split_first()?;
    if descriptor & 0x20 == 0 {
        let window = rest.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // A single segment: the window is the whole content.
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let len = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let mut size = [0; 8];
    size.get_mut(..len)?.copy_from_slice(rest.get(dictionary..dictionary + len)?);
    // A size of two bytes begins at 256.
    Some(u64::from_le_bytes(size).saturating_add(if len == 2 { 256 } else { 0 }))
}

/// Unpacks Snappy: one block, or blocks with their lengths as producers in Java write them. What exceeds `room` is left.
fn snappy(bytes: &[u8], room: usize) -> io::Result<Vec<u8>> {
    let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
    if !bytes.starts_with(SNAPPY_MAGIC) {
        return block(bytes, room);
    }
    let (mut out, mut rest) = (Vec::new(), bytes.get(SNAPPY_HEAD..).ok_or_else(short)?);
    while let Some((len, behind)) = rest.split_first_chunk() {
        let len = u32::from_be_bytes(*len) as usize;
        let (packed, next) = behind.split_at_checked(len).ok_or_else(short)?;
        out.extend_from_slice(&block(packed, room.saturating_sub(out.len()))?);
        if out.len() > room {
            break;
        }
        rest = next;
    }
    if rest.is_empty() || out.len() > room { Ok(out) } else { Err(short()) }
}

/// Unpacks a block of Snappy; one that exceeds `room` gives more zeros than that, which are not read.
fn block(packed: &[u8], room: usize) -> io::Result<Vec<u8>> {
    // The block says its length, up to 4 GiB.
    if snap::raw::decompress_len(packed).map_err(io::Error::other)? > room {
        return Ok(vec![0; room + 1]);
    }
    snap::raw::Decoder::new().decompress_vec(packed).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    /// A text packed by each codec.
    pub(crate) fn packed(text: &[u8]) -> Vec<(i16, Vec<u8>)> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        let plain = snap::raw::Encoder::new().compress_vec(text).unwrap();
        let mut blocks = [SNAPPY_MAGIC.as_slice(), &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
        for part in text.chunks(7) {
            let block = snap::raw::Encoder::new().compress_vec(part).unwrap();
            blocks.extend_from_slice(&u32::try_from(block.len()).unwrap().to_be_bytes());
            blocks.extend_from_slice(&block);
        }
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(text).unwrap();
        let zstd = ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest);
        vec![(1, gzip.finish().unwrap()), (2, plain), (2, blocks), (3, lz4.finish().unwrap()), (4, zstd)]
    }

    #[test]
    fn each_codec_is_unpacked_within_its_room() {
        let text = b"a text, a text, a text";
        for (codec, bytes) in packed(text) {
            assert_eq!(unpack(codec, &bytes, text.len()).as_deref(), Ok(&text[..]), "{codec}");
            assert_eq!(unpack(codec, &bytes, text.len() - 1), Err(UnpackError::TooLarge), "{codec}");
            let cut = unpack(codec, &bytes[..bytes.len() / 2], text.len());
            assert!(matches!(cut, Err(UnpackError::Broken(..))), "{codec}: {cut:?}");
        }
        assert_eq!(unpack(5, b"", 9), Err(UnpackError::Unknown(5)));
    }

    #[test]
    fn a_small_batch_does_not_fill_the_memory() {
        let zeros = vec![0; MAX_UNPACKED + 1];
        for (codec, bytes) in packed(&zeros).into_iter().filter(|(_, bytes)| bytes.len() < MAX_UNPACKED / 4) {
            assert_eq!(unpack(codec, &bytes, MAX_UNPACKED), Err(UnpackError::TooLarge), "{codec}");
        }
        // A block of Snappy that says it has 4 GiB.
        assert_eq!(unpack(2, b"\xff\xff\xff\xff\x0f\0", MAX_UNPACKED), Err(UnpackError::TooLarge));
    }

    /// A frame of Zstandard with this head and blocks of 128 KiB, each a byte that is repeated.
    fn frame(head: &[u8], blocks: u32) -> Vec<u8> {
        let mut bytes = [&ZSTD_MAGIC[..], head].concat();
        for number in 1..=blocks {
            let block = (128 << 10 << 3) | (1 << 1) | u32::from(number == blocks);
            bytes.extend_from_slice(&block.to_le_bytes()[..3]);
            bytes.push(b'x');
        }
        bytes
    }

    #[test]
    fn a_large_window_of_zstandard_is_refused_at_once() {
        let single = |size: u64| [&[0xe0][..], &size.to_le_bytes()].concat();
        // 3.75 TiB, 64 MiB, and single segments.
        for head in [vec![0, 0xff], vec![0, 16 << 3], single(u64::MAX), single(MAX_UNPACKED as u64 + 1)] {
            assert!(zstd_window(&frame(&head, 0)).unwrap() > MAX_UNPACKED as u64);
            assert_eq!(unpack(4, &frame(&head, 300), MAX_UNPACKED), Err(UnpackError::TooLarge), "{head:?}");
        }
        let windows = [([0x00, 0x0b].as_slice(), 2816), (&[0x20, 7], 7), (&[0x63, 9, 9, 9, 9, 1, 1], 513)];
        for (head, window) in windows {
            assert_eq!(zstd_window(&[&ZSTD_MAGIC[..], head].concat()), Some(window));
        }
        assert_eq!(zstd_window(b"\x28\xb5\x2f\xfd\xe0\x01"), None);
        // A window of 32 MiB with less in it, and with more.
        let head = [0, 15 << 3];
        assert_eq!(unpack(4, &frame(&head, 2), MAX_UNPACKED).unwrap().len(), 256 << 10);
        assert_eq!(unpack(4, &frame(&head, 300), MAX_UNPACKED), Err(UnpackError::TooLarge));
    }

    proptest! {
        #[test]
        fn no_bytes_end_a_thread(bytes in proptest::collection::vec(any::<u8>(), 0..200), codec in 1_i16..6) {
            let _ = unpack(codec, &bytes, 4096);
            for (codec, mut packed) in packed(b"a text, a text, a text") {
                for (place, byte) in packed.iter_mut().zip(&bytes) {
                    *place ^= byte & 0x11;
                }
                let _ = unpack(codec, &packed, 4096);
            }
        }
    }
}
