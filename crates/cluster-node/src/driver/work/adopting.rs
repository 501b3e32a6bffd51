//! Connections of dead orchestrators to brokers: worked off by the one that has taken over the partition of the broker's
//! name, and removed when the broker has brought all that it had and has all that it was owed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tidegate_engine::Settling;

use super::Worker;
use crate::driver::restore::Inherited;

/// Pause between two looks whether a broker has brought everything.
const PAUSE: Duration = Duration::from_millis(50);

/// How long messages of the own brokers wait for those of a dead orchestrator's, so that topics keep their order.
const ORDER_LIMIT: Duration = Duration::from_secs(10);

/// One of them.
pub(super) struct Adopted {
    /// The dead orchestrator.
    of: String,
    /// The name of the broker here.
    name: String,
    /// By which its partitions have come.
    transfer: u64,
    since: Instant,
    stage: Stage,
}

enum Stage {
    Begun,
    Settling(Settling),
    /// All that the broker had has come.
    Settled,
}

impl Worker {
    /// Begins to work off connections of dead orchestrators, some of whose partitions are here now.
    pub(super) fn adopt(&mut self, all: Vec<Inherited>) {
        for Inherited { transfer, of, uplinks } in all {
            for uplink in uplinks.into_iter().filter(|_| self.shared.is_orchestrator) {
                let broker = uplink.broker.clone();
                match self.node.adopt_broker(&of, uplink, transfer) {
                    Ok(name) => {
                        tracing::info!(
                            node = of,
                            broker,
                            "working off what a dead orchestrator and a broker had for each other"
                        );
                        let (of, since) = (of.clone(), Instant::now());
                        self.adopted.push(Adopted { of, name, transfer, since, stage: Stage::Begun });
                    }
                    Err(error) => {
                        self.complain(
                            &error,
                            "what a dead orchestrator and a broker had for each other is not worked off",
                        );
                    }
                }
            }
            self.end_transfer_unless_adopted(transfer);
        }
    }

    /// Messages of the own brokers are kept back no longer when no connection of the dead orchestrator is in front of them.
    fn end_transfer_unless_adopted(&self, transfer: u64) {
        let waits = |adopted: &Adopted| adopted.transfer == transfer && adopted.since.elapsed() < ORDER_LIMIT;
        if !self.adopted.iter().any(waits)
            && let Err(error) = self.node.take_piece(transfer, &[], true)
        {
            self.complain(
                &error,
                "messages that were kept back for partitions of a dead orchestrator are not delivered",
            );
        }
    }

    /// When it is looked again.
    pub(super) fn next_look_at_adopted(&self) -> Option<Duration> {
        (!self.adopted.is_empty()).then_some(PAUSE)
    }

    /// Removes the connections that are worked off, and those of orchestrators that are back, which speak for
    /// themselves.
    pub(super) fn work_off_adopted(&mut self) {
        let all = std::mem::take(&mut self.adopted);
        let transfers: BTreeSet<u64> = all.iter().map(|adopted| adopted.transfer).collect();
        for mut adopted in all {
            let is_back = self.lives.contains(&adopted.of);
            let is_over = self.is_worked_off(&mut adopted);
            let removed = (is_back || is_over) && self.node.remove_broker(&adopted.name, is_back).is_ok();
            if removed {
                tracing::info!(
                    node = adopted.of,
                    broker = adopted.name,
                    "the connection of a dead orchestrator has ended"
                );
            } else {
                self.adopted.push(adopted);
            }
        }
        for transfer in transfers {
            self.end_transfer_unless_adopted(transfer);
        }
    }

    fn is_worked_off(&self, adopted: &mut Adopted) -> bool {
        let settling = match std::mem::replace(&mut adopted.stage, Stage::Settled) {
            Stage::Settled => return true,
            Stage::Begun => None,
            Stage::Settling(settling) => Some(settling),
        };
        match self.node.settle_broker(&adopted.name, settling) {
            Ok(None) => true,
            Ok(Some(left)) => {
                adopted.stage = Stage::Settling(left);
                false
            }
            Err(error) => {
                adopted.stage = Stage::Begun;
                self.complain(&error, "it is not known whether a broker has brought everything");
                false
            }
        }
    }
}
