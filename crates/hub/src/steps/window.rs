//! Windows: with `every`, a SELECT makes one record of all messages of a group within a time.

use std::sync::Arc;

use serde_json::Value;

use super::aggregate::{Totals, WindowShare};
use super::environment::{Environment, WindowView};
use super::error::ComputeError;
use super::{Shown, StepResult, Steps, at, show};
use crate::message::Message;
use crate::record::Record;

/// The messages of a window of one group, at its end.
#[derive(Debug)]
pub(crate) struct Ended<'a> {
    /// Its begin, Unix milliseconds.
    pub(crate) start: u64,
    /// The message that came last, with the id of the window's record.
    pub(crate) message: &'a Arc<Message>,
    /// The aggregates.
    pub(crate) totals: &'a Totals,
}

impl Steps {
    /// The length of windows, milliseconds; nothing where each message gives its own records.
    pub(crate) fn every(&self) -> Option<u64> {
        self.every.filter(|_| self.sql.is_some())
    }

    /// The length of the windows in which messages are gathered here, milliseconds. A broker that forwards messages to a log
    /// gathers none.
    pub(crate) fn gathers_for(&self) -> Option<u64> {
        self.every().filter(|_| !self.forwards)
    }

    /// The totals of a window without messages.
    pub(crate) fn no_totals(&self) -> Option<Totals> {
        self.sql.as_ref().map(super::sql::Sql::totals)
    }

    /// The begin of the window that a message belongs to, Unix milliseconds.
    pub(crate) fn window_of(every: u64, message: &Message) -> u64 {
        message.timestamp - message.timestamp % every.max(1)
    }

    /// The share of a message in its window; nothing when a step drops it.
    ///
    /// # Errors
    /// When the message cannot be computed with.
    pub(crate) fn share(&self, message: &Arc<Message>, now: u64) -> Result<Option<WindowShare>, ComputeError> {
        let Some(message) = self.decoded(message)? else { return Ok(None) };
        let environment = &Environment::new(&message, self.format, &self.wanted, now);
        if !self.is_valid(environment)? {
            return Ok(None);
        }
        let passes = self.filter.as_ref().map(|filter| filter.truth(environment, None)).transpose();
        match (&self.sql, passes.map_err(at("filter"))?) {
            (Some(sql), None | Some(true)) => sql.share(environment).map_err(at("sql")),
            _ => Ok(None),
        }
    }

    /// The record of a window. `now` is in Unix milliseconds.
    ///
    /// # Errors
    /// When its fields cannot be computed.
    pub(crate) fn end(&self, ended: &Ended<'_>, payload_of: &Arc<Message>, now: u64) -> Result<Record, ComputeError> {
        self.end_shown(ended, payload_of, now, &mut None)
    }

    fn end_shown(
        &self,
        ended: &Ended<'_>,
        payload_of: &Arc<Message>,
        now: u64,
        shown: &mut Option<Shown<'_>>,
    ) -> Result<Record, ComputeError> {
        // It was decoded when it came.
        let decoded = self.decoded(payload_of)?;
        let mut environment = Environment::new(decoded.as_ref().unwrap_or(payload_of), self.format, &self.wanted, now);
        let end = ended.start.saturating_add(self.every.unwrap_or_default());
        let values = ended.totals.values().map_err(at("sql"))?;
        environment.window = Some(WindowView { start: ended.start, end, values });
        let row = self.sql.as_ref().map(|sql| sql.window_row(&environment)).transpose().map_err(at("sql"))?;
        self.finish(ended.message, &environment, row, shown)
    }

    /// The record of a window with one message, for trials and for the key of a log.
    pub(super) fn window_of_one(
        &self,
        message: &Arc<Message>,
        now: u64,
        shown: &mut Option<Shown<'_>>,
    ) -> Result<Option<Record>, ComputeError> {
        let share = self.share(message, now)?;
        let (Some(share), Some(mut totals)) = (share, self.no_totals()) else {
            show(shown, "sql", || StepResult::Value(Value::Null));
            return Ok(None);
        };
        totals.add(&share.values);
        let start = Self::window_of(self.every.unwrap_or_default(), message);
        self.end_shown(&Ended { start, message, totals: &totals }, message, now, shown).map(Some)
    }
}
