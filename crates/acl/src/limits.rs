//! Limits of the files of rules. A file beyond a limit is refused as a whole.

/// Largest file of rules, bytes.
pub const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;

/// Rules of all files together.
pub const MAX_RULES: usize = 65_536;

/// Longest topic of a rule, bytes, before its placeholders are filled in.
pub const MAX_PATTERN_BYTES: usize = 4_096;

/// Topics of one rule.
pub const MAX_TOPICS_PER_RULE: usize = 1_024;

/// Values of one condition, such as the users of a rule.
pub const MAX_VALUES_PER_CONDITION: usize = 1_024;

/// Longest value of a condition, bytes.
pub const MAX_VALUE_BYTES: usize = 4_096;
