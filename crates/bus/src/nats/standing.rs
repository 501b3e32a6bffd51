//! Whether an answer about a stream can be believed.
//!
//! A cluster of servers elects a leader for each stream. Around an election an answer may lack records that the servers
//! have confirmed. That is no loss of data: the answer is asked for again until the copies agree.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::{LogPartition, Position};

/// The records of a stream that this process knows to be confirmed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Confirmed {
    /// When the stream was made, as the servers say it; empty while it is unknown.
    made: String,
    /// The sequence number of the last confirmed record; 0 for none.
    last: u64,
}

/// The judgement of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    /// It is valid.
    Valid,
    /// It is valid, and confirmed records are lost: most copies agree on an earlier end.
    Lost,
    /// It says nothing.
    Unsure(Unsure),
}

/// Why an answer about a stream says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unsure {
    /// The servers have not elected a leader.
    #[error("its replicas have no leader")]
    NoLeader,
    /// The leader lacks confirmed records, and most of its followers have not caught up.
    #[error("its replicas have not caught up")]
    Behind,
}

/// The sequence number of the last record of a stream that was confirmed before a question about it; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Before(u64);

/// Judges the description of a stream with confirmed records. A server that is alone has no cluster, and each of its answers
/// is valid.
fn judge(stream: &Value, confirmed: &Confirmed) -> Judgement {
    let last = stream["state"]["last_seq"].as_u64().unwrap_or_default();
    let is_known = stream["created"].as_str() == Some(confirmed.made.as_str());
    let is_short = is_known && last < confirmed.last;
    let cluster = &stream["cluster"];
    if cluster["name"].as_str().is_none_or(str::is_empty) {
        return if is_short { Judgement::Lost } else { Judgement::Valid };
    }
    if cluster["leader"].as_str().is_none_or(str::is_empty) {
        return Judgement::Unsure(Unsure::NoLeader);
    }
    if !is_short {
        return Judgement::Valid;
    }
    let followers = cluster["replicas"].as_array().map_or(&[][..], Vec::as_slice);
    let is_current = |follower: &&Value| follower["current"] == true && follower["offline"] != true;
    let current = followers.iter().filter(is_current).count() + 1;
    if current > followers.len().div_ceil(2) { Judgement::Lost } else { Judgement::Unsure(Unsure::Behind) }
}

/// The confirmed records of all streams that this process has used.
#[derive(Debug, Default)]
pub(super) struct Standings(Mutex<HashMap<LogPartition, Confirmed>>);

impl Standings {
    fn all(&self) -> MutexGuard<'_, HashMap<LogPartition, Confirmed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A record at this position is confirmed.
    pub(super) fn confirm(&self, place: &LogPartition, position: Position) {
        let mut all = self.all();
        match all.get_mut(place) {
            Some(confirmed) => confirmed.last = confirmed.last.max(position.0),
            None => drop(all.insert(place.clone(), Confirmed { made: String::new(), last: position.0 })),
        }
    }

    /// The confirmed records before a question: records of later appends may be missing in the answer to it.
    pub(super) fn before(&self, place: &LogPartition) -> Before {
        Before(self.all().get(place).map_or(0, |confirmed| confirmed.last))
    }

    /// Takes note of the description of a stream, the answer to a question.
    ///
    /// # Errors
    /// The reason for which it says nothing.
    pub(super) fn take(&self, place: &LogPartition, before: Before, stream: &Value) -> Result<(), Unsure> {
        let mut all = self.all();
        let confirmed = all.entry(place.clone()).or_default();
        let last = stream["state"]["last_seq"].as_u64().unwrap_or_default();
        let made = stream["created"].as_str().unwrap_or_default();
        match judge(stream, &Confirmed { made: confirmed.made.clone(), last: before.0 }) {
            Judgement::Unsure(reason) => return Err(reason),
            Judgement::Lost => {
                tracing::warn!(%place, confirmed = before.0, last, "the servers lost confirmed records of a log");
                confirmed.last = last;
            }
            Judgement::Valid if confirmed.made == made => confirmed.last = confirmed.last.max(last),
            // It is another stream, or the first description of it. Records confirmed before that may be of an earlier one.
            Judgement::Valid => *confirmed = Confirmed { made: made.to_owned(), last },
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::LogName;

    const MADE: &str = "2026-11-29T18:54:04Z";

    /// A description of a stream with two followers, and which of them are current.
    fn stream(last: u64, leader: &str, current: [bool; 2]) -> Value {
        let follower = |is_current: bool| json!({ "name": "b", "current": is_current, "active": 1 });
        let replicas = current.map(follower);
        json!({
            "created": MADE,
            "state": { "last_seq": last },
            "cluster": { "name": "c", "leader": leader, "replicas": replicas },
        })
    }

    fn confirmed(last: u64) -> Confirmed {
        Confirmed { made: MADE.to_owned(), last }
    }

    #[test]
    fn a_replica_that_lags_is_not_a_loss() {
        let short = |current| judge(&stream(7, "a", current), &confirmed(9));
        assert!(matches!(short([false, false]), Judgement::Unsure(_)));
        assert_eq!((short([true, false]), short([true, true])), (Judgement::Lost, Judgement::Lost));
        assert_eq!(judge(&stream(9, "a", [false, false]), &confirmed(9)), Judgement::Valid);
        let mut offline = stream(7, "a", [true, false]);
        offline["cluster"]["replicas"][0]["offline"] = json!(true);
        assert!(matches!(judge(&offline, &confirmed(9)), Judgement::Unsure(_)));
    }

    #[test]
    fn an_answer_without_a_leader_says_nothing() {
        assert!(matches!(judge(&stream(9, "", [true, true]), &confirmed(9)), Judgement::Unsure(_)));
        let mut leaderless = stream(9, "a", [true, true]);
        leaderless["cluster"]["leader"].take();
        assert!(matches!(judge(&leaderless, &confirmed(0)), Judgement::Unsure(_)));
    }

    #[test]
    fn a_server_that_is_alone_is_believed() {
        let mut alone = stream(7, "NB6F", [false, false]);
        alone["cluster"] = json!({ "leader": "NB6F" });
        assert_eq!((judge(&alone, &confirmed(7)), judge(&alone, &confirmed(9))), (Judgement::Valid, Judgement::Lost));
    }

    #[test]
    fn a_stream_that_was_made_again_has_other_records() {
        let (standings, place) = (Standings::default(), LogPartition::new(LogName::new("a").unwrap(), 0));
        let lagging = [false, false];
        let take = |stream: &Value| standings.take(&place, standings.before(&place), stream);
        assert_eq!(take(&stream(5, "a", lagging)), Ok(()));
        let early = standings.before(&place);
        standings.confirm(&place, Position(9));
        assert_eq!(take(&stream(8, "a", lagging)), Err(Unsure::Behind));
        let answer = standings.take(&place, early, &stream(8, "a", [true, true]));
        assert_eq!((answer, standings.before(&place)), (Ok(()), Before(9)), "the append was later than the question");
        let mut other = stream(1, "a", lagging);
        other["created"] = json!("2026-11-29T19:00:00Z");
        assert_eq!(take(&other), Ok(()));
        assert_eq!(take(&stream(9, "a", lagging)), Ok(()));
        assert_eq!(take(&stream(8, "a", [true, true])), Ok(()), "most copies agree");
        assert_eq!(take(&stream(8, "a", lagging)), Ok(()));
    }
}
