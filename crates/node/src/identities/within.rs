//! The nodes of users, as the node of the listeners knows them.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use tidegate_engine::Settings;

use super::fleet::add;
use super::{Entry, Identities, Running, linger, shown};
use crate::access::AccessFactory;
use crate::broker_link::{BrokerSettings, FleetReport};
use crate::inner::{Family, InnerNodes, Within};
use crate::orders::{Admin, ShardSender, ToShard};
use crate::report::NodeReport;

/// A reference that can start the thread which ends unused nodes.
#[derive(Debug)]
struct UserNodes(Arc<Identities>);

impl Identities {
    /// For the settings of the node that has the listeners.
    #[must_use]
    pub fn inner_nodes(self: &Arc<Self>) -> InnerNodes {
        InnerNodes(Arc::new(UserNodes(Arc::clone(self))))
    }
}

impl Within for UserNodes {
    fn begin(&self, family: Family) -> io::Result<()> {
        // A second node finds the first one's; there is one in each process.
        let _ = self.0.family.set(family);
        linger::start(&self.0)
    }

    fn inboxes(&self) -> Vec<ShardSender> {
        let state = self.0.state();
        state.users.values().filter_map(Entry::running).map(|running| running.inbox.clone()).collect()
    }

    fn ended(&self) -> NodeReport {
        self.0.state().ended.clone()
    }

    fn max(&self) -> u16 {
        self.0.settings.max
    }

    fn set_limits(&self, settings: Settings) {
        let settings = Arc::new(settings);
        let mut state = self.0.state();
        state.limits = Some(Arc::clone(&settings));
        for running in state.users.values().filter_map(Entry::running) {
            let done = channel().0;
            running.inbox.send(ToShard::Admin(Admin::SetLimits { settings: Arc::clone(&settings), done }));
        }
    }

    fn set_access(&self, access: Option<&AccessFactory>) {
        self.0.state().access = access.cloned();
    }

    fn stop(&self, limit: Duration) -> bool {
        let users = {
            let mut state = self.0.state();
            state.stops = true;
            std::mem::take(&mut state.users)
        };
        self.0.stopping.notify_all();
        std::thread::scope(|scope| {
            let stop = |running: Box<Running>| scope.spawn(move || running.node.stop(limit).drained);
            let stopping: Vec<_> = users.into_values().filter_map(Entry::into_running).map(stop).collect();
            stopping.into_iter().all(|one| one.join().unwrap_or(false))
        })
    }

    fn set_broker(&self, broker: &BrokerSettings) {
        for (user, entry) in &self.0.state().users {
            if let Some(running) = entry.running() {
                running.node.handle().fleet().tell_broker(shown(broker.clone(), user, running.password.as_ref()));
            }
        }
    }

    fn drain_broker(&self, name: &str) {
        for (_, node) in self.0.handles() {
            drop(node.fleet().drain_broker(name));
        }
    }

    fn remove_broker(&self, name: &str) {
        for (_, node) in self.0.handles() {
            drop(node.fleet().remove_broker(name, true));
        }
    }

    fn owed_by(&self, name: &str) -> u64 {
        let reports = self.0.reports();
        let brokers = reports.iter().flat_map(|fleet| &fleet.brokers).filter(|broker| broker.broker_link.name == name);
        brokers.map(|broker| broker.broker_link.owed()).sum()
    }

    fn add_to(&self, fleet: &mut FleetReport) {
        for of_user in self.0.reports() {
            fleet.identities += 1;
            fleet.filters += of_user.filters;
            for broker in of_user.brokers {
                let known = fleet.brokers.iter_mut().find(|known| known.broker_link.name == broker.broker_link.name);
                if let Some(known) = known {
                    add(&mut known.broker_link, &broker.broker_link);
                }
            }
        }
    }
}
