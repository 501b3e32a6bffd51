//! Rights to publish to many nodes and to read messages to other nodes.
//!
//! Without rules, every client may do everything. For addresses that is too much: each node could publish to all
//! others, read their messages, publish in their name, and add itself to any group. So these actions need a rule that
//! allows them.

use crate::access::Rules;
use crate::settings::Settings;
use tidegate_mqtt::QoS;

use crate::access::Subject;
use crate::session::Session;
use crate::topics::address_name::Address;
use crate::topics::address_name::Statement;
use crate::topics::address_name::filter_meets_guarded;

/// Behind the prefix: the retained list by which a node finds the gateways.
const GATEWAYS: &str = "/gateways";

/// Something that a rule, and not the default, has to allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right<'a> {
    /// Publishing to a group of nodes, to all of them, to a topic of receipts, the list of gateways that nodes rely on,
    /// the context of another node, or an advertisement of groups.
    Publish {
        /// The topic.
        topic: &'a str,
        /// With which QoS.
        qos: QoS,
        /// Whether it is to be retained.
        retain: bool,
    },
    /// To receive messages that are addressed to other nodes, or reports of other nodes, by a subscription.
    Receive {
        /// The topic.
        topic: &'a str,
    },
    /// A shared subscription that brings such messages.
    Subscribe {
        /// The filter behind the group.
        filter: &'a str,
        /// With which QoS.
        qos: QoS,
    },
}

impl Settings {
    /// Whether a message of this client to this topic needs a rule that allows it.
    pub(crate) fn is_guarded_for_publishers(&self, topic: &str, client_id: &str) -> bool {
        let guarded = self.addresses.as_ref().filter(|addresses| addresses.guarded);
        guarded.is_some_and(|addresses| match Address::read(&addresses.prefix, topic) {
            Some(Address::Group(_) | Address::All | Address::Receipts(_)) => true,
            Some(Address::Node(_)) => false,
            None => match Statement::read(&addresses.prefix, topic) {
                Some(statement) => !statement.is_of(client_id),
                None => topic.strip_prefix(&*addresses.prefix) == Some(GATEWAYS),
            },
        })
    }

    /// Whether a shared subscription to this filter needs a rule that allows it.
    pub(crate) fn is_guarded_for_groups(&self, filter: &str) -> bool {
        let guarded = self.addresses.as_ref().filter(|addresses| addresses.guarded);
        guarded.is_some_and(|addresses| filter_meets_guarded(&addresses.prefix, filter))
    }
}

impl Rules {
    /// Whether there is a rule that allows something.
    pub(crate) fn has_right(&self, subject: Subject<'_>, right: Right<'_>) -> bool {
        self.access().is_some_and(|access| access.has_right(subject, right))
    }
}

impl Address<'_> {
    /// True if messages to this address are meant for the client of a session. Messages to a group are, also after the
    /// node has left the group.
    pub(crate) fn is_of(&self, session: &Session) -> bool {
        match self {
            Self::Receipts(id) => **id == *session.client_id,
            Self::Node(id) => session.standing.is_node() && **id == *session.client_id,
            Self::Group(_) | Self::All => session.standing.is_node(),
        }
    }
}
