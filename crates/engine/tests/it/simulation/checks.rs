//! The checks of every run.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_engine::{OverflowPolicy, Reason};
use tidegate_mqtt::{PacketType, QoS, ReasonCode, SubscriptionOptions, TopicFilter};

use super::{Sent, Simulation};
use crate::harness::*;
use crate::model::matches;

pub(super) fn share_of(filter: &str) -> Option<(&str, &str)> {
    TopicFilter::new(filter).unwrap().shared().map(|(share, filter)| (share, filter.as_str()))
}

/// The number of a message in the simulation, by its payload.
fn number_of(payload: &str) -> Option<usize> {
    payload.split('-').nth(1)?.parse().ok()
}

impl Sent {
    /// Its payload without the padding.
    pub(super) fn short(&self) -> &str {
        self.payload.rsplit_once('-').map_or(&self.payload, |(short, _)| short)
    }
}

impl Simulation {
    pub(super) fn subscribe_for_good(&mut self) {
        for device in 0..self.devices.len() {
            for filter in self.profile.filters_for_good(device) {
                self.subscribe(device, filter, SubscriptionOptions::new(QoS::ExactlyOnce));
            }
        }
        self.settle();
        for device in 0..self.devices.len() {
            let filters = self.profile.filters_for_good(device);
            assert_eq!(self.devices[device].subscribed.len(), filters.len(), "seed {}", self.seed);
        }
    }

    /// In every moment: nothing grows beyond its limit.
    pub(super) fn check_bounds(&self) {
        let (settings, gauges) = (&self.profile.settings, self.world.gauges());
        let sessions = gauges.sessions_connected + gauges.sessions_disconnected;
        // Under `Block` messages on their way from other shards still enter.
        let largest = 3000;
        let queue_bytes = settings.queue.max_bytes.saturating_mul(2) + settings.limits.shard_link_bytes;
        let queue_bytes = queue_bytes.saturating_add(largest * (u64::from(settings.retained.step.min(20)) + 1));
        assert!(gauges.queued_bytes <= sessions.max(1).saturating_mul(queue_bytes), "seed {}: {gauges:?}", self.seed);
        let parked = u64::from(settings.limits.parked_bytes) + 2 * 65_536;
        assert!(gauges.input_bytes <= (gauges.connections + 1) * parked, "seed {}: {gauges:?}", self.seed);
        for device in &self.devices {
            let waiting = device.client().map_or(0, Client::output_len) as u64;
            let most = u64::from(settings.limits.output_high_water) * 4 + 200_000;
            assert!(waiting <= most, "seed {}: {waiting} bytes wait for {}", self.seed, device.name);
        }
    }

    /// When everything is over: the messages that each client has got.
    pub(super) fn check_outcome(&mut self) {
        for device in 0..self.devices.len() {
            let begun = self.devices[device].begun;
            let kept = begun <= 1 || !self.profile.is_steady(device);
            assert!(kept, "seed {}: {} found no session {begun} times", self.seed, self.devices[device].name);
            self.check_received(device);
        }
        match self.profile.kind {
            kind if kind.deals() => self.check_groups(),
            kind if kind.is_exact() => self.check_accounts(),
            _ => self.check_nothing_lost(),
        }
        self.check_retained();
    }

    /// Nothing invented, nothing twice where that is promised, and everything in order.
    fn check_received(&self, device: usize) {
        let (seed, name) = (self.seed, &self.devices[device].name);
        let mut times: BTreeMap<usize, u32> = BTreeMap::new();
        let mut last: BTreeMap<(usize, &str, bool), usize> = BTreeMap::new();
        for received in &self.devices[device].inbox {
            let got = &received.message;
            let text = got.text();
            let Some(number) = number_of(&text) else {
                assert_eq!(text, "a will", "seed {seed}: {name} has got an unsent message");
                continue;
            };
            let short = text.get(..12).unwrap_or(&text);
            let sent = self.published.get(number).unwrap_or_else(|| panic!("seed {seed}: {name} has got {short}"));
            assert_eq!((&sent.topic, &sent.payload), (&got.topic, &text), "seed {seed}: {name}");
            assert!(got.qos <= sent.qos, "seed {seed}: {name} has got {short} at a higher QoS");
            let wanted = self.wanted_by(device, &sent.topic);
            assert!(wanted, "seed {seed}: {name} has got {short} to {} and never asked for it", got.topic);
            // A publisher whose session was lost behind its back repeats what the server has no memory of.
            let steady = self.profile.is_steady(device) && self.profile.is_steady(sent.publisher);
            if got.retain || share_topic(&sent.topic) || !steady {
                continue;
            }
            let times = times.entry(number).or_default();
            *times += 1;
            // A later process knows nothing of messages sent at QoS 0, and a QoS 2 publisher without an answer sends
            // its message once more.
            let forgotten = got.qos == QoS::AtMostOnce && self.profile.kind.crashes();
            let once = got.qos != QoS::AtLeastOnce && sent.qos != QoS::AtLeastOnce && !forgotten;
            assert!(*times == 1 || !once, "seed {seed}: {name} has got {short} {times} times");
            // A message that is not kept may overtake messages in the store.
            let kept = got.qos != QoS::AtMostOnce;
            let before = last.entry((sent.publisher, &sent.topic, kept)).or_default();
            let publisher = &self.devices[sent.publisher];
            let refusable = self.blocks() && publisher.resent_exactly.contains(sent.payload.as_bytes());
            let again = refusable || publisher.resent.contains(sent.payload.as_bytes());
            let in_order = *before <= number || *times > 1 || again;
            assert!(in_order, "seed {seed}: {name} has got {short} behind message {before}");
            *before = (*before).max(number);
        }
    }

    /// Whether queues have publishers wait, and refuse messages when they give up.
    fn blocks(&self) -> bool {
        self.profile.settings.queue.overflow == OverflowPolicy::Block
    }

    fn wanted_by(&self, device: usize, topic: &str) -> bool {
        let filters = self.wanted.iter().filter(|(whose, _, _)| *whose == device);
        filters.into_iter().any(|(_, filter, _)| matches(share_of(filter).map_or(*filter, |share| share.1), topic))
    }

    /// An acknowledged message has reached every subscription that was there before and has stayed, unless a counted
    /// limit prevented it.
    fn check_nothing_lost(&self) {
        // A message for several subscriptions of a client comes once.
        let mut missing = BTreeSet::new();
        for (device, filter, options) in &self.wanted {
            let Some(since) = self.devices[*device].subscribed.get(*filter) else { continue };
            if share_of(filter).is_some() || !self.profile.is_steady(*device) || options.qos == QoS::AtMostOnce {
                continue;
            }
            let got: BTreeSet<String> =
                self.devices[*device].inbox.iter().map(|received| received.message.text()).collect();
            for sent in self.published.iter().skip(*since as usize) {
                let own = sent.publisher == *device && options.no_local;
                let answered = self.devices[sent.publisher]
                    .answers
                    .get(sent.payload.as_bytes())
                    .is_some_and(|code| !code.is_error());
                if answered
                    && sent.qos != QoS::AtMostOnce
                    && !own
                    && matches(filter, &sent.topic)
                    && !got.contains(&sent.payload)
                {
                    missing.insert((&self.devices[*device].name, sent.short()));
                }
            }
        }
        let counters = self.world.counters();
        let for_limits = counters.dropped_total() - counters.dropped[Reason::OfflineQos0.number()];
        if !self.profile.tight {
            assert!(missing.is_empty(), "seed {}: lost {missing:?}, dropped {:?}", self.seed, reasons(&self.world));
        }
        let several = missing.len() as u64;
        assert!(several <= for_limits, "seed {}: lost {missing:?}, counted {:?}", self.seed, reasons(&self.world));
    }

    /// Every message to every subscriber and group is there or counted.
    fn check_accounts(&self) {
        let got: Vec<BTreeMap<String, u32>> = self
            .devices
            .iter()
            .map(|device| {
                let mut times = BTreeMap::new();
                for received in &device.inbox {
                    *times.entry(received.message.text()).or_default() += 1;
                }
                times
            })
            .collect();
        let (mut owed, mut received) = (0_u64, 0_u64);
        // Of messages that are refused, since a queue that blocks has given up: some receivers may have them all the same.
        let mut refused = 0_u64;
        let mut different = Vec::new();
        for sent in &self.published {
            let (owed_before, received_before) = (owed, received);
            let answer = self.devices[sent.publisher].answers.get(sent.payload.as_bytes());
            let is_refused = self.blocks() && answer == Some(&ReasonCode::QuotaExceeded);
            let is_taken = answer.is_some_and(|code| !code.is_error());
            assert!(is_taken || is_refused, "seed {}: {}: {answer:?}", self.seed, sent.short());
            let mut groups = BTreeSet::new();
            for (device, times) in got.iter().enumerate() {
                let filters = self.profile.filters_for_good(device);
                let ordinary = filters.iter().any(|filter| share_of(filter).is_none() && matches(filter, &sent.topic));
                owed += u64::from(ordinary);
                groups.extend(
                    filters.iter().filter_map(|filter| share_of(filter)).filter(|share| matches(share.1, &sent.topic)),
                );
                received += u64::from(times.get(&sent.payload).copied().unwrap_or(0));
            }
            owed += groups.len() as u64;
            if is_refused {
                refused += owed - owed_before;
                owed = owed_before;
            } else if owed - owed_before != received - received_before {
                let who = got.iter().enumerate().filter(|(_, times)| times.contains_key(&sent.payload));
                let who: Vec<usize> = who.map(|(device, _)| device).collect();
                different.push(format!("{} to {} came to {who:?}", sent.short(), sent.topic));
            }
        }
        // A message of a publisher that was sent away comes again.
        let counters = self.world.counters();
        let dropped = counters.dropped_total() - counters.dropped[Reason::NodeLost.number()];
        let told = reasons(&self.world);
        assert!(self.profile.tight || dropped == 0, "seed {}: {dropped} dropped: {told:?}", self.seed);
        // A refused message that its publisher sends again is counted, and comes all the same.
        let again = counters.dropped[Reason::BlockedTooLong.number()];
        let seed = self.seed;
        assert!(
            (owed..=owed + refused + again).contains(&(received + dropped)),
            "seed {seed}: {owed} owed, {refused} refused, {received} received, {dropped} dropped: {told:?}; {different:?}"
        );
    }

    /// New readers on all shards find the same values, and each is the last one of its publisher.
    fn check_retained(&mut self) {
        let mut seen: Vec<BTreeMap<String, String>> = Vec::new();
        for shard in (0..self.world.shards()).filter(|shard| self.world.works_something(*shard)) {
            let reader = self.world.connect(v5(&self.world.name_on(shard, "reader")));
            for filter in ["#", "$w/#"] {
                reader.send_subscribe(&[(filter, SubscriptionOptions::new(QoS::AtLeastOnce))], None);
            }
            self.world.advance(1);
            let messages = reader.messages_among_others();
            seen.push(messages.into_iter().map(|got| (got.topic.clone(), got.text())).collect());
            reader.disconnect();
        }
        let run = self.seed;
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "seed {run}: retained values differ: {seen:#?}");
        for (topic, value) in &seen[0] {
            let number = number_of(value).unwrap_or_else(|| panic!("seed {run}: {value}"));
            let publisher = self.published[number].publisher;
            let later = self.published.iter().skip(number + 1).find(|sent| {
                let answered = self.devices[publisher].answers.get(sent.payload.as_bytes());
                let kept = answered.is_some_and(|code| !code.is_error());
                sent.retain && sent.topic == *topic && sent.publisher == publisher && kept
            });
            // A QoS 1 message that is sent again counts again, also behind a QoS 2 message that was already taken.
            let again = self.devices[publisher].resent.contains(self.published[number].payload.as_bytes());
            let repeated = again || !self.profile.is_steady(publisher);
            let later = later.and_then(|sent| sent.payload.get(..10));
            assert!(
                later.is_none() || repeated,
                "seed {run}: {topic} holds message {number}, but {later:?} came later"
            );
        }
    }

    /// When everyone has left for good.
    pub(super) fn check_nothing_left(&self) {
        let (gauges, counters) = (self.world.gauges(), self.world.counters());
        let seed = self.seed;
        let sessions = gauges.sessions_connected + gauges.sessions_disconnected;
        assert_eq!((gauges.connections, sessions), (0, 0), "seed {seed}: {gauges:?}");
        assert_eq!((gauges.subscriptions, gauges.shared_subscriptions), (0, 0), "seed {seed}: {gauges:?}");
        assert_eq!((gauges.queued_messages, gauges.queued_bytes), (0, 0), "seed {seed}: {gauges:?}");
        assert_eq!((gauges.inflight_messages, gauges.input_bytes), (0, 0), "seed {seed}: {gauges:?}");
        assert_eq!(self.world.batches_under_way(), 0, "seed {seed}");
        let ended: u64 = counters.disconnects.iter().sum::<u64>() + self.world.broken();
        assert_eq!(ended, counters.connects_accepted, "seed {seed}: connections that came and went");
        let accepted = counters.packets_out[PacketType::ConnAck as usize];
        assert!(accepted >= counters.connects_accepted, "seed {seed}: each was counted");
        assert_eq!(self.world.next_deadline(), tidegate_engine::Millis::NEVER, "seed {seed}: something still waits");
        let left: Vec<String> =
            self.world.swept().iter().filter_map(|(key, value)| tidegate_engine::describe(key, value)).collect();
        let owed = left.iter().filter(|pair| {
            !pair.contains("numbers sessions") && !pair.starts_with("retained") && !pair.contains("of another node")
        });
        assert_eq!(owed.count(), 0, "seed {seed}: {left:?}");
    }
}

pub(super) fn share_topic(topic: &str) -> bool {
    topic.starts_with("s/")
}

/// Undelivered messages by reason.
pub(super) fn reasons(world: &World) -> Vec<(&'static str, u64)> {
    let counters = world.counters();
    let counted = Reason::ALL.iter().map(|reason| (reason.label(), counters.dropped[reason.number()]));
    counted.filter(|(_, count)| *count > 0).collect()
}
