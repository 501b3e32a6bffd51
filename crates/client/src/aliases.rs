//! Topic Aliases of one connection, in both directions.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use crate::publish::TopicForm;
use crate::{ProtocolError, TopicNameBuf};

/// The aliases that the server has set.
#[derive(Debug)]
pub(crate) struct InboundAliases {
    topics: BTreeMap<NonZeroU16, TopicNameBuf>,
    /// The Topic Alias Maximum of the client's CONNECT packet; also the bound of `topics`.
    maximum: u16,
}

impl InboundAliases {
    pub(crate) fn new(maximum: u16) -> Self {
        Self { topics: BTreeMap::new(), maximum }
    }

    /// The topic of a PUBLISH packet with an alias: sets the alias if the packet has a topic, and looks it up otherwise
    /// ([MQTT-3.3.2-7]).
    pub(crate) fn resolve(
        &mut self,
        topic: Option<TopicNameBuf>,
        alias: NonZeroU16,
    ) -> Result<TopicNameBuf, ProtocolError> {
        if alias.get() > self.maximum {
            return Err(ProtocolError::TopicAliasTooGreat { alias: alias.get(), maximum: self.maximum });
        }
        match topic {
            Some(topic) => {
                self.topics.insert(alias, topic.clone());
                Ok(topic)
            }
            None => self.topics.get(&alias).cloned().ok_or(ProtocolError::UnknownTopicAlias { alias: alias.get() }),
        }
    }
}

/// The aliases that the client has set.
#[derive(Debug, Default)]
pub(crate) struct OutboundAliases {
    /// As many as the publisher uses, which the server's Topic Alias Maximum bounds.
    topics: BTreeMap<NonZeroU16, TopicNameBuf>,
}

impl OutboundAliases {
    /// How the next PUBLISH packet for `topic` is to name it.
    pub(crate) fn form(&self, topic: &TopicNameBuf, alias: Option<NonZeroU16>) -> TopicForm {
        match alias {
            None => TopicForm::Text,
            Some(alias) if self.topics.get(&alias) == Some(topic) => TopicForm::AliasAlone(alias),
            Some(alias) => TopicForm::TextAndAlias(alias),
        }
    }

    /// A PUBLISH packet with this form has been encoded.
    pub(crate) fn sent(&mut self, topic: &TopicNameBuf, form: TopicForm) {
        if let TopicForm::TextAndAlias(alias) = form {
            self.topics.insert(alias, topic.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(text: &str) -> TopicNameBuf {
        TopicNameBuf::new(text).unwrap()
    }

    fn alias(number: u16) -> NonZeroU16 {
        NonZeroU16::new(number).unwrap()
    }

    #[test]
    fn the_server_sets_changes_and_uses_aliases_within_the_maximum() {
        let mut aliases = InboundAliases::new(2);
        let unknown = Err(ProtocolError::UnknownTopicAlias { alias: 2 });
        assert_eq!(aliases.resolve(None, alias(2)), unknown);
        assert_eq!(aliases.resolve(Some(topic("a")), alias(2)), Ok(topic("a")));
        assert_eq!(aliases.resolve(None, alias(2)), Ok(topic("a")));
        assert_eq!(aliases.resolve(Some(topic("b")), alias(2)), Ok(topic("b")));
        assert_eq!(aliases.resolve(None, alias(2)), Ok(topic("b")));
        let too_great = Err(ProtocolError::TopicAliasTooGreat { alias: 3, maximum: 2 });
        assert_eq!(aliases.resolve(Some(topic("c")), alias(3)), too_great);
    }

    #[test]
    fn the_client_sends_the_topic_once_per_alias() {
        let mut aliases = OutboundAliases::default();
        assert_eq!(aliases.form(&topic("a"), None), TopicForm::Text);
        let first = aliases.form(&topic("a"), Some(alias(1)));
        assert_eq!(first, TopicForm::TextAndAlias(alias(1)));
        aliases.sent(&topic("a"), first);
        let second = aliases.form(&topic("a"), Some(alias(1)));
        assert_eq!(second, TopicForm::AliasAlone(alias(1)));
        let other = aliases.form(&topic("b"), Some(alias(1)));
        assert_eq!(other, TopicForm::TextAndAlias(alias(1)));
        aliases.sent(&topic("b"), other);
        let back = aliases.form(&topic("a"), Some(alias(1)));
        assert_eq!(back, TopicForm::TextAndAlias(alias(1)));
    }
}
