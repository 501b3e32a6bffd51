//! The control plane's hold on a running node.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tidegate_engine::{
    ClientQuery, ClientSummary, Millis, Now, Partitions, Place, Reason, Settings, ShardId, SlowSession, TenantId,
    partition_of,
};

use crate::access::AccessFactory;
use crate::admission::stored_bans::StoredBans;
use crate::admission::{Admission, Ban, BanError, BanRecord, BanTarget};
use crate::clock::Clock;
use crate::cluster::LinksHandle;
use crate::flight::{FlightAnswer, FlightSubject};
use crate::identities::{Family, Identities};
use crate::relay::NodeHomes;
use crate::report::NodeReport;
use crate::shard::inbox::{Admin, InboxSender, ToShard};
use crate::tls::{PreparedTls, RevocationLists, TlsError, TlsListeners, TlsSettings};
use crate::uplink::{Brokers, Dialer};

/// The fleet and cluster settings of a handle.
pub(crate) struct Fleet {
    pub(crate) dialer: Arc<Dialer>,
    pub(crate) brokers: Brokers,
    pub(crate) identities: Option<Arc<Identities>>,
    pub(crate) links: Option<Arc<LinksHandle>>,
}

/// How long a shard may take to answer. It answers in its next turn, so only a hanging or ended one takes longer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends questions to the shards of a node from any thread. Every call waits for the answer, so asynchronous code must
/// make it on a thread that may block. Without calls it causes no work.
#[derive(Clone, Debug)]
pub struct NodeHandle {
    inboxes: Arc<[InboxSender]>,
    pub(crate) tls: Arc<TlsListeners>,
    clock: Clock,
    admission: Arc<Admission>,
    stored_bans: Arc<StoredBans>,
    dialer: Arc<Dialer>,
    brokers: Brokers,
    identities: Option<Arc<Identities>>,
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
    pub(crate) fn new(inboxes: Vec<InboxSender>, family: &Family, fleet: Fleet) -> Self {
        let Fleet { dialer, brokers, identities, links } = fleet;
        let Family { tls, clock, admission, bans: stored_bans, .. } = family.clone();
        Self { inboxes: inboxes.into(), tls, clock, admission, stored_bans, dialer, brokers, identities, links }
    }

    /// The links to other nodes, where there are any.
    pub(crate) fn links(&self) -> Option<&LinksHandle> {
        self.links.as_deref()
    }

    /// The users whose own credentials brokers are shown, where they are.
    pub(crate) fn identities(&self) -> Option<&Arc<Identities>> {
        self.identities.as_ref()
    }

    /// The brokers of the fleet, as others know them.
    pub(crate) fn brokers(&self) -> &Brokers {
        &self.brokers
    }

    /// The shard that a node of one shard has.
    pub(crate) fn first_inbox(&self) -> Option<InboxSender> {
        self.inboxes.first().cloned()
    }

    /// The shards of the nodes within this one.
    fn inner_inboxes(&self) -> Vec<InboxSender> {
        self.identities.as_ref().map(|identities| identities.inboxes()).unwrap_or_default()
    }

    /// The writer of bans to the store.
    pub(crate) fn stored_bans(&self) -> &Arc<StoredBans> {
        &self.stored_bans
    }

    /// The time on the node's clocks, on which its bans end.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Who is let in: limits and bans, to be asked and changed.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    #[cfg(test)]
    pub(crate) fn inboxes(&self) -> &[InboxSender] {
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

    /// The counters and sizes of all shards.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn report(&self) -> Result<NodeReport, NoAnswer> {
        let mut report = NodeReport { admission: self.admission.report(self.now()), ..NodeReport::default() };
        for shard in self.ask_all(Admin::Report)? {
            report.add(shard);
        }
        if let Some(identities) = &self.identities {
            report.add_counted(&identities.ended());
        }
        Ok(report)
    }

    /// Sends the same question to every shard and collects the answers in their order, followed by those of the nodes
    /// within this one. All are asked before the first is awaited, so that they answer in parallel, within one common
    /// timeout.
    pub(crate) fn ask_all<T>(&self, question: impl Fn(Sender<T>) -> Admin) -> Result<Vec<T>, NoAnswer> {
        let ask = |inbox: &InboxSender| {
            let (answer, answers) = channel();
            inbox.send(ToShard::Admin(question(answer)));
            answers
        };
        let asked: Vec<_> = self.inboxes.iter().map(ask).collect();
        let inner: Vec<_> = self.inner_inboxes().iter().map(ask).collect();
        let until = Instant::now() + ANSWER_TIMEOUT;
        let mut answers = all_of(&asked, until)?;
        // A node within this one may be ending.
        answers.extend(inner.iter().filter_map(|answers| wait_until(ShardId(0), answers, until).ok()));
        Ok(answers)
    }

    /// The recent events of a client, a topic or an address.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn why(&self, subject: &FlightSubject) -> Result<FlightAnswer, NoAnswer> {
        let mut story = FlightAnswer::default();
        for answer in self.ask_all(|answer| Admin::Why { subject: subject.clone(), answer })? {
            story.merge(answer);
        }
        Ok(story)
    }

    /// The clients that delay most messages, the worst first, `limit` at most: connected ones that have acknowledged
    /// nothing for long although messages wait for it, and those whose queue is full.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn slow_sessions(&self, limit: usize) -> Result<Vec<SlowSession>, NoAnswer> {
        let mut all: Vec<SlowSession> =
            self.ask_all(|answer| Admin::Slow { limit, answer })?.into_iter().flatten().collect();
        all.sort_by_key(|slow| Reverse((slow.waiting_ms, slow.queued_messages)));
        all.truncate(limit);
        Ok(all)
    }

    /// The clients that a query asks for, in the order of tenants and client ids, each with its address while it is
    /// connected. Looks at every session.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn clients(&self, query: &ClientQuery) -> Result<Vec<(ClientSummary, Option<IpAddr>)>, NoAnswer> {
        let asked = self.ask_all(|answer| Admin::Clients { query: query.clone(), answer })?;
        let mut all: Vec<_> = asked.into_iter().flatten().collect();
        all.sort_by(|(one, _), (other, _)| (one.tenant, &one.client_id).cmp(&(other.tenant, &other.client_id)));
        all.truncate(query.limit);
        Ok(all)
    }

    /// Adds a ban, and closes the matching connections: those of a client id (an MQTT 5 client receives
    /// [`Reason::AdministrativeAction`]), of an address, and of a user name while its connections are counted. Returns
    /// their number, once the ban is in the store.
    ///
    /// # Errors
    /// When the ban is refused; then no connection is closed. With [`BanError::NotKept`] it is active, but not in the
    /// store.
    pub fn ban(&self, ban: Ban) -> Result<u64, BanError> {
        let target = ban.target.clone();
        self.admission.ban(self.now(), ban)?;
        // The ban holds; a shard that does not answer in time closes its connections all the same.
        let ended = self.close_connections_of(&target);
        self.keep_bans()?;
        Ok(ended.unwrap_or_default())
    }

    /// Ends a ban; says whether there was one, once the store knows.
    ///
    /// # Errors
    /// When it is one of the configuration. With [`BanError::NotKept`] it has ended, but not in the store.
    pub fn unban(&self, target: &BanTarget) -> Result<bool, BanError> {
        let there_was_one = self.admission.unban(self.now(), target)?;
        self.keep_bans()?;
        Ok(there_was_one)
    }

    /// Takes in a change of a ban that all nodes of a cluster share, unless a later one is known, as [`Self::ban`] and
    /// [`Self::unban`] would. Returns whether it changed anything, and how many connections were closed.
    ///
    /// # Errors
    /// As of [`Self::ban`].
    pub fn apply_ban(&self, record: BanRecord) -> Result<(bool, u64), BanError> {
        let banned = record.ban.is_some().then(|| record.target.clone());
        if !self.admission.apply_ban(self.now(), record)? {
            return Ok((false, 0));
        }
        let ended = banned.and_then(|target| self.close_connections_of(&target).ok());
        self.keep_bans()?;
        Ok((true, ended.unwrap_or_default()))
    }

    /// Closes the connections of a client, a user or an address, without a ban; says how many there were.
    ///
    /// # Errors
    /// When a shard does not answer; it closes them all the same.
    pub fn close_connections_of(&self, target: &BanTarget) -> Result<u64, NoAnswer> {
        let ended = self.ask_all(|answer| Admin::Enforce { target: target.clone(), answer })?;
        Ok(ended.into_iter().sum())
    }

    fn keep_bans(&self) -> Result<(), BanError> {
        if self.stored_bans.wait(ANSWER_TIMEOUT) { Ok(()) } else { Err(BanError::NotKept) }
    }

    /// Activates other access rules on every shard; `None` allows everything. Rights that connected clients lose end in
    /// the next turns.
    ///
    /// # Errors
    /// When a shard does not answer; it puts them in force in its next turn, if it has one.
    pub fn set_access(&self, access: Option<&AccessFactory>) -> Result<(), NoAnswer> {
        if let Some(identities) = &self.identities {
            identities.set_access(access);
        }
        self.ask_all(|done| Admin::SetAccess { access: access.cloned(), done }).map(drop)
    }

    /// How many users there may be whose own credentials brokers are shown, where they are.
    pub fn max_identities(&self) -> Option<u16> {
        self.identities.as_ref().map(|identities| identities.max())
    }

    /// Applies the limits of other settings on every shard, as listed at
    /// [`ControlCalls::set_limits`](tidegate_engine::ControlCalls::set_limits). The nodes of users, if any, get those of `of_user`,
    /// each for itself, soon afterwards.
    ///
    /// # Errors
    /// When a shard does not answer; it puts them in force in its next turn, if it has one.
    pub fn set_limits(&self, settings: Settings, of_user: Option<Settings>) -> Result<(), NoAnswer> {
        if let (Some(identities), Some(of_user)) = (&self.identities, of_user) {
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

    /// Closes all connections with one of these user names, of all tenants, with a reason, which an MQTT 5 client
    /// receives. Returns their number.
    ///
    /// # Errors
    /// When a shard does not answer; it closes its connections in its next turn, if it has one.
    pub fn disconnect_users(&self, users: BTreeSet<String>, reason: Reason) -> Result<u64, NoAnswer> {
        let users = Arc::new(users);
        let ended = self.ask_all(|answer| Admin::DisconnectUsers { users: Arc::clone(&users), reason, answer })?;
        Ok(ended.into_iter().sum())
    }

    /// Closes the connection of a client with a reason, which an MQTT 5 client receives. Returns whether there was one.
    ///
    /// # Errors
    /// When the client's home shard does not answer.
    pub fn disconnect_client(&self, tenant: TenantId, client_id: &str, reason: Reason) -> Result<bool, NoAnswer> {
        let place = Place { shard: ShardId(0), shards: self.shards() };
        let home = place.home_of(partition_of(tenant, client_id));
        let ask = |inbox: &InboxSender| {
            let (answer, answers) = channel();
            inbox.send(ToShard::Admin(Admin::Disconnect { tenant, client_id: client_id.into(), reason, answer }));
            answers
        };
        let here = ask(self.inboxes.get(usize::from(home.0)).ok_or(NoAnswer { shard: home })?);
        let inner: Vec<_> = self.inner_inboxes().iter().map(ask).collect();
        let until = Instant::now() + ANSWER_TIMEOUT;
        let found = inner.iter().filter(|answers| wait_until(ShardId(0), answers, until).unwrap_or(false)).count();
        Ok(wait_until(home, &here, until)? || found > 0)
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

    /// The partitions that all shards together serve at the moment.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn served(&self) -> Result<Partitions, NoAnswer> {
        let served = self.ask_all(Admin::Served)?;
        Ok(served.into_iter().fold(Partitions::NONE, Partitions::with))
    }

    /// Reads the files of all TLS listeners again, for later connections; connected clients keep their certificates.
    /// Returns the number of listeners.
    ///
    /// # Errors
    /// When one file cannot be used. Then every listener keeps its certificates.
    pub fn reload_tls(&self) -> Result<usize, TlsError> {
        self.tls.reload()
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
