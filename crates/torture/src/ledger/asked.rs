//! The receipts that applications have asked for, and the receipts that came.
//!
//! An acknowledged message is owed one receipt that says how it ended: `delivered`, or `expired` if it may expire. A receipt
//! is itself a message at QoS 1, so it may come again with DUP, where its message was sent or received again, or after a strike.

use std::collections::HashMap;

use serde_json::Value;

use super::{Finding, Ledger, MessageId, Progress};
use crate::workload;

/// A message whose sender has asked for receipts.
#[derive(Clone, Debug)]
struct Awaited {
    topic: String,
    terms: Terms,
    /// Strikes until it was sent.
    strikes: u64,
    progress: Progress,
    /// Its application has sent it again.
    is_sent_again: bool,
    /// How often its node has received it.
    arrivals: u32,
    /// Receipts that say how it ended.
    endings: u32,
    /// A receipt that is wrong if the message is acknowledged.
    doubtful: Option<String>,
    /// It was found missing, or is excused.
    is_settled: bool,
}

/// A receipt as a client got it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiptArrival<'a> {
    pub(crate) correlation: Option<&'a [u8]>,
    pub(crate) payload: &'a [u8],
    pub(crate) dup: bool,
    pub(crate) client: &'a str,
}

/// The receipts that a message may have, besides `delivered`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) wants_stored: bool,
    pub(crate) may_expire: bool,
}

/// All messages whose senders have asked for receipts.
#[derive(Debug, Default)]
pub(super) struct AskedReceipts {
    asked: HashMap<MessageId, Awaited>,
    /// Strikes that have begun or ended so far.
    strikes: u64,
}

impl AskedReceipts {
    pub(super) fn void(&mut self, id: MessageId) {
        if let Some(asked) = self.asked.get_mut(&id).filter(|asked| asked.progress == Progress::Sent) {
            asked.progress = Progress::Void;
        }
    }

    pub(super) fn arrived(&mut self, id: MessageId) {
        if let Some(asked) = self.asked.get_mut(&id) {
            asked.arrivals += 1;
        }
    }

    /// The number of receipts that are due.
    pub(super) fn outstanding(&self) -> usize {
        self.asked.values().filter(|asked| asked.is_due()).count()
    }
}

impl Awaited {
    fn is_due(&self) -> bool {
        self.progress == Progress::Acknowledged && self.endings == 0 && !self.is_settled
    }

    /// The fault of a receipt.
    fn judge(&self, said: &Value) -> Option<String> {
        if said["topic"] != *self.topic || workload::node_of(&self.topic) != said["node"].as_str() {
            return Some("is about another message".to_owned());
        }
        match said["receipt"].as_str() {
            Some("delivered") if self.arrivals == 0 => {
                Some("says delivered, and its node has not received it".to_owned())
            }
            Some("delivered") => None,
            Some("stored") if self.terms.wants_stored => None,
            Some("expired") if self.terms.may_expire => None,
            _ => Some(format!("says {said}")),
        }
    }
}

impl Ledger {
    /// The acknowledgement of a message makes its receipt due.
    pub(super) fn owe_receipt(&mut self, id: MessageId) {
        let Some(asked) = self.asked.asked.get_mut(&id).filter(|asked| asked.progress == Progress::Sent) else {
            return;
        };
        asked.progress = Progress::Acknowledged;
        self.findings.totals.owed_receipts += 1;
        if let Some(wrong) = asked.doubtful.take() {
            let topic = self.topics.number(&asked.topic);
            self.found(Finding::ReceiptWrong, topic, id, "its application", &wrong);
        }
    }

    /// A strike begins or ends.
    pub(crate) fn note_strike(&mut self) {
        self.asked.strikes += 1;
    }

    /// A message asks for receipts.
    pub(crate) fn asks(&mut self, id: MessageId, topic: &str, terms: Terms) {
        let asked = Awaited {
            topic: topic.to_owned(),
            terms,
            strikes: self.asked.strikes,
            progress: Progress::Sent,
            is_sent_again: false,
            arrivals: 0,
            endings: 0,
            doubtful: None,
            is_settled: false,
        };
        self.asked.asked.insert(id, asked);
    }

    /// A message is sent again on another connection.
    pub(crate) fn sent_again(&mut self, id: MessageId) {
        if let Some(asked) = self.asked.asked.get_mut(&id) {
            asked.is_sent_again = true;
        }
    }

    /// A receipt has come.
    pub(crate) fn receipt(&mut self, arrival: ReceiptArrival<'_>) {
        let clock = self.tick();
        let said: Value = serde_json::from_slice(arrival.payload).unwrap_or_default();
        let id = arrival.correlation.and_then(workload::message_of);
        let Some((id, asked)) = id.and_then(|id| Some((id, self.asked.asked.get_mut(&id)?))) else {
            let text = format!("{} got a receipt that nothing has asked for: {said}", arrival.client);
            self.findings.add(Finding::ReceiptWrong, text, Vec::new());
            return;
        };
        let mut wrong = asked.judge(&said);
        let mut is_twice = false;
        if wrong.is_some() && asked.progress != Progress::Acknowledged {
            asked.doubtful = wrong.take();
        } else if wrong.is_none() && said["receipt"] != "stored" {
            asked.endings += 1;
            let is_repeated = asked.is_sent_again || asked.arrivals > 1;
            let may_repeat = arrival.dup || is_repeated || asked.strikes != self.asked.strikes;
            is_twice = asked.endings > 1 && !may_repeat;
            let totals = &mut self.findings.totals;
            totals.receipts_repeated += u64::from(asked.endings > 1 && may_repeat);
            totals.receipts_late += u64::from(std::mem::take(&mut asked.is_settled));
        }
        let topic = self.topics.number(&asked.topic);
        let told = format!("{} by a receipt to {}", said["receipt"], arrival.client);
        self.trace.note(topic, clock, id, "reported as", &told);
        if let Some(wrong) = wrong {
            self.found(Finding::ReceiptWrong, topic, id, arrival.client, &wrong);
        }
        if is_twice {
            self.found(Finding::ReceiptTwice, topic, id, arrival.client, "its end was reported twice");
        }
    }

    /// Receipts that are due have had their time. A message that may expire in the store alone is owed none, so after a strike
    /// it is excused.
    pub(super) fn settle_receipts(&mut self) {
        let strikes = self.asked.strikes;
        let mut missing = Vec::new();
        for (id, asked) in self.asked.asked.iter_mut().filter(|(_, asked)| asked.is_due()) {
            asked.is_settled = true;
            if asked.terms.may_expire && asked.arrivals == 0 && asked.strikes != strikes {
                self.findings.totals.receipts_excused += 1;
            } else {
                missing.push((*id, asked.topic.clone(), asked.arrivals));
            }
        }
        missing.sort();
        for (id, topic, arrivals) in missing {
            let topic = self.topics.number(&topic);
            let why = format!("no receipt came, its node has received it {arrivals} times");
            self.found(Finding::ReceiptMissed, topic, id, "its application", &why);
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_mqtt::QoS;

    use super::*;
    use crate::ledger::{Arrival, Outgoing};

    const ID: MessageId = MessageId { publisher: 0, number: 0 };
    const TOPIC: &str = "ctx/to/node/mobile-0/0";

    /// Books with one acknowledged message.
    fn asking(may_expire: bool) -> Ledger {
        let mut ledger = Ledger::new(1, 1, 0);
        ledger.sent(Outgoing { id: ID, topic: TOPIC, qos: QoS::AtLeastOnce, retained: None, expected: Vec::new() });
        ledger.asks(ID, TOPIC, Terms { wants_stored: false, may_expire });
        ledger.completed(ID);
        assert_eq!((ledger.outstanding(|_| true), ledger.findings.totals.owed_receipts), (1, 1));
        ledger
    }

    fn deliver(ledger: &mut Ledger) {
        let arrival = Arrival { id: ID, subscriber: 0, granted: QoS::AtLeastOnce, ended: None };
        ledger.delivered(arrival, TOPIC, "mobile-0");
    }

    fn report(ledger: &mut Ledger, receipt: &str, dup: bool) {
        let payload = format!("{{\"receipt\":\"{receipt}\",\"node\":\"mobile-0\",\"topic\":\"{TOPIC}\"}}");
        let (payload, client) = (payload.as_bytes(), "application-0");
        ledger.receipt(ReceiptArrival { correlation: Some(b"m 0 0 "), payload, dup, client });
    }

    fn settle(ledger: &mut Ledger) -> [u64; 3] {
        ledger.settle(|_| true, |place| place.to_string());
        [Finding::ReceiptMissed, Finding::ReceiptTwice, Finding::ReceiptWrong]
            .map(|finding| ledger.findings.count(finding))
    }

    #[test]
    fn a_receipt_that_does_not_come_is_found_once() {
        let mut ledger = asking(false);
        deliver(&mut ledger);
        assert_eq!(settle(&mut ledger), [1, 0, 0]);
        assert_eq!(settle(&mut ledger), [1, 0, 0]);
        report(&mut ledger, "delivered", false);
        assert_eq!((settle(&mut ledger), ledger.findings.totals.receipts_late), ([1, 0, 0], 1));
    }

    #[test]
    fn a_second_receipt_needs_a_cause() {
        for (cause, found) in [("none", 1), ("dup", 0), ("arrival", 0), ("strike", 0), ("sent", 0)] {
            let mut ledger = asking(false);
            deliver(&mut ledger);
            report(&mut ledger, "delivered", false);
            match cause {
                "arrival" => deliver(&mut ledger),
                "strike" => ledger.note_strike(),
                "sent" => ledger.sent_again(ID),
                _ => {}
            }
            report(&mut ledger, "delivered", cause == "dup");
            assert_eq!(settle(&mut ledger), [0, found, 0], "{cause}");
            assert_eq!(ledger.findings.totals.receipts_repeated, 1 - found);
        }
    }

    #[test]
    fn a_wrong_receipt_before_the_acknowledgement_is_found() {
        for (is_refused, wrong) in [(false, 1), (true, 0)] {
            let mut ledger = Ledger::new(1, 1, 0);
            ledger.sent(Outgoing { id: ID, topic: TOPIC, qos: QoS::AtLeastOnce, retained: None, expected: Vec::new() });
            ledger.asks(ID, TOPIC, Terms { wants_stored: false, may_expire: false });
            report(&mut ledger, "unknown", false);
            if is_refused {
                ledger.refused(ID);
            } else {
                ledger.completed(ID);
                deliver(&mut ledger);
                report(&mut ledger, "delivered", false);
            }
            assert_eq!(settle(&mut ledger), [0, 0, wrong]);
        }
    }

    #[test]
    fn a_receipt_tells_the_truth() {
        for (receipt, may_expire, wrong) in [
            ("delivered", false, 1),
            ("expired", false, 1),
            ("expired", true, 0),
            ("stored", false, 1),
            ("unknown", true, 1),
        ] {
            let mut ledger = asking(may_expire);
            report(&mut ledger, receipt, false);
            assert_eq!(ledger.findings.count(Finding::ReceiptWrong), wrong, "{receipt}");
        }
        let mut ledger = asking(false);
        ledger.receipt(ReceiptArrival { correlation: None, payload: b"?", dup: false, client: "application-0" });
        assert_eq!(settle(&mut ledger), [1, 0, 1]);
    }

    #[test]
    fn a_message_that_may_expire_is_excused_by_a_strike() {
        for (strike, missed) in [(false, 1), (true, 0)] {
            let mut ledger = asking(true);
            if strike {
                ledger.note_strike();
            }
            assert_eq!(settle(&mut ledger), [missed, 0, 0]);
            assert_eq!(ledger.findings.totals.receipts_excused, 1 - missed);
        }
        let mut ledger = asking(true);
        ledger.note_strike();
        deliver(&mut ledger);
        assert_eq!(settle(&mut ledger), [1, 0, 0], "it was delivered");
    }
}
