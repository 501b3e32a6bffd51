//! A member that starts connects to its brokers when no other member works off the connections of its last life: a broker
//! knows both by the same client id.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tidegate_administration::FORMER_LIFE;
use tidegate_node::{NodeName, OrchestratorMoves};

use super::Worker;
use super::asking::Awaited;
use crate::driver::event::Event;

/// Pause before the others are asked again.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a connection of a member's last life is worked off once the member is back, where the broker is away.
pub(super) const BACK_LIMIT: Duration = Duration::from_secs(30);
/// How long the others may take to say that nothing is worked off: longer than they work off.
const HELD_LIMIT: Duration = Duration::from_secs(60);

/// Whether brokers may be connected to.
#[derive(Default)]
pub(super) struct BrokersHeld {
    /// The table from which on this life is a member, or by which the last other member was lost, and since when this
    /// life is one.
    joined: Option<(u64, Instant)>,
    /// The lives of all members by the last table.
    lives: BTreeMap<String, u64>,
    /// Whether no broker is held.
    is_over: bool,
    /// Answers that are to come, and the answers of this round: the brokers whose connections a member works off.
    awaited: Awaited,
    answers: BTreeMap<String, BTreeSet<String>>,
}

impl BrokersHeld {
    /// A table is in force, with these members. If one of them is gone, the others are asked again: another member
    /// continues with the connections that it has worked off.
    pub(super) fn note_table(&mut self, is_member: bool, epoch: u64, lives: &BTreeMap<String, u64>) {
        if !is_member || self.is_over {
            return;
        }
        let is_lost = self.lives.iter().any(|(name, life)| lives.get(name) != Some(life));
        self.lives.clone_from(lives);
        match self.joined {
            None => self.joined = Some((epoch, Instant::now())),
            Some((_, since)) if is_lost => {
                self.joined = Some((epoch, since));
                (self.awaited, self.answers) = (Awaited::default(), BTreeMap::new());
            }
            Some(_) => {}
        }
    }

    /// Takes the answers that have come. A member that does not know yet is asked again.
    fn take_answers(&mut self) {
        for (name, answer) in self.awaited.take() {
            let brokers = answer.and_then(|bytes| serde_json::from_slice::<Option<BTreeSet<String>>>(&bytes).ok());
            if let Some(brokers) = brokers.flatten() {
                self.answers.insert(name, brokers);
            }
        }
    }

    /// The members among these that are to be asked now.
    fn to_ask(&self, others: &BTreeSet<String>) -> Vec<String> {
        others.iter().filter(|name| !self.answers.contains_key(*name) && !self.awaited.has(name)).cloned().collect()
    }

    /// The brokers of the answers when all of these members have answered; the next round begins then.
    fn take_round(&mut self, others: &BTreeSet<String>) -> Option<BTreeSet<String>> {
        if !others.iter().all(|name| self.answers.contains_key(name)) {
            return None;
        }
        let answers = std::mem::take(&mut self.answers).into_iter().filter(|(name, _)| others.contains(name));
        Some(answers.flat_map(|(_, brokers)| brokers).collect())
    }

    /// The time of the next check which brokers may be connected to.
    pub(super) fn next_look(&self) -> Option<Duration> {
        (self.joined.is_some() && !self.is_over).then_some(PAUSE)
    }
}

impl Worker {
    /// Connects to the brokers whose connections no other member works off.
    pub(super) fn release_brokers(&mut self) {
        let Some((epoch, since)) = self.brokers.joined.filter(|_| self.brokers.next_look().is_some()) else {
            return;
        };
        let held = if since.elapsed() < HELD_LIMIT {
            let Some(held) = self.worked_off(epoch) else { return };
            held
        } else {
            tracing::warn!(
                limit_s = HELD_LIMIT.as_secs(),
                "the broker connections of this member's previous life may not be drained; connecting to all brokers"
            );
            BTreeSet::new()
        };
        self.brokers.is_over = held.is_empty();
        OrchestratorMoves::of(&self.node).release_brokers(held);
        if self.brokers.is_over {
            self.shared.note_brokers_released();
            let _ = self.events.send(Event::Woken);
        }
    }

    /// The brokers whose connections of this member's last life are worked off, here or at another member; `None` while
    /// that is not known. The store of a dead member may have one of them.
    fn worked_off(&mut self, epoch: u64) -> Option<BTreeSet<String>> {
        self.brokers.take_answers();
        let others = self.members.others();
        let Some(mut held) = self.brokers.take_round(&others) else {
            let question = [&[FORMER_LIFE][..], &epoch.to_le_bytes()].concat();
            for name in self.brokers.to_ask(&others) {
                let asked = NodeName::new(&name).ok().and_then(|at| self.node.ask_node(&at, question.clone()).ok());
                if let Some(answer) = asked {
                    self.brokers.awaited.insert(name, answer);
                }
            }
            return None;
        };
        let own = self.adopted.brokers().filter(|(of, _)| *of == self.members.name);
        held.extend(own.map(|(_, broker)| broker.to_owned()));
        Some(held).filter(|_| self.tasks.is_empty())
    }

    /// Notes the brokers whose connections are worked off here, for members that ask.
    pub(super) fn note_adopted_brokers(&self) {
        let mut of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (member, broker) in self.adopted.brokers() {
            of.entry(member.to_owned()).or_default().insert(broker.to_owned());
        }
        self.shared.inheriting.note_worked_off(of, !self.tasks.is_empty());
        self.shared.counters.set_passing(self.passing.len(), self.adopted.len());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_silent_member_delays_no_question_to_others() {
        let mut held = BrokersHeld::default();
        let others: BTreeSet<String> = ["b".to_owned(), "c".to_owned()].into();
        assert_eq!(held.to_ask(&others), ["b", "c"]);
        let [(from_b, to_b), (from_c, to_c)] = [channel(), channel()];
        held.awaited.insert("b".to_owned(), to_b);
        held.awaited.insert("c".to_owned(), to_c);
        from_c.send(Ok(br#"["x"]"#.to_vec())).unwrap();
        held.take_answers();
        assert_eq!((held.to_ask(&others), held.take_round(&others)), (Vec::new(), None), "b is waited for");
        from_b.send(Ok(b"null".to_vec())).unwrap();
        held.take_answers();
        assert_eq!(held.to_ask(&others), ["b"], "it does not know yet");
        let (from_b, to_b) = channel();
        held.awaited.insert("b".to_owned(), to_b);
        from_b.send(Ok(b"[]".to_vec())).unwrap();
        held.take_answers();
        assert_eq!(held.take_round(&others), Some(["x".to_owned()].into()));
        assert_eq!(held.to_ask(&others), ["b", "c"], "both are asked again while a broker is held");
        drop(held.take_round(&["b".to_owned()].into()));
    }

    #[test]
    fn answers_from_before_a_loss_do_not_count() {
        let lives = |of: &[(&str, u64)]| -> BTreeMap<String, u64> {
            of.iter().map(|(name, life)| ((*name).to_owned(), *life)).collect()
        };
        let mut held = BrokersHeld::default();
        let others: BTreeSet<String> = ["b".to_owned()].into();
        held.note_table(true, 7, &lives(&[("b", 1), ("c", 1)]));
        held.answers.insert("b".to_owned(), BTreeSet::new());
        held.note_table(true, 8, &lives(&[("b", 1), ("c", 1), ("d", 1)]));
        assert_eq!(held.take_round(&others), Some(BTreeSet::new()), "all members are there");
        let (from_b, to_b) = channel();
        held.awaited.insert("b".to_owned(), to_b);
        // One that worked off a connection of this member dies, and b may take over from it.
        held.note_table(true, 9, &lives(&[("b", 1), ("c", 2), ("d", 1)]));
        drop(from_b.send(Ok(b"[]".to_vec())));
        held.take_answers();
        assert_eq!((held.take_round(&others), held.to_ask(&others)), (None, vec!["b".to_owned()]));
        assert_eq!(held.joined.map(|(epoch, _)| epoch), Some(9));
    }
}
