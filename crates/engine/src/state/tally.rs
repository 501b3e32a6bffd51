//! Receipts are counted.

use crate::addresses::receipts::{Asked, Receipt, quoted};
use crate::addresses::tally::{Counted, Part, Whole};
use crate::events::outcome::DeliveryOutcome;
use crate::ids::ShardId;
use crate::link::counts::Counts;
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::roster::Shards;
use crate::state::Reporting;
use crate::timers::Timer;
use std::collections::BTreeMap;

/// Milliseconds between two counts to a sender.
const INTERVAL_MS: u64 = 1_000;

impl Reporting<'_> {
    /// A message to several nodes has entered here, or come from another shard: counts its receivers on this shard.
    pub(crate) fn begin_tally(
        &mut self,
        now: Now,
        publication: &Publication<'_>,
        counted: Counted,
        origin: ShardId,
        awaited: Option<Shards>,
    ) {
        let Some(asked) = Asked::read(publication.properties).filter(|asked| asked.number != 0) else { return };
        let Counted { members, others } = counted;
        let part = Part { origin, others, counts: Counts { members, ..Counts::default() }, changed: true };
        self.tallies.add_part(asked.number, part);
        if let Some(awaited) = awaited {
            let whole = Whole {
                tenant: publication.tenant,
                topic: publication.topic.into(),
                receipt: Receipt::new(publication.tenant, None, &asked, publication.qos, String::new()),
                awaited,
                parts: BTreeMap::new(),
                changed: true,
            };
            self.tallies.add_whole(asked.number, whole);
        }
        self.tell_counts_later(now.monotonic);
    }

    /// Notes the outcome of a node's part in a message.
    pub(super) fn note_outcome(&mut self, number: u64, node: &str, outcome: DeliveryOutcome) {
        if self.tallies.note(number, node, outcome) {
            self.tell_counts_later(self.now);
        }
    }

    pub(crate) fn tell_counts_later(&mut self, now: Millis) {
        if self.tallies.due.is_none() {
            let due = now.plus(INTERVAL_MS);
            self.tallies.due = Some(due);
            self.timers.set(due, Timer::Receipts);
        }
    }

    pub(crate) fn tell_counts_of(&mut self, number: u64) {
        let Some(whole) = self.tallies.wholes.get_mut(&number) else { return };
        if whole.awaited != Shards::default() {
            // The last of them sets the timer again.
            return;
        }
        whole.changed = false;
        let mut all = Counts::default();
        whole.parts.values().for_each(|part| all.add(*part));
        let is_final = all.is_final();
        let payload = format!(
            "{{\"receipt\":\"counts\",\"topic\":{},\"members\":{},\"delivered\":{},\"stored\":{},\"expired\":{},\"dropped\":{},\"final\":{is_final}}}",
            quoted(&whole.topic),
            all.members,
            all.delivered,
            all.stored,
            all.expired,
            all.dropped
        );
        let told = Receipt {
            node: None,
            to: whole.receipt.to.clone(),
            correlation: whole.receipt.correlation.clone(),
            tenant: whole.tenant,
            qos: whole.receipt.qos,
            payload,
        };
        self.receipts.push(told);
        if is_final {
            self.tallies.wholes.remove(&number);
        }
    }
}
