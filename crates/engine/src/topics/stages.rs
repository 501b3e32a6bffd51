//! The stages that a PUBLISH passes before it is routed, one file each, and which of them a message needs.
//!
//! A stage only decides. What its answer means for the publisher is carried out by the pipeline, in one place.

use crate::events::reason::Reason;
use crate::ids::{ObserverId, SessionKey, ShardId};

/// The answer of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next stage decides.
    Continue,
    /// The publisher waits, and the message comes again when its wait is over.
    Defer(Deferral),
    /// The message is not routed, and the publisher gets the reason.
    Reject(Rejection),
    /// The stage has answered the publisher itself, or the publisher is gone.
    Done,
}

/// The cause of a deferral.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deferral {
    /// The connections that earlier messages to many subscribers have put in line were not written yet.
    Line,
    /// The brokers of the fleet owe as much as they may, or no broker is connected yet.
    Fleet,
    /// The interest of nodes that have gone is not known yet.
    Interest,
    /// The number of full queues of a shard; `whose` is the first of them, if it is on this shard.
    Queues { shard: ShardId, full: u32, whose: Option<SessionKey> },
    /// Other shards were asked for room and have not answered.
    Answers,
    /// The window of an observer is full.
    Observer(ObserverId),
}

/// Why a message is not routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) reason: Reason,
    /// The session whose queue is full, if it is known.
    pub(crate) whose: Option<SessionKey>,
}

impl From<Reason> for Step {
    fn from(reason: Reason) -> Self {
        Self::Reject(Rejection { reason, whose: None })
    }
}

/// A stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    Refused,
    Exchange,
    Repetition,
    Rights,
    Understanding,
    Payload,
    Missing,
    Store,
    Fleet,
    Observers,
    Wide,
    Room,
}

/// The order of the stages. The first answer that is not [`Step::Continue`] counts.
///
/// - `Refused`, `Exchange` and `Repetition` are first: a QoS 2 message that was taken before is only answered, whatever has changed
///   since.
/// - `Rights` is before all stages about capacity: a publisher without rights learns nothing else, and does not wait.
/// - `Understanding` and `Payload` are before all stages that defer: waiting does not make the message valid.
/// - `Missing` is before `Store`: a message that is sent again to another node needs no room here.
/// - `Store` and `Fleet` are before `Observers`: a message that they refuse need not be observed.
/// - `Wide` only delays, and so comes behind all that reject.
/// - `Room` is last: it uses up the room that was reserved for this message, so nothing behind it may defer or reject.
pub(crate) const ORDER: [Stage; 12] = [
    Stage::Refused,
    Stage::Exchange,
    Stage::Repetition,
    Stage::Rights,
    Stage::Understanding,
    Stage::Payload,
    Stage::Missing,
    Stage::Store,
    Stage::Fleet,
    Stage::Observers,
    Stage::Wide,
    Stage::Room,
];

/// Some of the stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StageSet(u16);

impl StageSet {
    /// Without any stage.
    pub(crate) const NONE: Self = Self(0);

    /// The set with one more stage, if `wanted`.
    #[inline]
    #[must_use]
    pub(crate) const fn with_if(self, wanted: bool, stage: Stage) -> Self {
        Self(self.0 | (wanted as u16) << stage as u8)
    }

    /// The set without one stage.
    #[inline]
    #[must_use]
    pub(crate) const fn without(self, stage: Stage) -> Self {
        Self(self.0 & !(1 << stage as u8))
    }

    #[inline]
    #[must_use]
    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[inline]
    pub(crate) const fn has(self, stage: Stage) -> bool {
        self.0 >> stage as u8 & 1 != 0
    }

    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
