//! Numbers of bytes with a unit, such as `"2MiB"`.

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Bytes {
    /// As 32 bits. A key whose range is wider than that does not use it.
    pub fn narrow(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

/// One KiB, for defaults and ranges.
pub const KIB: u64 = 1024;
/// One MiB.
pub const MIB: u64 = 1024 * KIB;
/// One TiB.
pub const TIB: u64 = 1024 * 1024 * MIB;

/// The units: written units first; the decimal units are only read.
const UNITS: &[(&str, u64)] = &[
    ("TiB", TIB),
    ("GiB", 1024 * MIB),
    ("MiB", MIB),
    ("KiB", KIB),
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("", 1),
];

/// Bytes of a text such as `"64KiB"`, `"10 MB"` or `"512"`.
pub fn parse(text: &str) -> Option<u64> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// The text of a number of bytes, in the largest binary unit that divides them.
pub fn show(bytes: u64) -> String {
    let unit = UNITS.iter().find(|(_, factor)| bytes != 0 && bytes.is_multiple_of(*factor));
    match unit {
        Some((name, factor)) => format!("{}{name}", bytes / factor),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood() {
        assert_eq!(parse("2MiB"), Some(2_097_152));
        assert_eq!(parse("64 KiB"), Some(65_536));
        assert_eq!(parse("10MB"), Some(10_000_000));
        assert_eq!(parse("512"), Some(512));
        assert_eq!(parse("512B"), Some(512));
    }

    #[test]
    fn text_that_is_no_size_is_refused() {
        for text in ["", "MiB", "2 mib", "-1", "1.5MiB", "99999999999999TiB", "2Mi"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_shown_value_reads_as_the_same() {
        for bytes in [0, 1, 1_000, 1_023, 1_024, 65_536, 268_435_455, 3 * 1024 * MIB] {
            assert_eq!(parse(&show(bytes)), Some(bytes));
        }
        assert_eq!(show(2 * MIB), "2MiB");
    }
}
