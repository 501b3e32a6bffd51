//! Connections of dead orchestrators to brokers: worked off by the orchestrator that has taken over the partition of the broker's
//! name, and removed when the broker has brought all that it had and has all that it was owed. What the broker brings
//! goes to the sessions here, and is passed on to the members that serve the other partitions. A restart continues.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tidegate_administration::INHERITED;
use tidegate_engine::{AdoptError, BrokerLinkError, BrokerLinkImage, BrokerLinkState, Partitions, Settling};
use tidegate_node::{FleetError, MoveError, NodeHandle, OrchestratorMoves};

use super::Worker;
use super::asking::Awaited;
use super::brokers::BACK_LIMIT;
use super::inheriting::Inheriting;
use super::passing::brokers_know;
use super::pieces::{ENDS_ALL, ENDS_PIECE, Outbox};
use super::resuming::Resuming;
use crate::driver::memory::RememberedBroker;
use crate::driver::restore::Inherited;
use crate::driver::sets::{both, set_of};

/// Pause between two looks whether a broker has brought anything.
const PAUSE: Duration = Duration::from_millis(10);
/// The stream for partitions that had left the dead orchestrator has this bit in its number.
const LEFT_STREAM: u64 = 1 << 61;

/// The connections of dead orchestrators that are worked off here.
#[derive(Default)]
pub(super) struct AdoptedBrokers {
    all: Vec<Adopted>,
    /// Connections of the last life of this process that are not worked off yet.
    pub(super) resuming: Resuming,
}

impl AdoptedBrokers {
    /// The members and brokers whose connections are worked off.
    pub(super) fn brokers(&self) -> impl Iterator<Item = (&str, &str)> {
        let of_last_life = self.resuming.iter().map(|it| (it.of.as_str(), it.broker.as_str()));
        self.all.iter().map(|adopted| (adopted.of.as_str(), adopted.broker.as_str())).chain(of_last_life)
    }

    /// The connections with their partitions, for a restart.
    pub(super) fn to_remember(&self) -> Vec<RememberedBroker> {
        let of_this_life = self.all.iter().map(|it| RememberedBroker {
            of: it.of.clone(),
            broker: it.broker.clone(),
            here: numbers(it.here),
            held: numbers(it.held),
            left: numbers(it.left),
        });
        self.resuming.iter().cloned().chain(of_this_life).collect()
    }

    /// How many connections there are.
    pub(super) fn len(&self) -> usize {
        self.all.len() + self.resuming.len()
    }

    /// The names of the connections that are worked off.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.all.iter().map(|adopted| adopted.name.clone()).collect()
    }

    /// The brokers of a dead orchestrator whose connections are worked off.
    fn brokers_of(&self, of: &str) -> BTreeSet<String> {
        self.all.iter().filter(|adopted| adopted.of == of).map(|adopted| adopted.broker.clone()).collect()
    }

    /// Whether a connection of this transfer is worked off.
    fn has(&self, transfer: u64) -> bool {
        self.all.iter().any(|adopted| adopted.transfer == transfer || adopted.joined.contains(&transfer))
    }

    /// Connections of dead orchestrators that are worked off here are for all of their partitions that have come here: also
    /// before them, from another member, or after them, since a member has died before it had them. The messages at hand
    /// are for all. Returns whether a transfer has joined one; `join` has the engine join it.
    fn join_waiting(
        &mut self,
        inheriting: &Inheriting,
        join: impl Fn(&str, BrokerLinkImage, u64) -> Result<String, AdoptError>,
    ) -> Result<bool, AdoptError> {
        let mut has_joined = false;
        for Adopted { of, broker, joined, here, .. } in &mut self.all {
            for (transfer, come) in inheriting.take_waiting_for(of, broker) {
                let broker_link = BrokerLinkImage { broker: broker.clone(), ..BrokerLinkImage::default() };
                join(of, broker_link, transfer)?;
                joined.insert(transfer);
                *here = here.with(come);
                has_joined = true;
            }
        }
        Ok(has_joined)
    }

    /// Forgets these transfers, and connections of no other one.
    pub(super) fn forget(&mut self, transfers: &[u64]) {
        self.all.retain(|adopted| !transfers.contains(&adopted.transfer));
        for adopted in &mut self.all {
            adopted.joined.retain(|joined| !transfers.contains(joined));
        }
    }
}

/// A connection of a dead orchestrator to a broker.
struct Adopted {
    /// The dead orchestrator.
    of: String,
    /// The name of the broker, and that of the connection here.
    broker: String,
    name: String,
    /// The transfer that brought its partitions.
    transfer: u64,
    /// Transfers that brought further partitions, whose new home had died before it had them.
    joined: BTreeSet<u64>,
    /// The partitions of these transfers.
    here: Partitions,
    /// The partitions whose sessions have the messages that the dead one had taken.
    held: Partitions,
    /// The partitions whose sessions may not have them.
    left: Partitions,
    /// Messages for the members that serve them.
    for_held: Outbox,
    for_left: Outbox,
    awaited: [Awaited; 2],
    /// Messages that wait until all of them have the pieces at hand.
    unanswered: usize,
    /// The messages of these pieces, for partitions that have come here.
    for_here: [Vec<u8>; 2],
    /// Since when the dead one is back, which connects to the broker when this is over.
    back_since: Option<Instant>,
    stage: SettleStage,
}

enum SettleStage {
    Begun,
    Settling(Settling),
    /// All messages of the broker have come, and the last piece is at hand.
    Ending,
}

impl Worker {
    /// Begins to work off connections of dead orchestrators, some of whose partitions are here now.
    pub(super) fn adopt(&mut self, all: Vec<Inherited>) {
        if !self.shared.is_orchestrator {
            return;
        }
        for mut inherited in all {
            let worked_off = self.adopted.brokers_of(&inherited.of);
            let waiting = self.adopted.resuming.join(&inherited.of, inherited.partitions);
            let is_new = |broker: &String| !worked_off.contains(broker) && !waiting.contains(broker);
            inherited.broker_links.retain(|broker_link| is_new(&broker_link.broker));
            inherited.elsewhere.retain(|broker| !waiting.contains(broker));
            inherited.elsewhere.extend(worked_off.iter().cloned());
            self.shared.inheriting.begin(&inherited);
            for broker_link in std::mem::take(&mut inherited.broker_links) {
                // It may be worked off, and in the store still: then the orchestrator whose it was is connected itself.
                let Some(remembered) = to_work_off(&inherited, &broker_link.broker) else { continue };
                self.work_off(remembered, inherited.transfer, broker_link.image, broker_link.last_copies);
            }
        }
        join_waiting(self);
        self.end_inheriting();
        self.remember_again();
    }

    pub(super) fn work_off(
        &mut self,
        remembered: RememberedBroker,
        transfer: u64,
        image: Option<Vec<u8>>,
        last_copies: Vec<u8>,
    ) {
        let RememberedBroker { of, broker, here, held, left } = remembered.clone();
        let [here, held, left] = [here, held, left].map(|partitions| set_of(&partitions));
        let broker_link = BrokerLinkImage { broker: broker.clone(), image, forwards: !left.is_empty(), last_copies };
        let name = match OrchestratorMoves::of(&self.node).adopt_broker(&of, broker_link, transfer) {
            Ok(name) => name,
            Err(error @ AdoptError::BrokerLink(BrokerLinkError::Unknown(_) | BrokerLinkError::Last(_))) => {
                tracing::info!(%error, node = of, "the connection of a dead orchestrator waits for a broker of the fleet");
                return self.adopted.resuming.add(remembered, Instant::now());
            }
            Err(error) => {
                let consequence = "messages of a dead orchestrator and a broker for each other are not worked off";
                return self.complain(&error, consequence);
            }
        };
        tracing::info!(node = of, broker, "exchanging the remaining messages of a dead orchestrator and its broker");
        self.adopted.all.push(Adopted {
            of,
            broker,
            name,
            transfer,
            joined: BTreeSet::new(),
            here,
            held,
            left: left.without(held),
            for_held: Outbox::default(),
            for_left: Outbox::default(),
            awaited: Default::default(),
            unanswered: 0,
            for_here: Default::default(),
            back_since: None,
            stage: SettleStage::Begun,
        });
    }

    /// Messages of the own brokers are kept back no longer when nothing of the dead orchestrator is in front of them.
    fn end_inheriting(&self) {
        let is_adopted = |id| self.adopted.has(id);
        if let Err(error) = self.shared.inheriting.end_waiting(&self.node, &self.members.lives, is_adopted) {
            self.complain(
                &error,
                "messages that were kept back for partitions of a dead orchestrator are not delivered",
            );
        }
    }

    /// The pause before the next look.
    pub(super) fn next_look_at_adopted(&self) -> Option<Duration> {
        (!self.adopted.all.is_empty() || self.shared.inheriting.is_waiting()).then_some(PAUSE)
    }

    /// Passes on the received messages, and removes the connections that are worked off. An orchestrator that is back
    /// waits for this.
    pub(super) fn work_off_adopted(&mut self) {
        if self.adopted.all.is_empty() && !self.shared.inheriting.is_waiting() {
            return;
        }
        // A connection may have waited for its broker, and other partitions for the member that had it before.
        let has_joined = join_waiting(self);
        let before = self.adopted.all.len();
        for mut adopted in std::mem::take(&mut self.adopted.all) {
            let is_over = match adopted.is_worked_off(self) {
                Ok(is_over) => is_over,
                Err(error) => {
                    adopted.stage = SettleStage::Begun;
                    self.complain(&error, "it is not known whether a broker has brought everything");
                    false
                }
            };
            if self.members.lives.contains_key(&adopted.of) {
                adopted.back_since.get_or_insert_with(Instant::now);
            }
            let is_in_fleet = OrchestratorMoves::of(&self.node).has_broker(&adopted.broker);
            let waits_in_vain = !may_bring(is_in_fleet, || state_of(&self.node, &adopted.name))
                || adopted.back_since.is_some_and(|since| since.elapsed() >= BACK_LIMIT);
            let ends = is_over || waits_in_vain;
            if ends && adopted.back_since.is_some() {
                // The broker keeps messages that come before it connects.
                OrchestratorMoves::of(&self.node).hand_back(&adopted.name);
            }
            if ends && is_removed(&self.node, &adopted.name, waits_in_vain) {
                tracing::info!(node = adopted.of, broker = adopted.name, "the connection of a dead orchestrator ended");
            } else {
                self.adopted.all.push(adopted);
            }
        }
        if has_joined || self.adopted.all.len() != before {
            self.remember_again();
        }
        self.end_inheriting();
        self.note_adopted_brokers();
    }
}

/// Has waiting transfers join the connections that are worked off here. Returns whether one has.
fn join_waiting(worker: &mut Worker) -> bool {
    let moves = OrchestratorMoves::of(&worker.node);
    let join = |of: &str, broker_link, transfer| moves.adopt_broker(of, broker_link, transfer);
    worker.adopted.join_waiting(&worker.shared.inheriting, join).unwrap_or_else(|error| {
        worker.complain(&error, "messages for partitions of a dead orchestrator are delivered out of order");
        true
    })
}

/// The connection of a dead orchestrator, which may have worked it off for another one; `None` if that one had all of it.
fn to_work_off(inherited: &Inherited, broker: &str) -> Option<RememberedBroker> {
    let here = numbers(inherited.partitions);
    let Some((at, former)) = broker.rsplit_once('@') else {
        let (of, broker) = (inherited.of.clone(), broker.to_owned());
        let (held, left) = (numbers(inherited.had), numbers(inherited.left));
        return Some(RememberedBroker { of, broker, here, held, left });
    };
    let known = inherited.adopted.iter().find(|known| known.broker == at && known.of == former)?;
    let held = set_of(&known.here);
    let left = set_of(&known.held).with(set_of(&known.left)).without(held);
    let (of, broker) = (former.to_owned(), at.to_owned());
    Some(RememberedBroker { of, broker, here, held: numbers(held), left: numbers(left) })
}

/// Whether a connection may bring messages: its broker is in the fleet, or was taken out of it and still answers.
fn may_bring(is_in_fleet: bool, state: impl FnOnce() -> Option<BrokerLinkState>) -> bool {
    use BrokerLinkState::{Drained, Draining, Serving};
    is_in_fleet || matches!(state(), Some(Serving | Draining | Drained))
}

/// The state of a connection.
fn state_of(node: &NodeHandle, name: &str) -> Option<BrokerLinkState> {
    let mut all = node.fleet().report().ok()?.brokers.into_iter().map(|it| it.broker_link);
    all.find(|it| it.name == name).map(|it| it.state)
}

/// Removes a connection. Returns whether the fleet has no connection of this name any more.
fn is_removed(node: &NodeHandle, name: &str, force: bool) -> bool {
    matches!(node.fleet().remove_broker(name, force), Ok(()) | Err(FleetError::Refused(BrokerLinkError::Unknown(_))))
}

fn numbers(partitions: Partitions) -> Vec<u16> {
    partitions.iter().map(|partition| partition.0).collect()
}

impl Adopted {
    /// Passes on the broker's messages. Returns whether all of them have arrived, here and at the other members.
    fn is_worked_off(&mut self, worker: &Worker) -> Result<bool, MoveError> {
        self.for_held.set_homes(&worker.members.receivers(&self.of, self.held));
        self.for_left.set_homes(&worker.members.receivers(&self.of, self.left));
        if self.for_held.is_idle() && self.for_left.is_idle() {
            self.put_next(worker)?;
        }
        let (of, broker) = (self.of.as_str(), self.broker.as_str());
        let [for_held, for_left] = &mut self.awaited;
        for_held.exchange(
            &worker.node,
            worker.members.life,
            &mut self.for_held,
            (INHERITED, self.transfer, of, broker),
        );
        for_left.exchange(
            &worker.node,
            worker.members.life,
            &mut self.for_left,
            (INHERITED, self.transfer | LEFT_STREAM, of, broker),
        );
        // Partitions that are on their way from one member to another get the piece at their next home.
        let is_taken = |outbox: &mut Outbox, elsewhere| outbox.is_idle() || outbox.complete(elsewhere).is_some();
        let (held, left) = self.elsewhere(worker);
        // Both, whatever the first one says.
        let (held, left) = (is_taken(&mut self.for_held, held), is_taken(&mut self.for_left, left));
        if !held || !left {
            return Ok(false);
        }
        self.deliver_here(worker)?;
        let unanswered = std::mem::take(&mut self.unanswered);
        if unanswered > 0 {
            OrchestratorMoves::of(&worker.node).confirm_brought(&self.name, unanswered);
        }
        if matches!(self.stage, SettleStage::Ending) {
            // A member that has taken over meanwhile may have got the last piece alone.
            if self.all_brokers_know(worker) {
                return Ok(true);
            }
            self.stage = SettleStage::Begun;
        }
        Ok(false)
    }

    /// Puts the messages that have come since the last piece. If all have come, it is the last piece.
    fn put_next(&mut self, worker: &Worker) -> Result<(), MoveError> {
        let moves = OrchestratorMoves::of(&worker.node);
        let knows = self.all_brokers_know(worker);
        let mut brought = moves.take_brought(&self.name)?;
        let has_come = |brought: &tidegate_engine::Brought| brought.for_members.is_some() || brought.for_left.is_some();
        // A broker that waits for acknowledgements has more.
        let settling = match std::mem::replace(&mut self.stage, SettleStage::Begun) {
            _ if has_come(&brought) || !knows => None,
            SettleStage::Settling(settling) => Some(moves.settle_broker(&self.name, Some(settling))?),
            SettleStage::Begun | SettleStage::Ending => Some(moves.settle_broker(&self.name, None)?),
        };
        match settling {
            None => {}
            Some(Some(left)) => self.stage = SettleStage::Settling(left),
            Some(None) => {
                brought = moves.take_brought(&self.name)?;
                if !has_come(&brought) {
                    self.stage = SettleStage::Ending;
                }
            }
        }
        self.unanswered = brought.unanswered;
        self.for_here = [&brought.for_members, &brought.for_left].map(|messages| messages.clone().unwrap_or_default());
        let ends = if matches!(self.stage, SettleStage::Ending) { ENDS_PIECE | ENDS_ALL } else { ENDS_PIECE };
        // A piece of nothing asks whether the brokers there know the filters.
        if has_come(&brought) || ends != ENDS_PIECE || !knows || self.unanswered > 0 {
            self.for_held.put(brought.for_members.as_deref().unwrap_or_default(), ends);
            self.for_left.put(brought.for_left.as_deref().unwrap_or_default(), ends);
        }
        Ok(())
    }

    /// Delivers the messages of the pieces at hand to partitions that have come here after them.
    fn deliver_here(&mut self, worker: &Worker) -> Result<(), MoveError> {
        for (messages, partitions) in self.for_here.iter().zip([self.held, self.left]) {
            let here = both(partitions, worker.members.served);
            if !messages.is_empty() && !here.is_empty() {
                OrchestratorMoves::of(&worker.node).deliver_brought(here, messages)?;
            }
        }
        self.for_here = Default::default();
        Ok(())
    }

    /// The partitions that are not served here, of those whose sessions have the messages that the dead one had taken, and of
    /// the others.
    fn elsewhere(&self, worker: &Worker) -> (Partitions, Partitions) {
        (self.held.without(worker.members.served), self.left.without(worker.members.served))
    }

    /// Whether the brokers know the filters of all members that have partitions.
    fn all_brokers_know(&self, worker: &Worker) -> bool {
        let know_here = || worker.members.served.is_empty() || brokers_know(&worker.node);
        self.others_know(self.elsewhere(worker)) && (self.of == worker.members.name || know_here())
    }

    /// Whether the brokers know the filters of the other members, but for the dead one, which may be back: its session at the
    /// broker has its filters, and gets the messages until it connects itself. No other member waits for its brokers and has
    /// partitions beside another one that does, so that no two connections wait for each other.
    fn others_know(&self, (held, left): (Partitions, Partitions)) -> bool {
        let back = BTreeSet::from([self.of.clone()]);
        self.for_held.brokers_know(held, &back) && self.for_left.brokers_know(left, &back)
    }
}

#[cfg(test)]
mod tests {
    use super::super::piece_steps::tests::partitions;
    use super::super::pieces::PartAnswer;
    use super::*;

    fn worked_off(transfer: u64, here: Partitions) -> AdoptedBrokers {
        let adopted = Adopted {
            of: "dead".to_owned(),
            broker: "x".to_owned(),
            name: "x@dead".to_owned(),
            transfer,
            joined: BTreeSet::new(),
            here,
            held: partitions(&[1, 2]),
            left: Partitions::NONE,
            for_held: Outbox::default(),
            for_left: Outbox::default(),
            awaited: Default::default(),
            unanswered: 0,
            for_here: Default::default(),
            back_since: None,
            stage: SettleStage::Begun,
        };
        AdoptedBrokers { all: vec![adopted], ..AdoptedBrokers::default() }
    }

    #[test]
    fn a_connection_that_came_late_is_for_waiting_partitions() {
        let (mut adopted, inheriting) = (worked_off(7, partitions(&[1])), Inheriting::default());
        let begun = |transfer, of: &str| Inherited {
            transfer,
            of: of.to_owned(),
            partitions: partitions(&[2]),
            had: partitions(&[1, 2]),
            left: Partitions::NONE,
            adopted: Vec::new(),
            elsewhere: ["x".to_owned()].into(),
            broker_links: Vec::new(),
        };
        inheriting.begin(&begun(8, "dead"));
        inheriting.begin(&begun(9, "other"));
        let mut join = || {
            adopted.join_waiting(&inheriting, |of, broker_link, transfer| {
                assert_eq!((of, &*broker_link.broker, transfer), ("dead", "x", 8));
                Ok("x@dead".to_owned())
            })
        };
        assert_eq!([join(), join()], [Ok(true), Ok(false)]);
        assert_eq!([8, 9].map(|transfer| adopted.has(transfer)), [true, false]);
        assert_eq!(adopted.to_remember()[0].here, [1, 2], "a restart continues for all of them");
    }

    #[test]
    fn a_connection_waits_for_all_homes_but_the_dead_one() {
        let mut adopted = worked_off(7, partitions(&[1])).all.remove(0);
        let none = Partitions::NONE;
        adopted
            .for_held
            .set_homes(&[("home".to_owned(), partitions(&[2])), ("dead".to_owned(), partitions(&[3]))].into());
        assert!(!adopted.others_know((partitions(&[2, 3]), none)));
        adopted.for_held.put(&[], ENDS_PIECE);
        drop(adopted.for_held.due(Instant::now(), (INHERITED, [1, 7], "dead", "x")));
        adopted.for_held.take_answer(Instant::now(), "home", Some(PartAnswer::BrokersKnow));
        assert!(adopted.others_know((partitions(&[2, 3]), none)), "the dead one connects when this is over");
        assert!(!adopted.others_know((partitions(&[2, 4]), none)), "a partition has no home");
    }

    #[test]
    fn a_departed_broker_is_worked_off_while_it_answers() {
        let may_bring = |is_in_fleet, state| may_bring(is_in_fleet, || state);
        assert!(may_bring(true, Some(BrokerLinkState::Down)), "it is waited for");
        assert!(may_bring(false, Some(BrokerLinkState::Draining)) && may_bring(false, Some(BrokerLinkState::Drained)));
        assert!(!may_bring(false, Some(BrokerLinkState::Down)), "other brokers get the messages for it");
        assert!(!may_bring(false, None));
    }

    #[test]
    fn a_connection_is_of_all_its_transfers() {
        let mut adopted = worked_off(7, partitions(&[1]));
        assert_eq!(adopted.brokers_of("dead"), ["x".to_owned()].into());
        adopted.all[0].joined.insert(8);
        assert_eq!([7, 8, 9].map(|transfer| adopted.has(transfer)), [true, true, false]);
        adopted.forget(&[8]);
        assert_eq!((adopted.has(7), adopted.has(8), adopted.len()), (true, false, 1), "the connection continues");
        adopted.forget(&[7]);
        assert_eq!(adopted.len(), 0);
    }
}
