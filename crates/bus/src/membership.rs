//! Being a member of a group that shares partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{MemberName, Partition, Wake};

/// A living member of a group, as far as the group knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: MemberName,
    /// The number of the process: a process that joins again, or takes the name over, has another number.
    pub incarnation: u64,
    /// By which lease it gives others up; none where it does not say.
    pub lease: Option<Duration>,
}

/// A time in which a member is one without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// Its number: another number says that the membership was lost meanwhile, however shortly. A lease that ended while
    /// the group could not give the member up leaves the number as it is.
    pub number: u64,
    /// When it ends, unless it is renewed before. Others give the member up later than this by their own clocks.
    pub until: Instant,
}

/// A change of a partition for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipEvent {
    /// It is this member's now. Its former member has released it or was given up.
    Gained(Partition),
    /// It is to go to another member: finish, then call [`Membership::release`]. After `max_release_time` it is taken.
    Losing(Partition),
    /// It is not this member's any more: released, taken, or given up since the bus was not reached in time.
    Lost(Partition),
}

/// The state of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Held,
    Losing,
}

/// The partitions of a member, and the events it has taken. Its size is bounded by the number of partitions, however
/// rarely events are taken.
pub(crate) struct Holdings {
    wake: Wake,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The held partitions with the numbers of their leases: a partition that was lost and gained again has another
    /// one.
    actual: BTreeMap<Partition, (u64, Standing)>,
    told: BTreeMap<Partition, (u64, Standing)>,
    members: Vec<Member>,
    leases: u64,
    /// Until when the member is certainly one.
    valid_until: Option<Instant>,
    /// Whether the group has had it without a break since it became a member, and how often it has lost it.
    is_member: bool,
    losses: u64,
}

impl Inner {
    /// Says whether it was not there before.
    fn gain(&mut self, partition: Partition) -> bool {
        if self.actual.contains_key(&partition) {
            return false;
        }
        self.leases += 1;
        self.actual.insert(partition, (self.leases, Standing::Held));
        true
    }

    /// Says whether that is news.
    fn losing(&mut self, partition: Partition) -> bool {
        match self.actual.get_mut(&partition) {
            Some((_, standing)) if *standing == Standing::Held => {
                *standing = Standing::Losing;
                true
            }
            _ => false,
        }
    }
}

impl Holdings {
    pub(crate) fn new(wake: Wake) -> Arc<Self> {
        Arc::new(Self { wake, inner: Mutex::default() })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets that the member is one until then, has these partitions, and is losing some of them. All at once: a reader
    /// that sees the membership sees the partitions as well.
    pub(crate) fn agree(&self, until: Instant, held: &BTreeSet<Partition>, is_losing: impl Fn(Partition) -> bool) {
        let changed = {
            let mut inner = self.inner();
            inner.is_member = true;
            let mut changed = inner.valid_until.replace(until).is_none();
            let before = inner.actual.len();
            inner.actual.retain(|partition, _| held.contains(partition));
            changed |= inner.actual.len() != before;
            for partition in held {
                changed |= inner.gain(*partition);
                if is_losing(*partition) {
                    changed |= inner.losing(*partition);
                }
            }
            changed
        };
        if changed {
            (self.wake)();
        }
    }

    /// The lease is over. Others may have given the member up, which it reads in the log.
    pub(crate) fn lapse(&self) {
        let ended = self.inner().valid_until.take().is_some();
        self.end(ended);
    }

    /// The membership is lost: the table of the group is without this member, or was it.
    pub(crate) fn lose_membership(&self) {
        let ended = {
            let mut inner = self.inner();
            inner.valid_until = None;
            let ended = std::mem::take(&mut inner.is_member);
            inner.losses += u64::from(ended);
            ended
        };
        self.end(ended);
    }

    fn end(&self, has_changed: bool) {
        self.lose_all();
        if has_changed {
            (self.wake)();
        }
    }

    pub(crate) fn lose_all(&self) {
        let had = !std::mem::take(&mut self.inner().actual).is_empty();
        if had {
            (self.wake)();
        }
    }

    /// Partitions that are held, and whether each is being lost.
    pub(crate) fn held(&self) -> Vec<(Partition, bool)> {
        let inner = self.inner();
        inner.actual.iter().map(|(partition, (_, standing))| (*partition, *standing == Standing::Losing)).collect()
    }

    pub(crate) fn set_members(&self, members: Vec<Member>) {
        let changed = {
            let mut inner = self.inner();
            let changed = inner.members != members;
            inner.members = members;
            changed
        };
        if changed {
            (self.wake)();
        }
    }

    fn news(&self) -> Vec<MembershipEvent> {
        let mut inner = self.inner();
        let Inner { actual, told, .. } = &mut *inner;
        let mut events = Vec::new();
        for (partition, (lease, _)) in &*told {
            if actual.get(partition).is_none_or(|(now, _)| now != lease) {
                events.push(MembershipEvent::Lost(*partition));
            }
        }
        for (partition, (lease, standing)) in &*actual {
            let before = told.get(partition).filter(|(then, _)| then == lease).map(|(_, standing)| *standing);
            if before.is_none() {
                events.push(MembershipEvent::Gained(*partition));
            }
            if *standing == Standing::Losing && before != Some(Standing::Losing) {
                events.push(MembershipEvent::Losing(*partition));
            }
        }
        *told = actual.clone();
        events
    }
}

/// A request of a member to its thread.
pub(crate) enum MembershipCommand {
    /// The member is done with a partition that it was losing.
    Release(Partition),
    /// The member goes. Its partitions are free at once.
    Leave,
}

/// Hands commands to the thread.
pub(crate) type Command = Box<dyn Fn(MembershipCommand) + Send + Sync>;

/// A membership of a group. Dropping it leaves the group: its partitions go to others at once.
pub struct Membership {
    holdings: Arc<Holdings>,
    incarnation: u64,
    control: Command,
    /// Ends with the thread, when others know that the member has gone.
    left: Mutex<Receiver<()>>,
}

impl Membership {
    pub(crate) fn new(holdings: Arc<Holdings>, incarnation: u64, control: Command, left: Receiver<()>) -> Self {
        Self { holdings, incarnation, control, left: Mutex::new(left) }
    }

    /// Leaves the group, and waits until the others know it, but not for longer than this. A process that ends at once
    /// after dropping its membership may not have said so, and is waited for by the others for a lease.
    pub fn leave(self, at_most: Duration) {
        (self.control)(MembershipCommand::Leave);
        self.holdings.lose_all();
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = left.recv_timeout(at_most);
    }

    /// The number by which others know this process in the group.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The time until which this is certainly a member; `None` while that is not certain. It may be a member all the
    /// same: then the tenure continues with its number when the group is reached again.
    pub fn tenure(&self) -> Option<Tenure> {
        let inner = self.holdings.inner();
        inner.valid_until.filter(|until| *until > Instant::now()).map(|until| Tenure { number: inner.losses, until })
    }

    /// How often the membership was lost: the number of the tenure that lasts, or of the next one.
    pub fn losses(&self) -> u64 {
        self.holdings.inner().losses
    }

    /// The changes since the last call. A change that was undone meanwhile is left out.
    pub fn take(&self) -> Vec<MembershipEvent> {
        self.holdings.news()
    }

    /// The members of the group, by name, as this member last heard: a dead member is among them until its lease is over.
    pub fn members(&self) -> Vec<Member> {
        self.holdings.inner().members.clone()
    }

    /// Partitions of this member, including those it is losing.
    pub fn held(&self) -> Vec<Partition> {
        self.holdings.held().into_iter().map(|(partition, _)| partition).collect()
    }

    /// Releases a partition that the member is losing and works no more. Another partition stays.
    pub fn release(&self, partition: Partition) {
        if self.holdings.held().contains(&(partition, true)) {
            (self.control)(MembershipCommand::Release(partition));
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        (self.control)(MembershipCommand::Leave);
        self.holdings.lose_all();
    }
}

#[cfg(test)]
mod tests {
    use super::MembershipEvent::{Gained, Losing, Lost};
    use super::*;

    fn agree(holdings: &Holdings, held: &[Partition], losing: &[Partition]) {
        let until = Instant::now() + Duration::from_secs(60);
        holdings.agree(until, &held.iter().copied().collect(), |partition| losing.contains(&partition));
    }

    #[test]
    fn only_differences_are_reported() {
        let holdings = Holdings::new(Arc::new(|| {}));
        let (one, two) = (Partition(1), Partition(2));
        agree(&holdings, &[one, two], &[]);
        agree(&holdings, &[one], &[]);
        assert_eq!(holdings.news(), [Gained(one)]);
        agree(&holdings, &[one], &[one, two]);
        assert_eq!((holdings.news(), holdings.news()), (vec![Losing(one)], vec![]));
        agree(&holdings, &[], &[]);
        agree(&holdings, &[one], &[]);
        assert_eq!(holdings.news(), [Lost(one), Gained(one)]);
        holdings.lose_all();
        assert_eq!(holdings.news(), [Lost(one)]);
    }

    #[test]
    fn a_new_member_has_its_partitions_when_notified() {
        let seen: Arc<Mutex<Vec<usize>>> = Arc::default();
        let holdings: Arc<std::sync::OnceLock<Arc<Holdings>>> = Arc::default();
        let (heard, asked) = (Arc::clone(&seen), Arc::clone(&holdings));
        let wake = move || heard.lock().unwrap().push(asked.get().map_or(0, |holdings| holdings.held().len()));
        let _ = holdings.set(Holdings::new(Arc::new(wake)));
        agree(holdings.get().unwrap(), &[Partition(1), Partition(2)], &[]);
        assert_eq!(*seen.lock().unwrap(), [2]);
    }
}
