//! The findings: counts per check, and the first cases of each in full.

use serde_json::{Value, json};

/// Cases of each check that are kept with their trace.
const KEPT: usize = 5;

/// The checks. Each has its own row in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The broker did not come up again within its limit.
    Restart,
    /// A message of QoS 1 had its PUBACK and never reached a durable subscriber.
    LostQos1,
    /// A message of QoS 2 had its PUBREC and never reached a durable subscriber.
    LostQos2,
    /// A message of QoS 2 reached a subscriber of QoS 2 twice.
    Twice,
    /// The will of a client that was killed never reached a durable watcher.
    WillMissed,
    /// A will of QoS 2 reached a watcher of QoS 2 twice.
    WillTwice,
    /// An acknowledged message reached no member of a durable group.
    GroupLost,
    /// A message of QoS 2 reached a group twice.
    GroupTwice,
    /// An acknowledged message that asks for a receipt of its end got none.
    ReceiptMissed,
    /// The end of a message was reported twice without a cause.
    ReceiptTwice,
    /// A receipt tells an untruth, or was not asked for.
    ReceiptWrong,
    /// The connection that a client had before is still open after it was accepted again.
    Takeover,
    /// A retained value is older than the last acknowledged one.
    Retained,
    /// Two nodes give different values of one retained topic.
    Disagreement,
    /// An acknowledged subscription does not work, or one that was ended does.
    Subscription,
    /// CONNACK did not know a session that the broker had confirmed.
    Session,
    /// Messages of one publisher on one topic arrived in another order than published.
    Order,
    /// A request got no answer on a living connection, or the answer was not MQTT.
    Unanswered,
    /// Damage on the disk changed the clients' view without a report.
    Silent,
    /// A node said in `/readyz` that it is ready and answered no client, or all said so and none served a partition.
    Unserved,
    /// A partition was unserved for longer than a lease and two seconds after a strike.
    Overdue,
}

/// The checks with the names of their rows, in their order.
pub(crate) const CHECKS: [(Finding, &str); 21] = [
    (Finding::Restart, "restart"),
    (Finding::LostQos1, "QoS 1 lost"),
    (Finding::LostQos2, "QoS 2 lost"),
    (Finding::Twice, "QoS 2 twice"),
    (Finding::WillMissed, "wills missed"),
    (Finding::WillTwice, "wills twice"),
    (Finding::GroupLost, "group lost"),
    (Finding::GroupTwice, "group twice"),
    (Finding::ReceiptMissed, "receipts missed"),
    (Finding::ReceiptTwice, "receipts twice"),
    (Finding::ReceiptWrong, "receipts wrong"),
    (Finding::Takeover, "takeovers"),
    (Finding::Retained, "retained values"),
    (Finding::Disagreement, "nodes disagree"),
    (Finding::Subscription, "subscriptions"),
    (Finding::Session, "sessions"),
    (Finding::Order, "order"),
    (Finding::Unanswered, "unanswered"),
    (Finding::Silent, "silent damage"),
    (Finding::Unserved, "ready, not served"),
    (Finding::Overdue, "unserved too long"),
];

/// How much was looked at; the rows are read against these.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) starts: u64,
    pub(crate) slowest_start_ms: u64,
    pub(crate) sent: u64,
    pub(crate) acknowledged_qos1: u64,
    pub(crate) acknowledged_qos2: u64,
    /// Acknowledged messages times the subscriptions that they were for.
    pub(crate) owed_qos1: u64,
    pub(crate) owed_qos2: u64,
    /// Wills of clients that were killed, times the watchers.
    pub(crate) owed_wills: u64,
    /// Acknowledged messages for a group.
    pub(crate) owed_groups: u64,
    /// Acknowledged messages that ask for a receipt of their end.
    pub(crate) owed_receipts: u64,
    /// Messages to a group of mobile nodes that are owed final counts.
    pub(crate) owed_counts: u64,
    /// Receipts that came again with a cause, that came after they were found missing, and that a strike excuses.
    pub(crate) receipts_repeated: u64,
    pub(crate) receipts_late: u64,
    pub(crate) receipts_excused: u64,
    /// Times that a client connected while its connection before stood.
    pub(crate) takeovers: u64,
    pub(crate) delivered: u64,
    /// Allowed repetitions: QoS 1, or QoS 2 to a subscription of QoS 1.
    pub(crate) repeated: u64,
    /// Sent again under the same packet id after their PUBREL, by a broker that is known for it.
    pub(crate) after_release: u64,
    /// Declared lost and received afterwards: patience was too short, or the broker very slow.
    pub(crate) late: u64,
    /// Came after a later message where no order is promised.
    pub(crate) reordered: u64,
    /// Deliveries that a receiver of QoS 2 had to ignore since their packet id was in use by another message.
    pub(crate) swallowed: u64,
    pub(crate) refused: u64,
    pub(crate) retained_checked: u64,
    pub(crate) subscriptions_checked: u64,
    pub(crate) sessions_checked: u64,
    /// Connections that a living broker closed.
    pub(crate) closed_by_broker: u64,
    /// Times the broker ended without a request, such as for a failing disk.
    pub(crate) gave_up: u64,
    /// File operations that power losses have undone.
    pub(crate) undone: u64,
    /// Damaged data that the broker refused to start with.
    pub(crate) damage_refused: u64,
    /// Damaged data that the broker started with and reported.
    pub(crate) damage_reported: u64,
    /// Damaged data that made no difference to any client.
    pub(crate) damage_harmless: u64,
    /// Probes of partitions that were answered.
    pub(crate) probes_answered: u64,
    /// Seconds of nodes that said that they are ready, each compared with the answers to probes.
    pub(crate) ready_seconds: u64,
    /// Longest time without service of one partition.
    pub(crate) longest_unserved_ms: u64,
    /// Time without service beyond the limit, of all partitions.
    pub(crate) overdue_ms: u64,
    /// Times that the rig itself stood still, and the sum, by which partitions may be unserved for longer within a bound.
    pub(crate) stood_still: u64,
    pub(crate) stood_still_ms: u64,
    /// Planned faults of machines, disks, ways and processes of `up`, and the ones of these that nothing has met.
    pub(crate) faults: u64,
    pub(crate) unmet: u64,
    /// Longest time until all nodes of a cluster were ready again after a fault.
    pub(crate) slowest_heal_ms: u64,
}

/// All that was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    counts: [u64; CHECKS.len()],
    cases: Vec<(Finding, String, Vec<String>)>,
    pub(crate) totals: Totals,
}

impl Findings {
    /// How often something was found.
    pub(crate) fn count(&self, finding: Finding) -> u64 {
        self.counts[finding as usize]
    }

    /// Everything found.
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// True while cases of this kind are still kept in full.
    pub(crate) fn wants_trace(&self, finding: Finding) -> bool {
        self.cases.iter().filter(|(kind, _, _)| *kind == finding).count() < KEPT
    }

    /// Counts a finding and keeps the first ones in full.
    pub(crate) fn add(&mut self, finding: Finding, text: String, trace: Vec<String>) {
        self.counts[finding as usize] += 1;
        if self.wants_trace(finding) {
            self.cases.push((finding, text, trace));
        }
    }

    /// Adds what another run has found.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        for (finding, text, trace) in &other.cases {
            if self.wants_trace(*finding) {
                self.cases.push((*finding, text.clone(), trace.clone()));
            }
        }
        self.totals.add(&other.totals);
    }

    /// The cases that were kept: which check, what, and the events of the topic.
    pub(crate) fn cases(&self) -> impl Iterator<Item = (&'static str, &str, &[String])> {
        self.cases.iter().map(|(finding, text, trace)| (CHECKS[*finding as usize].1, text.as_str(), trace.as_slice()))
    }

    /// Everything for machines.
    pub(crate) fn json(&self) -> Value {
        let checks: serde_json::Map<String, Value> =
            CHECKS.iter().map(|(finding, name)| ((*name).to_owned(), self.count(*finding).into())).collect();
        let cases: Vec<Value> =
            self.cases().map(|(check, text, trace)| json!({ "check": check, "what": text, "trace": trace })).collect();
        let totals: serde_json::Map<String, Value> =
            self.totals.rows().into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
        json!({ "found": checks, "totals": totals, "cases": cases })
    }
}

impl Totals {
    /// The counts with their names.
    pub(crate) fn rows(&self) -> [(&'static str, u64); 40] {
        [
            ("starts", self.starts),
            ("slowest start, ms", self.slowest_start_ms),
            ("sent", self.sent),
            ("acknowledged at QoS 1", self.acknowledged_qos1),
            ("acknowledged at QoS 2", self.acknowledged_qos2),
            ("owed deliveries at QoS 1", self.owed_qos1),
            ("owed deliveries at QoS 2", self.owed_qos2),
            ("owed wills", self.owed_wills),
            ("owed deliveries to groups", self.owed_groups),
            ("owed receipts", self.owed_receipts),
            ("owed counts of groups", self.owed_counts),
            ("receipts repeated as allowed", self.receipts_repeated),
            ("receipts late", self.receipts_late),
            ("receipts excused", self.receipts_excused),
            ("takeovers", self.takeovers),
            ("delivered", self.delivered),
            ("repeated as allowed", self.repeated),
            ("sent again after PUBREL", self.after_release),
            ("late", self.late),
            ("out of order as allowed", self.reordered),
            ("ignored for their packet id", self.swallowed),
            ("refused by the broker", self.refused),
            ("retained values checked", self.retained_checked),
            ("subscriptions checked", self.subscriptions_checked),
            ("sessions checked", self.sessions_checked),
            ("connections closed by the broker", self.closed_by_broker),
            ("broker gave up on its own", self.gave_up),
            ("file operations undone", self.undone),
            ("damage refused", self.damage_refused),
            ("damage reported", self.damage_reported),
            ("damage without effect", self.damage_harmless),
            ("probes of partitions answered", self.probes_answered),
            ("seconds of ready nodes", self.ready_seconds),
            ("longest unserved, ms", self.longest_unserved_ms),
            ("unserved too long, ms", self.overdue_ms),
            ("rig stood still", self.stood_still),
            ("rig stood still, ms", self.stood_still_ms),
            ("faults of disks, clocks, ways and fleets", self.faults),
            ("of these met by nothing", self.unmet),
            ("slowest heal, ms", self.slowest_heal_ms),
        ]
    }

    /// Counts a fault; its round has tried nothing if nothing met the fault.
    pub(crate) fn count_fault(&mut self, is_met: bool) {
        self.faults += 1;
        self.unmet += u64::from(!is_met);
    }

    fn add(&mut self, other: &Self) {
        self.starts += other.starts;
        self.slowest_start_ms = self.slowest_start_ms.max(other.slowest_start_ms);
        self.sent += other.sent;
        self.acknowledged_qos1 += other.acknowledged_qos1;
        self.acknowledged_qos2 += other.acknowledged_qos2;
        self.owed_qos1 += other.owed_qos1;
        self.owed_qos2 += other.owed_qos2;
        self.owed_wills += other.owed_wills;
        self.owed_groups += other.owed_groups;
        self.owed_receipts += other.owed_receipts;
        self.owed_counts += other.owed_counts;
        self.receipts_repeated += other.receipts_repeated;
        self.receipts_late += other.receipts_late;
        self.receipts_excused += other.receipts_excused;
        self.takeovers += other.takeovers;
        self.delivered += other.delivered;
        self.repeated += other.repeated;
        self.after_release += other.after_release;
        self.late += other.late;
        self.reordered += other.reordered;
        self.swallowed += other.swallowed;
        self.refused += other.refused;
        self.retained_checked += other.retained_checked;
        self.subscriptions_checked += other.subscriptions_checked;
        self.sessions_checked += other.sessions_checked;
        self.closed_by_broker += other.closed_by_broker;
        self.gave_up += other.gave_up;
        self.undone += other.undone;
        self.damage_refused += other.damage_refused;
        self.damage_reported += other.damage_reported;
        self.damage_harmless += other.damage_harmless;
        self.probes_answered += other.probes_answered;
        self.ready_seconds += other.ready_seconds;
        self.longest_unserved_ms = self.longest_unserved_ms.max(other.longest_unserved_ms);
        self.overdue_ms += other.overdue_ms;
        self.stood_still += other.stood_still;
        self.stood_still_ms += other.stood_still_ms;
        self.faults += other.faults;
        self.unmet += other.unmet;
        self.slowest_heal_ms = self.slowest_heal_ms.max(other.slowest_heal_ms);
    }
}
