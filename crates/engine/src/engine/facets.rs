//! The calls of an engine by subject.
//!
//! Each facet borrows the engine for one call. The engine itself has only the functions that every packet passes.

use crate::engine::Engine;

/// Questions to a shard that change nothing: counters, clients, brokers, owed messages.
#[derive(Clone, Copy, Debug)]
pub struct ShardQuestions<'e> {
    pub(in crate::engine) engine: &'e Engine,
}

/// Calls around the other shards and nodes: rosters, batches, records.
#[derive(Debug)]
pub struct ClusterCalls<'e> {
    pub(in crate::engine) engine: &'e mut Engine,
}

/// Calls that export, import, hold and forget partitions.
#[derive(Debug)]
pub struct MoveCalls<'e> {
    pub(in crate::engine) engine: &'e mut Engine,
}

/// Calls around the homes of partitions: tables, leases, clients that are sent elsewhere.
#[derive(Debug)]
pub struct HomeCalls<'e> {
    pub(in crate::engine) engine: &'e mut Engine,
}

/// Calls around the store: the journal, commits, reads, a restart.
#[derive(Debug)]
pub struct StoreCalls<'e> {
    pub(in crate::engine) engine: &'e mut Engine,
}

/// Calls around the brokers of a fleet.
#[derive(Debug)]
pub struct FleetCalls<'e> {
    pub(in crate::engine) engine: &'e mut Engine,
}

/// Calls for parts of the process that publish or receive without an MQTT session: principals, observers, services.
#[derive(Debug)]
pub struct InsiderCalls<'e> {
    pub(in crate::engine) engine: &'e mut Engine,
}

/// Calls of an operator: rights, limits, clients that are disconnected, the end of the process.
#[derive(Debug)]
pub struct ControlCalls<'e> {
    pub(in crate::engine) engine: &'e mut Engine,
}

/// A CONNECT is taken in or refused.
#[derive(Debug)]
pub struct EntryCalls<'e> {
    pub(in crate::engine) engine: &'e mut Engine,
}

/// Publishers and clients that wait continue, or are given up.
#[derive(Debug)]
pub(crate) struct WaitingCalls<'e> {
    pub(in crate::engine) engine: &'e mut Engine,
}

/// SUBSCRIBE and UNSUBSCRIBE packets are worked off in steps.
#[derive(Debug)]
pub(crate) struct SubscribeSteps<'e> {
    pub(in crate::engine) engine: &'e mut Engine,
}

/// The values below `$SYS` are gathered from all shards and published.
#[derive(Debug)]
pub(crate) struct SysRounds<'e> {
    pub(in crate::engine) engine: &'e mut Engine,
}

/// A PUBLISH passes the pipeline.
#[derive(Debug)]
pub(crate) struct PublishPipeline<'e> {
    pub(in crate::engine) engine: &'e mut Engine,
}

/// The order in which the shell writes outputs.
#[derive(Debug)]
pub struct OutputCalls<'e> {
    pub(in crate::engine) engine: &'e mut Engine,
}

/// Timers that are due are handled.
#[derive(Debug)]
pub struct TimerCalls<'e> {
    pub(in crate::engine) engine: &'e mut Engine,
}

impl Engine {
    /// Questions to a shard that change nothing: counters, clients, brokers, owed messages.
    #[inline]
    pub fn questions(&self) -> ShardQuestions<'_> {
        ShardQuestions { engine: self }
    }

    /// Calls around the other shards and nodes: rosters, batches, records.
    #[inline]
    pub fn cluster(&mut self) -> ClusterCalls<'_> {
        ClusterCalls { engine: self }
    }

    /// Calls that export, import, hold and forget partitions.
    #[inline]
    pub fn moves(&mut self) -> MoveCalls<'_> {
        MoveCalls { engine: self }
    }

    /// Calls around the homes of partitions: tables, leases, clients that are sent elsewhere.
    #[inline]
    pub fn homes(&mut self) -> HomeCalls<'_> {
        HomeCalls { engine: self }
    }

    /// Calls around the store: the journal, commits, reads, a restart.
    #[inline]
    pub fn store(&mut self) -> StoreCalls<'_> {
        StoreCalls { engine: self }
    }

    /// Calls around the brokers of a fleet.
    #[inline]
    pub fn fleet(&mut self) -> FleetCalls<'_> {
        FleetCalls { engine: self }
    }

    /// Calls for parts of the process that publish or receive without an MQTT session: principals, observers, services.
    #[inline]
    pub fn insiders(&mut self) -> InsiderCalls<'_> {
        InsiderCalls { engine: self }
    }

    /// Calls of an operator: rights, limits, clients that are disconnected, the end of the process.
    #[inline]
    pub fn control(&mut self) -> ControlCalls<'_> {
        ControlCalls { engine: self }
    }

    /// A CONNECT is taken in or refused.
    #[inline]
    pub fn entry(&mut self) -> EntryCalls<'_> {
        EntryCalls { engine: self }
    }

    /// Publishers and clients that wait continue, or are given up.
    #[inline]
    pub(crate) fn waiting(&mut self) -> WaitingCalls<'_> {
        WaitingCalls { engine: self }
    }

    /// SUBSCRIBE and UNSUBSCRIBE packets are worked off in steps.
    #[inline]
    pub(crate) fn steps(&mut self) -> SubscribeSteps<'_> {
        SubscribeSteps { engine: self }
    }

    /// The values below `$SYS` are gathered from all shards and published.
    #[inline]
    pub(crate) fn sys_rounds(&mut self) -> SysRounds<'_> {
        SysRounds { engine: self }
    }

    /// A PUBLISH passes the pipeline.
    #[inline]
    pub(crate) fn pipeline(&mut self) -> PublishPipeline<'_> {
        PublishPipeline { engine: self }
    }

    /// The order in which the shell writes outputs.
    #[inline]
    pub fn outputs(&mut self) -> OutputCalls<'_> {
        OutputCalls { engine: self }
    }

    /// Timers that are due are handled.
    #[inline]
    pub fn timing(&mut self) -> TimerCalls<'_> {
        TimerCalls { engine: self }
    }
}
