//! Connections to the brokers of a fleet: dialed on threads of their own, then served by a shard like any other.

mod ask;
mod brokers;
mod dialer;
mod tls;

use std::sync::mpsc::{Sender, channel};

use tidegate_engine::{
    AdoptError, Brought, Continued, DialAttempt, Evicted, ImageError, ListenerId, OrchestratorMoves, Settling, ShardId,
    UplinkError, UplinkImage, UplinkOptions, UplinkReport,
};

use crate::address::HostPort;
use crate::admission::Seat;
use crate::handle::{NoAnswer, NodeHandle};
use crate::observer::Peer;
use crate::shard::facets::OrderCalls;
use crate::shard::inbox::{Admin, ToShard};
use crate::transport::Transport;

pub use ask::{BrokerWord, Question};
pub use brokers::Brokers;
pub(crate) use dialer::Dialer;
use dialer::Place;
pub use tls::UplinkTls;
pub(crate) use tls::explain as explain_tls;

/// Used in the table in place of the listener of an incoming connection.
pub(crate) const NO_LISTENER: ListenerId = ListenerId(u16::MAX);
/// The shard that has all uplinks: the home of partition 0.
const UPLINK_SHARD: ShardId = ShardId(0);

/// A broker of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerSettings {
    /// Its name in this fleet.
    pub name: String,
    /// Its address; a name is resolved again with each attempt to connect.
    pub at: HostPort,
    /// How TLS is spoken to it; `None` for plain TCP.
    pub tls: Option<UplinkTls>,
    /// The options of its connection.
    pub options: UplinkOptions,
}

/// How a fleet is, as one orchestrator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetReport {
    /// Its brokers, in their order of arrival.
    pub brokers: Vec<BrokerReport>,
    /// Filters that the clients of this process want.
    pub filters: u64,
    /// Whether the fleet takes messages.
    pub open: bool,
    /// Users whose own credentials are used for the brokers; their pending messages and counters are included in the
    /// brokers' numbers.
    pub identities: u64,
}

impl FleetReport {
    /// Messages accepted from clients and not settled.
    pub fn owed(&self) -> u64 {
        self.brokers.iter().map(|broker| broker.uplink.owed()).sum()
    }
}

/// How one broker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerReport {
    /// Where it listens.
    pub at: HostPort,
    /// Whether TLS is spoken to it.
    pub secure: bool,
    /// The uplink to it.
    pub uplink: UplinkReport,
}

/// Why a fleet was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// The shard of the uplinks does not answer.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// It refuses.
    #[error(transparent)]
    Refused(#[from] UplinkError),
}

/// An order of the control plane for the shard with the broker links.
#[derive(Debug)]
pub(crate) enum FleetOrder {
    /// Add a broker, or change one.
    Set { name: String, options: UplinkOptions, done: Sender<Result<(), UplinkError>> },
    /// Drain a broker: give it no more messages.
    Drain { name: String, done: Sender<Result<(), UplinkError>> },
    /// Connect to a broker with the session of a dead orchestrator; answers with the name of that connection.
    Adopt {
        of: String,
        uplink: Box<UplinkImage>,
        transfer: u64,
        options: UplinkOptions,
        answer: Sender<Result<String, AdoptError>>,
    },
    /// Keep the session of a dead orchestrator at a broker that is not in the fleet.
    Keep { of: String, uplink: Box<UplinkImage>, answer: Sender<Result<String, ImageError>> },
    /// Say whether all messages have arrived that a broker sent before the first such order.
    Settle { name: String, settling: Option<Settling>, answer: Sender<Option<Settling>> },
    /// Give out the messages that the connection of a dead orchestrator has delivered.
    TakeBrought { name: String, answer: Sender<Brought> },
    /// Other members have stored so many of its messages.
    ConfirmBrought { name: String, messages: usize },
    /// Take a broker out.
    Remove { name: String, force: bool, done: Sender<Result<(), UplinkError>> },
    /// Keep the sessions of these connections of dead orchestrators.
    Continue { continued: Continued, done: Sender<Result<(), UplinkError>> },
    /// Reassign the pending messages of brokers that are no longer in the fleet.
    ForgetOthers { done: Sender<Result<(), UplinkError>> },
    /// Send clients elsewhere from now on, or no more.
    Redirect { begin: bool, reference: Option<String>, done: Sender<()> },
    /// End the connections of so many clients and say how many there were.
    Evict { clients: usize, which: Evicted, answer: Sender<usize> },
    /// Say how the fleet is.
    Report(Sender<(Vec<UplinkReport>, u64, bool)>),
}

/// A broker was dialed.
#[derive(Debug)]
pub(crate) struct Dialed {
    pub name: String,
    /// The connection, or the error.
    pub outcome: Result<Transport, String>,
}

/// The brokers of a fleet, and clients that are sent to another orchestrator. Every call waits for the shards.
#[derive(Debug)]
pub struct NodeFleet<'n> {
    node: &'n NodeHandle,
}

impl NodeHandle {
    /// The calls around the brokers of a fleet.
    pub const fn fleet(&self) -> NodeFleet<'_> {
        NodeFleet { node: self }
    }
}

impl NodeFleet<'_> {
    /// Adds a broker to the fleet, or changes its address from the next connection on. A draining broker serves again.
    ///
    /// # Errors
    /// When this node has no fleet, or does not answer.
    pub fn set_broker(&self, broker: BrokerSettings) -> Result<(), FleetError> {
        self.node.brokers().know(broker.clone());
        if let Some(identities) = self.node.identities() {
            identities.set_broker(&broker);
        }
        let BrokerSettings { name, at, tls, options } = broker;
        self.node.dialer().know(&name, Place { at, tls });
        self.order(|done| FleetOrder::Set { name, options, done })
    }

    /// The same, without waiting.
    pub(crate) fn tell_broker(&self, broker: BrokerSettings) {
        let BrokerSettings { name, at, tls, options } = broker;
        self.node.dialer().know(&name, Place { at, tls });
        let (done, _) = channel();
        self.node.tell(UPLINK_SHARD, ToShard::Admin(Admin::Fleet(FleetOrder::Set { name, options, done })));
    }

    /// Stops sending messages to a broker (BRK-32 step 1). It still settles its messages in flight, and its messages
    /// are accepted.
    ///
    /// # Errors
    /// When the broker is unknown, no other broker could take its messages, or there is no answer.
    pub fn drain_broker(&self, name: &str) -> Result<(), FleetError> {
        self.order(|done| FleetOrder::Drain { name: name.to_owned(), done })?;
        self.node.brokers().drain(name);
        if let Some(identities) = self.node.identities() {
            identities.drain_broker(name);
        }
        Ok(())
    }

    /// Removes a broker from the fleet. With `force` others get its pending messages.
    ///
    /// # Errors
    /// When the broker is unknown, has pending messages and `force` is false, no other could take them, or there is no
    /// answer.
    pub fn remove_broker(&self, name: &str, force: bool) -> Result<(), FleetError> {
        let owed = self.node.identities().map_or(0, |identities| identities.owed_by(name));
        if owed > 0 && !force {
            return Err(UplinkError::Owes { name: name.to_owned(), owed }.into());
        }
        self.order(|done| FleetOrder::Remove { name: name.to_owned(), force, done })?;
        self.node.dialer().forget(name);
        self.node.brokers().forget(name);
        if let Some(identities) = self.node.identities() {
            identities.remove_broker(name);
        }
        Ok(())
    }

    /// Reassigns the pending messages of brokers that were in the fleet when the store was written, and no longer are.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn settle_former_brokers(&self) -> Result<(), FleetError> {
        self.order(|done| FleetOrder::ForgetOthers { done })
    }

    /// How the fleet is.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn report(&self) -> Result<FleetReport, NoAnswer> {
        let (answer, answers) = channel();
        self.node.tell(UPLINK_SHARD, ToShard::Admin(Admin::Fleet(FleetOrder::Report(answer))));
        let (uplinks, filters, open) = crate::handle::wait(UPLINK_SHARD, &answers)?;
        let nowhere = || Place { at: HostPort { host: String::new(), port: 0 }, tls: None };
        let report = |uplink: UplinkReport| {
            let Place { at, tls } = self.node.dialer().place(&uplink.name).unwrap_or_else(nowhere);
            BrokerReport { at, secure: tls.is_some(), uplink }
        };
        let brokers = uplinks.into_iter().map(report).collect();
        let mut fleet = FleetReport { brokers, filters, open, identities: 0 };
        if let Some(identities) = self.node.identities() {
            identities.add_to(&mut fleet);
        }
        Ok(fleet)
    }

    /// Sends clients to another server from now on: new connections are refused (0x9C with `reference` in MQTT 5).
    /// [`NodeFleet::evict`] also closes connected ones. When this returns, it is active on every shard.
    ///
    /// # Errors
    /// When a shard does not answer; it will do so as soon as it can.
    pub fn begin_redirecting(&self, reference: Option<&str>) -> Result<(), NoAnswer> {
        self.redirect(true, reference)
    }

    /// Takes clients again. When this returns, every shard does.
    ///
    /// # Errors
    /// When a shard does not answer; it will do so as soon as it can.
    pub fn end_redirecting(&self) -> Result<(), NoAnswer> {
        self.redirect(false, None)
    }

    fn redirect(&self, begin: bool, reference: Option<&str>) -> Result<(), NoAnswer> {
        let order = |done| FleetOrder::Redirect { begin, reference: reference.map(str::to_owned), done };
        self.node.ask_all(|done| Admin::Fleet(order(done))).map(drop)
    }

    /// Ends the connections of up to so many clients on each shard; returns how many there were.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn evict(&self, clients: usize, which: Evicted) -> Result<usize, NoAnswer> {
        let ended = self.node.ask_all(|answer| Admin::Fleet(FleetOrder::Evict { clients, which, answer }))?;
        Ok(ended.into_iter().sum())
    }

    pub(crate) fn order(
        &self,
        order: impl FnOnce(Sender<Result<(), UplinkError>>) -> FleetOrder,
    ) -> Result<(), FleetError> {
        let (done, answers) = channel();
        self.node.tell(UPLINK_SHARD, ToShard::Admin(Admin::Fleet(order(done))));
        Ok(crate::handle::wait(UPLINK_SHARD, &answers)??)
    }
}

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
            self.shard.engine.fleet().fail_uplink(self.shard.now, uplink, attempt, &error);
        }
    }

    /// A broker was dialed: the connection is served from now on, or the engine gets the error.
    pub(crate) fn take_dialed(&mut self, attempt: DialAttempt, dialed: Dialed) {
        let Dialed { name, outcome } = dialed;
        let transport = match outcome {
            Ok(transport) => transport,
            Err(error) => {
                self.shard.engine.fleet().fail_uplink(self.shard.now, &name, attempt, &error);
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
