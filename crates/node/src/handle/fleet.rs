//! The brokers of a fleet, and clients that are sent to another orchestrator: the control plane's calls.

use std::sync::mpsc::{Sender, channel};

use tidegate_engine::{BrokerLinkError, BrokerLinkReport, Evicted};

use super::{NoAnswer, NodeHandle, wait};
use crate::address::HostPort;
use crate::broker_link::{BrokerEndpoint, BrokerReport, BrokerSettings, FleetOrder, FleetReport};
use crate::moves::BROKER_LINK_SHARD;
use crate::orders::{Admin, ToShard};

/// Why a fleet was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// The shard of the broker links does not answer.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// It refuses.
    #[error(transparent)]
    Refused(#[from] BrokerLinkError),
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
        self.node.dialer().know(&name, BrokerEndpoint { at, tls });
        self.order(|done| FleetOrder::Set { name, options, done })
    }

    /// The same, without waiting.
    pub(crate) fn tell_broker(&self, broker: BrokerSettings) {
        let BrokerSettings { name, at, tls, options } = broker;
        self.node.dialer().know(&name, BrokerEndpoint { at, tls });
        let (done, _) = channel();
        self.node.tell(BROKER_LINK_SHARD, ToShard::Admin(Admin::Fleet(FleetOrder::Set { name, options, done })));
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
            return Err(BrokerLinkError::Owes { name: name.to_owned(), owed }.into());
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
        self.node.tell(BROKER_LINK_SHARD, ToShard::Admin(Admin::Fleet(FleetOrder::Report(answer))));
        let (broker_links, filters, open) = wait(BROKER_LINK_SHARD, &answers)?;
        let nowhere = || BrokerEndpoint { at: HostPort { host: String::new(), port: 0 }, tls: None };
        let report = |broker_link: BrokerLinkReport| {
            let BrokerEndpoint { at, tls } = self.node.dialer().place(&broker_link.name).unwrap_or_else(nowhere);
            BrokerReport { at, secure: tls.is_some(), broker_link }
        };
        let brokers = broker_links.into_iter().map(report).collect();
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

    /// Ends the connections of up to this number of clients on each shard; returns their number.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn evict(&self, clients: usize, which: Evicted) -> Result<usize, NoAnswer> {
        let ended = self.node.ask_all(|answer| Admin::Fleet(FleetOrder::Evict { clients, which, answer }))?;
        Ok(ended.into_iter().sum())
    }

    pub(crate) fn order(
        &self,
        order: impl FnOnce(Sender<Result<(), BrokerLinkError>>) -> FleetOrder,
    ) -> Result<(), FleetError> {
        let (done, answers) = channel();
        self.node.tell(BROKER_LINK_SHARD, ToShard::Admin(Admin::Fleet(order(done))));
        Ok(wait(BROKER_LINK_SHARD, &answers)??)
    }
}
