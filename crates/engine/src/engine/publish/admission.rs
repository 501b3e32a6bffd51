//! A PUBLISH continues when other shards have reserved room for it.

use crate::connection::Extra;
use crate::connection::reserving::Reserving;
use crate::engine::facets::PublishPipeline;
use crate::engine::facets::WaitingCalls;
use crate::events::reason::Reason;
use crate::flows::contexts::answering;
use crate::flows::contexts::deciding;
use crate::ids::ConnectionKey;
use crate::link::record::Record;
use crate::now::{Millis, Now};
use crate::session::BlockedPublisher;

impl WaitingCalls<'_> {
    /// A publisher whose acknowledgement is withheld has waited for its maximum time; returns whether that is so.
    pub(crate) fn end_withheld(&mut self, now: Now, key: ConnectionKey) -> bool {
        let extra = self.engine.state.connections.get(key).and_then(|connection| connection.extra.as_ref());
        if extra.is_none_or(|extra| extra.withheld_until > now.monotonic) {
            return false;
        }
        self.engine.state.counters.drop_message(Reason::QueueFullReject);
        if self.engine.services.principals.name(key).is_some() {
            self.engine.state.connections.end_withholding(key);
            answering!(self.engine).refuse_held(key, Reason::RejectedTooLong);
            return false;
        }
        self.engine.close_connection(now, key, Reason::RejectedTooLong, None);
        true
    }
}

impl PublishPipeline<'_> {
    /// A connection ends: its reservations are freed, and no queue has to notify it.
    pub(crate) fn end_admission(&mut self, key: ConnectionKey, extra: &Extra) {
        match extra.reserving {
            Reserving::Asked(number) => deciding!(self.engine).abandon(number),
            Reserving::Granted { number, shards } => deciding!(self.engine).commit(number, shards, 0),
            Reserving::Not | Reserving::Refused => {}
        }
        if extra.withheld_until != Millis::NEVER {
            let shard = self.engine.place.shard;
            self.engine.cluster().give_up_blocking(BlockedPublisher { shard, connection: key });
            for shard in self.engine.links.roster.others() {
                self.engine.links.send(shard, Record::GiveUp { connection: key });
            }
        }
    }
}
