//! The node that leads: it has the one partition of the cluster's group, and the log of tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use tidegate_bus::{Append, Bounds, BusError, Epoch, Member, Membership, MembershipEvent, Position};
use tidegate_cluster::{Advert, Logged, Next, Seen, Settling, Sighting, Table, deputy, next};

use super::alike::{Checksums, Differences};
use super::balances::Balances;
use super::event::Event;
use super::forgotten::{Forgotten, warn_of_log};
use super::logs::Logs;
use super::weights::{WeightPolicy, Weights};

/// The key of the table in its log. The latest record of the key stays.
const KEY: &str = "table";
/// How long nothing is moved after a move has failed.
const REST: Duration = Duration::from_secs(5);
/// How long nodes that are there have to report their tables after the log of tables was lost, unless all report the same.
const HEARD_AFTER: Duration = Duration::from_secs(3);
/// For how many leases nodes are waited for that are not there when the log of tables was lost.
const AWAITED_LEASES: u32 = 3;

/// The state of leading.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
pub(super) struct Leader {
    /// Whether the group has given this node the lead.
    chosen: bool,
    /// The claim on the log of tables, or that one is under way.
    claim: Option<Epoch>,
    waiting: bool,
    /// Since when each member has been the life that it is.
    sightings: BTreeMap<String, (u64, Instant)>,
    /// Moves that a node could not do, as far as they are known.
    refused: usize,
    rest_until: Option<Instant>,
    /// Images may be on the bus that no node needs any more.
    images: bool,
    /// Whether this node leads in place of one that has ended, until the group has chosen another.
    deputizes: bool,
    settling: Settling,
    forgotten: Forgotten,
    weights: Weights,
    balances: Balances,
    differences: Differences,
    /// When this process began to look.
    began: Option<Instant>,
    /// Since when the log of tables is known to be lost, and where it ended then, if that is known.
    lost: Option<(Instant, Option<Position>)>,
}

/// The state that the leader decides from.
pub(super) struct Outlook<'a> {
    pub(super) table: &'a Table,
    /// The newest table that this node knows, which is another one where the log was lost.
    pub(super) known: &'a Table,
    /// The epoch of the newest table in the log.
    pub(super) logged: u64,
    /// Up to where the log of tables has been read since this node has claimed it.
    pub(super) read: Position,
    pub(super) adverts: &'a BTreeMap<String, Advert>,
    pub(super) lease: Duration,
    /// How long nodes stay as they are before shares are made even.
    pub(super) settle: Duration,
    /// This node's name.
    pub(super) name: &'a str,
    /// The checksums of this node's sections that all members have alike.
    pub(super) alike: &'a Checksums,
    /// This node, and the nodes that it has links with.
    pub(super) near: Option<BTreeSet<String>>,
    /// Since when this node has been a member without a break.
    pub(super) member_since: Instant,
}

impl Leader {
    /// A node that does not lead yet. The policy decides the sizes of shares when it does.
    pub(super) fn new(policy: WeightPolicy) -> Self {
        Self {
            chosen: false,
            claim: None,
            waiting: false,
            sightings: BTreeMap::new(),
            refused: 0,
            rest_until: None,
            images: false,
            deputizes: false,
            settling: Settling::default(),
            forgotten: Forgotten::default(),
            weights: Weights::new(policy),
            balances: Balances::default(),
            differences: Differences::default(),
            began: None,
            lost: None,
        }
    }

    /// The sizes of shares.
    pub(super) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Whether this node leads.
    pub(super) fn leads(&self) -> bool {
        self.claim.is_some()
    }

    /// Takes note of who is there, and of whether the group wants this node to lead. `tenure` is the one in which this
    /// node has been a member until now: what the group says in another one may leave nodes out that are there.
    pub(super) fn look(&mut self, membership: &Membership, tenure: u64, now: Instant) {
        for event in membership.take() {
            match event {
                MembershipEvent::Gained(_) => self.chosen = true,
                MembershipEvent::Losing(partition) => {
                    self.resign();
                    membership.release(partition);
                }
                MembershipEvent::Lost(_) => self.resign(),
            }
        }
        let members = membership.members();
        if membership.tenure().is_none_or(|it| it.number != tenure) {
            return;
        }
        self.sightings.retain(|name, _| members.iter().any(|member| member.name.as_str() == name));
        for Member { name, incarnation, .. } in members {
            let sighting = self.sightings.entry(name.to_string()).or_insert((incarnation, now));
            if sighting.0 != incarnation {
                *sighting = (incarnation, now);
            }
        }
    }

    /// Leads no more.
    pub(super) fn resign(&mut self) {
        (self.chosen, self.claim, self.settling, self.lost) = (false, None, Settling::default(), None);
        self.forgotten = Forgotten::default();
        self.weights.resign();
        (self.balances, self.differences) = (Balances::default(), Differences::default());
    }

    /// The log of tables is this node's, or not.
    pub(super) fn owned(&mut self, outcome: Result<Epoch, BusError>) {
        self.waiting = false;
        match outcome {
            Ok(epoch) if self.chosen || self.deputizes => self.claim = Some(epoch),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the node could not become the leader of its cluster; retrying"),
        }
    }

    /// A table was stored, or not.
    pub(super) fn appended(&mut self, outcome: Result<Position, BusError>) {
        self.waiting = false;
        if let Err(error) = outcome {
            // Whatever was stored is read before the next decision.
            self.claim = None;
            tracing::info!(%error, "cannot store a table of the cluster");
        }
    }

    /// The log of tables that was found lost at this time ends there. Where its end is not known, nodes have
    /// [`HEARD_AFTER`] to report their tables.
    pub(super) fn bounded(&mut self, found: Instant, bounds: Result<Bounds, BusError>) {
        match (&mut self.lost, bounds) {
            (Some((since, end)), Ok(bounds)) if *since == found => *end = Some(bounds.next),
            (_, Ok(_)) => {}
            (_, Err(error)) => tracing::debug!(%error, "the end of the log of tables is not known"),
        }
    }

    /// Decides, if this node leads and knows all that was decided before.
    pub(super) fn decide(&mut self, outlook: &Outlook<'_>, logs: &Logs, events: &Sender<Event>) {
        let now = Instant::now();
        let mut seen = self.seen(outlook, now);
        let deputizes = deputy(outlook.table, &seen) == Some(outlook.name);
        if deputizes && !self.deputizes {
            tracing::warn!("the leader of the cluster ended; this node leads until the next election");
        }
        self.deputizes = deputizes;
        if !self.chosen && !deputizes {
            return self.resign();
        }
        if self.waiting {
            return;
        }
        let Some(epoch) = self.claim else {
            let events = events.clone();
            let own = logs.bus.own(&logs.table, Box::new(move |outcome| drop(events.send(Event::Owned(outcome)))));
            self.waiting = own.is_ok();
            return;
        };
        if outlook.read <= epoch.0 {
            return;
        }
        if outlook.table.moves.is_empty() && self.images {
            self.images = false;
            trim_images(logs);
        }
        self.images |= !outlook.table.moves.is_empty();
        let members = self.sightings.keys().map(String::as_str).collect();
        for node in self.forgotten.look(now, outlook.table, &members, outlook.adverts) {
            warn_of_log(&logs.bus, &node);
        }
        let since = now.saturating_duration_since(*self.began.get_or_insert(now));
        seen.may_balance = self.settling.look(since, outlook.settle, outlook.table, &seen);
        self.balances.compare(outlook.table, outlook.adverts);
        self.differences.compare(outlook.alike, outlook.table, outlook.adverts);
        seen.expected = self.weights.expected(now, outlook.table);
        seen.factors = self.weights.next(&logs.bus, outlook.name, since, outlook.table, &seen);
        let was_lost = self.lost.is_some();
        let next = self.next(outlook, &seen, now);
        if !was_lost && self.lost.is_some() {
            ask_for_bounds(logs, events, now);
        }
        let Some(next) = next else { return };
        tracing::debug!(epoch = next.epoch, nodes = next.lives.len(), moves = next.moves.len(), "the next table");
        let append = Append::new(next.to_bytes()).with_key(KEY).by(epoch);
        let events = events.clone();
        let done = Box::new(move |outcome| drop(events.send(Event::TableStored(outcome))));
        match logs.bus.append(&logs.table, append, done) {
            Ok(()) => self.waiting = true,
            Err(error) => tracing::warn!(%error, "cannot store the next table of the cluster; retrying"),
        }
    }

    /// The next table, if there is one.
    fn next(&mut self, outlook: &Outlook<'_>, seen: &Seen, now: Instant) -> Option<Table> {
        let lost_for = self.lost.map_or(Duration::ZERO, |(since, _)| now.saturating_duration_since(since));
        let logged = Logged {
            own: outlook.known,
            epoch: outlook.logged,
            has_waited: lost_for >= outlook.lease * AWAITED_LEASES,
            has_heard: lost_for >= HEARD_AFTER,
            has_read_all: self.lost.and_then(|(_, end)| end).is_some_and(|end| outlook.read >= end),
        };
        match next(&logged, seen) {
            Next::Nothing => {
                self.lost = None;
                None
            }
            Next::Table(table) => {
                if self.lost.take().is_some() {
                    tracing::warn!(
                        epoch = table.epoch,
                        "the table of the cluster continues from the newest table that a node has"
                    );
                }
                Some(*table)
            }
            Next::Awaits(nodes) => {
                if self.lost.is_none() {
                    self.lost = Some((now, None));
                    tracing::warn!(
                        ?nodes,
                        "the bus lost the table of the cluster. It is rebuilt from the tables of the nodes; start these missing nodes"
                    );
                }
                None
            }
        }
    }

    fn seen(&mut self, outlook: &Outlook<'_>, now: Instant) -> Seen {
        let refused: usize = outlook.adverts.values().map(|advert| advert.refused.len()).sum();
        if refused > self.refused {
            self.rest_until = Some(now + REST);
        }
        self.refused = refused;
        let sighting = |(name, (life, since)): (&String, &(u64, Instant))| {
            let settled = now.saturating_duration_since(*since) >= outlook.lease;
            (name.clone(), Sighting { life: *life, settled })
        };
        Seen {
            members: self.sightings.iter().map(sighting).collect(),
            adverts: outlook.adverts.clone(),
            may_bury: now.saturating_duration_since(outlook.member_since) >= outlook.lease,
            may_balance: false,
            factors: None,
            expected: BTreeSet::new(),
            linked: outlook.near.clone(),
            may_move: self.rest_until.is_none_or(|until| now >= until),
        }
    }
}

/// Asks where the log of tables ends, which was found lost at this time.
fn ask_for_bounds(logs: &Logs, events: &Sender<Event>, found: Instant) {
    let events = events.clone();
    let done = Box::new(move |bounds| drop(events.send(Event::TableBounds(found, bounds))));
    if let Err(error) = logs.bus.bounds(&logs.table, done) {
        tracing::debug!(%error, "the end of the log of tables is not asked for");
    }
}

/// Nothing moves: no node needs the images on the bus.
fn trim_images(logs: &Logs) {
    let (bus, place) = (logs.bus.clone(), logs.images.clone());
    let trim = move |bounds: Result<tidegate_bus::Bounds, BusError>| {
        if let Ok(bounds) = bounds
            && bounds.next > bounds.first
        {
            let _ = bus.trim(&place, bounds.next, Box::new(|_| {}));
        }
    };
    let _ = logs.bus.bounds(&logs.images, Box::new(trim));
}
