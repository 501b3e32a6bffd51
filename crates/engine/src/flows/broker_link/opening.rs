//! A broker that has connected is given messages when the other members have their filters there.

use crate::event::{Event, LogEvent};
use crate::flows::contexts::BrokerLinking;
use crate::ids::BrokerLinkKey;
use crate::link::fleet_word::FleetWord;
use crate::link::record::Record;
use crate::now::Now;
use crate::orchestrator::broker_link::Stage;
use crate::orchestrator::broker_link::opening::OpeningStep;

impl BrokerLinking<'_> {
    /// Opens a broker when the other members have their filters there, and asks them until then.
    pub(crate) fn continue_opening(&mut self, now: Now, key: BrokerLinkKey) {
        let roster = &self.links.roster;
        // Filters of a dead member are there when its successor has asked for them.
        let members = Some(roster.peers()).filter(|_| !roster.lacks_nodes() && !roster.misses_any());
        let broker_link = self.broker_links.brokers.all.get_mut(&key);
        let Some(broker_link) = broker_link.filter(|it| it.stage == Stage::Open) else { return };
        let unpassed = &mut broker_link.unpassed;
        match broker_link.opening.next_step(now, members, || unpassed.next_number()) {
            OpeningStep::Wait => {}
            OpeningStep::Ask(round, members) => {
                for member in members {
                    let question = FleetWord::AskPassed { round, broker: &broker_link.name };
                    self.links.send(member, Record::Fleet(question));
                }
            }
            OpeningStep::Open => self.open_broker(now, key),
            OpeningStep::OpenEarly => {
                let broker = broker_link.name.to_string();
                self.state.events.push_back(Event::Log(LogEvent::BrokerOpensEarly { broker }));
                self.open_broker(now, key);
            }
        }
    }

    /// A broker is given messages from now on.
    pub(super) fn open_broker(&mut self, now: Now, key: BrokerLinkKey) {
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { return };
        broker_link.opening.forget();
        self.broker_links.brokers.open_window(now, self.state, self.layouts, key);
        self.broker_links.brokers.set_broker_link_timer(self.state, key);
    }
}
