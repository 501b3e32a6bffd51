//! A restart sends messages again that were on their way to other shards.

use crate::durable::crossing::{Replay, Way};
use crate::engine::facets::{ClusterCalls, ShardQuestions, StoreCalls};
use crate::events::reason::Reason;
use crate::flows::contexts::dealing;
use crate::flows::contexts::moving;
use crate::flows::contexts::publishing;
use crate::flows::contexts::subscribing;
use crate::ids::ShardId;
use crate::journal::keys::Key;
use crate::link::record::Record;
use crate::now::Now;

impl ClusterCalls<'_> {
    /// The message before this record was stored by the other shard: now this shard has it.
    pub(crate) fn handle_crossing(&mut self, from: ShardId, number: u64) {
        self.engine.state.journal.put(Key::Crossed(number, self.engine.place), |_| {});
        self.engine.links.send(from, Record::Crossed { number });
    }
}

impl StoreCalls<'_> {
    /// Another shard has reported all messages that it has taken.
    pub(crate) fn note_restored(&mut self, now: Now) {
        self.engine.recovery.others_restored += 1;
        self.go_on_restoring(now);
    }

    /// Once this shard knows the interest of all others, it delivers its crossing messages.
    pub(super) fn go_on_restoring(&mut self, now: Now) {
        if self.engine.recovery.others_restored + 1 >= self.engine.place.shards
            && let Some(replay) = self.engine.recovery.replay.take()
        {
            self.replay(now, replay);
        }
    }
}

impl ShardQuestions<'_> {
    /// Whether this shard knows the interest of all others, and all others know its own.
    pub fn is_settled(&self) -> bool {
        self.engine.peers.interest_under_way == 0 && self.engine.recovery.replay.is_none()
    }
}

impl StoreCalls<'_> {
    /// Delivers the messages for this shard that an earlier process left in transit. All shards know of each other.
    fn replay(&mut self, now: Now, replay: Replay) {
        let mut done = Vec::new();
        for (number, left) in replay.left {
            done.push((number, left.crossed.clone()));
            if left.message.is_expired(now.monotonic) {
                self.engine.state.counters.drop_message(Reason::MessageExpired);
                continue;
            }
            let crossed = match &left.way {
                Way::Publish { shards, deliver, retain, name } => {
                    publishing!(self.engine).replay_publish(now, &left, *shards, (*deliver, *retain), *name);
                    true
                }
                Way::Group { share, filter, name } => {
                    dealing!(self.engine).replay_for_group(now, &left, (share, filter), *name)
                }
                Way::Deal { share, filter, client, id } => {
                    publishing!(self.engine).replay_deal(now, &left, (share, filter), *client, *id)
                }
                Way::KeptBack { partitions, name } => {
                    moving!(self.engine).replay_kept_back(now, &left, *partitions, *name);
                    true
                }
                Way::ForLeft { of, partitions } => {
                    moving!(self.engine).replay_for_left(now, &left.message, (of.as_deref(), *partitions));
                    true
                }
                Way::ForGroups { partitions, name } => {
                    moving!(self.engine).replay_for_groups(&left, *partitions, *name);
                    true
                }
            };
            if crossed {
                // Should this process die as well before all shards have come so far.
                self.engine.state.journal.put(Key::Crossed(number, self.engine.place), |_| {});
            }
        }
        if !self.engine.groups.kept.rests {
            // It serves from the start, so it is in no cluster: a member of a group is here, or nowhere.
            subscribing!(self.engine).remove_forsaken_groups(now);
        }
        self.engine.recovery.replayed = done;
        if self.engine.place.shard == ShardId(0) {
            self.engine.recovery.forget_replayed(self.engine.place, &mut self.engine.state);
        } else {
            self.engine.links.send(ShardId(0), Record::Replayed);
        }
    }
}
