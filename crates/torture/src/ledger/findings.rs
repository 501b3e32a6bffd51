//! The findings: counts per check, and the first cases of each in full.

use std::ops::Add as _;

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
    /// An acknowledged subscription does not work, or an ended one still does.
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

/// Declares the totals: the name of each in reports, and the sum of two runs.
macro_rules! totals {
    ($($(#[$doc:meta])* $field:ident: $name:literal, $sum:ident;)*) => {
        /// How much was looked at; the rows are read against these.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Totals {
            $($(#[$doc])* pub(crate) $field: u64,)*
        }

        impl Totals {
            /// The counts with their names.
            pub(crate) fn rows(&self) -> Vec<(&'static str, u64)> {
                vec![$(($name, self.$field),)*]
            }

            fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.$sum(other.$field);)*
            }
        }
    };
}

totals! {
    starts: "starts", add;
    slowest_start_ms: "slowest start, ms", max;
    sent: "sent", add;
    acknowledged_qos1: "acknowledged at QoS 1", add;
    acknowledged_qos2: "acknowledged at QoS 2", add;
    /// Acknowledged messages times the subscriptions that they were for.
    owed_qos1: "owed deliveries at QoS 1", add;
    owed_qos2: "owed deliveries at QoS 2", add;
    /// Wills of clients that were killed, times the watchers.
    owed_wills: "owed wills", add;
    /// Acknowledged messages for a group.
    owed_groups: "owed deliveries to groups", add;
    /// Acknowledged messages that ask for a receipt of their end.
    owed_receipts: "owed receipts", add;
    /// Messages to a group of mobile nodes that are owed final counts.
    owed_counts: "owed counts of groups", add;
    /// Receipts that came again with a cause, that came after they were found missing, and that a strike excuses.
    receipts_repeated: "receipts repeated as allowed", add;
    receipts_late: "receipts late", add;
    receipts_excused: "receipts excused", add;
    /// Times that a client connected while its connection before stood.
    takeovers: "takeovers", add;
    delivered: "delivered", add;
    /// Allowed repetitions: QoS 1, or QoS 2 to a subscription of QoS 1.
    repeated: "repeated as allowed", add;
    /// Sent again under the same packet id after their PUBREL, by a broker that is known for it.
    after_release: "sent again after PUBREL", add;
    /// Declared lost and received afterwards: patience was too short, or the broker very slow.
    late: "late", add;
    /// Came after a later message where no order is promised.
    reordered: "out of order as allowed", add;
    /// Deliveries that a receiver of QoS 2 had to ignore since their packet id was in use by another message.
    swallowed: "ignored for their packet id", add;
    refused: "refused by the broker", add;
    retained_checked: "retained values checked", add;
    subscriptions_checked: "subscriptions checked", add;
    sessions_checked: "sessions checked", add;
    /// Connections that a living broker closed.
    closed_by_broker: "connections closed by the broker", add;
    /// Times the broker ended without a request, such as for a failing disk.
    gave_up: "broker gave up on its own", add;
    /// File operations that power losses have undone.
    undone: "file operations undone", add;
    /// Damaged data that the broker refused to start with.
    damage_refused: "damage refused", add;
    /// Damaged data that the broker started with and reported.
    damage_reported: "damage reported", add;
    /// Damaged data that made no difference to any client.
    damage_harmless: "damage without effect", add;
    /// Probes of partitions that were answered.
    probes_answered: "probes of partitions answered", add;
    /// Seconds of nodes that said that they are ready, each compared with the answers to probes.
    ready_seconds: "seconds of ready nodes", add;
    /// Longest time without service of one partition.
    longest_unserved_ms: "longest unserved, ms", max;
    /// Time without service beyond the limit, of all partitions.
    overdue_ms: "unserved too long, ms", add;
    /// Times that the rig itself stood still, and the sum, by which partitions may be unserved for longer within a bound.
    stood_still: "rig stood still", add;
    stood_still_ms: "rig stood still, ms", add;
    /// Planned faults of machines, disks, ways and processes of `up`, and the ones of these that nothing has met.
    faults: "faults of disks, clocks, ways and fleets", add;
    unmet: "of these met by nothing", add;
    /// Longest time until all nodes of a cluster were ready again after a fault.
    slowest_heal_ms: "slowest heal, ms", max;
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
    /// Counts a fault; its round has tried nothing if nothing met the fault.
    pub(crate) fn count_fault(&mut self, is_met: bool) {
        self.faults += 1;
        self.unmet += u64::from(!is_met);
    }
}
