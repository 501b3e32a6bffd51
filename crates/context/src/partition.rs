//! The partition of a node: chosen like Kafka's own clients choose it for a key, so that both agree.

/// The partition of a key, as the default partitioner of Kafka's Java client has it: murmur2, without its sign, modulo
/// the number of partitions. 0 for a log without partitions.
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff).checked_rem(partitions).unwrap_or_default()
}

/// A checksum of a key that stays the same in each version.
pub(crate) fn checksum(key: &[u8]) -> u32 {
    murmur2(key)
}

const SEED: u32 = 0x9747_b28c;
const FACTOR: u32 = 0x5bd1_e995;

fn murmur2(key: &[u8]) -> u32 {
    let mut hash = SEED ^ key.len() as u32;
    let mut words = key.chunks_exact(4);
    for word in words.by_ref() {
        let mut mixed = word.iter().rev().fold(0_u32, |mixed, byte| mixed << 8 | u32::from(*byte)).wrapping_mul(FACTOR);
        mixed ^= mixed >> 24;
        hash = hash.wrapping_mul(FACTOR) ^ mixed.wrapping_mul(FACTOR);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash ^= rest.iter().rev().fold(0_u32, |mixed, byte| mixed << 8 | u32::from(*byte));
        hash = hash.wrapping_mul(FACTOR);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(FACTOR);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_hash_as_in_kafkas_own_tests() {
        let cases: [(&str, i32); 6] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ];
        for (key, hash) in cases {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }

    #[test]
    fn a_partition_is_below_the_number_of_partitions() {
        assert_eq!(partition_of(b"abc", 1), 0);
        assert_eq!(partition_of(b"abc", 0), 0);
        assert!((0..100_u8).all(|key| partition_of(&[key], 8) < 8));
    }
}
