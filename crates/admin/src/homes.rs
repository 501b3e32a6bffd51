//! `/api/v1/homes`: which orchestrator works which partition of the clients, and moves of partitions (BRK-27).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::invalid::InvalidRequest;
use crate::request::{Body, Method, Request, with_name};

/// Largest body that brings partitions from another orchestrator, bytes.
pub const MAX_PARCEL: usize = 256 * 1024 * 1024;
/// Longest lease on a table, seconds.
pub const MAX_TTL_SECONDS: u64 = 86_400;
/// Partitions that move at once when everything does, unless another number is asked for.
pub const DEFAULT_BATCH: u64 = 8;

const ROUTE: &str = "/api/v1/homes";
const MOVE_ROUTE: &str = "/api/v1/homes/moves/{id}";
const COMMAND: Option<&str> = Some("fleet");

/// An orchestrator that partitions may be at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// Where clients reach it, for server references; empty for none.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub mqtt: String,
    /// Where it takes relayed clients, `HOST:PORT`; empty for nowhere.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub relay: String,
    /// Its admin address, `HOST:PORT`; empty where nothing can be moved to it.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub admin: String,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The place of a partition in a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum HomeOf {
    /// Its name.
    Name(String),
    /// Its position in the list of places.
    Position(usize),
}

/// A table of homes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomesTable {
    /// Grows with each change; 0 where there is no table.
    pub epoch: u64,
    /// The places.
    pub places: Vec<Place>,
    /// For each partition its place.
    pub homes: Vec<HomeOf>,
}

/// `GET /api/v1/homes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetHomes;

impl Request for GetHomes {
    type Answer = HomesView;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = ROUTE;
}

/// `PUT /api/v1/homes`: puts a table in force, or renews the lease on the one in force. Unknown fields are ignored, so
/// that an answer of [`GetHomes`] can be changed and sent back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetHomes {
    /// The table.
    #[serde(flatten)]
    pub table: HomesTable,
    /// How long it holds without being set again, seconds, 1 to [`MAX_TTL_SECONDS`]; `None` is without end.
    #[serde(default)]
    pub ttl_s: Option<u64>,
    /// The epoch of the table that this one was made from; with another table in force the request is refused.
    #[serde(default)]
    pub if_epoch: Option<u64>,
    /// Names of places that are gone for good: moves with them are ended.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub gone: Vec<String>,
}

impl Request for SetHomes {
    type Answer = HomesView;
    const METHOD: Method = Method::Put;
    const ROUTE: &'static str = ROUTE;
    const COMMAND: Option<&'static str> = COMMAND;

    fn body(&self) -> Body<'_> {
        Body::json(self)
    }

    fn check(&self) -> Result<(), InvalidRequest> {
        match &self.ttl_s {
            Some(ttl) => crate::in_range("ttl_s", ttl, &(1..=MAX_TTL_SECONDS)),
            None => Ok(()),
        }
    }
}

/// An orchestrator's table and its moves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomesView {
    /// The table in force.
    #[serde(flatten)]
    pub table: HomesTable,
    /// The orchestrator's name.
    pub name: String,
    /// Partitions at home here.
    #[serde(default)]
    pub here: u64,
    /// How long the lease on the table still holds, milliseconds; `None` without a lease.
    #[serde(default)]
    pub lease_ms: Option<u64>,
    /// The move from here that is under way.
    #[serde(default)]
    pub leaving: Option<Leaving>,
    /// The move to here that is under way.
    #[serde(default)]
    pub arriving: Option<Arriving>,
    /// The progress of [`MoveAll`].
    #[serde(default)]
    pub move_all: MoveAllStatus,
    /// Partitions that went to others so far.
    #[serde(default)]
    pub moved_out: u64,
    /// Partitions that came from others so far.
    #[serde(default)]
    pub moved_in: u64,
    /// Moves that did not happen so far.
    #[serde(default)]
    pub moves_failed: u64,
    /// Moves given up because the new place owed other numbers than the old one.
    #[serde(default)]
    pub owed_mismatches: u64,
    /// Partitions that began empty here, without anything from their last place.
    #[serde(default)]
    pub taken_anew: u64,
    /// Sessions given up for newer copies of them.
    #[serde(default)]
    pub sessions_given_up: u64,
}

/// A move from here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving {
    /// The id of the move.
    pub id: String,
    /// The new place.
    pub to: String,
    /// The partitions.
    #[serde(default)]
    pub partitions: Vec<u16>,
}

/// A move to here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arriving {
    /// The id of the move.
    pub id: String,
    /// The old place.
    pub from: String,
    /// The partitions.
    #[serde(default)]
    pub partitions: Vec<u16>,
}

/// The progress of moving everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveAllStatus {
    /// Whether it is under way.
    pub running: bool,
    /// Partitions that have moved.
    pub moved: u64,
    /// Why it has ended early; empty otherwise.
    pub last_error: String,
}

/// `POST /api/v1/homes/move`: moves partitions to another orchestrator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovePartitions {
    /// One partition, in place of `partitions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u16>,
    /// The partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Vec<u16>>,
    /// The name of the new place.
    pub to: String,
    /// The epoch of the table that the request was made from; with another table in force it is refused.
    #[serde(default)]
    pub epoch: Option<u64>,
    /// The step after which the move is left, for tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_after: Option<StopAfter>,
}

/// A step of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StopAfter {
    /// The partitions are held at their old place.
    Hold,
    /// Their images are at the new place.
    Arrive,
}

impl Request for MovePartitions {
    type Answer = Moved;
    const METHOD: Method = Method::Post;
    const ROUTE: &'static str = "/api/v1/homes/move";
    const COMMAND: Option<&'static str> = COMMAND;

    fn body(&self) -> Body<'_> {
        Body::json(self)
    }

    fn check(&self) -> Result<(), InvalidRequest> {
        match (&self.partition, &self.partitions) {
            (Some(_), None) => Ok(()),
            (None, Some(several)) if !several.is_empty() => Ok(()),
            _ => Err(InvalidRequest::new("give `partition`, a number, or `partitions`, a list of numbers")),
        }
    }
}

/// The outcome of a move.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// The id of the move.
    pub id: String,
    /// Whether it was left after the step that was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// The rest, of a move that has come to its end.
    #[serde(flatten)]
    pub done: Option<MoveDone>,
}

/// A move that has come to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveDone {
    /// The epoch of the table with the partitions at their new place.
    pub epoch: u64,
    /// The partitions.
    pub partitions: Vec<u16>,
    /// Messages that came for them while they moved.
    #[serde(default)]
    pub came_meanwhile: Option<u64>,
    /// Their debts when they left.
    pub owed: Owed,
    /// How long it took, milliseconds.
    pub ms: u64,
}

/// What partitions keep and owe, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    /// Sessions.
    pub sessions: u64,
    /// Subscriptions, memberships in shared groups included.
    pub subscriptions: u64,
    /// Subscriptions that have not been brought all of their retained messages.
    pub fetches: u64,
    /// Messages in queues, messages that are in the store alone included.
    pub queued: u64,
    /// Messages sent that wait for PUBACK.
    pub await_puback: u64,
    /// Messages sent that wait for PUBREC.
    pub await_pubrec: u64,
    /// Exchanges that wait for PUBCOMP.
    pub await_pubcomp: u64,
    /// QoS 2 packet ids received that wait for PUBREL.
    pub await_pubrel: u64,
    /// Wills that wait, or are under way.
    pub wills: u64,
    /// Retained messages.
    pub retained: u64,
}

/// `POST /api/v1/homes/move-all`: begins to move everything to these places in turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoveAll {
    /// Names of places, at least one.
    pub to: Vec<String>,
    /// Partitions that move at once; a larger number than there are partitions means all.
    #[serde(default = "default_batch")]
    pub batch: u64,
}

fn default_batch() -> u64 {
    DEFAULT_BATCH
}

impl Request for MoveAll {
    type Answer = MoveAllBegun;
    const METHOD: Method = Method::Post;
    const ROUTE: &'static str = "/api/v1/homes/move-all";
    const COMMAND: Option<&'static str> = COMMAND;

    fn body(&self) -> Body<'_> {
        Body::json(self)
    }

    fn check(&self) -> Result<(), InvalidRequest> {
        if self.to.is_empty() {
            return Err(InvalidRequest::new("`to` must name at least one place"));
        }
        Ok(())
    }
}

/// Everything is being moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveAllBegun {
    /// Partitions that are still here.
    pub left: u64,
}

/// `POST /api/v1/homes/resume`: ends a move that was left between two steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resume;

impl Request for Resume {
    type Answer = Resumed;
    const METHOD: Method = Method::Post;
    const ROUTE: &'static str = "/api/v1/homes/resume";
    const COMMAND: Option<&'static str> = COMMAND;
}

/// The outcome of [`Resume`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Whether the partitions are at their new place.
    pub moved: bool,
    /// Whether a move had been left.
    pub left: bool,
}

/// `PUT /api/v1/homes/moves/ID`: brings images of partitions to their new place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrive<'a> {
    /// The id of the move.
    pub id: &'a str,
    /// A head and the images.
    pub parcel: &'a [u8],
}

impl Request for Arrive<'_> {
    type Answer = Arrived;
    const METHOD: Method = Method::Put;
    const ROUTE: &'static str = MOVE_ROUTE;
    const COMMAND: Option<&'static str> = COMMAND;

    fn path(&self) -> String {
        with_name(MOVE_ROUTE, self.id)
    }

    fn body(&self) -> Body<'_> {
        Body::Bytes(self.parcel)
    }
}

/// The head of the parcel of [`Arrive`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArriveHead {
    /// The old place.
    pub from: String,
    /// The epoch of its table.
    #[serde(default)]
    pub epoch: u64,
    /// The partitions, in the order of their images.
    pub partitions: Vec<u16>,
    /// The names of tenants by their numbers, from 1 on: images have numbers.
    #[serde(default)]
    pub tenants: Vec<String>,
}

/// Images of partitions were taken in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// What each partition is owed at its new place.
    pub owed: BTreeMap<u16, Owed>,
}

/// `POST /api/v1/homes/moves/ID`: brings messages that came meanwhile, and ends the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complete<'a> {
    /// The id of the move.
    pub id: &'a str,
    /// A head and the messages that came meanwhile.
    pub parcel: &'a [u8],
}

impl Request for Complete<'_> {
    type Answer = MoveStatus;
    const METHOD: Method = Method::Post;
    const ROUTE: &'static str = MOVE_ROUTE;
    const COMMAND: Option<&'static str> = COMMAND;

    fn path(&self) -> String {
        with_name(MOVE_ROUTE, self.id)
    }

    fn body(&self) -> Body<'_> {
        Body::Bytes(self.parcel)
    }
}

/// The head of the parcel of [`Complete`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompleteHead {
    /// The epoch of the table with the partitions at their new place.
    pub epoch: u64,
}

/// `GET /api/v1/homes/moves/ID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetMove<'a> {
    /// The id of the move.
    pub id: &'a str,
}

impl Request for GetMove<'_> {
    type Answer = MoveStatus;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = MOVE_ROUTE;

    fn path(&self) -> String {
        with_name(MOVE_ROUTE, self.id)
    }
}

/// `DELETE /api/v1/homes/moves/ID`: gives a move up, unless it has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discard<'a> {
    /// The id of the move.
    pub id: &'a str,
}

impl Request for Discard<'_> {
    type Answer = MoveStatus;
    const METHOD: Method = Method::Delete;
    const ROUTE: &'static str = MOVE_ROUTE;
    const COMMAND: Option<&'static str> = COMMAND;

    fn path(&self) -> String {
        with_name(MOVE_ROUTE, self.id)
    }
}

/// The state of a move at its new place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveStatus {
    /// The state.
    pub state: MoveState,
    /// Messages that came while the partitions moved, in the first answer to [`Complete`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub came_meanwhile: Option<u64>,
}

impl From<MoveState> for MoveStatus {
    fn from(state: MoveState) -> Self {
        Self { state, came_meanwhile: None }
    }
}

/// How far a move is at its new place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MoveState {
    /// The new place serves the partitions.
    #[serde(rename = "completed")]
    Completed,
    /// Images are there, and messages that came meanwhile are not.
    #[serde(rename = "arriving")]
    Arriving,
    /// Nothing of it will be taken any more.
    #[serde(rename = "given up")]
    GivenUp,
    /// The place has not heard of it, or has forgotten it.
    #[default]
    #[serde(rename = "unknown")]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_body;

    #[test]
    fn a_table_may_be_sent_back_as_it_was_read() {
        let view = HomesView {
            table: HomesTable {
                epoch: 3,
                places: vec![Place { name: "a".into(), ..Place::default() }],
                homes: vec![HomeOf::Name("a".into()), HomeOf::Position(0)],
            },
            name: "a".into(),
            leaving: Some(Leaving { id: "m".into(), to: "b".into(), partitions: vec![1] }),
            ..HomesView::default()
        };
        let text = serde_json::to_string(&view).unwrap();
        assert_eq!(serde_json::from_str::<HomesView>(&text).unwrap(), view);
        let set = read_body::<SetHomes>(text.as_bytes()).unwrap();
        assert_eq!((set.table, set.ttl_s, set.gone), (view.table, None, Vec::new()));
        let null = r#"{"epoch":1,"places":[{"name":"a","mqtt":null}],"homes":[0],"ttl_s":null,"gone":null}"#;
        assert_eq!(read_body::<SetHomes>(null.as_bytes()).unwrap().table.homes, [HomeOf::Position(0)]);
        let late = r#"{"epoch":1,"places":[],"homes":[],"ttl_s":0}"#;
        assert_eq!(read_body::<SetHomes>(late.as_bytes()).unwrap_err().to_string(), "`ttl_s` must be 1 to 86400");
    }

    #[test]
    fn a_move_names_partitions_in_one_way() {
        let read = |body: &str| read_body::<MovePartitions>(body.as_bytes());
        assert_eq!(read(r#"{"partition":3,"to":"b"}"#).unwrap().partition, Some(3));
        assert_eq!(read(r#"{"partitions":[3,4],"to":"b"}"#).unwrap().partitions, Some(vec![3, 4]));
        for wrong in [
            r#"{"to":"b"}"#,
            r#"{"partitions":[],"to":"b"}"#,
            r#"{"partition":1,"partitions":[2],"to":"b"}"#,
            r#"{"partition":-1,"to":"b"}"#,
            r#"{"partition":1}"#,
            r#"{"partition":1,"to":"b","stop_after":"never"}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_move_that_was_left_says_nothing_of_its_end() {
        let left = Moved { id: "m".into(), left: true, done: None };
        assert_eq!(serde_json::to_string(&left).unwrap(), r#"{"id":"m","left":true}"#);
        let done = MoveDone { epoch: 2, ..MoveDone::default() };
        let moved = Moved { id: "m".into(), left: false, done: Some(done) };
        assert_eq!(serde_json::from_str::<Moved>(&serde_json::to_string(&moved).unwrap()).unwrap(), moved);
    }
}
