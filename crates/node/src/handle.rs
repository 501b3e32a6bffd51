//! The control plane's hold on a running node.

mod ahead;
pub(crate) mod clients;
mod cluster;
pub(crate) mod fleet;
pub(crate) mod insiders;
pub(crate) mod moves;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tidegate_engine::{Millis, Now, Partitions, Settings, ShardId};

use crate::access::AccessFactory;
use crate::admission::Admission;
use crate::admission::stored_bans::StoredBans;
use crate::broker_link::{Brokers, Dialer};
use crate::clock::Clock;
use crate::cluster::LinksHandle;
use crate::durable::stored_usage::LeftUsage;
use crate::inner::{Family, InnerNodes, Within};
use crate::orders::{Admin, ShardSender, ToShard};
use crate::relay::{Detours, NodeHomes};
use crate::report::NodeReport;
use crate::tls::{PreparedTls, RevocationLists, TlsError, TlsListeners, TlsSettings};

/// The fleet and cluster settings of a handle.
pub(crate) struct Fleet {
    pub(crate) dialer: Arc<Dialer>,
    pub(crate) brokers: Brokers,
    pub(crate) identities: Option<InnerNodes>,
    pub(crate) links: Option<Arc<LinksHandle>>,
}

/// How long a shard may take to answer. It answers in its next turn, so only a hanging or ended one takes longer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends questions to the shards of a node from any thread. Every call waits for the answer, so asynchronous code must
/// make it on a thread that may block. Without calls it causes no work.
#[derive(Clone, Debug)]
pub struct NodeHandle {
    inboxes: Arc<[ShardSender]>,
    pub(crate) tls: Arc<TlsListeners>,
    clock: Clock,
    admission: Arc<Admission>,
    stored_bans: Arc<StoredBans>,
    dialer: Arc<Dialer>,
    brokers: Brokers,
    identities: Option<InnerNodes>,
    links: Option<Arc<LinksHandle>>,
}

/// A shard did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{shard} does not answer: the node is stopping, or the shard hangs")]
pub struct NoAnswer {
    /// The shard.
    pub shard: ShardId,
}

impl NodeHandle {
    pub(crate) fn new(inboxes: Vec<ShardSender>, family: &Family, fleet: Fleet) -> Self {
        let Fleet { dialer, brokers, identities, links } = fleet;
        let Family { tls, clock, admission, bans: stored_bans, .. } = family.clone();
        Self { inboxes: inboxes.into(), tls, clock, admission, stored_bans, dialer, brokers, identities, links }
    }

    /// The links to other nodes, where there are any.
    pub(crate) fn links(&self) -> Option<&LinksHandle> {
        self.links.as_deref()
    }

    /// The users whose own credentials brokers are shown, where they are.
    pub(crate) fn identities(&self) -> Option<&dyn Within> {
        self.identities.as_ref().map(|nodes| &*nodes.0)
    }

    /// The brokers of the fleet, as others know them.
    pub(crate) fn brokers(&self) -> &Brokers {
        &self.brokers
    }

    /// The writer of bans to the store.
    pub(crate) fn stored_bans(&self) -> &Arc<StoredBans> {
        &self.stored_bans
    }

    /// The time on the node's clocks, on which its bans end.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Limits and bans for clients that connect, to be asked and changed.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The inboxes of its shards.
    pub(crate) fn inboxes(&self) -> &[ShardSender] {
        &self.inboxes
    }

    /// Puts the same request before every shard.
    pub(crate) fn tell_all(&self, mut request: impl FnMut() -> Admin) {
        for inbox in &*self.inboxes {
            inbox.send(ToShard::Admin(request()));
        }
    }

    /// Knows where the brokers of a fleet are.
    pub(crate) fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Sends a message to one shard.
    pub(crate) fn tell(&self, shard: ShardId, message: ToShard) {
        if let Some(inbox) = self.inboxes.get(usize::from(shard.0)) {
            inbox.send(message);
        }
    }

    /// Number of shards.
    pub fn shards(&self) -> u16 {
        self.inboxes.len() as u16
    }

    /// Has usage of earlier processes deleted from the store: it is in the books.
    pub fn forget_usage(&self, left: Vec<LeftUsage>) {
        // A shard that writes usage again has its own deleted: the store has that of two runs of each shard at most.
        let mut keys = vec![Vec::new(); usize::from(self.shards())];
        for usage in left {
            if let Some(of_shard) = keys.get_mut(usize::from(usage.shard.0 % self.shards())) {
                of_shard.push(usage.into_key());
            }
        }
        for (shard, keys) in (0..).zip(keys) {
            self.tell(ShardId(shard), ToShard::Admin(Admin::ForgetUsage(keys)));
        }
    }

    /// The counters and sizes of all shards, without the usage of users.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn report(&self) -> Result<NodeReport, NoAnswer> {
        let mut report = self.report_of_shards(false)?;
        report.users.clear();
        Ok(report)
    }

    /// As [`Self::report`], with the usage of users, where they are metered. Each shard searches the user of each of its
    /// sessions meanwhile.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn report_by_user(&self) -> Result<NodeReport, NoAnswer> {
        self.report_of_shards(true)
    }

    fn report_of_shards(&self, by_user: bool) -> Result<NodeReport, NoAnswer> {
        let mut report = NodeReport { admission: self.admission.report(self.now()), ..NodeReport::default() };
        for shard in self.ask_all(|answer| Admin::Report { by_user, answer })? {
            report.add(shard);
        }
        if let Some(identities) = self.identities() {
            report.add_counted(&identities.ended());
        }
        Ok(report)
    }

    /// Sends the same question to every shard and collects the answers in their order, followed by the answers of the
    /// inner nodes. All are asked before the first is awaited, so that they answer in parallel, within one common
    /// timeout.
    pub(crate) fn ask_all<T>(&self, question: impl Fn(Sender<T>) -> Admin) -> Result<Vec<T>, NoAnswer> {
        let ask = |inbox: &ShardSender| {
            let (answer, answers) = channel();
            inbox.send(ToShard::Admin(question(answer)));
            answers
        };
        let asked: Vec<_> = self.inboxes.iter().map(ask).collect();
        let inner: Vec<_> = self.identities().map(Within::inboxes).unwrap_or_default().iter().map(ask).collect();
        let until = Instant::now() + ANSWER_TIMEOUT;
        let mut answers = all_of(&asked, until)?;
        // A node within this one may be ending.
        answers.extend(inner.iter().filter_map(|answers| wait_until(ShardId(0), answers, until).ok()));
        Ok(answers)
    }

    /// Activates other access rules on every shard; `None` allows everything. Rights that connected clients lose end in
    /// the next turns.
    ///
    /// # Errors
    /// When a shard does not answer; it puts them in force in its next turn, if it has one.
    pub fn set_access(&self, access: Option<&AccessFactory>) -> Result<(), NoAnswer> {
        if let Some(identities) = self.identities() {
            identities.set_access(access);
        }
        self.ask_all(|done| Admin::SetAccess { access: access.cloned(), done }).map(drop)
    }

    /// How many users there may be whose own credentials brokers are shown, where they are.
    pub fn max_identities(&self) -> Option<u16> {
        self.identities().map(Within::max)
    }

    /// Applies the limits of other settings on every shard, as listed at
    /// [`ControlCalls::set_limits`](tidegate_engine::ControlCalls::set_limits). The nodes of users, if any, each get
    /// the limits of `of_user` soon afterwards.
    ///
    /// # Errors
    /// When a shard does not answer; it puts them in force in its next turn, if it has one.
    pub fn set_limits(&self, settings: Settings, of_user: Option<Settings>) -> Result<(), NoAnswer> {
        if let (Some(identities), Some(of_user)) = (self.identities(), of_user) {
            identities.set_limits(of_user);
        }
        let settings = Arc::new(settings);
        let asked = self.inboxes.iter().map(|inbox| {
            let (done, answers) = channel();
            inbox.send(ToShard::Admin(Admin::SetLimits { settings: Arc::clone(&settings), done }));
            answers
        });
        let asked: Vec<_> = asked.collect();
        all_of(&asked, Instant::now() + ANSWER_TIMEOUT).map(drop)
    }
}

impl NodeHandle {
    /// Activates another table of homes on every shard; without one, all clients are at home here.
    ///
    /// # Errors
    /// When a shard does not answer; it puts it in force in its next turn, if it has one.
    pub fn set_homes(&self, homes: Option<&Arc<NodeHomes>>) -> Result<(), NoAnswer> {
        self.ask_all(|done| Admin::Homes { homes: homes.cloned(), done }).map(drop)
    }

    /// Extends the lease on the current table of homes, on every shard, and renews an expired one. Only for a lease
    /// that never expired for the others. The call does not wait: a shard that gets it too late serves no client until
    /// then.
    pub fn renew_lease(&self, until: Millis) {
        self.tell_all(|| Admin::RenewLease { until });
    }

    /// Changes the ways of relayed clients around cut connections, on every shard. The call does not wait.
    pub fn set_detours(&self, detours: &Arc<Detours>) {
        self.tell_all(|| Admin::Detours(Arc::clone(detours)));
    }

    /// The partitions that all shards together serve at the moment.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn served(&self) -> Result<Partitions, NoAnswer> {
        let served = self.ask_all(Admin::Served)?;
        Ok(served.into_iter().fold(Partitions::NONE, Partitions::with))
    }

    /// How the lists of revoked certificates are now.
    pub fn revocation_lists(&self) -> RevocationLists {
        self.tls.revocation_lists()
    }

    /// Reads and checks the files of new settings, by the position of the listener, without using them yet. Settings
    /// for a position that has no TLS listener wait for a restart.
    ///
    /// # Errors
    /// When one file cannot be used.
    pub fn prepare_tls(&self, settings: &BTreeMap<usize, TlsSettings>) -> Result<PreparedTls, TlsError> {
        self.tls.prepare(settings)
    }
}

pub(crate) fn wait<T>(shard: ShardId, answers: &Receiver<T>) -> Result<T, NoAnswer> {
    wait_until(shard, answers, Instant::now() + ANSWER_TIMEOUT)
}

/// The answers of shards that were asked together, in their order.
fn all_of<T>(asked: &[Receiver<T>], until: Instant) -> Result<Vec<T>, NoAnswer> {
    (0..).map(ShardId).zip(asked).map(|(shard, answers)| wait_until(shard, answers, until)).collect()
}

/// An answer that is there when its time is over counts.
fn wait_until<T>(shard: ShardId, answers: &Receiver<T>, until: Instant) -> Result<T, NoAnswer> {
    let left = until.saturating_duration_since(Instant::now());
    answers.recv_timeout(left).map_err(|_| NoAnswer { shard })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_that_were_asked_together_have_one_time_together() {
        let (answers, asked): (Vec<_>, Vec<_>) = (0..3).map(|_| channel()).unzip();
        let (returned, returns) = channel::<()>();
        let late = answers[1].clone();
        let thread = std::thread::spawn(move || {
            // Within the time that a shard would have for itself; a test that passes does not wait for it.
            let _ = returns.recv_timeout(ANSWER_TIMEOUT / 5 * 4);
            let _ = late.send(1);
        });
        answers[0].send(0).unwrap();
        let over = Instant::now();
        assert_eq!(all_of(&asked, over), Err(NoAnswer { shard: ShardId(1) }));
        drop(returned);
        thread.join().unwrap();
        answers[0].send(0).unwrap();
        answers[2].send(2).unwrap();
        assert_eq!(all_of(&asked, over), Ok(vec![0, 1, 2]), "all that were in time");
    }
}
