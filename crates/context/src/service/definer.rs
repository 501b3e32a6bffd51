//! A group definer as a service: definers of one name share the partitions of the nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidegate_bus::{Append, BusError, GroupName, MemberName, Membership, MembershipEvent, Partition, Position, Record};

use super::courier::{Courier, Following, RETRY, key_of};
use super::{Bell, Course, Running, ServiceError};
use crate::groups::{Definition, NodeTable};
use crate::messages::{GroupAdvertisement, Payload};
use crate::register::Topic;

/// Records that are taken at once from a partition.
const TAKEN_AT_ONCE: usize = 256;

/// How a definer runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinerSettings {
    /// The name of this process among the processes that share the work.
    pub member: String,
}

/// Starts the thread of a definer.
///
/// # Errors
/// When the thread cannot be started, or the name of the member is invalid.
pub fn start_definer(
    courier: Courier,
    settings: &DefinerSettings,
    definition: Arc<Definition>,
) -> Result<Running, ServiceError> {
    // A definer's name may be as long as a group's, and have dots.
    let shared: String = definition.definer().chars().map(|c| if c == '.' { '_' } else { c }).take(56).collect();
    let group = GroupName::new(&format!("groups-{shared}"))?;
    let member = MemberName::new(&settings.member)?;
    let bell = Bell::default();
    let membership = courier.bus().join(&group, &member, courier.partitions(), bell.wake())?;
    let name = format!("groups-{}", definition.definer());
    let body = move |bell: &Bell, course: &Course| {
        run(&courier, &definition, &membership, bell, course);
        courier.leave(membership);
    };
    Running::start(&name, bell, body).map_err(ServiceError::Thread)
}

fn run(courier: &Courier, definition: &Arc<Definition>, membership: &Membership, bell: &Bell, course: &Course) {
    if courier.prepare(&Topic::ALL, course).is_none() {
        return;
    }
    let mut parts = Parts::default();
    while !course.is_over() {
        // Asked before its partitions: a member has its share, too.
        let joined = membership.tenure().is_some();
        for event in membership.take() {
            match event {
                MembershipEvent::Gained(Partition(number)) => {
                    let part = Part::begin(courier, definition, number, bell, course);
                    parts.worked.extend(part.map(|part| (number, part)));
                }
                MembershipEvent::Losing(partition) => {
                    parts.end(partition);
                    membership.release(partition);
                }
                MembershipEvent::Lost(partition) => parts.end(partition),
            }
        }
        parts.put_failed_aside(bell);
        for number in parts.take_rested(bell) {
            parts.worked.extend(Part::begin(courier, definition, number, bell, course).map(|part| (number, part)));
        }
        for part in parts.worked.values_mut() {
            part.turn(courier, bell);
        }
        course.stands(joined && parts.stand());
        bell.wait_until(Instant::now() + Duration::from_secs(60));
    }
}

/// The partitions that are this definer's.
#[derive(Default)]
struct Parts {
    worked: BTreeMap<u32, Part>,
    /// Partitions with a failed append, and the times of their next try.
    resting: BTreeMap<u32, Instant>,
}

impl Parts {
    /// True if all of them continue from earlier advertisements.
    fn stand(&self) -> bool {
        self.resting.is_empty() && self.worked.values().all(|part| part.told.is_none())
    }

    fn end(&mut self, partition: Partition) {
        self.worked.remove(&partition.0);
        self.resting.remove(&partition.0);
    }

    /// Works out failed advertisements again from the stored ones, after a pause: a bus that takes nothing is not asked
    /// without end.
    fn put_failed_aside(&mut self, bell: &Bell) {
        let again = Instant::now() + RETRY;
        let failed = self.worked.iter().filter(|(_, part)| part.failed.load(Ordering::Acquire));
        let failed: Vec<u32> = failed.map(|(number, _)| *number).collect();
        for number in failed {
            self.worked.remove(&number);
            self.resting.insert(number, again);
            bell.ring_at(again);
        }
    }

    /// Those whose pause is over.
    fn take_rested(&mut self, bell: &Bell) -> Vec<u32> {
        let now = Instant::now();
        let (rested, resting) = std::mem::take(&mut self.resting).into_iter().partition(|(_, again)| *again <= now);
        self.resting = resting;
        if let Some(again) = self.resting.values().min() {
            bell.ring_at(*again);
        }
        BTreeMap::into_keys(rested).collect()
    }
}

/// A partition that is this definer's.
struct Part {
    number: u32,
    table: NodeTable,
    /// Earlier advertisements, until they are read up to here.
    told: Option<(Following, Position)>,
    contexts: Following,
    /// An advertisement was not stored.
    failed: Arc<AtomicBool>,
}

impl Part {
    fn begin(
        courier: &Courier,
        definition: &Arc<Definition>,
        number: u32,
        bell: &Bell,
        course: &Course,
    ) -> Option<Self> {
        let until = courier.bounds(Topic::GroupAdvertisement, number, course)?.next;
        let told = Following::new(courier, Topic::GroupAdvertisement, number, Position::START, bell);
        let contexts = Following::new(courier, Topic::ContextReport, number, Position::START, bell);
        let table = NodeTable::new(Arc::clone(definition));
        bell.ring();
        Some(Self { number, table, told: Some((told, until)), contexts, failed: Arc::default() })
    }

    fn turn(&mut self, courier: &Courier, bell: &Bell) {
        if let Some((told, until)) = &mut self.told {
            if told.next() < *until {
                for record in told.take(courier, bell, TAKEN_AT_ONCE) {
                    restore(courier, &mut self.table, &record);
                }
            }
            if told.next() < *until {
                return;
            }
            self.told = None;
        }
        for record in self.contexts.take(courier, bell, TAKEN_AT_ONCE) {
            let Some(node) = key_of(&record) else { continue };
            courier.counters().contexts_evaluated.add(1);
            match self.table.context(node, record.position.0, &record.payload) {
                Ok(Some(advertisement)) => self.tell(courier, bell, node, &advertisement),
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(node, %error, "a context was left out");
                    courier.leave_out(error.into(), node);
                }
            }
        }
    }

    fn tell(&self, courier: &Courier, bell: &Bell, node: &str, advertisement: &GroupAdvertisement) {
        courier.counters().advertisements.add(1);
        let key = format!("{}/{node}", advertisement.definer);
        let append = Append::new(advertisement.write()).with_key(Bytes::from(key));
        let (failed, bell, told) = (Arc::clone(&self.failed), bell.clone(), Arc::clone(courier.told()));
        let done = Box::new(move |outcome: Result<Position, BusError>| {
            if let Err(error) = outcome {
                if let Some(times) = told.not_advertised.note() {
                    tracing::warn!(%error, times, "an advertisement of groups was not stored; its partition is computed again");
                }
                failed.store(true, Ordering::Release);
                bell.ring();
            }
        });
        courier.append_to(Topic::GroupAdvertisement, self.number, append, done);
    }
}

/// Takes over the advertisements of an earlier process of this definer.
fn restore(courier: &Courier, table: &mut NodeTable, record: &Record) {
    let Some(advertisement) = courier.read_as::<GroupAdvertisement>(record) else { return };
    if advertisement.definer == table.definition().definer()
        && let Some(node) = &advertisement.node
    {
        table.restore(node, &advertisement.groups);
    }
}
