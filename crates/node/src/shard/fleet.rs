//! Orders about the fleet are carried out, and brokers are dialed.

use tidegate_engine::{DialAttempt, OrchestratorMoves};

use crate::admission::Seat;
use crate::broker_link::{Dialed, FleetOrder, NO_LISTENER};
use crate::orders::ToShard;
use crate::peer::Peer;
use crate::shard::facets::OrderCalls;

impl OrderCalls<'_> {
    /// Carries out an order about the fleet. The caller may have given up waiting.
    pub(crate) fn take_fleet_order(&mut self, order: FleetOrder) {
        let now = self.shard.now;
        match order {
            FleetOrder::Set { name, options, done } => {
                let _ = done.send(self.shard.engine.fleet().set_broker_link(now, &name, options));
            }
            FleetOrder::Drain { name, done } => {
                let _ = done.send(self.shard.engine.fleet().drain_broker_link(now, &name));
            }
            FleetOrder::Adopt { of, broker_link, transfer, options, answer } => {
                let mut moves = OrchestratorMoves::of(&mut self.shard.engine);
                let adopted = moves.adopt_broker_link(now, &of, &broker_link, transfer, options);
                // The connection is remembered only when its session is in the store.
                self.shard.peering().answer_committed(answer, adopted);
            }
            FleetOrder::Keep { of, broker_link, answer } => {
                let kept = OrchestratorMoves::of(&mut self.shard.engine).keep_broker_link(now, &of, &broker_link);
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
            FleetOrder::HandBack { name } => OrchestratorMoves::of(&mut self.shard.engine).hand_back(&name),
            FleetOrder::Remove { name, force, done } => {
                let _ = done.send(self.shard.engine.fleet().remove_broker_link(now, &name, force));
            }
            FleetOrder::Continue { continued, done } => {
                self.shard.engine.fleet().continue_adopted(now, continued);
                let _ = done.send(Ok(()));
            }
            FleetOrder::ForgetOthers { done } => {
                self.shard.engine.fleet().forget_other_broker_links(now);
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
                    engine.questions().broker_links(),
                    engine.questions().wanted_filters(),
                    engine.questions().fleet_is_open(),
                ));
            }
        }
    }

    /// The engine wants a transport to a broker.
    pub(crate) fn dial(&mut self, broker_link: &str, attempt: DialAttempt) {
        let Some(inbox) = self.shard.inboxes.get(usize::from(self.shard.place.shard.0)).cloned() else { return };
        let tell = move |dialed| inbox.send(ToShard::Dialed(attempt, dialed));
        if let Err(error) = self.shard.shared.dialer.dial(broker_link, tell) {
            self.shard.engine.fleet().fail_broker_link(self.shard.now, broker_link, attempt, &error.to_string());
        }
    }

    /// A broker was dialed: the connection is served from now on, or the engine gets the error.
    pub(crate) fn take_dialed(&mut self, attempt: DialAttempt, dialed: Dialed) {
        let Dialed { name, outcome } = dialed;
        let transport = match outcome {
            Ok(transport) => transport,
            Err(error) => {
                self.shard.engine.fleet().fail_broker_link(self.shard.now, &name, attempt, &error.to_string());
                return;
            }
        };
        // The key of a connection that was handed over is free as soon as the event exists.
        self.shard.take_events();
        let Some(key) = self.shard.engine.fleet().open_broker_link(self.shard.now, &name, attempt) else { return };
        self.shard.shared.connections.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.shard.table.insert(key, transport, NO_LISTENER, Seat::NONE, Peer::Gone);
        self.shard.sockets().register(key);
    }
}
