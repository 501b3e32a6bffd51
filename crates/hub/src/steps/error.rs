//! Why a message cannot be computed with.

use std::fmt;

use tidegate_context::ExpressionError;

use crate::format::{EncodeError, FormatError, JsonError};

/// Longest text that a function makes, bytes.
pub(super) const MAX_RESULT: usize = 1 << 20;
/// Most elements of a list that FOREACH makes records of; a message with a longer list fails.
pub(crate) const MAX_ELEMENTS: usize = 1_000;
/// Most memory of all records that FOREACH makes of one message, bytes; a message with larger records fails.
pub(super) const MAX_RECORD_BYTES: usize = 4 << 20;

/// Longest payload that the broker checks before an acknowledgement, bytes: its thread serves other clients, too.
pub(super) const MAX_GATED_PAYLOAD: usize = 64 << 10;
/// Most values of such a payload that a JSON Schema checks: each may be an error, and all are collected.
pub(super) const MAX_GATED_VALUES: usize = 10_000;

/// Longest text of the values of GROUP BY, bytes.
pub(super) const MAX_GROUP: usize = 4 << 10;

/// Why a message cannot be computed with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComputeError {
    /// The payload is not of its format.
    #[error(transparent)]
    Payload(#[from] FormatError),
    /// A value has no form in the wanted format.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// An operation needs another kind of value.
    #[error("{needed}, and there is {found}")]
    Kind {
        /// The operand that the operation needs.
        needed: &'static str,
        /// The kind of the value, and its beginning.
        found: String,
    },
    /// A number is divided by 0.
    #[error("a number is divided by 0")]
    DividedByZero,
    /// JSON cannot say the result.
    #[error("the result is no finite number")]
    NotFinite,
    /// A text is no truth value.
    #[error("`{0}` is neither true nor false")]
    NotBool(String),
    /// A list of a FOREACH is too long.
    #[error("FOREACH takes at most {MAX_ELEMENTS} elements, and there are {0}")]
    TooManyElements(usize),
    /// The records of a FOREACH are too large.
    #[error("the records of FOREACH take more than {MAX_RECORD_BYTES} bytes: select fewer fields behind DO")]
    TooManyBytes,
    /// The payload is not of the format of its schema.
    #[error("the payload is not {0} of the schema: {1}")]
    NotDecoded(&'static str, String),
    /// The payload does not fulfil the schema of the pipeline.
    #[error("{0}")]
    Schema(String),
    /// The payload is longer than payloads that are checked before the acknowledgement.
    #[error("the payload is longer than {MAX_GATED_PAYLOAD} bytes, and on_invalid = \"refuse\" checks no longer ones")]
    LongPayload,
    /// The payload has more values than are checked before the acknowledgement.
    #[error("the payload has more than {MAX_GATED_VALUES} values, and on_invalid = \"refuse\" checks no more")]
    ManyValues,
    /// A table has no row of a key, and `on_missing` makes that an error.
    #[error("the table `{table}` has no row {key}")]
    NoRow {
        /// The table.
        table: String,
        /// The key, as JSON.
        key: String,
    },
    /// The values of GROUP BY are too long.
    #[error("the values of GROUP BY are longer than {MAX_GROUP} bytes")]
    LongGroup,
    /// A result is too long.
    #[error("the text is longer than {MAX_RESULT} bytes")]
    TooLong,
    /// A text to be decoded is not JSON.
    #[error("it is not JSON: {0}")]
    NotJson(JsonError),
    /// A text to be decoded is not base64.
    #[error("it is not base64: {0}")]
    NotBase64(base64::DecodeError),
    /// A text is no time.
    #[error("`{0}` is no time such as 2026-01-02T03:04:05Z")]
    NotTime(String),
    /// A form of `sprintf` does not fit its values.
    #[error(
        "`{0}` is no form for these values: `sprintf` knows ~s, ~p, ~w, ~b, ~f, ~.2f, ~n and ~~, with a value for each"
    )]
    NotForm(String),
    /// A text is no zone of time.
    #[error("`{0}` is no zone: write '+08:00', 'Z', or a number of seconds")]
    NotZone(String),
    /// A text is no date in a form.
    #[error("`{text}` is no date of the form `{form}`")]
    NotDate {
        /// The text.
        text: String,
        /// The form.
        form: String,
    },
    /// A text is no unit of time.
    #[error("`{0}` is no unit of time: second, millisecond, microsecond or nanosecond")]
    NotUnit(String),
    /// A time has too many digits in a unit.
    #[error("the time in {0} has more than 64 bits: take a larger unit")]
    TimeTooLong(&'static str),
    /// Decoded bytes are not UTF-8.
    #[error("the decoded bytes are no text")]
    NotText,
    /// An expression of CEL has no result.
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    /// A step has failed.
    #[error("{step}: {error}")]
    Step {
        /// The step's key in the configuration.
        step: &'static str,
        /// Why.
        error: Box<Self>,
    },
}

/// A function is given too few or too many values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArityError {
    pub(super) function: &'static str,
    /// How many it takes at least.
    pub(super) least: usize,
    /// And at most.
    pub(super) most: usize,
    pub(super) count: usize,
}

impl fmt::Display for ArityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, least, most, count } = self;
        if least == most {
            write!(f, "`{function}` takes {least} values, not {count}")
        } else {
            write!(f, "`{function}` takes {least} to {most} values, not {count}")
        }
    }
}
