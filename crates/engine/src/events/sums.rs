//! Numbers that are added up over shards, partitions or links. Each is named once, where it is declared.

use std::collections::BTreeMap;

/// A number, or a row of them, that can be added up.
pub trait Sum {
    /// Nothing counted.
    const NONE: Self;

    /// Adds another count.
    fn add(&mut self, other: &Self);
}

impl Sum for u64 {
    const NONE: Self = 0;

    #[inline]
    fn add(&mut self, other: &Self) {
        *self += other;
    }
}

impl<const N: usize> Sum for [u64; N] {
    const NONE: Self = [0; N];

    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.iter_mut().zip(other) {
            *mine += theirs;
        }
    }
}

/// Numbers by name.
impl Sum for BTreeMap<Box<str>, u64> {
    const NONE: Self = Self::new();

    fn add(&mut self, other: &Self) {
        for (name, number) in other {
            *self.entry(name.clone()).or_default() += number;
        }
    }
}

/// The highest of some numbers: the sum of two is the higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Highest(pub u64);

impl Sum for Highest {
    const NONE: Self = Self(0);

    fn add(&mut self, other: &Self) {
        self.0 = self.0.max(other.0);
    }
}

/// Declares a struct of numbers with the default zero, and its function `add`: a number that is declared is also added.
#[macro_export]
macro_rules! summed {
    (
        $(#[$of:meta])*
        pub struct $name:ident {
            $($(#[$doc:meta])* pub $field:ident: $kind:ty,)*
        }
    ) => {
        $(#[$of])*
        pub struct $name {
            $($(#[$doc])* pub $field: $kind,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $crate::Sum::NONE,)* }
            }
        }

        impl $name {
            /// Adds the numbers of another one to these.
            pub fn add(&mut self, other: &Self) {
                $(<$kind as $crate::Sum>::add(&mut self.$field, &other.$field);)*
            }
        }
    };
}
