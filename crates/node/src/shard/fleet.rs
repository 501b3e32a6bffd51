//! Orders about the fleet are carried out, and brokers are dialed.

use tidegate_engine::{DialAttempt, OrchestratorMoves};

use crate::admission::Seat;
use crate::orders::ToShard;
use crate::peer::Peer;
use crate::shard::facets::OrderCalls;
use crate::uplink::{Dialed, FleetOrder, NO_LISTENER};

impl OrderCalls<'_> {
    /// Carries out an order about the fleet. The caller may have given up waiting.
    pub(crate) fn take_fleet_order(&mut self, order: FleetOrder) {
        let now = self.shard.now;
        match order {
            FleetOrder::Set { name, options, done } => {
                let _ = done.send(self.shard.engine.fleet().set_uplink(now, &name, options));
            }
            FleetOrder::Drain { name, done } => {
                let _ = done.send(self.shard.engine.fleet().drain_uplink(now, &name));
            }
            FleetOrder::Adopt { of, uplink, transfer, options, answer } => {
                let adopted =
                    OrchestratorMoves::of(&mut self.shard.engine).adopt_uplink(now, &of, &uplink, transfer, options);
                // The connection is remembered only when its session is in the store.
                self.shard.peering().answer_committed(answer, adopted);
            }
            FleetOrder::Keep { of, uplink, answer } => {
                let kept = OrchestratorMoves::of(&mut self.shard.engine).keep_uplink(now, &of, &uplink);
                self.shard.peering().answer_committed(answer, kept);
            }
            FleetOrder::Settle { name, settling, answer } => {
                let mut settling = settling
                    .unwrap_or_else(|| OrchestratorMoves::of(&mut self.shard.engine).begin_settling_of(now, &name));
                let settled = self.shard.engine.fleet().settle(now, &mut settling);
                let _ = answer.send((!settled).then_some(settling));
            }
            FleetOrder::TakeBrought { name, answer } => {
                let _ = answer.send(OrchestratorMoves::of(&mut self.shard.engine).take_brought(&name));
            }
            FleetOrder::ConfirmBrought { name, messages } => {
                OrchestratorMoves::of(&mut self.shard.engine).confirm_brought(now, &name, messages);
            }
            FleetOrder::Remove { name, force, done } => {
                let _ = done.send(self.shard.engine.fleet().remove_uplink(now, &name, force));
            }
            FleetOrder::Continue { continued, done } => {
                self.shard.engine.fleet().continue_adopted(now, continued);
                let _ = done.send(Ok(()));
            }
            FleetOrder::ForgetOthers { done } => {
                self.shard.engine.fleet().forget_other_uplinks(now);
                let _ = done.send(Ok(()));
            }
            FleetOrder::Redirect { begin, reference, done } => {
                if begin {
                    self.shard.engine.homes().begin_redirecting(reference);
                } else {
                    self.shard.engine.homes().end_redirecting();
                }
                let _ = done.send(());
            }
            FleetOrder::Evict { clients, which, answer } => {
                let served = self.shard.engine.control().evict(now, clients, which);
                let relayed = self.shard.relaying().send_relayed_away(clients.saturating_sub(served), which);
                let _ = answer.send(served + relayed);
            }
            FleetOrder::Report(answer) => {
                let engine = &self.shard.engine;
                let _ = answer.send((
                    engine.questions().uplinks(),
                    engine.questions().wanted_filters(),
                    engine.questions().fleet_is_open(),
                ));
            }
        }
    }

    /// The engine wants a transport to a broker.
    pub(crate) fn dial(&mut self, uplink: &str, attempt: DialAttempt) {
        let Some(inbox) = self.shard.inboxes.get(usize::from(self.shard.place.shard.0)).cloned() else { return };
        let tell = move |dialed| inbox.send(ToShard::Dialed(attempt, dialed));
        if let Err(error) = self.shard.shared.dialer.dial(uplink, tell) {
            self.shard.engine.fleet().fail_uplink(self.shard.now, uplink, attempt, &error.to_string());
        }
    }

    /// A broker was dialed: the connection is served from now on, or the engine gets the error.
    pub(crate) fn take_dialed(&mut self, attempt: DialAttempt, dialed: Dialed) {
        let Dialed { name, outcome } = dialed;
        let transport = match outcome {
            Ok(transport) => transport,
            Err(error) => {
                self.shard.engine.fleet().fail_uplink(self.shard.now, &name, attempt, &error.to_string());
                return;
            }
        };
        // The key of a connection that was handed over is free as soon as the event exists.
        self.shard.take_events();
        let Some(key) = self.shard.engine.fleet().open_uplink(self.shard.now, &name, attempt) else { return };
        self.shard.shared.connections.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.shard.table.insert(key, transport, NO_LISTENER, Seat::NONE, Peer::Gone);
        self.shard.sockets().register(key);
    }
}
