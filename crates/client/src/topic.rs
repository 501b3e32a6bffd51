//! Topic Names and Topic Filters that own their text.

use tidegate_mqtt::{TopicError, TopicFilter, TopicName};

/// A valid Topic Name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicNameBuf(String);

impl TopicNameBuf {
    /// Checks `text`.
    ///
    /// # Errors
    ///
    /// When it is empty, longer than 65,535 bytes, or holds U+0000 or a wildcard ([MQTT-3.3.2-2]).
    pub fn new(text: impl Into<String>) -> Result<Self, TopicError> {
        let text = text.into();
        TopicName::new(&text)?;
        Ok(Self(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Takes another name, which has been checked, in the same memory.
    pub(crate) fn set_checked(&mut self, name: &str) {
        self.0.clear();
        self.0.push_str(name);
    }

    /// Bytes of memory.
    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// No name yet.
    pub(crate) const fn unset() -> Self {
        Self(String::new())
    }

    /// The name as the codec takes it. It has been checked, so there is no error in practice.
    pub(crate) fn as_name(&self) -> Result<TopicName<'_>, TopicError> {
        TopicName::new(&self.0)
    }
}

impl From<TopicName<'_>> for TopicNameBuf {
    fn from(name: TopicName<'_>) -> Self {
        Self(name.as_str().to_owned())
    }
}

impl From<TopicNameBuf> for String {
    fn from(name: TopicNameBuf) -> Self {
        name.0
    }
}

impl std::fmt::Display for TopicNameBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A valid Topic Filter, `$share/GROUP/FILTER` included.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicFilterBuf(String);

impl TopicFilterBuf {
    /// Checks `text`.
    ///
    /// # Errors
    ///
    /// When it is empty, longer than 65,535 bytes, holds U+0000 or a misplaced wildcard, or is an incomplete
    /// `$share/GROUP/FILTER` ([MQTT-4.7.1-1], [MQTT-4.7.1-2], [MQTT-4.8.2-1]).
    pub fn new(text: impl Into<String>) -> Result<Self, TopicError> {
        let text = text.into();
        TopicFilter::new(&text)?;
        Ok(Self(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether messages on `topic` match the filter ([MQTT-4.7.2-1] included). A shared subscription matches the topics
    /// of its FILTER.
    pub fn matches(&self, topic: &TopicNameBuf) -> bool {
        tidegate_mqtt::topic::matches(TopicFilter::checked(&self.0).proper().as_str(), topic.as_str())
    }

    /// The same for a text, which need not be a valid name: an invalid one matches nothing.
    pub fn matches_text(&self, topic: &str) -> bool {
        TopicName::new(topic).is_ok_and(|name| TopicFilter::checked(&self.0).matches(name))
    }

    /// Whether some topic matches both. A shared subscription matches the topics of its FILTER.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (one, other) = (TopicFilter::checked(&self.0), TopicFilter::checked(&other.0));
        tidegate_mqtt::topic::overlaps(one.proper().as_str(), other.proper().as_str())
    }

    /// The filter as the codec takes it. It has been checked, so there is no error in practice.
    pub(crate) fn as_filter(&self) -> Result<TopicFilter<'_>, TopicError> {
        TopicFilter::new(&self.0)
    }
}

impl From<TopicFilter<'_>> for TopicFilterBuf {
    fn from(filter: TopicFilter<'_>) -> Self {
        Self(filter.as_str().to_owned())
    }
}

impl std::fmt::Display for TopicFilterBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
