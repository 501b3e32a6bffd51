//! Stage: a QoS 2 message that was refused before, when others had got it already.

use crate::events::reason::Reason;
use crate::flows::contexts::Deciding;
use crate::flows::contexts::answering;
use crate::hash::hash_bytes;
use crate::ids::hash_name;
use crate::publish::inbound::Inbound;
use crate::session::refused::Digest;
use crate::topics::stages::Step;
use tidegate_mqtt::QoS;

impl Deciding<'_> {
    /// Refuses the message again if its client has not got the answer. Any other message frees the identifier.
    #[cold]
    pub(super) fn refuse_again(&mut self, it: &Inbound<'_>) -> Step {
        let Some((session, id)) = it.session.zip(it.raw.packet_id) else { return Step::Continue };
        let digest = self.digest_of(it);
        let Some(session) = self.state.sessions.get_mut(session.0) else { return Step::Continue };
        let Some(messages) = session.rare.as_mut().map(|rare| &mut rare.refused) else { return Step::Continue };
        let Some(refused) = messages.get(id) else { return Step::Continue };
        if !it.raw.dup || digest != refused.digest {
            messages.forget(&mut self.state.journal, session.stored, id);
            return Step::Continue;
        }
        let is_v5 = self.state.connections.get(it.key).is_some_and(|connection| connection.version.is_v5());
        if refused.reason == Reason::BlockedTooLong && !is_v5 {
            // It has no code for the refusal, and would be closed each time.
            messages.forget(&mut self.state.journal, session.stored, id);
            return Step::Continue;
        }
        let mark = self.state.journal.mark();
        answering!(self).answer_publish(it.now, it.key, it.raw, (Err(refused.reason), None), 0, mark);
        Step::Done
    }

    /// Names a message that may be refused after it was routed; `None` for all others, which cost nothing so.
    #[inline]
    pub(crate) fn digest_if_refusable(&self, it: &Inbound<'_>) -> Option<Digest> {
        let is_observed = !self.router.cache.traits(it.slot).observers.is_empty();
        let is_refusable = it.raw.retain || is_observed || self.state.overflow.blocks();
        let is_wanted = it.raw.qos == QoS::ExactlyOnce && it.session.is_some() && is_refusable;
        is_wanted.then(|| self.digest_of(it))
    }

    #[cold]
    fn digest_of(&self, it: &Inbound<'_>) -> Digest {
        Digest(hash_bytes(hash_name(it.tenant, self.router.cache.get(it.slot).0), it.raw.payload))
    }
}
