//! The bound of the messages that a shared group keeps.

use crate::flows::contexts::Dealing;
use crate::groups::kept::Doubt;
use crate::ids::{SessionKey, partition_of, partition_of_hash};
use crate::link::record::{GroupName, MemberOptions, Record};
use crate::message::{MessageRef, Publication};
use crate::now::Now;
use crate::publish::dispatch::Source;
use crate::session::Membership;
use crate::topics::GroupKey;
use tidegate_mqtt::QoS;

impl Dealing<'_> {
    /// The only client that may get a message has had no seat for long: the shard where its session is or was knows
    /// whether it has received it there. If not, the message returns and any member may get it. Returns whether another shard is asked.
    pub(super) fn asks_home_of(
        &mut self,
        now: Now,
        client: u64,
        group: GroupName<'_>,
        publication: &mut Publication<'_>,
        source: &Source,
        id: u64,
    ) -> bool {
        let home = self.links.roster.home_of(partition_of_hash(client));
        if home == self.links.place.shard {
            return false;
        }
        let id = self.groups.kept.keep_deal(
            now,
            self.state,
            publication,
            (group.share, group.filter),
            (home, client),
            source.hops,
            id,
        );
        self.groups.kept.set_doubt(id, Doubt::Asked);
        let envelope = source.envelope(&self.state.overflow, 0, publication, None);
        let member = MemberOptions { options: 0, subscription_id: 0 };
        let deal = Record::Deal { session: u32::MAX, client, group, member, insists: false, id, envelope };
        self.links.send_deal(home, deal, false);
        true
    }

    /// Keeps a message that a shard has kept for one client, under the same id: that client's shard knows by it whether
    /// the client has the message. The client gets it when it has a seat here.
    pub(crate) fn keep_for_client(
        &mut self,
        now: Now,
        group: GroupName<'_>,
        publication: &mut Publication<'_>,
        (client, id): (u64, u64),
    ) {
        let message = publication.keep();
        self.groups.kept.keep_left(now, self.state, &message, (group.share, group.filter), client, id);
        self.deal_kept(now, id, false);
    }

    /// Handles a dealt message whose receiver does not come to this shard. If the shard that kept it is gone, its
    /// successor deals it to the same client again, because the outcome is unknown. So a QoS 2 message is kept here
    /// under the same id for that client, and is taken once. Returns true in that case.
    pub(crate) fn keeps_for_dead(&mut self, now: Now, group: &Membership, message: &MessageRef, client: u64) -> bool {
        let keeper = group.promised().filter(|(keeper, _)| !self.links.roster.has(*keeper));
        let Some((_, id)) = keeper.filter(|_| message.qos == QoS::ExactlyOnce) else { return false };
        self.groups.kept.keep_left(now, self.state, message, (&group.share, &group.filter), client, id);
        self.deal_kept(now, id, false);
        true
    }

    /// Hands a message to the only client that may get it, by its place in its group. The shard notes that its client has the
    /// message, in case the message is given here once more. A session that is about to come does not have it yet.
    pub(super) fn hand_to_client(
        &mut self,
        now: Now,
        key: GroupKey,
        place: usize,
        publication: &mut Publication<'_>,
        source: &Source,
        id: u64,
    ) {
        let receiver = self.groups.receiver_at(key, place);
        self.hand(now, key, place, publication, source, id);
        let Some((_, session)) = receiver.filter(|(shard, _)| *shard == self.links.place.shard) else { return };
        if self.state.sessions.old_home_answers(&self.state.transfers, SessionKey(session)) {
            return;
        }
        if self.state.journal.is_on() && self.state.sessions.is_fleeting(SessionKey(session)) {
            // It may end without the message, which its group keeps until then.
            return;
        }
        let owner = self.state.sessions.get(session).map(|session| partition_of(session.tenant, &session.client_id));
        self.state.exchanges.note_taken(
            self.links.place,
            &mut self.state.transfers,
            &mut self.state.journal,
            publication.qos,
            id,
            owner,
        );
    }

    /// Its session is or was on this shard: another member gets the message, unless the client has it.
    pub(super) fn give_up_client(
        &mut self,
        now: Now,
        key: GroupKey,
        publication: &mut Publication<'_>,
        source: &Source,
        id: u64,
    ) {
        self.groups.kept.forget_deal(self.state, id);
        if !self.state.exchanges.marks.has_deal(publication.qos, id) {
            // If the message comes again, its sender learns that it is dealt.
            self.state.exchanges.note_taken(
                self.links.place,
                &mut self.state.transfers,
                &mut self.state.journal,
                publication.qos,
                id,
                self.groups.partition_of(key),
            );
            self.deal_to(now, key, publication, source, None);
        }
    }
}
