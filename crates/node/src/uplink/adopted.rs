//! Connections of dead orchestrators to brokers, which this one works off.

use std::sync::mpsc::channel;

use tidegate_engine::{AdoptError, Brought, Settling, UplinkError, UplinkImage};

use super::{FleetOrder, UPLINK_SHARD};
use crate::handle::{NoAnswer, NodeHandle};
use crate::moves::MoveError;
use crate::shard::inbox::{Admin, ToShard};

/// A connection to a broker as a dead orchestrator.
#[derive(Clone, Copy, Debug)]
pub struct AdoptedBroker<'a> {
    node: &'a NodeHandle,
    name: &'a str,
}

impl<'a> AdoptedBroker<'a> {
    /// The one with the name that [`AdoptedBroker::adopt`] has returned.
    pub fn new(node: &'a NodeHandle, name: &'a str) -> Self {
        Self { node, name }
    }

    /// Connects to a broker as the dead orchestrator `of`, to work off what both still had for each other; returns the
    /// name under which that is done. `transfer` is the one by which its partitions have come
    /// ([`NodeHandle::arrive_from_orchestrator`]). [`AdoptedBroker::settle`] says when it is, and [`NodeHandle::remove_broker`]
    /// ends it.
    ///
    /// # Errors
    /// When the broker is unknown here, or the image cannot be read.
    pub fn adopt(node: &'a NodeHandle, of: &str, uplink: UplinkImage, transfer: u64) -> Result<String, AdoptError> {
        let unknown = || UplinkError::Unknown(uplink.broker.clone());
        let place = node.dialer().place(&uplink.broker).ok_or_else(unknown)?;
        let known = node.brokers().list().into_iter().find(|known| known.broker.name == uplink.broker);
        let options = known.ok_or_else(unknown)?.broker.options;
        node.dialer().know(&format!("{}@{of}", uplink.broker), place);
        let (answer, answers) = channel();
        let (of, uplink) = (of.to_owned(), Box::new(uplink));
        let order = FleetOrder::Adopt { of, uplink, transfer, options, answer };
        node.tell(UPLINK_SHARD, ToShard::Admin(Admin::Fleet(order)));
        crate::handle::wait(UPLINK_SHARD, &answers).map_err(|_| UplinkError::NoFleet)?
    }

    /// What the connection of a dead orchestrator has brought since the last call. Other shards of this process have got
    /// their part of it. [`AdoptedBroker::confirm_brought`] says that other members have it; the broker keeps it until then.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn take_brought(&self) -> Result<Brought, MoveError> {
        let (answer, answers) = channel();
        self.node.tell(
            UPLINK_SHARD,
            ToShard::Admin(Admin::Fleet(FleetOrder::TakeBrought { name: self.name.to_owned(), answer })),
        );
        let brought: Brought = crate::handle::wait(UPLINK_SHARD, &answers)?;
        if let Some(messages) = &brought.for_shards {
            self.node.deliver_on_other_shards(brought.partitions, messages)?;
        }
        Ok(brought)
    }

    /// Other members have so many messages of the connection of a dead orchestrator: they are acknowledged.
    pub fn confirm_brought(&self, messages: usize) {
        let order = FleetOrder::ConfirmBrought { name: self.name.to_owned(), messages };
        self.node.tell(UPLINK_SHARD, ToShard::Admin(Admin::Fleet(order)));
    }

    /// Whether a broker has brought all that it had when it was asked first, without `settling`; returns what is still
    /// to come.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn settle(&self, settling: Option<Settling>) -> Result<Option<Settling>, NoAnswer> {
        let (answer, answers) = channel();
        let order = FleetOrder::Settle { name: self.name.to_owned(), settling, answer };
        self.node.tell(UPLINK_SHARD, ToShard::Admin(Admin::Fleet(order)));
        crate::handle::wait(UPLINK_SHARD, &answers)
    }
}
