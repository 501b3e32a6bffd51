//! Nodes within a node: the calls of the outer node, and the state that they share with it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use tidegate_engine::Settings;

use crate::access::AccessFactory;
use crate::admission::Admission;
use crate::admission::stored_bans::StoredBans;
use crate::broker_link::{BrokerSettings, FleetReport};
use crate::clock::Clock;
use crate::orders::ShardSender;
use crate::report::NodeReport;
use crate::tls::TlsListeners;

/// The parts that a node shares with those within it.
#[derive(Clone)]
pub(crate) struct Family {
    pub(crate) tls: Arc<TlsListeners>,
    pub(crate) clock: Clock,
    pub(crate) admission: Arc<Admission>,
    pub(crate) bans: Arc<StoredBans>,
    pub(crate) connections: Arc<AtomicU32>,
    /// Connections at once, over all of them.
    pub(crate) max_connections: u32,
}

/// The nodes within a node. The outer node knows them by these calls alone.
pub(crate) trait Within: fmt::Debug + Send + Sync {
    /// The outer node runs.
    ///
    /// # Errors
    /// When the system refuses a thread.
    fn begin(&self, family: Family) -> io::Result<()>;

    /// Stops all of them, within `limit` each and all at once; returns whether all that was to be written was.
    fn stop(&self, limit: Duration) -> bool;

    /// The shards of all of them.
    fn inboxes(&self) -> Vec<ShardSender>;

    /// The counters of the ended nodes.
    fn ended(&self) -> NodeReport;

    /// How many there may be at once.
    fn max(&self) -> u16;

    /// Applies the limits of other settings, which are for one inner node, on all of them, and on later ones. The call
    /// does not wait: an ending node has no clients, so it needs no limits.
    fn set_limits(&self, settings: Settings);

    /// New ones begin with these rules.
    fn set_access(&self, access: Option<&AccessFactory>);

    /// A broker is added or changed.
    fn set_broker(&self, broker: &BrokerSettings);

    /// Drains a broker on all of them: it gets no more messages. Nodes that do not know the broker ignore it.
    fn drain_broker(&self, name: &str);

    /// Removes a broker from all of them: other brokers get its pending messages. Nodes that do not know the broker
    /// ignore it.
    fn remove_broker(&self, name: &str);

    /// Messages of theirs that a broker has not settled.
    fn owed_by(&self, name: &str) -> u64;

    /// Adds their connections to brokers to the report of a fleet.
    fn add_to(&self, fleet: &mut FleetReport);
}

/// The nodes within a node, for its settings.
#[derive(Clone, Debug)]
pub struct InnerNodes(pub(crate) Arc<dyn Within>);
