//! Bodies in blocks [RFC 7959].

use crate::message::{number, shortest};

/// Largest exponent of a block's size: 1,024 bytes.
const MAX_EXPONENT: u8 = 6;
/// Largest number of a block.
const MAX_NUMBER: u32 = (1 << 20) - 1;

/// The value of a Block1 or Block2 option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Its number, from 0.
    pub(crate) number: u32,
    /// Whether further blocks follow.
    pub(crate) more: bool,
    /// The exponent of its size: 0 for 16 bytes to 6 for 1,024.
    exponent: u8,
}

impl Block {
    /// The first block of a body, of the largest size.
    pub(crate) const FIRST: Self = Self { number: 0, more: false, exponent: MAX_EXPONENT };

    /// Reads an option; `None` when it has no such value.
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        let value = number(value.get(..3.min(value.len())).filter(|_| value.len() <= 3)?)?;
        let exponent = (value & 7) as u8;
        (exponent <= MAX_EXPONENT).then_some(Self { number: value >> 4, more: value & 8 != 0, exponent })
    }

    /// The value of the option.
    pub(crate) fn value(self) -> Vec<u8> {
        shortest(self.number << 4 | u32::from(self.more) << 3 | u32::from(self.exponent))
    }

    /// Bytes of a block.
    pub(crate) const fn size(self) -> usize {
        16 << self.exponent
    }

    /// The offset of the block in the body.
    pub(crate) const fn offset(self) -> usize {
        self.number as usize * self.size()
    }

    /// The part of a body that this block has, and the option of the answer with it. `None` behind the end of the body,
    /// or where no number is left for a further block.
    pub(crate) fn cut(self, body: &[u8]) -> Option<(Self, &[u8])> {
        let rest = body.get(self.offset()..).filter(|rest| !rest.is_empty() || self.number == 0)?;
        let more = rest.len() > self.size();
        let block = rest.get(..self.size().min(rest.len()))?;
        (!more || self.number < MAX_NUMBER).then_some((Self { more, ..self }, block))
    }

    /// The block of this size at the front of a body.
    pub(crate) const fn first(self) -> Self {
        Self { number: 0, more: false, exponent: self.exponent }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_block_is_read_and_written() {
        for (value, number, more, size) in [
            (vec![], 0, false, 16),
            (vec![0x06], 0, false, 1024),
            (vec![0x1A], 1, true, 64),
            (vec![0xFF, 0xFF, 0xF6], 0xF_FFFF, false, 1024),
        ] {
            let block = Block::read(&value).unwrap();
            assert_eq!((block.number, block.more, block.size()), (number, more, size));
            assert_eq!(block.value(), value);
        }
        assert_eq!(Block::read(&[7]), None, "the exponent 7 is reserved");
        assert_eq!(Block::read(&[0; 4]), None);
    }

    proptest! {
        #[test]
        fn blocks_make_up_the_body(body in proptest::collection::vec(any::<u8>(), 0..700), exponent in 0_u8..7) {
            let (mut whole, mut at) = (Vec::new(), Block { number: 0, more: false, exponent });
            loop {
                let (block, part) = at.cut(&body).unwrap();
                whole.extend_from_slice(part);
                if !block.more {
                    break;
                }
                at.number += 1;
            }
            prop_assert_eq!(&whole, &body);
            at.number += 1;
            prop_assert_eq!(at.cut(&body), None);
        }
    }
}
