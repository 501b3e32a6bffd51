//! A group definer as a service: those of one name share the partitions of the nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidegate_bus::{Append, BusError, GroupName, MemberName, Membership, MembershipEvent, Partition, Position, Record};

use super::courier::{Courier, Following, key_of};
use super::gateway::read;
use super::{Bell, Course, Running, ServiceError};
use crate::groups::{Definition, NodeTable};
use crate::messages::{GroupAdvertisement, Payload};
use crate::register::Topic;

/// Records that are taken at once from a partition.
const TAKEN_AT_ONCE: usize = 256;

/// How a definer runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinerSettings {
    /// The name of this process among those that share the work.
    pub member: String,
}

/// Starts the thread of a definer.
///
/// # Errors
/// When the thread cannot be started, or the name of the member is none.
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
    let mut parts: BTreeMap<u32, Part> = BTreeMap::new();
    while !course.is_over() {
        // Asked before what it has: who is a member has its share, too.
        let joined = membership.tenure().is_some();
        for event in membership.take() {
            match event {
                MembershipEvent::Gained(Partition(number)) => {
                    parts.extend(Part::begin(courier, definition, number, bell, course).map(|part| (number, part)));
                }
                MembershipEvent::Losing(partition) => {
                    parts.remove(&partition.0);
                    membership.release(partition);
                }
                MembershipEvent::Lost(partition) => drop(parts.remove(&partition.0)),
            }
        }
        let failed: Vec<u32> =
            parts.iter().filter(|(_, part)| part.failed.load(Ordering::Acquire)).map(|(number, _)| *number).collect();
        for number in failed {
            // What was not stored is worked out again from what is.
            parts.remove(&number);
            parts.extend(Part::begin(courier, definition, number, bell, course).map(|part| (number, part)));
        }
        for part in parts.values_mut() {
            part.turn(courier, bell);
        }
        course.stands(joined && parts.values().all(|part| part.told.is_none()));
        bell.wait_until(Instant::now() + Duration::from_secs(60));
    }
}

/// A partition that is this definer's.
struct Part {
    number: u32,
    table: NodeTable,
    /// What was told before, until it is read up to here.
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
                    restore(&mut self.table, &record);
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
                Err(error) => tracing::debug!(node, %error, "a context was left out"),
            }
        }
    }

    fn tell(&self, courier: &Courier, bell: &Bell, node: &str, advertisement: &GroupAdvertisement) {
        courier.counters().advertisements.add(1);
        let key = format!("{}/{node}", advertisement.definer);
        let append = Append::new(advertisement.write()).with_key(Bytes::from(key));
        let (failed, bell) = (Arc::clone(&self.failed), bell.clone());
        let done = Box::new(move |outcome: Result<Position, BusError>| {
            if let Err(error) = outcome {
                tracing::warn!(%error, "an advertisement of groups was not stored; its partition is worked out again");
                failed.store(true, Ordering::Release);
                bell.ring();
            }
        });
        courier.append_to(Topic::GroupAdvertisement, self.number, append, done);
    }
}

/// Takes in what an earlier process of this definer has told.
fn restore(table: &mut NodeTable, record: &Record) {
    let Some(advertisement) = read::<GroupAdvertisement>(record) else { return };
    if advertisement.definer == table.definition().definer()
        && let Some(node) = &advertisement.node
    {
        table.restore(node, &advertisement.groups);
    }
}
