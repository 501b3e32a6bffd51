//! One hash for names, the same in every process and on every machine: homes depend on it.

const K: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

#[inline]
fn read8(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

/// Hashes `bytes` by folded multiplication, eight bytes at a step. Not proof against chosen collisions: tables that use
/// it stay correct under collisions and merely slow down.
#[inline]
pub(crate) fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = seed ^ K ^ (bytes.len() as u64);
    let mut rest = bytes;
    while rest.len() >= 16 {
        state = mix(read8(rest) ^ state, read8(&rest[8..]) ^ K);
        rest = &rest[16..];
    }
    if rest.len() >= 8 {
        let tail = read8(&rest[rest.len() - 8..]);
        state = mix(read8(rest) ^ state, tail ^ K.rotate_left(17));
    } else if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        state = mix(u64::from_le_bytes(word) ^ state, K.rotate_left(29));
    }
    mix(state, K)
}

/// The same hash for the standard library's tables: the order in a table is the same in every run.
#[derive(Debug, Default)]
pub(crate) struct NameHasher(u64);

impl std::hash::Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_bytes(self.0, bytes);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
