//! A client's session at a broker.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidegate_mqtt::{Disconnect, PacketId, QoS, SubscriptionOptions};

use super::FakeBroker;
use super::routing::Carried;
use crate::harness::net::SocketId;

/// A message for the client, with the QoS that it is delivered at and the subscriptions that it is for.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub carried: Carried,
    pub qos: QoS,
    pub ids: Vec<u32>,
}

/// One that was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub id: PacketId,
    pub outgoing: Outgoing,
    /// PUBREC has come.
    pub received: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Session {
    pub line: Option<SocketId>,
    /// It outlives the connection.
    pub lasting: bool,
    pub window: usize,
    pub subscriptions: BTreeMap<String, (SubscriptionOptions, Option<u32>)>,
    /// QoS 2 messages taken and not released.
    pub received: BTreeSet<PacketId>,
    pub queue: VecDeque<Outgoing>,
    pub sent: VecDeque<Sent>,
    next_id: PacketId,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            line: None,
            lasting: false,
            window: usize::from(u16::MAX),
            subscriptions: BTreeMap::new(),
            received: BTreeSet::new(),
            queue: VecDeque::new(),
            sent: VecDeque::new(),
            next_id: PacketId::MIN,
        }
    }
}

impl Session {
    /// Adds a subscription; returns whether it is new.
    pub(super) fn subscribe(&mut self, filter: &str, options: SubscriptionOptions, id: Option<u32>) -> bool {
        self.subscriptions.insert(filter.to_owned(), (options, id)).is_none()
    }

    pub(super) fn free_id(&mut self) -> PacketId {
        loop {
            let id = self.next_id;
            self.next_id = id.next();
            if self.sent.iter().all(|sent| sent.id != id) {
                return id;
            }
        }
    }
}

impl FakeBroker {
    pub(super) fn take_disconnect(&mut self, line: SocketId, disconnect: &Disconnect<'_>) {
        self.goodbyes += 1;
        if disconnect.session_expiry_interval == Some(0)
            && let Some(session) = self.session_on(line)
        {
            session.lasting = false;
        }
        self.close(line);
    }
}
