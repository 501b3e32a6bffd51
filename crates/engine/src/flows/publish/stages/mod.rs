//! The stages decide in order about a PUBLISH.

pub(crate) mod exchange;
pub(crate) mod fleet;
pub(crate) mod missing;
pub(crate) mod observers;
pub(crate) mod payload;
pub(crate) mod refused;
pub(crate) mod repetition;
pub(crate) mod rights;
pub(crate) mod room;
pub(crate) mod store;
pub(crate) mod understanding;
pub(crate) mod wide;

use crate::connection::to_write::WIDE_RECEIVERS;
use crate::flows::contexts::Deciding;
use crate::ids::TenantId;
use crate::publish::inbound::Inbound;
use crate::session::table::Sessions;
use crate::topics::stages::Stage;
use crate::topics::stages::StageSet;
use crate::topics::stages::Step;
use tidegate_mqtt::QoS;

impl Deciding<'_> {
    /// The stages that a message needs. Most need none: the settings of a topic are remembered with its route,
    /// and each of the other conditions is one comparison.
    #[expect(clippy::inline_always, reason = "a separate call costs each message 53 instructions")]
    #[inline(always)]
    pub(crate) fn stages_of(&self, it: &Inbound<'_>) -> StageSet {
        let traits = self.router.cache.traits(it.slot);
        let receivers = self.router.cache.get(it.slot).1.targets().len();
        let full = self.state.journal.full;
        let mut stages = traits
            .stages
            .with_if(it.raw.payload.len() > self.state.settings.limits.max_payload, Stage::Rights)
            .with_if(!self.rules.is_known_to_be_allowed(self.state, &self.router.cache, it), Stage::Rights)
            .with_if(it.unknown_receipts, Stage::Understanding)
            .with_if(full, Stage::Store)
            // Other shards say whether their stores would have to take it in.
            .with_if(full, Stage::Room)
            .with_if(receivers > WIDE_RECEIVERS, Stage::Wide);
        if it.raw.qos == QoS::ExactlyOnce {
            stages = stages
                .union(stages_of_exactly_once(it, &self.state.sessions))
                .with_if(self.state.overflow.blocks(), Stage::Room);
        }
        if it.tenant == TenantId::BROKER_LINK {
            // The gate of the fleet bounds the messages queued for brokers.
            let parts = self.router.cache.get(it.slot).0.len() + it.properties.len() + it.raw.payload.len();
            stages = stages.without(Stage::Room).with_if(self.broker_links.is_choosy(parts), Stage::Fleet);
            if !it.raw.retain {
                return stages;
            }
        }
        stages.with_if(self.peers.may_lack_receiver(&self.links.roster, &self.state.transfers), Stage::Missing)
    }

    /// Asks one stage.
    pub(crate) fn ask_stage(&mut self, stage: Stage, it: &Inbound<'_>) -> Step {
        match stage {
            Stage::Refused => self.refuse_again(it),
            Stage::Exchange => self.resume_exchange(it),
            Stage::Repetition => self.answer_repetition(it),
            Stage::Rights => self.check_rights(it),
            Stage::Understanding => self.check_understanding(it),
            Stage::Payload => self.check_payload(it),
            Stage::Missing => self.check_missing(it),
            Stage::Store => self.check_store(it),
            Stage::Fleet => self.check_fleet(it),
            Stage::Observers => self.check_observers(it),
            Stage::Wide => self.check_line(it),
            Stage::Room => self.reserve_room(it),
        }
    }
}

/// The stages of QoS 2 messages that were taken before.
#[inline]
fn stages_of_exactly_once(it: &Inbound<'_>, sessions: &Sessions) -> StageSet {
    let Some((key, id)) = it.session.zip(it.raw.packet_id) else { return StageSet::NONE };
    let Some(session) = sessions.get(key.0) else { return StageSet::NONE };
    let repeated = session.flow.as_ref().is_some_and(|flow| flow.received.contains(id));
    let crosses = session.rare.is_some() && sessions.exchange_of(key, id).is_some_and(|exchange| !exchange.answered);
    let refused = session.rare.as_ref().is_some_and(|rare| rare.refused.get(id).is_some());
    StageSet::NONE
        .with_if(repeated, Stage::Repetition)
        .with_if(crosses, Stage::Exchange)
        .with_if(refused, Stage::Refused)
}
