//! A client with a will that dies again and again: each of its connections is a message in the books, which is owed from
//! the moment the connection ends without DISCONNECT.

use std::time::{Duration, Instant};

use mio::Registry;

use crate::failure::Failure;
use crate::ledger::{Expectation, Ledger, Outgoing};
use crate::rng::Rng;
use crate::session::{Phase, Session, Testament};
use crate::workload::MessageId;
use crate::workload::{self, Kind};

/// How long it lives, in milliseconds.
const LIFE: std::ops::Range<u64> = 50..1_500;
/// How long it stays away then.
const DEATH: std::ops::Range<u64> = 20..700;
/// How many of 100 lives end with DISCONNECT, which takes the will back.
const FAREWELL_PERCENT: u64 = 20;
/// How many of 100 others end since the same client connects again.
const TAKEOVER_PERCENT: u64 = 20;

/// The meaning of the end of a connection that the client has not ended itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrokerCloses {
    /// The will is owed, whatever has ended the connection.
    AndOwes,
    /// Nodes move clients: a client that returns in time has not died, so only the end of its process counts.
    ToMoveClients,
}

/// The broker's knowledge of a will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// CONNECT was sent: the broker may have the will or not.
    Asked,
    /// CONNACK has come.
    Accepted,
    /// The client has cut the connection, or the process at its other end was killed.
    Dead,
}

/// A client that dies with a will.
#[derive(Debug)]
pub(crate) struct Mortal {
    pub(crate) session: Session,
    topic: String,
    /// Its number among the publishers of the books.
    publisher: u16,
    next_number: u32,
    /// The will of the connection.
    life: Option<(MessageId, Life)>,
    /// The will of a connection beside a newer one.
    former: Option<MessageId>,
    /// The meaning of a connection's end by the broker.
    pub(crate) closes: BrokerCloses,
    /// When its state changes next.
    next: Instant,
    rng: Rng,
}

impl Mortal {
    /// A client that has not lived yet.
    pub(crate) fn new(session: Session, publisher: u16, rng: Rng) -> Self {
        let topic = workload::topic(Kind::Will, publisher, usize::from(publisher % 2));
        let (closes, next) = (BrokerCloses::AndOwes, Instant::now());
        Self { session, topic, publisher, next_number: 0, life: None, former: None, closes, next, rng }
    }

    /// The topic of its wills.
    pub(crate) fn topic(&self) -> &str {
        &self.topic
    }

    /// Connects, or ends its connection, when it is due. `expected` are the subscriptions that a will of now is owed to.
    pub(crate) fn live(
        &mut self,
        ports: &[u16],
        registry: &Registry,
        now: Instant,
        expected: Vec<Expectation>,
        ledger: &mut Ledger,
    ) -> Result<(), Failure> {
        match self.session.phase {
            // Waits for CONNACK, for so long and no longer.
            Phase::Opening => self.session.open(ports, registry, now)?,
            Phase::Away if now >= self.next => {
                let id = MessageId { publisher: self.publisher, number: self.next_number };
                let qos = workload::qos_of(&self.topic);
                let payload = workload::short_payload(id);
                self.session.will = Some(Testament { topic: self.topic.clone(), payload, qos });
                self.session.open(ports, registry, now)?;
                if self.session.phase == Phase::Opening {
                    self.next_number += 1;
                    self.life = Some((id, Life::Asked));
                    ledger.sent(Outgoing { id, topic: &self.topic, qos, retained: None, expected });
                }
            }
            Phase::Open if now >= self.next => self.die(now, ledger)?,
            Phase::Away | Phase::Open => {}
        }
        self.settle_life(ledger);
        Ok(())
    }

    fn die(&mut self, now: Instant, ledger: &mut Ledger) -> Result<(), Failure> {
        self.next = now + Duration::from_millis(self.rng.within(DEATH));
        if self.rng.chance(FAREWELL_PERCENT) {
            self.session.depart()?;
            if let Some((id, _)) = self.life.take() {
                ledger.abandoned(id);
            }
        } else if self.rng.chance(TAKEOVER_PERCENT) && self.session.take_over() {
            ledger.findings.totals.takeovers += 1;
            self.former = self.life.take().map(|(id, _)| id);
            self.next = now;
        } else {
            self.cut();
        }
        Ok(())
    }

    /// Cuts the connection without DISCONNECT.
    pub(crate) fn cut(&mut self) {
        self.note_death();
        self.session.cut();
    }

    /// The connection is about to end for a reason that makes the will due.
    pub(crate) fn note_death(&mut self) {
        self.life = self.life.map(|(id, life)| (id, if life == Life::Accepted { Life::Dead } else { life }));
    }

    /// CONNACK has come: the broker has the will.
    pub(crate) fn opened(&mut self, now: Instant) {
        self.life = self.life.map(|(id, _)| (id, Life::Accepted));
        self.next = now + Duration::from_millis(self.rng.within(LIFE));
    }

    /// Books the wills of connections that have ended.
    pub(crate) fn settle_life(&mut self, ledger: &mut Ledger) {
        if !self.session.has_former()
            && let Some(id) = self.former.take()
        {
            let is_owed = self.closes == BrokerCloses::AndOwes || self.session.former_taken;
            if is_owed { ledger.acknowledged(id) } else { ledger.abandoned(id) }
        }
        if self.session.phase == Phase::Away {
            match self.life.take() {
                Some((id, Life::Accepted)) if self.closes == BrokerCloses::AndOwes => ledger.acknowledged(id),
                Some((id, Life::Dead)) => ledger.acknowledged(id),
                Some((id, Life::Asked | Life::Accepted)) => ledger.abandoned(id),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mio::Token;
    use tidegate_mqtt::Version;

    use super::*;

    /// A client with an open connection, in books of one publisher.
    fn living(closes: BrokerCloses) -> (Mortal, Ledger) {
        let session = Session::new("x".to_owned(), Version::V311, true, Token(0));
        let mut mortal = Mortal { closes, ..Mortal::new(session, 0, Rng::new(1)) };
        let mut ledger = Ledger::new(1, 1, 0);
        let id = MessageId { publisher: 0, number: 0 };
        let expected = vec![Expectation { subscriber: 0, subscription: 0, generation: 0 }];
        let (topic, qos) = (mortal.topic.clone(), workload::qos_of(&mortal.topic));
        ledger.sent(Outgoing { id, topic: &topic, qos, retained: None, expected });
        mortal.life = Some((id, Life::Asked));
        mortal.session.opened(false, 1);
        mortal.opened(Instant::now());
        (mortal, ledger)
    }

    #[test]
    fn a_client_that_is_cut_owes_one_will() {
        let (mut mortal, mut ledger) = living(BrokerCloses::ToMoveClients);
        mortal.settle_life(&mut ledger);
        assert_eq!(ledger.outstanding(|_| true), 0, "it lives");
        mortal.cut();
        for _ in 0..2 {
            mortal.settle_life(&mut ledger);
            assert_eq!((ledger.outstanding(|_| true), ledger.findings.totals.owed_wills), (1, 1));
        }
    }

    #[test]
    fn a_client_that_is_moved_owes_no_will() {
        for (closes, owed) in [(BrokerCloses::ToMoveClients, 0), (BrokerCloses::AndOwes, 1)] {
            let (mut mortal, mut ledger) = living(closes);
            mortal.session.lost(Instant::now());
            mortal.settle_life(&mut ledger);
            assert_eq!(ledger.outstanding(|_| true), owed, "{closes:?}");
        }
    }
}
