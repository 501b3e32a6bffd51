//! Members tell each other which messages brokers have sent them.

use crate::flows::contexts::BrokerLinking;
use crate::ids::{BrokerLinkKey, ConnectionKey, ShardId};
use crate::link::fleet_word::FleetWord;
use crate::link::record::Record;
use crate::now::Now;
use crate::orchestrator::broker_link::Stage;
use crate::orchestrator::broker_link::adopted::{keeper_of, links_to};
use crate::orchestrator::broker_link::passed::MemberQuestion;
use crate::orchestrator::broker_link::settled::Awaited;

impl BrokerLinking<'_> {
    /// Asks the other members whether a broker has sent them the messages that it had acknowledged, when that is due.
    pub(crate) fn ask_members(&mut self, now: Now, key: BrokerLinkKey) {
        let members = self.links.roster.peers();
        // The next homes of a dead member's partitions get its messages: until they serve, nothing can say who has them.
        let roster = &self.links.roster;
        let all_linked = Some(members).filter(|_| !roster.lacks_nodes() && !roster.misses_any());
        let brokers = &mut self.broker_links.brokers;
        let settlement = &mut self.broker_links.settlement;
        let Some(round) = settlement.continue_rounds(now, self.state, self.layouts, brokers, key, all_linked) else {
            return;
        };
        let Some(broker_link) = brokers.all.get(&key) else { return };
        for member in members {
            let question = FleetWord::AskPassed { round, broker: &broker_link.name };
            self.links.send(member, Record::Fleet(question));
        }
    }

    /// Another member asks. A shard without connections to brokers gets nothing from them.
    pub(crate) fn take_question(&mut self, now: Now, from: ShardId, round: u32, broker: &str) {
        if !self.broker_links.brokers.config.has_broker_links_here() {
            self.links.send(from, Record::Fleet(FleetWord::Passed { round, broker }));
            return;
        }
        // The answer follows a PINGRESP of the broker. A member without this broker does not answer.
        let own = self.broker_links.last_number();
        let brokers = &mut self.broker_links.brokers;
        let Some(key) = brokers.find(broker) else { return };
        let Some(broker_link) = brokers.all.get(&key) else { return };
        if broker_link.questions.iter().any(|question| (question.from, question.number) == (from, round)) {
            return;
        }
        if matches!(broker_link.stage, Stage::Resting(_)) {
            // The broker is there for the other member.
            brokers.rest(now, self.state, key, true);
        }
        let links = links_to(&brokers.all, broker);
        let begin = |key| {
            let awaited = Awaited::begin(brokers, now, self.state, key, own);
            awaited.unwrap_or_else(|| Awaited::of_disconnected(key))
        };
        let awaited = links.into_iter().map(begin).collect();
        let Some(broker_link) = brokers.all.get_mut(&key) else { return };
        broker_link.questions.retain(|question| question.from != from);
        broker_link.questions.push(MemberQuestion { from, number: round, awaited });
    }

    /// A broker has answered a PINGREQ, or for filters: the questions of members that waited for it are answered.
    pub(crate) fn answer_members(&mut self, now: Now, connection: ConnectionKey) {
        let own = self.broker_links.last_number();
        let brokers = &mut self.broker_links.brokers;
        let Some(key) = brokers.of_connection(connection) else { return };
        let key = keeper_of(&brokers.all, key);
        // A member that is about to give it messages asks for these filters as well.
        if !brokers.all.get(&key).is_some_and(|broker_link| broker_link.filters.are_held()) {
            return;
        }
        let questions = brokers.all.get_mut(&key).map(|it| std::mem::take(&mut it.questions)).unwrap_or_default();
        for mut question in questions {
            let awaited = std::mem::take(&mut question.awaited).into_iter();
            question.awaited =
                awaited.filter_map(|awaited| awaited.remaining_for_another(brokers, now, self.state, own)).collect();
            let Some(broker_link) = brokers.all.get_mut(&key) else { return };
            if question.awaited.is_empty() {
                let answer = FleetWord::Passed { round: question.number, broker: &broker_link.name };
                self.links.send(question.from, Record::Fleet(answer));
            } else {
                broker_link.questions.push(question);
            }
        }
    }

    /// A member has answered.
    pub(crate) fn note_passed(&mut self, now: Now, from: ShardId, round: u32, broker: &str) {
        let brokers = &mut self.broker_links.brokers;
        let settlement = &mut self.broker_links.settlement;
        settlement.note_passed(now, self.state, self.layouts, brokers, broker, (from, round));
        let Some(key) = brokers.find(broker) else { return };
        let waited = brokers.all.get_mut(&key);
        if waited.is_some_and(|broker_link| broker_link.opening.note_answer(from, round)) {
            self.open_broker(now, key);
        }
    }
}
