//! Channels between publishers, broker and subscribers, in the study's four arrangements, and messages that go through
//! them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_mqtt::{
    Connect, ConnectProperties, Publish, PublishProperties, QoS, SubscriptionOptions, TopicName, UserProperties,
};

use super::Asked;
use super::judge::Came;
use crate::probe::SessionError;
use crate::probe::session::{Result, Session};
use crate::stop::Stop;

/// Messages that the broker may have under way to a subscriber that has said so (MQTT 5).
pub(super) const WINDOW: u16 = 4;
/// Messages that are supposed to be under way where the subscriber cannot say how many: Mosquitto has 20, others have
/// more.
const WINDOW_UNSAID: usize = 20;
/// After this time without a message, missing ones are lost.
const SILENCE: Duration = Duration::from_secs(2);

/// How publishers and subscribers are connected. A channel is a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrangement {
    pub(super) name: &'static str,
    pub(super) several_topics: bool,
    pub(super) several_publishers: bool,
    pub(super) several_subscribers: bool,
}

/// The four of the study, as its text lets one infer them: 1 and 2 share one channel, 3 and 4 do not.
pub(super) const ARRANGEMENTS: [Arrangement; 4] = [
    Arrangement {
        name: "1: one channel, one topic",
        several_topics: false,
        several_publishers: false,
        several_subscribers: false,
    },
    Arrangement {
        name: "2: one channel, several topics",
        several_topics: true,
        several_publishers: false,
        several_subscribers: false,
    },
    Arrangement {
        name: "3: several channels in",
        several_topics: true,
        several_publishers: true,
        several_subscribers: false,
    },
    Arrangement {
        name: "4: several channels in and out",
        several_topics: true,
        several_publishers: true,
        several_subscribers: true,
    },
];

/// The published messages.
#[derive(Clone, Debug)]
pub(super) struct Batch<'a> {
    /// The priorities, in the order of publishing.
    pub(super) priorities: &'a [u8],
    /// How often they are published.
    pub(super) rounds: usize,
    /// The size of a payload, in bytes.
    pub(super) bytes: usize,
    /// Whether messages say their priority.
    pub(super) says_priority: bool,
    /// How long subscribers sleep; `None` means that they receive from the start.
    pub(super) sleep: Option<Duration>,
}

/// The channels of one test.
pub(super) struct Channels<'a> {
    asked: &'a Asked,
    topic: String,
    arrangement: Arrangement,
    publishers: Vec<Session>,
    subscribers: Vec<Session>,
}

impl<'a> Channels<'a> {
    /// Connects the clients. `number` distinguishes them from clients of other tests.
    pub(super) fn open(asked: &'a Asked, arrangement: Arrangement, number: usize) -> Result<Self> {
        let topic = format!("tidegate-lab/{:x}/{number}", std::process::id());
        let mut channels = Self { asked, topic, arrangement, publishers: Vec::new(), subscribers: Vec::new() };
        let filters: Vec<String> = if arrangement.several_subscribers {
            (0..3).map(|priority| format!("{}/{priority}", channels.topic)).collect()
        } else {
            vec![format!("{}/#", channels.topic)]
        };
        for (place, filter) in filters.iter().enumerate() {
            let mut session = channels.connect(&format!("s{number}-{place}"))?;
            let options = SubscriptionOptions { qos: QoS::AtLeastOnce, ..SubscriptionOptions::default() };
            session.subscribe(filter, options, None)?;
            channels.subscribers.push(session);
        }
        for place in 0..if arrangement.several_publishers { 3 } else { 1 } {
            let session = channels.connect(&format!("p{number}-{place}"))?;
            channels.publishers.push(session);
        }
        Ok(channels)
    }

    fn connect(&self, name: &str) -> Result<Session> {
        let client_id = format!("lab-{:x}-{name}", std::process::id());
        let version = self.asked.protocol.version();
        let mut properties = ConnectProperties::default();
        if version.is_v5() {
            properties.receive_maximum = std::num::NonZeroU16::new(WINDOW);
        }
        let connect = Connect {
            version,
            bridge: false,
            clean_start: true,
            keep_alive: 600,
            client_id: &client_id,
            will: None,
            username: None,
            password: None,
            properties,
        };
        Session::open(&self.asked.target, &connect, |_| ()).map(|accepted| accepted.session)
    }

    /// Messages that are under way to each subscriber while it sleeps, and so in no queue.
    pub(super) fn under_way(&self) -> usize {
        let each = if self.asked.protocol.version().is_v5() { usize::from(WINDOW) } else { WINDOW_UNSAID };
        each * self.subscribers.len()
    }

    /// Publishes, and returns the received messages in their order.
    pub(super) fn exchange(mut self, batch: &Batch<'_>, stop: &Stop) -> Result<Vec<Came>> {
        let expected = batch.priorities.len() * batch.rounds;
        let (sender, receipts) = channel();
        let subscribers = std::mem::take(&mut self.subscribers);
        let received = AtomicUsize::new(0);
        thread::scope(|scope| {
            let receive = |mut session: Session, sender: Sender<(Instant, Came)>| {
                let received = &received;
                scope.spawn(move || listen(&mut session, &sender, received, expected))
            };
            if let Some(sleep) = batch.sleep {
                let slept_from = Instant::now();
                self.publish_all(batch)?;
                stop.wait(sleep.saturating_sub(slept_from.elapsed()));
                for session in subscribers {
                    receive(session, sender.clone());
                }
            } else {
                for session in subscribers {
                    receive(session, sender.clone());
                }
                self.publish_all(batch)?;
            }
            drop(sender);
            Ok::<(), SessionError>(())
        })?;
        let mut came: Vec<(Instant, Came)> = receipts.into_iter().collect();
        came.sort_by_key(|(at, _)| *at);
        Ok(came.into_iter().map(|(_, came)| came).collect())
    }

    fn publish_all(&mut self, batch: &Batch<'_>) -> Result<()> {
        let all = std::iter::repeat_n(batch.priorities, batch.rounds).flatten();
        for (number, priority) in (0..).zip(all) {
            self.publish(*priority, number, batch)?;
        }
        Ok(())
    }

    /// Publishes a message, and waits until the broker has it.
    pub(super) fn publish(&mut self, priority: u8, number: u32, batch: &Batch<'_>) -> Result<u8> {
        let level = if self.arrangement.several_topics { priority.to_string() } else { "all".to_owned() };
        let topic = format!("{}/{level}", self.topic);
        let mut payload = vec![0; batch.bytes.max(5)];
        payload[0] = priority;
        payload[1..5].copy_from_slice(&number.to_be_bytes());
        let said = priority.to_string();
        let pairs = [("priority", said.as_str())];
        let mut properties = PublishProperties::default();
        if self.asked.protocol.version().is_v5() && batch.says_priority {
            properties.user_properties = UserProperties::new(&pairs);
        }
        let place = usize::from(priority) % self.publishers.len();
        self.publishers[place].publish(&Publish {
            topic: Some(TopicName::new(&topic)?),
            qos: QoS::AtLeastOnce,
            retain: false,
            dup: false,
            packet_id: None,
            payload: &payload,
            properties,
        })
    }

    /// Receives after the subscribers have resumed.
    pub(super) fn receive(mut self, expected: usize) -> Vec<Came> {
        let (sender, receipts) = channel();
        let received = AtomicUsize::new(0);
        for session in &mut self.subscribers {
            listen(session, &sender, &received, expected);
        }
        drop(sender);
        receipts.into_iter().map(|(_, came)| came).collect()
    }
}

/// Receives until all messages have arrived, or none arrives any more.
fn listen(session: &mut Session, sender: &Sender<(Instant, Came)>, received: &AtomicUsize, expected: usize) {
    const LOOK: Duration = Duration::from_millis(100);
    let mut last = Instant::now();
    while received.load(Ordering::Relaxed) < expected && last.elapsed() < SILENCE {
        let Ok(message) = session.message(LOOK, |_| true) else { return };
        let Some([priority, number @ ..]) = message.as_ref().and_then(|message| message.payload.first_chunk::<5>())
        else {
            continue;
        };
        last = Instant::now();
        received.fetch_add(1, Ordering::Relaxed);
        let came = Came { priority: *priority, number: u32::from_be_bytes(*number) };
        if sender.send((last, came)).is_err() {
            return;
        }
    }
}
