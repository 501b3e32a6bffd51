//! Deterministic changes of inputs.

use tidegate_random::SplitMix64;

/// A sequence of numbers that a seed decides.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

/// Bytes at which decoders turn.
const TURNS: &[u8] = &[0x00, 0x01, 0x02, 0x04, 0x0B, 0x23, 0x26, 0x7F, 0x80, 0xC0, 0xFF, b'+', b'#', b'/', b'$'];

/// Inputs do not grow beyond this many bytes.
const LEN_MAX: usize = 4_096;

impl Random {
    /// The sequence that the seed decides.
    pub const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0.number()
    }

    /// A number below `end`; 0 when `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// One of the inputs with one to eight changes, and perhaps the end of another.
    pub fn mutation(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut input = inputs.get(self.below(inputs.len())).cloned().unwrap_or_default();
        for _ in 0..=self.below(8) {
            self.change(&mut input);
        }
        if let (0, Some(other)) = (self.below(8), inputs.get(self.below(inputs.len()))) {
            input.truncate(self.below(input.len() + 1));
            input.extend_from_slice(&other[self.below(other.len() + 1)..]);
        }
        input.truncate(LEN_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let place = self.below(input.len());
        let byte = match self.below(3) {
            0 => self.next() as u8,
            _ => TURNS[self.below(TURNS.len())],
        };
        match (self.below(6), input.get_mut(place)) {
            (0, Some(here)) => *here ^= 1 << self.below(8),
            (1, Some(here)) => *here = byte,
            (2, Some(here)) => *here = here.wrapping_add(byte % 9).wrapping_sub(4),
            (3, Some(_)) => drop(input.remove(place)),
            (4, Some(_)) => {
                let end = place + self.below((input.len() - place).min(16) + 1);
                let copied = input[place..end].to_vec();
                let to = self.below(input.len() + 1);
                input.splice(to..to, copied);
            }
            _ => input.insert(place, byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_everything() {
        let inputs = [b"one".to_vec(), b"another".to_vec(), Vec::new()];
        let run = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.mutation(&inputs)).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn no_inputs_are_no_problem() {
        let mut random = Random::new(1);
        for _ in 0..100 {
            random.mutation(&[]);
        }
    }
}
