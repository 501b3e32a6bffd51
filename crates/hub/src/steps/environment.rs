//! The environment of expressions: a message, its payload, and the time.

use std::cell::OnceCell;

use serde_json::Value;

use crate::format::{Format, FormatError, Wanted};
use crate::message::Message;

/// The environment of an expression.
#[derive(Debug)]
pub(crate) struct Environment<'a> {
    pub(crate) message: &'a Message,
    pub(crate) format: Format,
    /// Unix milliseconds.
    pub(crate) now: u64,
    /// The parts of the payload that the expressions look at.
    wanted: &'a Wanted,
    payload: OnceCell<Result<Value, FormatError>>,
    /// The present element of a FOREACH.
    pub(crate) item: Value,
    /// The window whose record is made.
    pub(super) window: Option<WindowView>,
}

/// The environment of a window's record beside its last message.
#[derive(Debug)]
pub(super) struct WindowView {
    /// Its begin, Unix milliseconds.
    pub(super) start: u64,
    /// Its end, Unix milliseconds.
    pub(super) end: u64,
    /// The results of the aggregates.
    pub(super) values: Vec<Value>,
}

impl<'a> Environment<'a> {
    /// That of a message.
    pub(crate) fn new(message: &'a Message, format: Format, wanted: &'a Wanted, now: u64) -> Self {
        Self { message, format, now, wanted, payload: OnceCell::new(), item: Value::Null, window: None }
    }

    /// The wanted parts of the payload, read on the first use.
    ///
    /// # Errors
    /// When it is not of its format.
    pub(crate) fn payload(&self) -> Result<&Value, FormatError> {
        let read = self.payload.get_or_init(|| self.format.decode_parts(&self.message.payload, self.wanted));
        read.as_ref().map_err(Clone::clone)
    }
}
