//! The counters of the listeners of a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::StatusCode;

/// The first part of a path that requests have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Topics,
    Queue,
    Subscribe,
    History,
    Other,
}

const ROUTES: [(Route, &str); 5] = [
    (Route::Topics, "topics"),
    (Route::Queue, "queue"),
    (Route::Subscribe, "subscribe"),
    (Route::History, "history"),
    (Route::Other, "other"),
];

impl Route {
    pub(crate) fn of(path: &str) -> Self {
        match path {
            "/topics" => Self::Topics,
            "/subscribe" => Self::Subscribe,
            "/history" => Self::History,
            _ if path.starts_with("/topics/") => Self::Topics,
            _ if path.starts_with("/queue/") => Self::Queue,
            _ => Self::Other,
        }
    }
}

/// Outcomes of requests: a status below 400, of 400 to 499, and from 500 on.
const OUTCOMES: [&str; 3] = ["answered", "refused", "failed"];

fn outcome_of(status: StatusCode) -> usize {
    usize::from(status.is_client_error()) + 2 * usize::from(status.is_server_error())
}

/// The way by which clients are sent messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Events,
    WebSocket,
    Queue,
    History,
}

const WAYS: [(Way, &str); 4] =
    [(Way::Events, "events"), (Way::WebSocket, "websocket"), (Way::Queue, "queue"), (Way::History, "history")];

/// Messages that clients were sent by one way.
#[derive(Debug, Default)]
struct Sent {
    messages: AtomicU64,
    bytes: AtomicU64,
}

/// The counters of the HTTP listeners of a process, and their present queues and WebSockets.
#[derive(Debug, Default)]
pub struct Counters {
    requests: [[AtomicU64; OUTCOMES.len()]; ROUTES.len()],
    body_bytes: AtomicU64,
    sent: [Sent; WAYS.len()],
    connections_refused: AtomicU64,
    queues: AtomicU64,
    websockets: AtomicU64,
}

impl Counters {
    /// Requests, by the first part of their path and by outcome: `answered`, `refused` (statuses 400 to 499) or
    /// `failed` (from 500 on).
    pub fn requests(&self) -> Vec<(&'static str, &'static str, u64)> {
        let of_route = |((_, route), counts): (&(Route, &'static str), &[AtomicU64; OUTCOMES.len()])| {
            OUTCOMES.map(|outcome| (*route, outcome)).into_iter().zip(counts.iter().map(read)).collect::<Vec<_>>()
        };
        let all = ROUTES.iter().zip(&self.requests).flat_map(of_route);
        all.map(|((route, outcome), count)| (route, outcome, count)).collect()
    }

    /// Bytes of the bodies of requests.
    pub fn body_bytes(&self) -> u64 {
        read(&self.body_bytes)
    }

    /// Messages that clients were sent and their bytes as JSON, by way: `events`, `websocket`, `queue` or `history`. A
    /// message that is sent again counts again.
    pub fn sent(&self) -> Vec<(&'static str, u64, u64)> {
        let of_way = |((_, way), sent): (&(Way, &'static str), &Sent)| (*way, read(&sent.messages), read(&sent.bytes));
        WAYS.iter().zip(&self.sent).map(of_way).collect()
    }

    /// Connections that were closed at once, as there were too many.
    pub fn connections_refused(&self) -> u64 {
        read(&self.connections_refused)
    }

    /// Queues whose sessions are connected now.
    pub fn queues(&self) -> u64 {
        read(&self.queues)
    }

    /// WebSockets that are open now.
    pub fn websockets(&self) -> u64 {
        read(&self.websockets)
    }

    pub(crate) fn count_request(&self, route: Route, status: StatusCode) {
        let at = ROUTES.iter().position(|(one, _)| *one == route);
        if let Some(count) = at.and_then(|at| self.requests.get(at)?.get(outcome_of(status))) {
            add(count, 1);
        }
    }

    pub(crate) fn count_body(&self, bytes: usize) {
        add(&self.body_bytes, bytes as u64);
    }

    pub(crate) fn count_sent(&self, way: Way, messages: usize, bytes: u64) {
        let at = WAYS.iter().position(|(one, _)| *one == way);
        if let Some(sent) = at.and_then(|at| self.sent.get(at)) {
            add(&sent.messages, messages as u64);
            add(&sent.bytes, bytes);
        }
    }

    pub(crate) fn count_refused_connection(&self) {
        add(&self.connections_refused, 1);
    }

    /// Counts a queue as connected until the result is dropped.
    pub(crate) fn hold_queue(self: &Arc<Self>) -> OpenCount {
        OpenCount::new(self, |counters| &counters.queues)
    }

    /// Counts a WebSocket as open until the result is dropped.
    pub(crate) fn hold_websocket(self: &Arc<Self>) -> OpenCount {
        OpenCount::new(self, |counters| &counters.websockets)
    }
}

/// Counts an open queue or WebSocket until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenCount {
    counters: Arc<Counters>,
    gauge: fn(&Counters) -> &AtomicU64,
}

impl OpenCount {
    fn new(counters: &Arc<Counters>, gauge: fn(&Counters) -> &AtomicU64) -> Self {
        add(gauge(counters), 1);
        Self { counters: Arc::clone(counters), gauge }
    }

    /// The counters that this one belongs to.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl Drop for OpenCount {
    fn drop(&mut self) {
        (self.gauge)(&self.counters).fetch_sub(1, Ordering::Relaxed);
    }
}

fn add(count: &AtomicU64, number: u64) {
    count.fetch_add(number, Ordering::Relaxed);
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_route_and_outcome() {
        let counters = Counters::default();
        for (path, status) in [
            ("/topics/a/b", StatusCode::OK),
            ("/topics", StatusCode::MULTI_STATUS),
            ("/queue/in", StatusCode::NOT_FOUND),
            ("/history", StatusCode::SERVICE_UNAVAILABLE),
            ("/subscribe", StatusCode::SWITCHING_PROTOCOLS),
            ("/topicsx", StatusCode::NOT_FOUND),
        ] {
            counters.count_request(Route::of(path), status);
        }
        let counted: Vec<_> = counters.requests().into_iter().filter(|(_, _, count)| *count > 0).collect();
        let expected = [
            ("topics", "answered", 2),
            ("queue", "refused", 1),
            ("subscribe", "answered", 1),
            ("history", "failed", 1),
            ("other", "refused", 1),
        ];
        assert_eq!(counted, expected);
    }

    #[test]
    fn messages_are_counted_by_way() {
        let counters = Counters::default();
        counters.count_sent(Way::Queue, 3, 70);
        counters.count_sent(Way::Queue, 0, 20);
        counters.count_sent(Way::History, 1, 9);
        let expected = [("events", 0, 0), ("websocket", 0, 0), ("queue", 3, 90), ("history", 1, 9)];
        assert_eq!(counters.sent(), expected);
    }

    #[test]
    fn queues_and_websockets_count_while_they_are_there() {
        let counters = Arc::new(Counters::default());
        let (queue, websocket) = (counters.hold_queue(), counters.hold_websocket());
        let second = counters.hold_queue();
        assert_eq!((counters.queues(), counters.websockets()), (2, 1));
        drop((queue, websocket));
        assert_eq!((counters.queues(), counters.websockets()), (1, 0));
        drop(second);
        assert_eq!(counters.queues(), 0);
    }
}
