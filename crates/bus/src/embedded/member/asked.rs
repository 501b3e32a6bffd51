//! Requests that the bus has not answered, in the order of the calls.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::completion::Completion;
use crate::embedded::frame::{Ask, AskFailure, put_append};
use crate::embedded::partition::REMEMBERED_APPENDS;
use crate::{Append, Bounds, BusError, Epoch, LogPartition, LogSpec, Position};

/// A request.
pub(super) enum Asked {
    Create(Arc<LogSpec>),
    Own(LogPartition),
    Append(LogPartition, Append),
    Bounds(LogPartition),
    Trim(LogPartition, Position),
}

/// The waiting sender of a request, by the kind of its outcome.
pub(super) enum OnBus {
    Nothing(Completion<()>),
    Epoch(Completion<Epoch>),
    Position(Completion<Position>),
    Bounds(Completion<Bounds>),
}

impl OnBus {
    fn deadline(&self) -> Instant {
        match self {
            Self::Nothing(completion) => completion.deadline(),
            Self::Epoch(completion) => completion.deadline(),
            Self::Position(completion) => completion.deadline(),
            Self::Bounds(completion) => completion.deadline(),
        }
    }

    fn finish(self, outcome: Result<(u64, u64), BusError>) {
        match self {
            Self::Nothing(completion) => completion.finish(outcome.map(|_| ())),
            Self::Epoch(completion) => completion.finish(outcome.map(|(first, _)| Epoch(Position(first)))),
            Self::Position(completion) => completion.finish(outcome.map(|(first, _)| Position(first))),
            Self::Bounds(completion) => {
                completion.finish(outcome.map(|(first, next)| Bounds { first: Position(first), next: Position(next) }));
            }
        }
    }
}

struct AskedItem {
    asked: Asked,
    on_bus: OnBus,
    /// Whether a server may have got it.
    was_sent: bool,
}

impl AskedItem {
    /// The place and the owner of an append to a log with owners.
    fn owner(&self) -> Option<(&LogPartition, Epoch)> {
        match &self.asked {
            Asked::Append(place, append) => append.epoch.map(|epoch| (place, epoch)),
            _ => None,
        }
    }

    fn failed(&self, failure: AskFailure) -> BusError {
        match &self.asked {
            Asked::Create(spec) => {
                let place = LogPartition { log: spec.name.clone(), partition: crate::Partition(0) };
                failure.into_error(&place, None, Position::START)
            }
            Asked::Append(place, append) => failure.into_error(place, append.epoch, Position::START),
            Asked::Own(place) | Asked::Bounds(place) | Asked::Trim(place, _) => {
                failure.into_error(place, None, Position::START)
            }
        }
    }
}

/// Requests that are not answered. Their numbers ascend in the order of the calls, and so the server knows appends that
/// are sent again.
pub(super) struct Pending {
    max_waiting_time: Duration,
    items: BTreeMap<u64, AskedItem>,
    last: u64,
    /// Everything up to this number was sent on the connection that there is now.
    sent: u64,
    /// Requests that are sent and not answered.
    under_way: usize,
    /// Owners whose append has failed, and its number: nothing behind it is stored.
    ended: HashMap<LogPartition, (Epoch, u64)>,
}

impl Pending {
    pub(super) fn new(max_waiting_time: Duration) -> Self {
        let (items, ended) = (BTreeMap::new(), HashMap::new());
        Self { max_waiting_time, items, last: 0, sent: 0, under_way: 0, ended }
    }

    pub(super) fn push(&mut self, asked: Asked, on_bus: OnBus) {
        self.last += 1;
        self.items.insert(self.last, AskedItem { asked, on_bus, was_sent: false });
    }

    /// There is a new connection, on which nothing was sent.
    pub(super) fn unsend(&mut self) {
        (self.sent, self.under_way) = (0, 0);
    }

    /// Puts the frames of requests that may be sent into the output, while it is shorter than this.
    pub(super) fn send(&mut self, output: &mut Vec<u8>, max_output: usize, max_record_bytes: usize) {
        // A server remembers that many appends of each member.
        while self.under_way < REMEMBERED_APPENDS && output.len() < max_output {
            let Some((&id, item)) = self.items.range_mut(self.sent + 1..).next() else { return };
            self.sent = id;
            if let Some((place, epoch)) = item.owner().filter(|owner| is_behind(&self.ended, *owner, id)) {
                let error = BusError::Fenced { place: place.clone(), epoch };
                self.give_up(id, error);
                continue;
            }
            match &item.asked {
                Asked::Append(_, append) if append.size() > max_record_bytes => {
                    let error = BusError::TooLarge { bytes: append.size(), max: max_record_bytes };
                    self.end(id, Err(error));
                    continue;
                }
                Asked::Append(place, append) => put_append(output, id, place, append),
                Asked::Create(spec) => Ask::Create { id, spec: LogSpec::clone(spec) }.put(output),
                Asked::Own(place) => Ask::Own { id, place: place.clone() }.put(output),
                Asked::Bounds(place) => Ask::Bounds { id, place: place.clone() }.put(output),
                Asked::Trim(place, below) => Ask::Trim { id, place: place.clone(), below: *below }.put(output),
            }
            item.was_sent = true;
            self.under_way += 1;
        }
    }

    /// The server has answered a request.
    pub(super) fn answer(&mut self, id: u64, outcome: Result<(u64, u64), AskFailure>) {
        let Some(item) = self.items.get(&id) else { return };
        self.under_way = self.under_way.saturating_sub(1);
        // Behind an append that may not be stored, none of the same owner is.
        let is_behind = item.owner().is_some_and(|owner| is_behind(&self.ended, owner, id));
        match outcome {
            Ok(_) if is_behind => {
                let reason = "an append before it was not confirmed".to_owned();
                self.give_up(id, BusError::Away { waited: self.max_waiting_time, reason });
            }
            outcome => {
                let outcome = outcome.map_err(|failure| item.failed(failure));
                self.end(id, outcome);
            }
        }
    }

    /// The time of the first request to wait, which is the first to be late.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.items.first_key_value().map(|(_, item)| item.on_bus.deadline())
    }

    /// Ends requests that have waited for too long.
    pub(super) fn expire(&mut self, now: Instant, reason: &str) {
        while let Some((&id, item)) = self.items.first_key_value() {
            if item.on_bus.deadline() > now {
                return;
            }
            if id <= self.sent {
                self.under_way = self.under_way.saturating_sub(1);
            }
            let waited = self.max_waiting_time;
            self.give_up(id, BusError::Away { waited, reason: reason.to_owned() });
        }
    }

    /// Ends a request that the server has not answered: an append that was sent may be stored.
    fn give_up(&mut self, id: u64, error: BusError) {
        let outcome = match self.items.get(&id) {
            Some(AskedItem { asked: Asked::Append(place, _), was_sent: true, .. }) => {
                Err(BusError::Unconfirmed { place: place.clone(), waited: self.max_waiting_time })
            }
            _ => Err(error),
        };
        self.end(id, outcome);
    }

    fn end(&mut self, id: u64, outcome: Result<(u64, u64), BusError>) {
        let Some(item) = self.items.remove(&id) else { return };
        if let Some((place, epoch)) = item.owner().filter(|_| outcome.is_err())
            && !is_behind(&self.ended, (place, epoch), id)
        {
            self.ended.insert(place.clone(), (epoch, id));
        }
        item.on_bus.finish(outcome);
    }
}

/// Whether an append of an owner follows an append that has failed.
fn is_behind(ended: &HashMap<LogPartition, (Epoch, u64)>, (place, epoch): (&LogPartition, Epoch), id: u64) -> bool {
    ended.get(place).is_some_and(|(ended, first)| *ended == epoch && *first < id)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use bytes::BytesMut;

    use super::*;
    use crate::budget::Budget;
    use crate::embedded::frame::next_frame;
    use crate::{LogName, Settings};

    type Told = Receiver<Result<Position, BusError>>;

    fn place() -> LogPartition {
        LogPartition::new(LogName::new("state").unwrap(), 0)
    }

    fn pending() -> Pending {
        Pending::new(Settings::default().max_waiting_time)
    }

    /// Asks for an append, with the epoch of an owner or without.
    fn append(pending: &mut Pending, epoch: Option<u64>) -> Told {
        let (sender, told) = channel();
        let (budget, settings) = (Budget::new(&Settings::default()), Settings::default());
        let done = Box::new(move |outcome| _ = sender.send(outcome));
        let completion = Completion::new(&budget, &settings, 1, done).unwrap();
        let append = Append { epoch: epoch.map(|epoch| Epoch(Position(epoch))), ..Append::new("x") };
        pending.push(Asked::Append(place(), append), OnBus::Position(completion));
        told
    }

    /// The numbers of the requests that are sent now.
    fn sent(pending: &mut Pending) -> Vec<u64> {
        let mut output = Vec::new();
        pending.send(&mut output, usize::MAX, 1_000);
        let mut input = BytesMut::from(&output[..]);
        let asks = std::iter::from_fn(|| next_frame(&mut input, 1_000).unwrap()).map(|body| Ask::decode(body).unwrap());
        asks.map(|ask| if let Ask::Append { id, .. } = ask { id } else { panic!("{ask:?}") }).collect()
    }

    #[test]
    fn a_new_server_gets_the_unanswered_requests() {
        let mut pending = pending();
        let told: Vec<Told> = (0..4).map(|_| append(&mut pending, None)).collect();
        assert_eq!(sent(&mut pending), [1, 2, 3, 4]);
        pending.answer(1, Ok((10, 0)));
        pending.answer(3, Ok((12, 0)));
        pending.unsend();
        let late = append(&mut pending, None);
        assert_eq!(sent(&mut pending), [2, 4, 5], "in the order of the calls");
        assert_eq!((told[0].try_recv().unwrap(), told[2].try_recv().unwrap()), (Ok(Position(10)), Ok(Position(12))));
        assert!(told[1].try_recv().is_err() && late.try_recv().is_err());
    }

    #[test]
    fn no_more_is_under_way_than_a_server_remembers() {
        let mut pending = pending();
        let _told: Vec<Told> = (0..REMEMBERED_APPENDS + 2).map(|_| append(&mut pending, None)).collect();
        assert_eq!(sent(&mut pending).len(), REMEMBERED_APPENDS);
        assert_eq!(sent(&mut pending), [0; 0]);
        pending.answer(1, Ok((0, 0)));
        assert_eq!(sent(&mut pending), [REMEMBERED_APPENDS as u64 + 1]);
    }

    #[test]
    fn nothing_of_an_owner_is_sent_or_confirmed_behind_a_failure() {
        let mut pending = pending();
        let told: Vec<Told> = (0..3).map(|_| append(&mut pending, Some(7))).collect();
        assert_eq!(sent(&mut pending), [1, 2, 3]);
        pending.answer(2, Err(AskFailure::Full("max_bytes".to_owned())));
        pending.answer(1, Ok((5, 0)));
        assert_eq!(told[0].try_recv().unwrap(), Ok(Position(5)), "it was before");
        assert!(matches!(told[1].try_recv().unwrap(), Err(BusError::Full { .. })));
        // The connection is lost before the third one is answered.
        pending.unsend();
        let (fourth, next) = (append(&mut pending, Some(7)), append(&mut pending, Some(9)));
        assert_eq!(sent(&mut pending), [5]);
        assert!(matches!(told[2].try_recv().unwrap(), Err(BusError::Unconfirmed { .. })), "it was sent");
        assert!(matches!(fourth.try_recv().unwrap(), Err(BusError::Fenced { .. })));
        assert!(next.try_recv().is_err());
    }

    #[test]
    fn an_expired_request_reports_if_it_was_sent() {
        let mut pending = pending();
        let first = append(&mut pending, Some(7));
        assert_eq!(sent(&mut pending), [1]);
        let second = append(&mut pending, None);
        let deadline = pending.deadline().unwrap();
        pending.expire(deadline + Duration::from_secs(1), "away");
        assert!(matches!(first.try_recv().unwrap(), Err(BusError::Unconfirmed { .. })));
        assert!(matches!(second.try_recv().unwrap(), Err(BusError::Away { reason, .. }) if reason == "away"));
        assert_eq!(pending.deadline(), None);
    }
}
