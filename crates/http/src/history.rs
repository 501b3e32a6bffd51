//! `GET /history`: messages of the last hours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use serde_json::json;
use tidegate_client::TopicFilterBuf;
use tokio::sync::Semaphore;

use crate::answer::{Answer, bad, json, length, no_history};
use crate::counters::Way;
use crate::request_error::RequestError;
use crate::visitor::{Visitor, query};
use crate::{HistoryQuestion, ReadError};

/// Messages of an answer unless the request says otherwise.
const LIMIT: usize = 100;
/// Messages of an answer at most.
const MAX_LIMIT: usize = 1_000;
/// Filters of one request at most.
const MAX_FILTERS: usize = 16;

/// The forms of a time in a query.
const TIMES: &str = "a number of Unix milliseconds, or a length of time such as 1h before now";

/// The form of the place within a time.
const AFTER: &str = "the `message_id` of a message, beside its `time` as from";

/// Reads the parameters of a question. `now` is the time in Unix milliseconds.
fn question(pairs: Vec<(String, String)>, now: u64) -> Result<HistoryQuestion, RequestError> {
    let mut found = HistoryQuestion { limit: LIMIT, ..HistoryQuestion::default() };
    // Within a length of time before now, no page begins where the last one ended.
    let mut has_time = false;
    for (name, value) in pairs {
        match name.as_str() {
            "filter" if found.filters.len() == MAX_FILTERS => {
                return Err(RequestError::Filters(MAX_FILTERS));
            }
            "filter" => found.filters.push(TopicFilterBuf::new(value).map_err(RequestError::Filter)?),
            "from" => {
                let time = value.parse().ok();
                has_time = time.is_some();
                let millis = time.or_else(|| Some(now.saturating_sub(tidegate_units::duration::parse(&value)?)));
                found.from = Some(millis.ok_or(RequestError::Value { name: "from", form: TIMES, value })?);
            }
            "after" => found.after = Some(value),
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
                found.limit = limit.ok_or(RequestError::Range { name: "limit", most: MAX_LIMIT, value })?;
            }
            _ => {
                return Err(RequestError::UnknownParameter { name, known: "filter, from, after and limit".to_owned() });
            }
        }
    }
    match found.after.take_if(|_| !has_time) {
        Some(value) => Err(RequestError::Value { name: "after", form: AFTER, value }),
        None => Ok(found),
    }
}

/// Says that a request is over when it is dropped.
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Reads on a thread for blocking work, within a permit that lasts as long as the work. The argument of `read` says
/// whether the request lasts. `None` when the work has failed.
async fn reading<T: Send + 'static>(
    readings: Arc<Semaphore>,
    read: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
) -> Option<T> {
    // The semaphore is never closed.
    let permit = readings.acquire_owned().await.ok()?;
    let flag = Arc::new(AtomicBool::new(true));
    let _wanted = Wanted(Arc::clone(&flag));
    let work = move || {
        let found = read(&|| flag.load(Ordering::Relaxed));
        drop(permit);
        found
    };
    tokio::task::spawn_blocking(work).await.ok()
}

impl Visitor {
    /// Answers a request for the history.
    pub(crate) async fn history(&self, request: &Request<Incoming>) -> Result<Answer, Box<Answer>> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let now = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let question = question(query(request)?, now).or_else(bad)?;
        let mut placing = self.answer_room.begin();
        loop {
            let (answer, count) = self.read_history(request, question.clone()).await?;
            if let Some(answer) = placing.put(answer).await? {
                self.counters.count_sent(Way::History, count, length(&answer));
                return Ok(answer);
            }
        }
    }

    /// The answer, and the number of its messages.
    async fn read_history(
        &self,
        request: &Request<Incoming>,
        question: HistoryQuestion,
    ) -> Result<(Answer, usize), Box<Answer>> {
        let (credentials, client_id) = self.identified(request.headers()).await?;
        let (gateway, caller) = (Arc::clone(&self.gateway), self.caller(&credentials));
        let read = move |is_wanted: &dyn Fn() -> bool| gateway.history(&caller, &client_id, &question, is_wanted);
        let asked = reading(Arc::clone(&self.readings), read).await;
        let found = asked.unwrap_or_else(|| Err(ReadError::Unavailable.into())).map_err(|why| no_history(&why))?;
        let count = found.messages.len();
        let mut body = json!({ "messages": found.messages });
        if !found.incomplete.is_empty() {
            body["incomplete"] = found.incomplete.into();
        }
        Ok((json(StatusCode::OK, &body), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<HistoryQuestion, RequestError> {
        question(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(), 7_200_000)
    }

    #[tokio::test]
    async fn a_reading_without_a_request_ends_and_keeps_its_permit() {
        let readings = Arc::new(Semaphore::new(1));
        let (begun, is_begun) = tokio::sync::oneshot::channel();
        let (resume, resumed) = std::sync::mpsc::channel::<()>();
        let (tell, told) = tokio::sync::oneshot::channel();
        let request = tokio::spawn(reading(Arc::clone(&readings), move |is_wanted: &dyn Fn() -> bool| {
            begun.send(is_wanted()).unwrap();
            resumed.recv().unwrap();
            tell.send(is_wanted()).unwrap();
        }));
        assert!(is_begun.await.unwrap());
        request.abort();
        assert!(request.await.unwrap_err().is_cancelled());
        assert_eq!(readings.available_permits(), 0, "the work has not ended");
        resume.send(()).unwrap();
        assert!(!told.await.unwrap());
        drop(readings.acquire().await.unwrap());
    }

    #[test]
    fn a_question_has_topics_a_time_and_a_limit() {
        assert_eq!(read(&[]), Ok(HistoryQuestion { limit: LIMIT, ..HistoryQuestion::default() }));
        let found = read(&[("filter", "a/#"), ("from", "1h"), ("limit", "7")]).unwrap();
        assert_eq!((found.filters.len(), found.from, found.limit), (1, Some(3_600_000), 7));
        assert_eq!(read(&[("from", "1790000000000")]).unwrap().from, Some(1_790_000_000_000));
        let found = read(&[("after", "x/1"), ("from", "1790000000000")]).unwrap();
        assert_eq!((found.from, found.after.as_deref()), (Some(1_790_000_000_000), Some("x/1")));
        assert!(read(&[("after", "x/1")]).is_err() && read(&[("after", "x/1"), ("from", "1h")]).is_err());
        for (name, value) in [("filter", "#/a"), ("from", "yesterday"), ("limit", "0"), ("limit", "1001"), ("to", "1")]
        {
            assert!(read(&[(name, value)]).is_err(), "{name}");
        }
    }
}
