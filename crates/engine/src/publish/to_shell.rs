//! Messages that are for the shell, too: those for applications, and what nodes say of themselves.

use crate::engine::Engine;
use crate::ids::SessionKey;
use crate::link::envelope::Ticket;
use crate::message::Publication;
use crate::publish::inbound::Inbound;
use crate::publish::publishing::Publishing;
use crate::publish::publishing::publishing;
use crate::topics::TopicTraits;

impl Engine {
    /// Hands a message for applications, or one that a node says of itself, to the shell; returns for how many more
    /// confirmations its acknowledgement waits.
    #[cold]
    pub(super) fn tell_shell_of(&mut self, it: &Inbound<'_>, ticket: Option<Ticket>) -> u32 {
        let (topic, traits) = (self.topic_of(it), self.cache.traits(it.slot));
        publishing!(self).tell_shell(traits, &it.publication(&topic), it.session, ticket)
    }
}

impl Publishing<'_> {
    /// The same of a message that is put together already.
    fn tell_shell(
        &mut self,
        traits: TopicTraits,
        publication: &Publication<'_>,
        session: Option<SessionKey>,
        ticket: Option<Ticket>,
    ) -> u32 {
        let mut waits = 0;
        if traits.is_report {
            waits += self.tell_report(publication, session, ticket);
        }
        if traits.is_record {
            waits += self.tell_record(publication, session, ticket);
        }
        waits
    }
}
