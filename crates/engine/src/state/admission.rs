//! Room in queues for a PUBLISH.

use crate::ids::SessionKey;
use crate::now::Millis;
use crate::publish::admission::{Full, Wanted};
use crate::session::BlockedPublisher;
use crate::settings::OverflowPolicy;
use crate::state::ShardState;
use crate::state::deliver::{Room, would_queue};
use crate::topics::Route;
use tidegate_mqtt::QoS;

impl ShardState {
    /// The sessions of a route with the policy `reject`, if all of them have room, and for a QoS 2 message no queue with
    /// the policy `block` has given up, but for that of the publisher itself. A session without room notes the waiting publisher, if there is one; the number
    /// of such sessions is returned.
    pub(crate) fn rejecting(
        &mut self,
        now: Millis,
        route: &Route,
        wanted: &Wanted<'_>,
        not_to: Option<SessionKey>,
        waits: Option<BlockedPublisher>,
    ) -> Result<Vec<SessionKey>, Full> {
        let mut sessions = Vec::new();
        let (mut first, mut asked) = (None, 0);
        let link_bytes = self.settings.limits.shard_link_bytes;
        for target in route.targets() {
            let qos = target.qos().min(wanted.qos);
            if self.sessions.get(target.session.0).is_none() {
                // It has ended, and its subscriptions are being removed.
                continue;
            }
            let own = target.options.no_local() && not_to == Some(target.session);
            let bounds = self.overflow.bounds_of(&self.sessions, target.session, wanted.topic);
            if qos == QoS::AtMostOnce || own {
                continue;
            }
            match bounds.policy {
                OverflowPolicy::Reject if self.has_room_now(now, target.session, wanted) => {
                    sessions.push(target.session);
                    continue;
                }
                OverflowPolicy::Reject => {}
                OverflowPolicy::Block
                    if wanted.qos == QoS::ExactlyOnce
                        && not_to != Some(target.session)
                        && self
                            .sessions
                            .get(target.session.0)
                            .is_some_and(|it| it.blocks_no_more(&bounds, link_bytes))
                        && !self.has_room_now(now, target.session, wanted) => {}
                _ => continue,
            }
            first = first.or(Some(target.session));
            let Some(flow) = self.sessions.get_mut(target.session.0).map(crate::session::Session::flow_mut) else {
                continue;
            };
            flow.full_at = Some(bounds);
            if let Some(publisher) = waits {
                if !flow.blocking.contains(&publisher) {
                    flow.blocking.push(publisher);
                    asked += 1;
                }
                self.blockers.insert(target.session.0);
            }
        }
        first.map_or(Ok(sessions), |first| Err(Full { asked: asked.max(1), first }))
    }

    /// True if a session's queue can take a message without dropping any, after expired messages have left it.
    pub(crate) fn has_room_now(&mut self, now: Millis, to: SessionKey, wanted: &Wanted<'_>) -> bool {
        if !has_queue_room(self, to, wanted) {
            let bounds = self.overflow.bounds_of(&self.sessions, to, wanted.topic);
            self.has_room_after_expiry(now, to, &bounds, wanted.cost);
            self.is_over_ceiling_after_expiry(now, to);
        }
        has_queue_room(self, to, wanted)
    }
}

/// Whether a session's queue could take a message now without dropping any.
fn has_queue_room(state: &ShardState, to: SessionKey, wanted: &Wanted<'_>) -> bool {
    let Some(session) = state.sessions.get(to.0) else { return false };
    let bounds = state.overflow.bounds_of(&state.sessions, to, wanted.topic);
    let (reserved, reserved_bytes) = state.reservations.of(to);
    let (waiting, bytes) = session.flow.as_ref().map_or((0, 0), |flow| flow.waiting());
    let away = session.connection.is_none();
    if away && wanted.qos == QoS::AtMostOnce && !state.settings.queue.keep_qos0_offline {
        return false;
    }
    let would_queue = || {
        let connection = session.connection.and_then(|key| state.connections.get(key));
        let room = connection.map(|it| Room { output: it.output_len(), high_water: state.high_water });
        would_queue(session, room, wanted.qos, reserved, state.settings.queue.max_bytes)
    };
    bounds.fits(waiting + reserved, bytes + reserved_bytes, wanted.cost)
        && !(state.memory.is_over_ceiling() && would_queue())
}
