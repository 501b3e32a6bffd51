//! The environment of expressions: a message, its payload, and the time.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

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
    pub(super) item: Value,
    /// Values of columns that others name, by the numbers of the columns.
    pub(super) columns: RefCell<Vec<Option<Rc<Value>>>>,
    /// Identifiers that were made for the message.
    pub(super) uuids: Cell<u32>,
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
        Self {
            message,
            format,
            now,
            wanted,
            payload: OnceCell::new(),
            item: Value::Null,
            columns: RefCell::default(),
            uuids: Cell::default(),
            window: None,
        }
    }

    /// Goes to the next element of a FOREACH. The first `kept` columns are of the message and stay.
    pub(super) fn set_item(&mut self, item: Value, kept: usize) {
        self.item = item;
        self.columns.get_mut().truncate(kept);
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
