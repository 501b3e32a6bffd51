//! Masking of payloads [RFC 6455, section 5.3].

/// A frame's key, turned so that its first byte belongs to the next byte of the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mask([u8; 4]);

impl Mask {
    pub(super) fn new(key: [u8; 4]) -> Self {
        Self(key)
    }

    /// Unmasks (or masks) the next bytes of a payload in place and rotates the key for later ones.
    pub(super) fn apply(&mut self, bytes: &mut [u8]) {
        let [a, b, c, d] = self.0;
        // Eight bytes at a time; the compiler widens this further where the processor can.
        let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
        let (words, rest) = bytes.as_chunks_mut::<8>();
        for word in words {
            *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
        }
        for (byte, key) in rest.iter_mut().zip([a, b, c, d, a, b, c]) {
            *byte ^= key;
        }
        self.0.rotate_left(rest.len() % 4);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn equals_byte_by_byte_wherever_it_is_split(
            key in any::<[u8; 4]>(),
            bytes in prop::collection::vec(any::<u8>(), 0..100),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        ) {
            let expected: Vec<u8> =
                bytes.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut actual = bytes;
            let mut mask = Mask::new(key);
            for pair in cuts.windows(2) {
                mask.apply(&mut actual[pair[0]..pair[1]]);
            }
            prop_assert_eq!(actual, expected);
        }
    }
}
