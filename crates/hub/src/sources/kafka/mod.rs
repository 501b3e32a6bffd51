//! Topics of Kafka. Processes with one group share the partitions, and records of a partition come in order. The group
//! keeps up to which offset of each partition all messages are done, so after a crash messages come again from there on.
//!
//! - `wire`: requests about groups.
//! - `work`: the thread that speaks with the brokers as a member of the group; `reading`: how it takes records.
//! - `deal`: which member gets which partitions; `shares`: the partitions, which the thread and the pipeline share.

mod deal;
#[cfg(test)]
mod member_tests;
mod reading;
mod shares;
mod wire;
mod work;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use self::shares::{OffsetToken, Shares};
use self::work::Work;
use super::inbox::Inbox;
use super::{ReplayAnswer, Source, SourceStep, Wake};
use crate::core::Ending;
use crate::message::Message;
use crate::open_error::OpenError;
use crate::sinks::kafka::batches::Taken;
use crate::sinks::{KafkaSettings, SaslMechanism};

/// The header with the topic of a message that a sink of the hub has written.
const TOPIC_HEADER: &str = "mqtt_topic";
/// The header with the id of such a message.
const ID_HEADER: &str = "message_id";
/// The user property with the key of a record.
const KEY_PROPERTY: &str = "kafka_key";
/// How long the end waits until the group has the last offsets.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

/// Which topic, and how the brokers are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaSourceSettings {
    /// `kafka://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]`, or `kafkas://` for TLS.
    pub url: String,
    /// The SASL mechanism that proves the password.
    pub mechanism: SaslMechanism,
    /// Authorities that are trusted; without a file, the system's.
    pub ca_file: Option<PathBuf>,
    /// The topic, which has to be there.
    pub topic: String,
    /// The group. Processes with the same one share the partitions.
    pub group: String,
    /// Messages of this process that are not acknowledged. No records are asked for above it, and one round of questions
    /// takes as many again at most.
    pub window: u16,
}

impl KafkaSourceSettings {
    fn as_of_a_sink(&self) -> KafkaSettings {
        let Self { url, mechanism, ca_file, topic, .. } = self.clone();
        KafkaSettings { url, mechanism, ca_file, topic, ..KafkaSettings::default() }
    }

    /// The key whose value is of no use, and why, as far as that is known without files and servers.
    pub fn unusable(&self) -> Option<(&'static str, String)> {
        if self.group.is_empty() {
            return Some(("group", "a group needs a name".to_owned()));
        }
        self.as_of_a_sink().check().err()
    }
}

/// An event of the thread that speaks with the brokers.
enum KafkaNews {
    Ready,
    Trouble(String),
    /// Some partitions cannot be read.
    Partly(String),
    Message(Arc<Message>, OffsetToken),
    /// A partition went to another process, or is read again.
    Gone(OffsetToken),
}

/// The source.
pub(crate) struct Kafka {
    settings: KafkaSourceSettings,
    place: String,
    inbox: Inbox<KafkaNews>,
    shares: Arc<Shares>,
    /// Nothing ever comes; it ends with the thread.
    ended: Receiver<()>,
}

impl Kafka {
    /// Begins to connect.
    ///
    /// # Errors
    /// In words, when the settings are of no use, or the system has no threads left.
    pub(crate) fn new(settings: &KafkaSourceSettings) -> Result<Self, OpenError> {
        let url = settings.as_of_a_sink().check()?;
        let servers: Vec<String> = url.servers.iter().map(ToString::to_string).collect();
        let place = format!("kafka://{}/{}", servers.join(","), settings.topic);
        let (inbox, shares) = (Inbox::default(), Arc::new(Shares::default()));
        let work = Work::new(settings, url, inbox.clone(), Arc::clone(&shares))?;
        let (running, ended) = mpsc::channel();
        let run = move || {
            work.run();
            drop(running);
        };
        thread::Builder::new().name("hub-kafka".to_owned()).spawn(run)?;
        Ok(Self { settings: settings.clone(), place, inbox, shares, ended })
    }
}

/// A record as a message of a pipeline.
fn message(topic: &str, partition: i32, record: Taken) -> Message {
    let mut message = Message {
        id: format!("{topic}-{partition}-{}", record.offset),
        lasting_id: true,
        topic: topic.replace('.', "/"),
        qos: 1,
        timestamp: u64::try_from(record.time).unwrap_or_default(),
        payload: record.value.unwrap_or_default(),
        headers_cut: record.headers_cut,
        ..Message::default()
    };
    for (name, value) in record.headers {
        let Ok(value) = String::from_utf8(value) else { continue };
        match name.as_str() {
            TOPIC_HEADER => message.topic = value,
            ID_HEADER => {}
            name => crate::headers::KAFKA.take(&mut message, name, &value),
        }
    }
    if let Some(Ok(key)) = record.key.map(String::from_utf8) {
        message.user_properties.push((KEY_PROPERTY.to_owned(), key));
    }
    message.with_hops()
}

impl Source for Kafka {
    type Token = OffsetToken;

    fn wake(&self) -> Wake {
        self.inbox.wake()
    }

    fn next(&mut self, deadline: Option<Instant>) -> SourceStep<OffsetToken> {
        if let Some(step) = self.ready() {
            return step;
        }
        self.inbox.wait(deadline);
        SourceStep::Idle
    }

    fn ready(&mut self) -> Option<SourceStep<OffsetToken>> {
        Some(match self.inbox.take()? {
            KafkaNews::Ready => SourceStep::Ready,
            KafkaNews::Trouble(why) => SourceStep::Trouble(why),
            KafkaNews::Partly(why) => SourceStep::Partly(why),
            KafkaNews::Message(message, token) => SourceStep::Message(message, Some(token)),
            KafkaNews::Gone(gone) => SourceStep::Gone(Box::new(move |token: &OffsetToken| token.is_of(gone))),
        })
    }

    fn acknowledge(&mut self, token: OffsetToken, _ending: Ending) {
        self.shares.finish(token);
    }

    fn is_connected(&self) -> bool {
        true
    }

    fn waiting(&self) -> u64 {
        self.shares.waiting()
    }

    fn place(&self) -> String {
        self.place.clone()
    }

    /// The partitions of this process are read again from that time on.
    fn replay(&mut self, from: u64, answer: ReplayAnswer) {
        tracing::info!(topic = self.settings.topic, from, "the partitions of this process are to be read again");
        self.shares.ask_for_replay(from, answer);
    }

    fn leave(&mut self) {
        self.shares.stop();
        // A group that does not get the last offsets has the messages come again.
        let _ = self.ended.recv_timeout(LEAVE_WITHIN);
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        self.shares.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_becomes_a_message_with_its_headers() {
        let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        let record = Taken {
            offset: 7,
            time: 5,
            key: Some(b"pump".to_vec()),
            value: Some(b"31".to_vec()),
            headers: vec![
                header("unit", "C"),
                header("Content-Type", "text/plain"),
                header(ID_HEADER, "x"),
                header(crate::HOPS_PROPERTY, "2"),
            ],
            headers_cut: false,
        };
        let read = message("plant.a", 2, record.clone());
        assert_eq!((read.id.as_str(), read.topic.as_str(), read.timestamp), ("plant.a-2-7", "plant/a", 5));
        assert_eq!(read.content_type.as_deref(), Some("text/plain"));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!((read.user_properties, read.hops), (vec![pair("unit", "C"), pair(KEY_PROPERTY, "pump")], 2));
        let headers = vec![header(TOPIC_HEADER, "plant/a b/temp")];
        assert!(message("t", 0, Taken { headers_cut: true, ..record.clone() }).headers_cut);
        assert_eq!(message("t", 0, Taken { headers, value: None, ..record }).topic, "plant/a b/temp");
    }

    #[test]
    fn settings_that_are_of_no_use_name_their_key() {
        let settings = |url: &str, topic: &str, group: &str| KafkaSourceSettings {
            url: url.into(),
            topic: topic.into(),
            group: group.into(),
            ..KafkaSourceSettings::default()
        };
        let key = |url, topic, group| settings(url, topic, group).unusable().map(|(key, _)| key);
        assert_eq!(key("kafka://h", "t", "g"), None);
        assert_eq!(key("nats://h", "t", "g"), Some("url"));
        assert_eq!(key("kafka://h", "a/b", "g"), Some("topic"));
        assert_eq!(key("kafka://h", "t", ""), Some("group"));
    }
}
