//! One publisher: its messages in flight, its window and its schedule.

use std::collections::VecDeque;

use tidegate_mqtt::{PacketId, QoS};

use crate::load::chance::Chance;
use crate::load::plan::{Pace, Publishing, Record, Size};
use crate::load::schedule::Schedule;
use crate::load::stamp::Stamp;
use crate::load::template::{Template, TemplateError};

/// Packet ids that a client has.
const MOST_IN_FLIGHT: u32 = 65_535;

/// A message; one with a packet id waits for its acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub(super) packet_id: Option<PacketId>,
    pub(super) stamp: Stamp,
    pub(super) topic: u32,
    pub(super) size: u32,
    /// Whether PUBREC has come and PUBREL is sent.
    pub(super) released: bool,
}

/// A client that publishes.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
pub(crate) struct Publisher {
    pub(super) client: u32,
    /// Its number in its group.
    pub(super) number: u32,
    pub(super) first_stream: u32,
    pub(super) topics: Box<[Box<str>]>,
    pub(super) qos: QoS,
    pub(super) retain: bool,
    pub(super) expiry_s: Option<u32>,
    pub(super) size: Size,
    pub(super) record: Option<Record>,
    pub(super) chance: Chance,
    /// The window of a closed loop.
    pub(super) window: Option<u64>,
    pub(super) schedule: Option<Schedule>,
    /// Measured messages it may send, at most.
    pub(super) messages: u64,
    pub(super) offered: u64,
    pub(super) sent: u64,
    pub(super) warm_up_sent: u64,
    pub(super) in_flight: VecDeque<InFlight>,
    pub(super) last_id: u16,
    /// Messages that the broker takes at a time.
    limit: u32,
    /// Subscribers of this process that its messages are due to.
    pub(super) fan: u64,
    /// Messages under way or settled since the window was last opened, and deliveries among them that are settled.
    pub(super) in_window: u64,
    pub(super) settled: u64,
    /// The number of settled messages when the window became full, and the time.
    pub(super) full: Option<(u64, u64)>,
    /// Whether it waits for its connection to take some output.
    pub(super) crowded: bool,
    pub(super) started: bool,
    pub(super) done: bool,
    /// Whether a timer is set for it.
    pub(super) armed: bool,
    /// Whether it is in the list of publishers that may continue.
    pub(super) eager: bool,
}

impl Publisher {
    pub(super) fn new(
        publishing: &Publishing,
        client: u32,
        number: u32,
        first_stream: u32,
        chance: Chance,
    ) -> Result<Self, TemplateError> {
        let template = Template::new(&publishing.topics.pattern)?;
        let topics = (0..publishing.topics.count).map(|topic| template.expand(number, topic).into());
        Ok(Self {
            client,
            number,
            first_stream,
            topics: topics.collect(),
            qos: QoS::from_bits(publishing.qos).unwrap_or_default(),
            retain: publishing.retain,
            expiry_s: publishing.expiry_s,
            size: publishing.payload.size,
            record: publishing.payload.record,
            chance,
            window: match publishing.pace {
                Pace::Closed { window } => Some(u64::from(window)),
                Pace::Open { .. } => None,
            },
            schedule: None,
            messages: publishing.messages.unwrap_or(u64::MAX),
            offered: 0,
            sent: 0,
            warm_up_sent: 0,
            in_flight: VecDeque::new(),
            last_id: 0,
            limit: MOST_IN_FLIGHT,
            fan: 0,
            in_window: 0,
            settled: 0,
            full: None,
            crowded: false,
            started: false,
            done: false,
            armed: false,
            eager: false,
        })
    }

    /// The broker has accepted it, with this receive maximum.
    pub(super) fn connected(&mut self, receive_maximum: Option<u16>, session_present: bool) {
        self.limit = receive_maximum.map_or(MOST_IN_FLIGHT, u32::from);
        if !session_present {
            self.in_flight.clear();
        }
    }

    /// It has lost its connection.
    pub(super) fn disconnected(&mut self, clean: bool) {
        if clean {
            self.in_flight.clear();
        }
        self.armed = false;
    }

    /// Measured messages sent on one of its streams: its topics take turns.
    pub(super) fn share(&self, messages: u64, topic: u32) -> u32 {
        let count = self.topics.len() as u64;
        (messages / count + u64::from(messages % count > u64::from(topic))) as u32
    }

    /// Whether the broker sets its pace.
    pub(super) const fn is_closed(&self) -> bool {
        self.window.is_some()
    }

    /// Counts the messages that were scheduled until then and not sent.
    pub(super) fn offer_the_rest(&mut self, until_ns: u64) {
        let Some(schedule) = &mut self.schedule else { return };
        while schedule.next_ns() < until_ns && self.offered < self.messages {
            schedule.step();
            self.offered += 1;
        }
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let first = self.first_stream;
        (0..self.topics.len() as u32).map(move |topic| (topic, first + topic))
    }

    /// The packet id of the next message; `None` while a message has it that the broker has not acknowledged.
    pub(super) fn free_id(&self) -> Option<PacketId> {
        let next = PacketId::new(self.last_id).map_or(PacketId::MIN, PacketId::next);
        // Ids are given in turn, so the oldest message is the first that could have it.
        (self.in_flight.front().and_then(|oldest| oldest.packet_id) != Some(next)).then_some(next)
    }

    pub(super) fn may_send(&self) -> bool {
        self.qos == QoS::AtMostOnce || (self.in_flight.len() < self.limit as usize && self.free_id().is_some())
    }

    /// Whether the window of a closed loop has no room.
    pub(super) fn is_full(&self, window: u64) -> bool {
        let received = self.settled.checked_div(self.fan).unwrap_or(self.in_window);
        let waiting = if self.qos == QoS::AtMostOnce { 0 } else { self.in_flight.len() as u64 };
        self.in_window.saturating_sub(received).max(waiting) >= window
    }
}
