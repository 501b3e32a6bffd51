//! A client with a will that dies again and again: each of its connections is a message in the books, which is owed from
//! the moment the connection ends without DISCONNECT.

use std::time::{Duration, Instant};

use mio::Registry;

use crate::failure::Failure;
use crate::ledger::{Expectation, Ledger, MessageId, Outgoing};
use crate::rng::Rng;
use crate::session::{Phase, Session, Testament};
use crate::workload::{self, Kind};

/// How long it lives, in milliseconds.
const LIFE: std::ops::Range<u64> = 50..1_500;
/// How long it stays away then.
const DEATH: std::ops::Range<u64> = 20..700;
/// How many of 100 lives end with DISCONNECT, which takes the will back.
const FAREWELL_PERCENT: u64 = 20;
/// How many of 100 others end since the same client connects anew.
const TAKEOVER_PERCENT: u64 = 20;

/// What the broker knows of a will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// CONNECT was sent: the broker may have the will or not.
    Asked,
    /// CONNACK has come.
    Accepted,
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
    /// The will of a connection that stands beside a newer one.
    former: Option<MessageId>,
    /// When its state changes next.
    next: Instant,
    rng: Rng,
}

impl Mortal {
    /// A client that has not lived yet.
    pub(crate) fn new(session: Session, publisher: u16, rng: Rng) -> Self {
        let topic = workload::topic(Kind::Will, publisher, usize::from(publisher % 2));
        Self { session, topic, publisher, next_number: 0, life: None, former: None, next: Instant::now(), rng }
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
            self.session.cut();
        }
        Ok(())
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
            ledger.acknowledged(id);
        }
        if self.session.phase == Phase::Away {
            match self.life.take() {
                Some((id, Life::Accepted)) => ledger.acknowledged(id),
                Some((id, Life::Asked)) => ledger.abandoned(id),
                None => {}
            }
        }
    }
}
