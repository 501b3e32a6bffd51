//! Connections to brokers with the sessions of dead orchestrators. The orchestrator that has taken over the partition of
//! the broker's name makes the connection. It removes the connection when the pending messages of both sides are delivered.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tidegate_engine::Settling;
use tidegate_node::OrchestratorMoves;

use super::Worker;
use crate::driver::restore::Inherited;

/// Pause between two checks whether all messages of a broker have arrived.
const PAUSE: Duration = Duration::from_millis(50);

/// How long messages of the own brokers wait for messages from connections of dead orchestrators, so that topics keep
/// their order.
const ORDER_LIMIT: Duration = Duration::from_secs(10);

/// A connection with the session of a dead orchestrator.
pub(super) struct Adopted {
    /// The dead orchestrator.
    of: String,
    /// The name of the broker here.
    name: String,
    /// The id of the transfer that brought its partitions.
    transfer: u64,
    since: Instant,
    stage: SettleStage,
}

enum SettleStage {
    Begun,
    Settling(Settling),
    /// All messages of the broker have arrived.
    Settled,
}

impl Worker {
    /// Connects to brokers with the sessions of dead orchestrators, some of whose partitions are here now.
    pub(super) fn adopt(&mut self, all: Vec<Inherited>) {
        for Inherited { transfer, of, uplinks } in all {
            for uplink in uplinks.into_iter().filter(|_| self.shared.is_orchestrator) {
                let broker = uplink.broker.clone();
                match OrchestratorMoves::of(&self.node).adopt_broker(&of, uplink, transfer) {
                    Ok(name) => {
                        tracing::info!(
                            node = of,
                            broker,
                            "connected to a broker as a dead orchestrator, to deliver the pending messages of both"
                        );
                        let (of, since) = (of.clone(), Instant::now());
                        self.adopted.push(Adopted { of, name, transfer, since, stage: SettleStage::Begun });
                    }
                    Err(error) => {
                        self.complain(
                            &error,
                            "the pending messages of a dead orchestrator and a broker are not delivered",
                        );
                    }
                }
            }
            self.end_transfer_unless_adopted(transfer);
        }
    }

    /// Delivers the messages of the own brokers that were kept back, once no connection of the dead orchestrator comes first.
    fn end_transfer_unless_adopted(&self, transfer: u64) {
        let waits = |adopted: &Adopted| adopted.transfer == transfer && adopted.since.elapsed() < ORDER_LIMIT;
        if !self.adopted.iter().any(waits)
            && let Err(error) = OrchestratorMoves::of(&self.node).take_piece(transfer, &[], true)
        {
            self.complain(
                &error,
                "messages that were kept back for partitions of a dead orchestrator are not delivered",
            );
        }
    }

    /// The time until the next check.
    pub(super) fn next_look_at_adopted(&self) -> Option<Duration> {
        (!self.adopted.is_empty()).then_some(PAUSE)
    }

    /// Removes the connections whose pending messages are delivered, and the connections of orchestrators that are back:
    /// these connect themselves.
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
        let settling = match std::mem::replace(&mut adopted.stage, SettleStage::Settled) {
            SettleStage::Settled => return true,
            SettleStage::Begun => None,
            SettleStage::Settling(settling) => Some(settling),
        };
        match OrchestratorMoves::of(&self.node).settle_broker(&adopted.name, settling) {
            Ok(None) => true,
            Ok(Some(left)) => {
                adopted.stage = SettleStage::Settling(left);
                false
            }
            Err(error) => {
                adopted.stage = SettleStage::Begun;
                self.complain(&error, "it is not known whether all messages of a broker have arrived");
                false
            }
        }
    }
}
