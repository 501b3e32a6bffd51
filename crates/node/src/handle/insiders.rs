//! Calls of services within the process: publish, ask who is connected and how far away, ping, and send clients
//! elsewhere. All of it is bounded, and a shard waits for none of them.

pub(crate) mod fetching;
pub(crate) mod inlet;
pub(crate) mod membership;
pub(crate) mod observers;
pub(crate) mod principals;
pub(crate) mod records;
mod silent;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::time::Instant;

use tidegate_engine::{InnerPublication, Millis, ShardId, ShardPosition, TenantId, partition_of};

use super::{NoAnswer, NodeHandle, wait};
use crate::orders::{Admin, ToShard};
use crate::service::{ClientLink, Ping, Pong, ServiceOrder, ServiceWake};

/// Pongs that wait for the pinging service; further ones are dropped, and their nodes count as silent in that round.
const WAITING_PONGS: usize = 65_536;

/// Pongs of all clients.
#[derive(Debug)]
pub struct Pongs(Receiver<Pong>);

impl Pongs {
    /// Takes the next pong.
    pub fn take(&self) -> Option<Pong> {
        self.0.try_recv().ok()
    }
}

/// Parts of the process that publish or receive without an MQTT session: principals, observers, services.
#[derive(Debug)]
pub struct NodeInsiders<'n> {
    pub(super) node: &'n NodeHandle,
}

impl NodeHandle {
    pub(crate) fn home(&self, tenant: TenantId, name: &str) -> ShardId {
        ShardPosition { shard: ShardId(0), shards: self.shards() }.home_of(partition_of(tenant, name))
    }

    /// The calls for parts of the process without an MQTT session.
    pub const fn insiders(&self) -> NodeInsiders<'_> {
        NodeInsiders { node: self }
    }
}

impl NodeInsiders<'_> {
    pub(super) fn tell_services(&self, shard: ShardId, order: ServiceOrder) {
        self.node.tell(shard, ToShard::Admin(Admin::Service(order)));
    }

    /// Publishes a message of the broker itself. The call does not wait for it; a message with an invalid topic is
    /// logged and dropped.
    pub fn publish_inner(&self, message: InnerPublication) {
        self.order_publish(message, false);
    }

    /// The same for a message that every node of a cluster would publish: only the home of the topic's retained message
    /// publishes it.
    pub fn publish_at_home(&self, message: InnerPublication) {
        self.order_publish(message, true);
    }

    fn order_publish(&self, message: InnerPublication, at_home: bool) {
        let shard = self.node.home(message.tenant, &message.topic);
        self.tell_services(shard, ServiceOrder::Publish { message: Box::new(message), at_home });
    }

    /// All clients that are connected; with `rtt` also how long the round trips of their transports take, which costs a
    /// system call for each TCP connection.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn client_links(&self, rtt: bool) -> Result<Vec<ClientLink>, NoAnswer> {
        let all = self.node.ask_all(|answer| Admin::Service(ServiceOrder::Links { rtt, answer }))?;
        Ok(all.into_iter().flatten().collect())
    }

    /// Reports pongs from now on; an earlier caller gets no more. Up to 65,536 wait.
    pub fn pongs(&self, wake: &ServiceWake) -> Pongs {
        let (sender, pongs) = sync_channel(WAITING_PONGS);
        self.node.tell_all(|| Admin::Service(ServiceOrder::Pongs(sender.clone(), Arc::clone(wake))));
        Pongs(pongs)
    }

    /// Begins a new round of pings: acknowledgements of earlier ones are not reported any more.
    pub fn forget_pings(&self) {
        self.node.tell_all(|| Admin::Service(ServiceOrder::ForgetPings));
    }

    /// Publishes to each of these clients at QoS 1 on its own topic, for a pong. Who is away, or has something to
    /// acknowledge, is not asked; who owes the pong of an earlier round is, without another message. Returns when each
    /// was, in the order of `pings`.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn ping(&self, pings: Vec<Ping>, expires_at: Millis) -> Result<Vec<Option<Instant>>, NoAnswer> {
        let mut sent = vec![None; pings.len()];
        let mut by_shard: Vec<(Vec<usize>, Vec<Ping>)> = vec![Default::default(); usize::from(self.node.shards())];
        for (at, ping) in pings.into_iter().enumerate() {
            let home = self.node.home(ping.0, &ping.1);
            if let Some((places, part)) = by_shard.get_mut(usize::from(home.0)) {
                places.push(at);
                part.push(ping);
            }
        }
        for (shard, (places, pings)) in (0..).map(ShardId).zip(by_shard) {
            if pings.is_empty() {
                continue;
            }
            let (answer, answers) = channel();
            self.tell_services(shard, ServiceOrder::Ping { pings, expires_at, answer });
            for (at, when) in places.into_iter().zip(wait(shard, &answers)?) {
                if let Some(place) = sent.get_mut(at) {
                    *place = when;
                }
            }
        }
        Ok(sent)
    }

    /// Ends the connection of a client and redirects it to `reference`: an MQTT 5 client gets a DISCONNECT with it
    /// (0x9C), others are dropped. Returns true if there was a connection.
    ///
    /// # Errors
    /// When its shard does not answer.
    pub fn send_elsewhere(&self, tenant: TenantId, client_id: &str, reference: &str) -> Result<bool, NoAnswer> {
        let shard = self.node.home(tenant, client_id);
        let (answer, answers) = channel();
        let (client_id, reference) = (client_id.to_owned(), reference.to_owned());
        self.tell_services(shard, ServiceOrder::SendElsewhere { tenant, client_id, reference, answer });
        wait(shard, &answers)
    }
}
