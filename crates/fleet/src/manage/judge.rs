//! Judges, which decide how many resources a level shall have.

use std::time::Duration;

use serde_json::Value;

use super::moment::Moment;
use crate::decide::MemoryError;
use crate::level::Level;
use crate::provider::ResourceName;

/// A serving member as it was observed.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberSeen {
    /// The name.
    pub name: ResourceName,
    /// CPU used, as a fraction of its cores.
    pub cpu: Option<f64>,
    /// Its cores.
    pub cores: f64,
    /// Messages that it handled per second since the last observation.
    pub rate: Option<f64>,
    /// Messages that wait for it.
    pub queued: Option<u64>,
    /// How late its loop is, milliseconds.
    pub loop_lag_ms: Option<f64>,
    /// Messages per second that were lost to full queues since the last observation. Messages that brokers could not
    /// accept are shared among them.
    pub drops: Option<f64>,
    /// Memory that it holds, bytes.
    pub memory: Option<u64>,
}

impl MemberSeen {
    /// How long a message waits on average, from entry to settlement: the waiting messages over the arriving ones per
    /// second (Little's law). `None` when one of the two is unknown, or messages wait and none arrives.
    pub fn waiting(&self) -> Option<Duration> {
        let (queued, rate) = (self.queued?, self.rate?);
        if queued == 0 {
            return Some(Duration::ZERO);
        }
        #[expect(clippy::cast_precision_loss, reason = "a waiting time needs no more than 52 bits")]
        let seconds = queued as f64 / rate;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// A level as it was observed.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelSeen {
    /// When.
    pub at: Moment,
    /// The level.
    pub level: Level,
    /// Members that serve.
    pub serving: u32,
    /// Members that will.
    pub pending: u32,
    /// Members that no longer do, and are still there.
    pub leaving: u32,
    /// Members of the other level.
    pub elsewhere: u32,
    /// From the request until it served, of the newest member, when that has been measured.
    pub lead_time: Option<Duration>,
    /// Each serving member.
    pub members: Vec<MemberSeen>,
}

/// The intended change of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// No change.
    Hold,
    /// The number to add.
    Grow(u32),
    /// The number to remove.
    Shrink(u32),
}

/// The member of a level with the highest load.
#[derive(Clone, Debug, PartialEq)]
pub struct HottestMember {
    /// Its name.
    pub hottest: ResourceName,
    /// Its load, 1 being full.
    pub load: f64,
    /// The mean load of the members.
    pub mean: f64,
}

/// The decision, with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelDecision {
    /// The intended change.
    pub wish: Wish,
    /// The load that it was decided by, 1 being all that the level can do.
    pub load: Option<f64>,
    /// Why, in a sentence.
    pub reason: String,
    /// Why, in parts.
    pub details: Value,
    /// How unevenly the members are loaded, where the loads of two or more are known.
    pub skew: Option<HottestMember>,
    /// Members that suit the load. `None` while the load is unknown, or a wanted change is held back.
    pub suits: Option<u32>,
}

/// Members of a level after a change.
pub(super) fn after(seen: &LevelSeen, wish: Wish) -> u32 {
    let planned = seen.serving.saturating_add(seen.pending);
    match wish {
        Wish::Hold => planned,
        Wish::Grow(count) => planned.saturating_add(count),
        Wish::Shrink(count) => planned.saturating_sub(count),
    }
}

/// Decides about one level. It is asked once per observation, and its wish is carried out unless the level has an
/// action under way.
pub trait Judge: Send {
    /// The next observation.
    fn judge(&mut self, seen: &LevelSeen) -> LevelDecision;

    /// An action was in progress that this judge did not decide: healing, or one that an earlier manager began.
    fn note_action(&mut self, at: Moment);

    /// Its memory of the observations so far; `None` without one.
    fn memory(&self) -> Option<Value> {
        None
    }

    /// Restores the memory of an earlier judge.
    ///
    /// # Errors
    /// When it is malformed, or of another policy; the judge then starts again.
    fn recall(&mut self, memory: &Value) -> Result<(), MemoryError> {
        let _ = memory;
        Ok(())
    }
}
