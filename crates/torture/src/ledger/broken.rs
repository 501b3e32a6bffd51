//! The books beside a model of a broker that has one fault: they find this fault, and nothing in a broker without one.

use tidegate_mqtt::QoS;

use super::*;
use crate::rng::Rng;

/// The subscribers of the model: two watchers of wills, then the group.
const WATCHERS: [(u16, QoS); 2] = [(0, QoS::AtLeastOnce), (1, QoS::ExactlyOnce)];
const GROUP: u16 = 2;
const MORTAL: u16 = 1;
const TOPICS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// Forgets the will of a client that was killed.
    DropsWills,
    /// Publishes a will once more.
    RepeatsWills,
    /// Deals a message to two members.
    DealsTwice,
    /// Loses the messages of a member that dies.
    LosesWithMembers,
    /// One node does not hear of a new value.
    MissesValues,
    /// One node brings a value back that was removed.
    RevivesValues,
    /// Both nodes keep the value before.
    KeepsOldValues,
}

/// A broker of two nodes with its clients, all in one.
struct Model {
    flaw: Flaw,
    ledger: Ledger,
    rng: Rng,
    next: [u32; 2],
    registers: [Vec<Option<MessageId>>; 2],
}

impl Model {
    fn play(flaw: Flaw, seed: u64) -> Findings {
        let mut model = Self {
            flaw,
            ledger: Ledger::new(2, 3, TOPICS),
            rng: Rng::new(seed),
            next: [0; 2],
            registers: [vec![None; TOPICS], vec![None; TOPICS]],
        };
        for _ in 0..20 {
            for _ in 0..20 {
                match model.rng.index(3) {
                    0 => model.life(),
                    1 => model.group_message(),
                    _ => model.value(),
                }
            }
            model.look();
        }
        model.ledger.findings
    }

    fn id(&mut self, publisher: u16) -> MessageId {
        let number = &mut self.next[usize::from(publisher)];
        *number += 1;
        MessageId { publisher, number: *number - 1 }
    }

    fn strikes(&mut self, flaw: Flaw) -> bool {
        self.flaw == flaw && self.rng.chance(30)
    }

    /// A client connects with a will, and is killed or says farewell.
    fn life(&mut self) {
        let id = self.id(MORTAL);
        let topic = "d/1/1";
        let expected = WATCHERS.map(|(watcher, _)| expectation(watcher)).to_vec();
        self.ledger.sent(Outgoing { id, topic, qos: QoS::ExactlyOnce, retained: None, expected });
        if self.rng.chance(30) {
            self.ledger.abandoned(id);
            return;
        }
        self.ledger.acknowledged(id);
        if self.strikes(Flaw::DropsWills) {
            return;
        }
        let times = if self.strikes(Flaw::RepeatsWills) { 2 } else { 1 };
        for _ in 0..times {
            for (watcher, granted) in WATCHERS {
                self.ledger.delivered(arrival(id, watcher, granted), topic, "a watcher");
            }
        }
    }

    /// A message for the group goes to one of its members, and to another one if that dies first.
    fn group_message(&mut self) {
        let id = self.id(0);
        let topic = "s/0/1";
        let qos = QoS::ExactlyOnce;
        self.ledger.sent(Outgoing { id, topic, qos, retained: None, expected: vec![expectation(GROUP)] });
        self.ledger.completed(id);
        if self.strikes(Flaw::LosesWithMembers) {
            return;
        }
        let times = if self.strikes(Flaw::DealsTwice) { 2 } else { 1 };
        for _ in 0..times {
            self.ledger.delivered(arrival(id, GROUP, QoS::ExactlyOnce), topic, "a member");
        }
    }

    /// A retained topic gets a value, or is cleared.
    fn value(&mut self) {
        let (id, place) = (self.id(0), self.rng.index(TOPICS));
        let removes = self.rng.chance(40);
        let operation = if removes { RetainedOperation::Remove } else { RetainedOperation::Set };
        let topic = format!("r/0/{place}");
        let (qos, retained) = (workload::qos_of(&topic), Some((place, operation)));
        self.ledger.sent(Outgoing { id, topic: &topic, qos, retained, expected: Vec::new() });
        self.ledger.completed(id);
        let value = (!removes).then_some(id);
        if self.strikes(Flaw::KeepsOldValues) {
            return;
        }
        self.registers[0][place] = value;
        let missed = !removes && self.strikes(Flaw::MissesValues) || removes && self.strikes(Flaw::RevivesValues);
        if !missed {
            self.registers[1][place] = value;
        }
    }

    fn look(&mut self) {
        self.ledger.settle(|_| true, |subscriber| subscriber.to_string());
        let name = |place| format!("r/0/{place}");
        for node in &self.registers {
            self.ledger.check_retained(node, name);
        }
        self.ledger.compare_retained(&self.registers, name);
    }
}

fn expectation(subscriber: u16) -> Expectation {
    Expectation { subscriber, subscription: 0, generation: 0 }
}

fn arrival(id: MessageId, subscriber: u16, granted: QoS) -> Arrival {
    Arrival { id, subscriber, granted, ended: None }
}

#[test]
fn each_fault_of_a_broker_is_found_and_no_other_one() {
    let expected: [(Flaw, &[Finding]); 8] = [
        (Flaw::None, &[]),
        (Flaw::DropsWills, &[Finding::WillMissed]),
        (Flaw::RepeatsWills, &[Finding::WillTwice]),
        (Flaw::DealsTwice, &[Finding::GroupTwice]),
        (Flaw::LosesWithMembers, &[Finding::GroupLost]),
        (Flaw::MissesValues, &[Finding::Retained, Finding::Disagreement]),
        (Flaw::RevivesValues, &[Finding::Retained, Finding::Disagreement]),
        (Flaw::KeepsOldValues, &[Finding::Retained]),
    ];
    for (flaw, rows) in expected {
        for seed in 1..6 {
            let findings = Model::play(flaw, seed);
            for (finding, name) in CHECKS {
                assert_eq!(findings.count(finding) > 0, rows.contains(&finding), "{flaw:?}, seed {seed}: {name}");
            }
        }
    }
}

#[test]
fn a_seed_repeats_the_findings_of_the_books() {
    let total = |seed| Model::play(Flaw::DropsWills, seed).total();
    assert_eq!(total(7), total(7));
}

#[test]
fn a_will_at_qos_1_may_come_twice_and_one_of_a_farewell_once() {
    let mut ledger = Ledger::new(2, 3, TOPICS);
    for number in 0..2 {
        let id = MessageId { publisher: MORTAL, number };
        let expected = vec![expectation(1)];
        ledger.sent(Outgoing { id, topic: "d/1/0", qos: QoS::AtLeastOnce, retained: None, expected });
        if number == 0 {
            ledger.acknowledged(id);
        } else {
            ledger.abandoned(id);
        }
        for _ in 0..2 - number {
            ledger.delivered(arrival(id, 1, QoS::ExactlyOnce), "d/1/0", "a watcher");
        }
    }
    ledger.settle(|_| true, |subscriber| subscriber.to_string());
    assert_eq!(ledger.findings.total(), 0);
    assert_eq!((ledger.findings.totals.owed_wills, ledger.findings.totals.repeated), (1, 1));
}

#[test]
fn a_message_of_a_guest_may_come_to_a_member_as_well() {
    let mut ledger = Ledger::new(1, 3, TOPICS);
    for (number, granted, twice) in [(0, QoS::AtLeastOnce, 0), (1, QoS::ExactlyOnce, 1)] {
        let id = MessageId { publisher: 0, number };
        let expected = vec![expectation(GROUP)];
        ledger.sent(Outgoing { id, topic: "s/0/1", qos: QoS::ExactlyOnce, retained: None, expected });
        ledger.completed(id);
        ledger.delivered(arrival(id, GROUP, granted), "s/0/1", "a guest or a member");
        ledger.delivered(arrival(id, GROUP, QoS::ExactlyOnce), "s/0/1", "a member");
        assert_eq!(ledger.findings.count(Finding::GroupTwice), twice);
    }
}

/// The findings when a message comes to a guest at QoS 1, something happens, and it comes to a member at QoS 2.
fn twice_after_a_guest(meanwhile: impl Fn(&mut Ledger, MessageId)) -> u64 {
    let mut ledger = Ledger::new(1, 3, TOPICS);
    let id = MessageId { publisher: 0, number: 0 };
    let expected = vec![expectation(GROUP)];
    ledger.sent(Outgoing { id, topic: "s/0/1", qos: QoS::ExactlyOnce, retained: None, expected });
    ledger.completed(id);
    ledger.delivered(arrival(id, GROUP, QoS::AtLeastOnce), "s/0/1", "a guest");
    meanwhile(&mut ledger, id);
    ledger.delivered(arrival(id, GROUP, QoS::ExactlyOnce), "s/0/1", "a member");
    ledger.findings.count(Finding::GroupTwice)
}

#[test]
fn a_message_that_a_guest_has_kept_may_not_come_again() {
    let settle = |ledger: &mut Ledger| ledger.settle(|_| true, |subscriber| subscriber.to_string());
    assert_eq!(twice_after_a_guest(|_, _| {}), 0);
    assert_eq!(twice_after_a_guest(|ledger, id| ledger.kept_by_guest(&[id])), 1);
    assert_eq!(twice_after_a_guest(|ledger, _| settle(ledger)), 0, "the guest may have left without an answer");
    let twice = twice_after_a_guest(|ledger, _| {
        settle(ledger);
        settle(ledger);
    });
    assert_eq!(twice, 1, "another member had its time");
}

#[test]
fn a_message_of_a_member_may_not_come_to_a_guest() {
    let mut ledger = Ledger::new(1, 3, TOPICS);
    let id = MessageId { publisher: 0, number: 0 };
    let expected = vec![expectation(GROUP)];
    ledger.sent(Outgoing { id, topic: "s/0/1", qos: QoS::ExactlyOnce, retained: None, expected });
    ledger.completed(id);
    for (granted, who) in [(QoS::ExactlyOnce, "a member"), (QoS::AtLeastOnce, "a guest")] {
        ledger.delivered(arrival(id, GROUP, granted), "s/0/1", who);
    }
    assert_eq!(ledger.findings.count(Finding::GroupTwice), 1);
}
