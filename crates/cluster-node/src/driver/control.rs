//! Speaks to the bus: keeps the membership, reads tables, says what this node is, and decides where it leads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use tidegate_bus::{Append, BusError, GroupName, MemberName, Membership, Position, Tally, Wake};
use tidegate_cluster::{Advert, Follower, GROUP_VERSION, Step, Table};

use super::event::Event;
use super::following::{Following, Taken, passed_over};
use super::lead::{Leader, Outlook};
use super::logs::{Logs, leases};
use super::memory::Memory;
use super::parts::Collector;
use super::status::{Shared, Standpoint};
use super::tenants::{TenantCheck, TenantLog, other_numbers};
use super::view::{TableView, tell};
use super::weights::WeightPolicy;
use super::work::{FollowingNode, TableWork, Work};
use super::{Setup, ending, kind};

/// The group that all nodes are in; the member with its one partition leads.
pub(super) const GROUP: &str = "cluster-nodes";
/// Longest time between two looks at everything.
const TICK: Duration = Duration::from_millis(250);

/// One life of the node in the group.
struct Life {
    membership: Membership,
    /// The number of its tenure, and since when it has lasted.
    tenure: Option<(u64, Instant)>,
}

/// The thread's own.
pub(super) struct Control {
    setup: Setup,
    logs: Logs,
    shared: Arc<Shared>,
    events: Sender<Event>,
    work: Sender<Work>,
    life: Option<Life>,
    /// The membership that this process had last, and has lost.
    former: Option<u64>,
    follower: Follower,
    leader: Leader,
    table: Table,
    table_read: Position,
    /// The newest table that this node knows, also from before it was started; and the epoch of the newest that is in
    /// the log. Where that is less, the bus has lost the log.
    known: Table,
    logged: u64,
    /// The newest table that earlier lives of this process have followed.
    followed: u64,
    adverts: BTreeMap<String, Advert>,
    own: Advert,
    /// The version that others have; `None` while it is on its way, or unknown.
    stored: Option<Advert>,
    storing: Option<Advert>,
    tables: Following,
    words: Following,
    images: Following,
    tenants: TenantLog,
    collector: Collector,
    told: Option<(TableView, u64)>,
    /// Processes of other nodes that have ended, by name and incarnation.
    ended: BTreeMap<String, u64>,
    /// Records in the cluster's logs that are none of its own.
    strange: Tally,
}

impl Control {
    pub(super) fn new(
        setup: Setup,
        logs: Logs,
        remembered: Memory,
        shared: Arc<Shared>,
        events: Sender<Event>,
        work: Sender<Work>,
        policy: WeightPolicy,
    ) -> Self {
        let own = Advert {
            incarnation: setup.incarnation,
            after: remembered.life,
            addresses: setup.addresses.clone(),
            kept: setup.kept,
            orchestrator: setup.orchestrator,
            address_prefix: setup.address_prefix.clone(),
            group_version: if setup.orchestrator { GROUP_VERSION } else { 0 },
            weight: setup.weight,
            balance: Some(setup.balance.clone()),
            prepares: true,
            ..Advert::default()
        };
        let known = remembered.table.unwrap_or_default();
        let follower = Follower::new(setup.name.as_str(), 0, remembered.holdings).with_arrivals(remembered.arrived);
        Self {
            setup,
            logs,
            shared,
            events,
            work,
            life: None,
            former: None,
            follower,
            leader: Leader::new(policy),
            table: Table::default(),
            table_read: Position::START,
            known,
            logged: 0,
            followed: 0,
            adverts: BTreeMap::new(),
            own,
            stored: None,
            storing: None,
            tables: Following::default(),
            words: Following::default(),
            images: Following::default(),
            tenants: TenantLog::default(),
            collector: Collector::default(),
            told: None,
            ended: BTreeMap::new(),
            strange: Tally::default(),
        }
    }

    pub(super) fn run(mut self, inbox: &Receiver<Event>) {
        loop {
            self.keep_membership();
            self.read_adverts();
            self.read_tables();
            self.read_images();
            self.read_tenants();
            kind::check(&self.shared, &self.table, &self.adverts, self.joined(), &self.own);
            self.advertise();
            self.lead();
            self.report();
            let first = match inbox.recv_timeout(TICK) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            for event in first.into_iter().chain(inbox.try_iter()) {
                if !self.handle(event) {
                    return;
                }
            }
        }
    }

    /// Says whether the thread continues.
    fn handle(&mut self, event: Event) -> bool {
        match event {
            Event::Woken => {}
            Event::Owned(outcome) => {
                if outcome.is_ok() {
                    // The log may be another one than before the claim, so positions read earlier say nothing.
                    self.read_tables_again();
                }
                self.leader.owned(outcome);
            }
            Event::TableStored(outcome) => self.leader.appended(outcome),
            Event::TableBounds(since, bounds) => self.leader.bounded(since, bounds),
            Event::AdvertStored(outcome) => {
                self.stored = self.storing.take().filter(|_| outcome.is_ok());
                if let Err(error) = outcome {
                    tracing::warn!(%error, "cannot store the record of this node for the cluster; retrying");
                }
            }
            Event::Arrived(id) => {
                self.follower.arrived(id);
                self.own.arrived.insert(id);
            }
            Event::Restored { life, partitions } => self.note_restored(life, partitions),
            Event::Prepared(id) => drop(self.own.prepared.insert(id)),
            Event::Refused(id) => self.note_refused(id),
            Event::Ended(ended) => self.ended = ended,
            Event::End => return false,
        }
        true
    }

    /// This node cannot do its part of a move. One that was called off meanwhile needs no refusal: nothing else would rest.
    fn note_refused(&mut self, id: u64) {
        if self.table.moves.iter().any(|it| it.id == id) {
            self.own.refused.insert(id);
        }
    }

    fn wake(&self) -> Wake {
        let events = self.events.clone();
        Arc::new(move || drop(events.send(Event::Woken)))
    }

    /// Renews the lease, or begins a new life when the membership was lost, for however short a time: others may work
    /// by now the partitions of this node. A lease that ends while the group still has this node ends no life: until it
    /// is renewed, shards acknowledge nothing.
    fn keep_membership(&mut self) {
        let Some(life) = &mut self.life else { return self.begin_life() };
        let now = Instant::now();
        let is_given_up = self.table.given_up.get(self.setup.name.as_str()) == Some(&self.own.life);
        let (tenure, losses) = (life.membership.tenure(), life.membership.losses());
        match (tenure, life.tenure) {
            (None, None) => return,
            (Some(_), None) if is_given_up => return,
            (Some(tenure), None) => life.tenure = Some((tenure.number, now)),
            (_, Some((number, _))) if losses == number && !is_given_up => {}
            _ => {
                tracing::warn!("the node lost its membership of the cluster; it serves no client until it rejoins");
                let before = life.membership.incarnation();
                self.former = Some(before);
                // One that no table has ever had has served nothing.
                if self.follower.is_member() || self.own.after.is_none() {
                    self.own.after = Some(before);
                }
                self.leader.resign();
                self.shared.lapse();
                self.life = None;
                return self.begin_life();
            }
        }
        if let Some(tenure) = tenure.filter(|tenure| tenure.number == losses) {
            self.shared.renew(life.membership.incarnation(), tenure.until);
        }
        if let Some((tenure, _)) = life.tenure {
            self.leader.look(&life.membership, tenure, now);
        }
    }

    fn joined(&self) -> Option<&Membership> {
        let life = self.life.as_ref().filter(|life| life.tenure.is_some() && !self.follower.is_member());
        life.map(|life| &life.membership)
    }

    fn begin_life(&mut self) {
        let join = || -> Result<Membership, BusError> {
            let (group, name) = (GroupName::new(GROUP)?, MemberName::new(self.setup.name.as_str())?);
            match self.former {
                Some(former) => self.logs.bus.rejoin(&group, &name, 1, former, self.wake()),
                None => self.logs.bus.join(&group, &name, 1, self.wake()),
            }
        };
        match join() {
            Ok(membership) => {
                let life = membership.incarnation();
                let (holdings, arrivals) = (self.follower.holdings(), self.follower.arrivals());
                self.follower = Follower::new(self.setup.name.as_str(), life, holdings).with_arrivals(arrivals);
                // Every table is read again, on behalf of this life.
                self.followed = self.followed.max(self.table.epoch);
                self.table = Table::default();
                self.read_tables_again();
                (self.own.life, self.stored) = (life, None);
                self.own.arrived.clear();
                self.own.refused.clear();
                self.own.prepared.clear();
                self.life = Some(Life { membership, tenure: None });
            }
            Err(error) => tracing::warn!(%error, "the node cannot join its cluster; retrying"),
        }
    }

    /// Reads the log of tables from its beginning.
    fn read_tables_again(&mut self) {
        (self.tables, self.table_read, self.logged) = (Following::default(), Position::START, 0);
    }

    /// Since when this node has been a member without a break; `None` also while its lease has ended.
    fn member_since(&self) -> Option<Instant> {
        let life = self.life.as_ref()?;
        life.membership.tenure()?;
        life.tenure.map(|(_, since)| since)
    }

    fn read_adverts(&mut self) {
        let wake = self.wake();
        let taken = self.words.take(&self.logs.bus, &self.logs.adverts, wake);
        self.make_again(&taken);
        if taken.is_reopened {
            // This node's own reports may be lost, and tables that others have reported were for an earlier loss.
            self.stored = None;
            self.adverts.values_mut().for_each(|advert| advert.known = None);
        }
        let mut known = false;
        for record in taken.records {
            let Ok(name) = std::str::from_utf8(&record.key) else { continue };
            match Advert::from_bytes(&record.payload) {
                Ok(advert) => {
                    let before = self.adverts.insert(name.to_owned(), advert.clone());
                    known |= before
                        .is_none_or(|it| it.addresses != advert.addresses || it.incarnation != advert.incarnation);
                }
                Err(error) => passed_over(&self.strange, &record, &error),
            }
        }
        if known && self.follower.epoch() > 0 && !self.awaits_next_life() {
            self.pass_on(Vec::new());
        }
    }

    fn read_tables(&mut self) {
        if self.life.is_none() {
            return;
        }
        let wake = self.wake();
        let taken = self.tables.take(&self.logs.bus, &self.logs.table, wake);
        self.make_again(&taken);
        if taken.is_reopened {
            (self.logged, self.table_read) = (0, Position::START);
        }
        for record in taken.records {
            match Table::from_bytes(&record.payload) {
                Ok(table) => {
                    self.logged = self.logged.max(table.epoch);
                    self.follow(table);
                }
                Err(error) => passed_over(&self.strange, &record, &error),
            }
        }
        self.table_read = self.table_read.max(taken.next);
        let is_lost = self.logged < self.known.epoch;
        if is_lost != self.own.known.is_some() || self.own.known.as_ref().is_some_and(|it| **it != self.known) {
            self.own.known = is_lost.then(|| Box::new(self.known.clone()));
        }
    }

    /// Makes the logs of the cluster again where the servers have lost one.
    fn make_again(&self, taken: &Taken) {
        if taken.is_gone {
            tracing::warn!("the bus lost logs of the cluster; creating them again");
            self.logs.make_again();
        }
    }

    /// A table has come.
    fn follow(&mut self, table: Table) {
        if table.epoch <= self.table.epoch {
            return;
        }
        let steps = self.follower.take(&table);
        for step in &steps {
            if let Step::Expect { id, .. } = step {
                self.collector.expect(*id);
            }
        }
        self.collector.retain(|id| table.moves.iter().any(|it| it.id == id));
        let is_under_way = |id: &u64| table.moves.iter().any(|it| it.id == *id);
        self.own.arrived.retain(is_under_way);
        self.own.refused.retain(is_under_way);
        self.own.prepared.retain(|id| table.preparing.iter().any(|it| it.id == *id));
        self.own.restored = self.follower.fetched(&table);
        if table.epoch > self.known.epoch {
            self.known = table.clone();
        }
        self.table = table;
        if !self.awaits_next_life() {
            self.pass_on(steps);
        }
    }

    /// Whether the table is one that an earlier life has followed, or still means the life before this one: no node has
    /// taken its place. The table in force stays so, without a lease, and clients wait for the next one.
    fn awaits_next_life(&self) -> bool {
        if self.table.epoch <= self.followed {
            return true;
        }
        let meant = self.table.lives.get(self.setup.name.as_str());
        meant.is_some() && meant == self.own.after.as_ref() && meant != Some(&self.own.life)
    }

    /// The partitions of dead nodes are served from now on, and these nodes need not keep them.
    fn note_restored(&mut self, life: u64, partitions: BTreeMap<u16, u64>) {
        if life != self.own.life {
            return;
        }
        for (partition, since) in partitions {
            self.follower.restored(partition, since);
        }
        self.own.restored = self.follower.fetched(&self.table);
        self.pass_on(Vec::new());
    }

    /// Has the node do what the table asks for.
    fn pass_on(&mut self, steps: Vec<Step>) {
        let life = self.own.life;
        let told = tell(self.setup.name.as_str(), &self.table, &self.follower, &self.adverts, self.setup.redirect);
        if steps.is_empty() && self.told.as_ref() == Some(&(told.clone(), life)) {
            return;
        }
        self.told = Some((told.clone(), life));
        let node = FollowingNode {
            name: self.setup.name.as_str(),
            life,
            place: self.setup.place.as_deref(),
            follower: &self.follower,
            known: &self.known,
        };
        let work = TableWork::new(&node, &self.table, steps, told);
        let _ = self.work.send(Work::Table(Box::new(work)));
    }

    fn read_images(&mut self) {
        if self.collector.is_idle() {
            self.images = Following::default();
            return;
        }
        let wake = self.wake();
        let taken = self.images.take(&self.logs.bus, &self.logs.images, wake);
        self.make_again(&taken);
        for record in taken.records {
            if let Some((id, kind, parcel)) = self.collector.take(&record) {
                let _ = self.work.send(Work::TakeIn { id, kind, parcel });
            }
        }
    }

    /// Sees to it that tenants have the same numbers on all nodes.
    fn read_tenants(&mut self) {
        let wake = self.wake();
        let logs = &self.logs;
        let (taken, check) = self.tenants.look(&logs.bus, &logs.tenants, &logs.agreed_tenants(), wake);
        self.make_again(&taken);
        if check == TenantCheck::Other && self.shared.ends_for(other_numbers(self.setup.name.as_str())) {
            ending::end();
        }
    }

    /// Tells the others what this node is, when that has changed.
    fn advertise(&mut self) {
        let life = |(name, incarnation): (&String, &u64)| {
            let advert = self.adverts.get(name).filter(|advert| advert.incarnation == *incarnation)?;
            Some((name.clone(), advert.life))
        };
        self.own.ended = self.ended.iter().filter_map(life).collect();
        (self.own.leads, self.own.alike) = (self.leader.leads(), self.shared.alike.get());
        (self.own.leaving, self.own.stays, self.own.waits) = self.shared.leaves();
        if self.storing.is_some() || self.stored.as_ref() == Some(&self.own) || self.member_since().is_none() {
            return;
        }
        let append = Append::new(self.own.to_bytes()).with_key(self.setup.name.as_str().as_bytes().to_vec());
        let events = self.events.clone();
        let done = Box::new(move |outcome| drop(events.send(Event::AdvertStored(outcome))));
        match self.logs.bus.append(&self.logs.adverts, append, done) {
            Ok(()) => self.storing = Some(self.own.clone()),
            Err(error) => {
                tracing::warn!(%error, "cannot store the record of this node for the cluster; retrying");
            }
        }
    }

    fn lead(&mut self) {
        let Some(member_since) = self.member_since() else { return };
        let outlook = Outlook {
            table: &self.table,
            known: &self.known,
            logged: self.logged,
            read: self.table_read,
            adverts: &self.adverts,
            lease: self.setup.lease,
            settle: self.setup.settle,
            member_since,
            name: self.setup.name.as_str(),
            alike: &self.own.alike,
            near: self.leader.leads().then(|| self.shared.linked()),
        };
        self.leader.decide(&outlook, &self.logs, &self.events);
    }

    fn report(&self) {
        self.shared.set_standpoint(Standpoint {
            member: self.member_since().is_some() && self.follower.is_member(),
            has_place: self.known.lives.contains_key(self.setup.name.as_str()),
            leads: self.leader.leads(),
            life: self.own.life,
            leaving: self.own.leaving,
            table: self.table.clone(),
            adverts: self.adverts.clone(),
            bus: self.logs.bus.connection().is_connected(),
            heard: self.leader.weights().heard().clone(),
            unmeasured: self.leader.weights().unmeasured().to_vec(),
            leases: self.life.as_ref().map(|life| leases(&life.membership)).unwrap_or_default(),
        });
    }
}
