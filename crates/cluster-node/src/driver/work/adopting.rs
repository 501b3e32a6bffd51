//! Connections of dead orchestrators to brokers: worked off by the one that has taken over the partition of the broker's
//! name, and removed when the broker has brought all that it had and has all that it was owed. What the broker brings
//! goes to the sessions here, and is passed on to the members that have taken over the other partitions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use tidegate_engine::{PartitionId, Partitions, Settling, UplinkImage};
use tidegate_node::{MoveError, NodeName, OrchestratorMoves};

use super::Worker;
use super::brokers::BACK_LIMIT;
use super::inheriting::InheritedPart;
use super::passing::{ENDS_MOVE, ENDS_PIECE, PartVerdict, brokers_know, parts_of};
use crate::driver::restore::Inherited;

/// Pause between two looks whether a broker has brought anything.
const PAUSE: Duration = Duration::from_millis(10);

/// How long messages of the own brokers wait for messages of a dead orchestrator's brokers. The wait keeps the order of
/// topics.
pub(super) const ORDER_LIMIT: Duration = Duration::from_secs(10);

/// One of them.
pub(super) struct Adopted {
    /// The dead orchestrator.
    of: String,
    /// The name of the broker, and that of the connection here.
    broker: String,
    name: String,
    /// By which its partitions have come.
    transfer: u64,
    /// All partitions that it had.
    had: Partitions,
    /// The members that have taken over the others.
    heirs: BTreeMap<String, Heir>,
    /// Messages that wait until all of them have the parts under way.
    unanswered: usize,
    /// Since when the dead one is back, which connects to the broker when this is over.
    back_since: Option<Instant>,
    stage: SettleStage,
}

/// A member that has taken over partitions of a dead one.
#[derive(Default)]
struct Heir {
    /// Parts that it has not taken, each with its flags (`ENDS_PIECE`, `ENDS_MOVE`).
    parts: VecDeque<(Vec<u8>, u8)>,
    /// The number of the first of them.
    number: u64,
    /// Its brokers knew all filters when it took the last part.
    brokers_know: bool,
}

enum SettleStage {
    Begun,
    Settling(Settling),
    /// All messages of the broker have come, and the last part for each other member is queued.
    Settled,
}

impl Worker {
    /// Begins to work off connections of dead orchestrators, some of whose partitions are here now.
    pub(super) fn adopt(&mut self, all: Vec<Inherited>) {
        if !self.shared.is_orchestrator {
            return;
        }
        for mut inherited in all {
            self.shared.inheriting.begin(&inherited);
            for uplink in std::mem::take(&mut inherited.uplinks) {
                self.adopt_one(&inherited, uplink);
            }
        }
        self.end_inheriting();
    }

    fn adopt_one(&mut self, inherited: &Inherited, mut uplink: UplinkImage) {
        // The dead one may have worked off the connection of another one that is dead.
        let (mut of, mut broker) = (inherited.of.clone(), uplink.broker.clone());
        if let Some((at, former)) = uplink.broker.rsplit_once('@') {
            (of, broker) = (former.to_owned(), at.to_owned());
            uplink.broker.clone_from(&broker);
        }
        match OrchestratorMoves::of(&self.node).adopt_broker(&of, uplink, inherited.transfer) {
            Ok(name) => {
                tracing::info!(
                    node = of,
                    broker,
                    "working off the messages that a dead orchestrator and a broker had for each other"
                );
                let (transfer, had, heirs) = (inherited.transfer, inherited.had, BTreeMap::new());
                let stage = SettleStage::Begun;
                self.adopted.push(Adopted {
                    of,
                    broker,
                    name,
                    transfer,
                    had,
                    heirs,
                    unanswered: 0,
                    back_since: None,
                    stage,
                });
            }
            Err(error) => {
                self.complain(&error, "messages of a dead orchestrator and a broker for each other are not worked off");
            }
        }
    }

    /// Messages of the own brokers are kept back no longer when nothing of the dead orchestrator is in front of them.
    fn end_inheriting(&self) {
        let is_adopted = |id| self.adopted.iter().any(|adopted| adopted.transfer == id);
        if let Err(error) = self.shared.inheriting.end_waiting(&self.node, &self.lives, is_adopted) {
            self.complain(
                &error,
                "messages that were kept back for partitions of a dead orchestrator are not delivered",
            );
        }
    }

    /// The members and brokers whose connections are worked off.
    pub(super) fn adopted_brokers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.adopted.iter().map(|adopted| (adopted.of.as_str(), adopted.broker.as_str()))
    }

    /// When it is looked again.
    pub(super) fn next_look_at_adopted(&self) -> Option<Duration> {
        (!self.adopted.is_empty() || self.shared.inheriting.is_waiting()).then_some(PAUSE)
    }

    /// Passes on the received messages, and removes the connections that are worked off. An orchestrator that is back
    /// waits for this.
    pub(super) fn work_off_adopted(&mut self) {
        for mut adopted in std::mem::take(&mut self.adopted) {
            let is_over = match adopted.is_worked_off(self) {
                Ok(is_over) => is_over,
                Err(error) => {
                    adopted.stage = SettleStage::Begun;
                    self.complain(&error, "it is not known whether a broker has brought everything");
                    false
                }
            };
            if self.lives.contains(&adopted.of) {
                adopted.back_since.get_or_insert_with(Instant::now);
            }
            let waits_in_vain = adopted.back_since.is_some_and(|since| since.elapsed() >= BACK_LIMIT);
            if (is_over || waits_in_vain) && self.node.remove_broker(&adopted.name, waits_in_vain).is_ok() {
                tracing::info!(
                    node = adopted.of,
                    broker = adopted.name,
                    "the connection of a dead orchestrator has ended"
                );
            } else {
                self.adopted.push(adopted);
            }
        }
        self.end_inheriting();
        self.note_adopted_brokers();
    }
}

impl Adopted {
    fn is_worked_off(&mut self, worker: &Worker) -> Result<bool, MoveError> {
        if self.pass_on_brought(worker)? {
            // A broker that waits for acknowledgements has more.
            if !matches!(self.stage, SettleStage::Settled) {
                self.stage = SettleStage::Begun;
            }
            return Ok(false);
        }
        let settling = match std::mem::replace(&mut self.stage, SettleStage::Begun) {
            SettleStage::Settled => {
                self.stage = SettleStage::Settled;
                return Ok(true);
            }
            SettleStage::Begun if !self.all_brokers_know(worker) => return Ok(false),
            SettleStage::Begun => None,
            SettleStage::Settling(settling) => Some(settling),
        };
        if let Some(left) = OrchestratorMoves::of(&worker.node).settle_broker(&self.name, settling)? {
            self.stage = SettleStage::Settling(left);
            return Ok(false);
        }
        if self.pass_on_brought(worker)? {
            return Ok(false);
        }
        self.stage = SettleStage::Settled;
        for heir in self.heirs.values_mut() {
            heir.parts.push_back((Vec::new(), ENDS_PIECE | ENDS_MOVE));
        }
        Ok(self.heirs.is_empty())
    }

    /// Sends the received messages to the other members. Returns true when messages have come, or when a member has not
    /// taken all parts.
    fn pass_on_brought(&mut self, worker: &Worker) -> Result<bool, MoveError> {
        self.look_for_heirs(worker);
        let mut has_come = self.heirs.values().any(|heir| !heir.parts.is_empty());
        if !has_come {
            let brought = OrchestratorMoves::of(&worker.node).take_brought(&self.name)?;
            has_come = brought.for_members.is_some();
            self.unanswered = brought.unanswered;
            for heir in self.heirs.values_mut().filter(|heir| has_come || !heir.brokers_know) {
                // One of nothing asks whether its brokers know the filters.
                heir.parts.extend(parts_of(brought.for_members.as_deref().unwrap_or_default(), ENDS_PIECE));
            }
        }
        if !self.send_parts(worker) {
            return Ok(true);
        }
        let unanswered = std::mem::take(&mut self.unanswered);
        if unanswered > 0 {
            OrchestratorMoves::of(&worker.node).confirm_brought(&self.name, unanswered);
        }
        Ok(has_come)
    }

    /// The other members that the table names for partitions of the dead one.
    fn look_for_heirs(&mut self, worker: &Worker) {
        let mut named: BTreeSet<&str> = BTreeSet::new();
        named.extend(
            self.had
                .iter()
                .filter_map(|partition| worker.homes.get(usize::from(partition.0))?.as_ref().map(NodeName::as_str)),
        );
        self.heirs.retain(|heir, _| worker.lives.contains(heir));
        // A dead orchestrator that is back gets the messages of its partitions by the move. Its brokers wait for this.
        named.remove(self.of.as_str());
        for heir in named.into_iter().filter(|heir| worker.lives.iter().any(|name| name == heir)) {
            self.heirs.entry(heir.to_owned()).or_default();
        }
    }

    /// Says whether the other members have all parts.
    fn send_parts(&mut self, worker: &Worker) -> bool {
        let Adopted { of, broker, had, heirs, transfer, .. } = self;
        let stream = [worker.life, *transfer];
        let mut all = true;
        for (name, heir) in heirs {
            let is_its = |partition: &PartitionId| {
                let home = worker.homes.get(usize::from(partition.0)).and_then(Option::as_ref);
                home.is_some_and(|home| home.as_str() == name)
            };
            let partitions: Partitions = had.iter().filter(is_its).collect();
            while let Some((part, ends)) = heir.parts.front() {
                let part = InheritedPart { stream, of, broker, partitions, number: heir.number, ends: *ends, part };
                match worker.ask(name, &part.write()) {
                    Some(verdict @ (PartVerdict::Taken | PartVerdict::BrokersKnow)) => {
                        heir.brokers_know = verdict == PartVerdict::BrokersKnow;
                        heir.number += 1;
                        heir.parts.pop_front();
                    }
                    Some(PartVerdict::Unwanted | PartVerdict::Failed) | None => {
                        all = false;
                        break;
                    }
                }
            }
        }
        all
    }

    /// Whether the brokers know the filters of all members that have taken over.
    fn all_brokers_know(&self, worker: &Worker) -> bool {
        brokers_know(&worker.node) && self.heirs.values().all(|heir| heir.brokers_know)
    }
}
