//! From applications to nodes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tidegate_bus::{Append, BusError, Membership, MembershipEvent, Partition, Position, Record};

use super::positions::{Positions, Stream};
use super::{ApplicationHost, ApplicationSettings, Sharing};
use crate::records::{Delivery, Packing, Rejected, read_record};
use crate::register::Topic;
use crate::service::courier::{Courier, Following};
use crate::service::{Bell, Course, wall_ms};

/// Records of a partition that are given to the broker and not answered for.
const MAX_IN_FLIGHT: usize = 1_024;
/// Records that are taken at once from a partition.
const TAKEN_AT_ONCE: usize = 256;
/// After how long the broker is given a record again that it could not answer for: a node has died, and its place is
/// taken within some leases.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// Bytes of a rejected record that go along to where it can be looked at.
const MAX_REJECTED_BYTES: usize = 512 * 1024;

/// The work of a reader of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It delivers messages and rejects bad records: one gateway of all reads each record.
    DeliverAndReject,
    /// It delivers messages and passes bad records: every gateway reads each record.
    Deliver,
    /// It rejects bad records and delivers nothing: one gateway of all reads each record.
    Reject,
}

/// Brings records of applications to nodes.
pub(super) struct Inbound {
    role: Role,
    packing: Packing,
    membership: Option<Membership>,
    parts: BTreeMap<u32, Part>,
    positions: Positions,
    in_flight: HashMap<u64, (Stream, Option<Delivery>)>,
    next_number: u64,
    /// Records to give to the broker again, with their times. Bounded by the records under way.
    again: VecDeque<(Instant, u64)>,
    /// Records that are done without the broker: rejected, expired, or not for this reader.
    aside: Receiver<u64>,
    put_aside: Sender<u64>,
}

/// A partition that is delivered here: one of each topic.
struct Part {
    lanes: [Lane; 3],
    /// Up to here positions have to be read first.
    until: Position,
    begun: bool,
    losing: bool,
}

/// A partition of a topic.
struct Lane {
    topic: Topic,
    following: Option<Following>,
    /// In the order of the records: the number, where to go on after it, and whether it is done.
    pending: VecDeque<(u64, Position, bool)>,
}

impl Inbound {
    pub(super) fn new(
        courier: &Courier,
        settings: &ApplicationSettings,
        membership: Option<Membership>,
        bell: &Bell,
    ) -> Self {
        let (role, consumer) = match &settings.sharing {
            Sharing::Shared(_) => (Role::DeliverAndReject, "shared".to_owned()),
            Sharing::Each => (Role::Deliver, format!("gateway-{}", settings.gateway)),
        };
        Self::with_role(courier, settings.packing, role, consumer, membership, bell)
    }

    /// The reader that rejects bad records where each gateway delivers all records: gateways share its
    /// partitions, so a bad record is rejected once.
    pub(super) fn rejecting(courier: &Courier, packing: Packing, membership: Membership, bell: &Bell) -> Self {
        Self::with_role(courier, packing, Role::Reject, "rejected".to_owned(), Some(membership), bell)
    }

    fn with_role(
        courier: &Courier,
        packing: Packing,
        role: Role,
        consumer: String,
        membership: Option<Membership>,
        bell: &Bell,
    ) -> Self {
        let (put_aside, aside) = channel();
        Self {
            role,
            packing,
            membership,
            parts: BTreeMap::new(),
            positions: Positions::new(courier, consumer, bell),
            in_flight: HashMap::new(),
            next_number: 0,
            again: VecDeque::new(),
            aside,
            put_aside,
        }
    }

    /// The membership among the gateways that share the records; records under way are delivered by others, too.
    pub(super) fn into_membership(self) -> Option<Membership> {
        self.membership
    }

    /// The broker answers for a record, or has to be given it again.
    pub(super) fn taken(&mut self, number: u64, taken: bool) {
        if taken {
            self.done(number);
        } else {
            self.again.push_back((Instant::now() + AGAIN_AFTER, number));
        }
    }

    /// Gives due records to the broker again that it could not confirm; returns the time of the next one.
    fn give_again(&mut self, courier: &Courier, host: &mut dyn ApplicationHost) -> Option<Instant> {
        while let Some((at, number)) = self.again.front().copied() {
            if at > Instant::now() {
                return Some(at);
            }
            self.again.pop_front();
            let Some((_, Some(delivery))) = self.in_flight.get(&number) else { continue };
            if let Some(delivery) = in_time(delivery.clone()) {
                host.deliver(&delivery, number);
            } else {
                courier.counters().records_expired.add(1);
                self.done(number);
            }
        }
        None
    }

    fn done(&mut self, number: u64) {
        let Some((stream, _)) = self.in_flight.remove(&number) else { return };
        let (topic, partition) = stream;
        let Some(part) = self.parts.get_mut(&partition) else { return };
        let Some(lane) = part.lanes.iter_mut().find(|lane| lane.topic == topic) else { return };
        if let Some(pending) = lane.pending.iter_mut().find(|pending| pending.0 == number) {
            pending.2 = true;
        }
        let mut next = None;
        while let Some((_, after, true)) = lane.pending.front().copied() {
            lane.pending.pop_front();
            next = Some(after);
        }
        if let Some(next) = next {
            self.positions.advance(stream, next);
        }
    }

    /// Takes deliverable records and gives them to the broker; returns the latest time of the next call.
    pub(super) fn turn(
        &mut self,
        courier: &Courier,
        host: &mut dyn ApplicationHost,
        bell: &Bell,
        course: &Course,
    ) -> Option<Instant> {
        let again = self.give_again(courier, host);
        self.positions.read(courier, bell);
        self.take_membership(courier, course);
        for number in self.aside.try_iter().collect::<Vec<_>>() {
            self.done(number);
        }
        let shared = self.membership.is_some();
        for number in self.parts.keys().copied().collect::<Vec<_>>() {
            let Some(mut part) = self.parts.remove(&number) else { continue };
            if !part.begun && self.positions.has_read(part.until) {
                part.begun = part.begin(courier, &mut self.positions, number, shared, bell, course).is_some();
                bell.ring();
            }
            if !part.losing {
                for lane in &mut part.lanes {
                    self.take_lane(courier, host, lane, number, bell);
                }
            }
            self.parts.insert(number, part);
        }
        self.positions.write(courier, bell);
        self.release();
        again
    }

    fn take_membership(&mut self, courier: &Courier, course: &Course) {
        let Some(membership) = &self.membership else {
            if self.parts.is_empty()
                && let Some(part) = Part::new(courier, course)
            {
                let until = part.until;
                let others = (1..courier.partitions()).map(|number| (number, Part::from(until)));
                self.parts.extend(others);
                self.parts.insert(0, part);
            }
            return;
        };
        for event in membership.take() {
            match event {
                MembershipEvent::Gained(Partition(number)) => {
                    self.parts.extend(Part::new(courier, course).map(|part| (number, part)));
                }
                MembershipEvent::Losing(Partition(number)) => {
                    if let Some(part) = self.parts.get_mut(&number) {
                        part.losing = true;
                    }
                }
                MembershipEvent::Lost(Partition(number)) => {
                    // Records under way are delivered by the present owner of the partition, too.
                    self.parts.remove(&number);
                    self.positions.forget(number);
                    self.in_flight.retain(|_, ((_, partition), _)| *partition != number);
                }
            }
        }
    }

    /// Gives back partitions that others are to have, when all that was begun is done and noted.
    fn release(&mut self) {
        let Some(membership) = &self.membership else { return };
        let positions = &self.positions;
        self.parts.retain(|number, part| {
            let rests = |lane: &Lane| lane.pending.is_empty() && positions.is_noted((lane.topic, *number));
            let goes = part.losing && part.lanes.iter().all(rests);
            if goes {
                membership.release(Partition(*number));
            }
            !goes
        });
    }

    fn take_lane(
        &mut self,
        courier: &Courier,
        host: &mut dyn ApplicationHost,
        lane: &mut Lane,
        partition: u32,
        bell: &Bell,
    ) {
        let room = MAX_IN_FLIGHT.saturating_sub(lane.pending.len()).min(TAKEN_AT_ONCE);
        let Some(following) = lane.following.as_mut().filter(|_| room > 0) else { return };
        let stream = (lane.topic, partition);
        for record in following.take(courier, bell, room) {
            let number = self.next_number;
            self.next_number += 1;
            lane.pending.push_back((number, record.position.next(), false));
            match read_record(lane.topic, &record, self.packing).map(in_time) {
                Ok(_) if self.role == Role::Reject => self.pass(stream, number, bell),
                Ok(Some(delivery)) => {
                    courier.counters().records_in.add(1);
                    host.deliver(&delivery, number);
                    self.in_flight.insert(number, (stream, Some(delivery)));
                }
                Ok(None) => {
                    courier.counters().records_expired.add(1);
                    self.pass(stream, number, bell);
                }
                Err(_) if self.role == Role::Deliver => self.pass(stream, number, bell),
                Err(rejected) => {
                    self.in_flight.insert(number, (stream, None));
                    self.reject(courier, stream, number, &record, &rejected, bell);
                }
            }
        }
    }

    /// Passes a record that the broker is not given: it is done with the next turn.
    fn pass(&mut self, stream: Stream, number: u64, bell: &Bell) {
        self.in_flight.insert(number, (stream, None));
        let _ = self.put_aside.send(number);
        bell.ring();
    }

    /// Stores a record that is no message for inspection, and continues after it.
    fn reject(
        &self,
        courier: &Courier,
        stream: Stream,
        number: u64,
        record: &Record,
        rejected: &Rejected,
        bell: &Bell,
    ) {
        let (topic, partition) = stream;
        let count = &courier.counters().records_rejected;
        count.add(1);
        // Each is where it can be looked at.
        if let Some(times) = courier.told().rejected.note() {
            tracing::warn!(
                topic = topic.name(), partition, position = record.position.0, reason = %rejected, times,
                "a record is not a message for nodes; it was moved to RejectedRecords"
            );
        }
        let reason: String = rejected.0.chars().map(|c| if c.is_control() { ' ' } else { c }).take(512).collect();
        let payload = record.payload.slice(..record.payload.len().min(MAX_REJECTED_BYTES));
        let append = Append::new(payload)
            .with_key(record.key.slice(..record.key.len().min(512)))
            .with_header("topic", topic.name())
            .with_header("partition", partition.to_string())
            .with_header("position", record.position.0.to_string())
            .with_header("reason", reason.trim());
        let (aside, bell, told) = (self.put_aside.clone(), bell.clone(), Arc::clone(courier.told()));
        let settle = move |outcome: Result<Position, BusError>| {
            if let Err(error) = outcome
                && let Some(times) = told.not_aside.note()
            {
                tracing::warn!(%error, times, "an invalid record was skipped, and could not be copied to RejectedRecords");
            }
            // The service may have ended.
            let _ = aside.send(number);
            bell.ring();
        };
        let late = settle.clone();
        if let Err(error) = courier.try_append(Topic::RejectedRecords, 0, append, Box::new(late)) {
            settle(Err(error));
        }
    }
}

/// Reduces a message to the rest of its time; `None` when it is over.
fn in_time(mut delivery: Delivery) -> Option<Delivery> {
    if let Some(at) = delivery.expires_at_ms {
        let left = at.checked_sub(wall_ms()).filter(|left| *left > 0)?;
        let left = u32::try_from(left.div_ceil(1_000)).unwrap_or(u32::MAX);
        delivery.expiry = Some(delivery.expiry.map_or(left, |seconds| seconds.min(left)));
    }
    Some(delivery)
}

impl Part {
    fn from(until: Position) -> Self {
        let lanes = Topic::TO_NODES.map(|topic| Lane { topic, following: None, pending: VecDeque::new() });
        Self { lanes, until, begun: false, losing: false }
    }

    /// One that begins when the positions that were noted up to now are read.
    fn new(courier: &Courier, course: &Course) -> Option<Self> {
        Some(Self::from(courier.bounds(Topic::DeliveryPositions, 0, course)?.next))
    }

    /// Begins to read. A gateway that shares records begins with the first of all; a gateway for itself with new ones.
    fn begin(
        &mut self,
        courier: &Courier,
        positions: &mut Positions,
        number: u32,
        shared: bool,
        bell: &Bell,
        course: &Course,
    ) -> Option<()> {
        for lane in &mut self.lanes {
            let from = match positions.of((lane.topic, number)) {
                Some(position) => position,
                None if shared => Position::START,
                None => {
                    let next = courier.bounds(lane.topic, number, course)?.next;
                    // Records that come while this gateway is away are for it from now on.
                    positions.advance((lane.topic, number), next);
                    next
                }
            };
            lane.following = Some(Following::new(courier, lane.topic, number, from, bell));
        }
        Some(())
    }
}
