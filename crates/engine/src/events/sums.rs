//! Numbers that are added up over shards, partitions or links. Each is named once, where it is declared.

/// A number, or a row of them, that can be added up.
pub(crate) trait Sum {
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

/// Declares a struct of numbers with the default zero, and its function `add`: a number that is declared is also added.
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
                Self { $($field: $crate::events::sums::Sum::NONE,)* }
            }
        }

        impl $name {
            /// Adds the numbers of another one to these.
            pub fn add(&mut self, other: &Self) {
                $($crate::events::sums::Sum::add(&mut self.$field, &other.$field);)*
            }
        }
    };
}

pub(crate) use summed;
