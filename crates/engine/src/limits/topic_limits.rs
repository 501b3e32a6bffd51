//! How long and how deep topics and filters may be.

use crate::settings::Settings;
use tidegate_mqtt::TopicFilter;

use crate::events::reason::Reason;
use crate::events::refused::Refused;

impl Settings {
    /// Refuses a topic name that is too long or too deep.
    pub(crate) fn check_topic_levels(&self, topic: &str) -> Result<(), Refused> {
        let max_bytes = usize::from(self.limits.max_topic_bytes);
        if topic.len() > max_bytes {
            return Err(Refused::new(Reason::TopicTooLong, format!("the topic has more than {max_bytes} bytes")));
        }
        let max = usize::from(self.limits.max_topic_levels);
        // A topic cannot have more levels than bytes, so nearly all topics need no count.
        if topic.len() > max && topic.split('/').count() > max {
            return Err(Refused::new(Reason::TopicTooDeep, format!("the topic has more than {max} levels")));
        }
        Ok(())
    }

    /// Refuses a filter that is too long or would match too widely.
    pub(crate) fn check_filter_size(&self, filter: TopicFilter<'_>) -> Result<(), Reason> {
        let limits = &self.limits;
        let max_wildcards = usize::from(limits.max_filter_wildcards);
        if filter.as_str().len() > usize::from(limits.max_topic_bytes) {
            return Err(Reason::FilterTooLong);
        }
        if max_wildcards != 0 && filter.levels().filter(|level| *level == "+").count() > max_wildcards {
            return Err(Reason::TooManyWildcards);
        }
        Ok(())
    }
}
