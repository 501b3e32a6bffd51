//! Changes of the number of resources.

/// A change of the number of resources of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// No change.
    Hold,
    /// The number to add, 1 or more.
    Grow(u32),
    /// The number to remove, 1 or more.
    Shrink(u32),
}

impl Change {
    /// From `from` resources to `to`.
    pub fn between(from: u32, to: u32) -> Self {
        match to.abs_diff(from) {
            0 => Self::Hold,
            by if to > from => Self::Grow(by),
            by => Self::Shrink(by),
        }
    }

    /// The name in JSON: `hold`, `grow` or `shrink`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Grow(_) => "grow",
            Self::Shrink(_) => "shrink",
        }
    }

    /// The number of resources; 0 for no change.
    pub const fn count(self) -> u32 {
        match self {
            Self::Hold => 0,
            Self::Grow(count) | Self::Shrink(count) => count,
        }
    }
}
