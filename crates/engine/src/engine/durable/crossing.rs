//! A restart sends messages again that were on their way to other shards.

use crate::durable::crossing::{Replay, Way};
use crate::engine::Engine;
use crate::flows::groups::dealing::dealing;
use crate::flows::image::leaving::moving;
use crate::flows::publish::publishing::publishing;
use crate::ids::ShardId;
use crate::journal::keys::Key;
use crate::link::record::Record;
use crate::now::Now;
use crate::telling::reason::Reason;

impl Engine {
    /// What came just before from another shard was written down there: now it is here.
    pub(crate) fn handle_crossing(&mut self, from: ShardId, number: u64) {
        self.state.journal.put(Key::Crossed(number, self.place), |_| {});
        self.links.send(from, Record::Crossed { number });
    }

    /// Another shard has told all that it has taken in.
    pub(crate) fn note_restored(&mut self, now: Now) {
        self.recovery.others_restored += 1;
        self.go_on_restoring(now);
    }

    /// Once this shard knows of all the others, it delivers what was on its way from shard to shard.
    pub(super) fn go_on_restoring(&mut self, now: Now) {
        if self.recovery.others_restored + 1 >= self.place.shards
            && let Some(replay) = self.recovery.replay.take()
        {
            self.replay(now, replay);
        }
    }

    /// Whether this shard knows all that the others have taken in, and all of them what this one has.
    pub fn is_settled(&self) -> bool {
        self.peers.interest_under_way == 0 && self.recovery.replay.is_none()
    }

    /// Delivers what an earlier process left crossing, as far as it is for this shard. All shards know of each other.
    fn replay(&mut self, now: Now, replay: Replay) {
        let mut done = Vec::new();
        for (number, left) in replay.left {
            done.push((number, left.crossed.clone()));
            if left.message.is_expired(now.monotonic) {
                self.state.counters.drop_message(Reason::MessageExpired);
                continue;
            }
            let crossed = match &left.way {
                Way::Publish { shards, deliver, retain, name } => {
                    publishing!(self).replay_publish(now, &left, *shards, (*deliver, *retain), *name);
                    true
                }
                Way::Group { share, filter } => dealing!(self).replay_for_group(now, &left, share, filter),
                Way::Deal { share, filter, client, id } => {
                    publishing!(self).replay_deal(now, &left, (share, filter), *client, *id)
                }
                Way::KeptBack { partitions } => {
                    moving!(self).replay_kept_back(now, &left, *partitions);
                    true
                }
            };
            if crossed {
                // Should this process die as well before all shards have come so far.
                self.state.journal.put(Key::Crossed(number, self.place), |_| {});
            }
        }
        self.recovery.replayed = done;
        if self.place.shard == ShardId(0) {
            self.recovery.forget_replayed(self.place, &mut self.state);
        } else {
            self.links.send(ShardId(0), Record::Replayed);
        }
    }
}
