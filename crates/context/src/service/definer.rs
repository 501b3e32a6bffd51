//! A group definer as a service: definers of one name share the partitions of the nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidegate_bus::{Append, BusError, GroupName, MemberName, Membership, MembershipEvent, Partition, Position, Record};

use super::courier::{Courier, Following, RETRY, key_of};
use super::{Bell, Course, Running, ServiceError};
use crate::groups::{Definition, NodeTable};
use crate::messages::{GroupAdvertisement, Payload};
use crate::partition::checksum;
use crate::register::Topic;

/// Records that are taken at once from a partition.
const TAKEN_AT_ONCE: usize = 256;

/// Advertisements of a partition that the bus has not answered, at most. Beyond it no more contexts are taken.
const MAX_UNANSWERED: usize = 1_024;
/// Characters of a definer's name in the name of the group of its processes.
const MAX_SHARED_NAME: usize = 56;
/// How long a definer that ends waits for the answers to its advertisements.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

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
    let group = GroupName::new(&group_of(definition.definer()))?;
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

/// The name of the group of a definer's processes: with a checksum where the definer's name is too long for it or has
/// dots. In the group of another definer each would have only some of the partitions.
fn group_of(definer: &str) -> String {
    if definer.len() <= MAX_SHARED_NAME && !definer.contains('.') {
        return format!("groups-{definer}");
    }
    let sum = checksum(definer.as_bytes());
    let shown: String = definer.chars().map(|c| if c == '.' { '_' } else { c }).take(MAX_SHARED_NAME - 9).collect();
    format!("groups-{shown}-{sum:08x}")
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
                MembershipEvent::Gained(partition) => parts.gain(partition),
                MembershipEvent::Losing(partition) | MembershipEvent::Lost(partition) => parts.lose(partition),
            }
        }
        for partition in parts.take_finished() {
            membership.release(partition);
        }
        parts.put_failed_aside(bell);
        for number in parts.take_ready(bell) {
            parts.worked.extend(Part::begin(courier, definition, number, bell, course).map(|part| (number, part)));
        }
        for part in parts.worked.values_mut() {
            part.turn(courier, bell);
        }
        course.stands(joined && parts.stand());
        bell.wait_until(Instant::now() + Duration::from_secs(60));
    }
    if courier.bus().connection().is_connected() {
        parts.await_answers(bell, Instant::now() + ANSWERED_WITHIN);
    }
}

/// The partitions that are this definer's.
#[derive(Default)]
struct Parts {
    worked: BTreeMap<u32, Part>,
    /// Partitions that begin, also again after a failed append.
    waiting: BTreeMap<u32, Pause>,
    /// Partitions that go to another definer, until the bus has answered all advertisements.
    leaving: BTreeMap<u32, Arc<Answers>>,
}

/// A partition that does not begin before a time.
struct Pause {
    until: Instant,
    answers: Arc<Answers>,
}

impl Parts {
    /// True if all of them continue from earlier advertisements.
    fn stand(&self) -> bool {
        self.waiting.is_empty() && self.worked.values().all(|part| part.told.is_none())
    }

    /// A partition is this definer's: it begins when its earlier advertisements are answered.
    fn gain(&mut self, Partition(number): Partition) {
        let answers = self.leaving.remove(&number).unwrap_or_default();
        self.waiting.insert(number, Pause { until: Instant::now(), answers });
    }

    /// A partition goes to another definer: no more contexts of it are taken here.
    fn lose(&mut self, Partition(number): Partition) {
        let worked = self.worked.remove(&number).map(|part| part.answers);
        let waiting = self.waiting.remove(&number).map(|waiting| waiting.answers);
        if let Some(answers) = worked.or(waiting) {
            self.leaving.insert(number, answers);
        }
    }

    /// Takes the partitions that may go. An advertisement on its way could be stored behind a newer one of the next
    /// definer, which would not read it.
    fn take_finished(&mut self) -> Vec<Partition> {
        take_where(&mut self.leaving, |answers| answers.are_complete()).into_keys().map(Partition).collect()
    }

    /// Waits until the bus has answered all advertisements: the next definer would not read the others.
    fn await_answers(&self, bell: &Bell, until: Instant) {
        let worked = self.worked.values().map(|part| &part.answers);
        let all = worked.chain(self.waiting.values().map(|waiting| &waiting.answers)).chain(self.leaving.values());
        for answers in all {
            while !answers.are_complete() && Instant::now() < until {
                bell.wait_until(until);
            }
        }
    }

    /// Works out failed advertisements again from the stored ones, after a pause: a bus that takes nothing is not asked
    /// without end.
    fn put_failed_aside(&mut self, bell: &Bell) {
        let until = Instant::now() + RETRY;
        for (number, part) in take_where(&mut self.worked, |part| part.answers.has_failed.load(Ordering::Acquire)) {
            self.waiting.insert(number, Pause { until, answers: part.answers });
            bell.ring_at(until);
        }
    }

    /// Takes the partitions that may begin. An advertisement on its way would not be read, and could be stored behind a
    /// newer one.
    fn take_ready(&mut self, bell: &Bell) -> Vec<u32> {
        let now = Instant::now();
        let ready = take_where(&mut self.waiting, |waiting| waiting.until <= now && waiting.answers.are_complete());
        // The last answer rings, too.
        if let Some(until) = self.waiting.values().map(|waiting| waiting.until).filter(|until| *until > now).min() {
            bell.ring_at(until);
        }
        ready.into_keys().collect()
    }
}

/// Takes the wanted partitions out of a map.
fn take_where<T>(parts: &mut BTreeMap<u32, T>, is_wanted: impl Fn(&T) -> bool) -> BTreeMap<u32, T> {
    let wanted: Vec<u32> = parts.iter().filter(|(_, part)| is_wanted(part)).map(|(number, _)| *number).collect();
    wanted.into_iter().filter_map(|number| parts.remove_entry(&number)).collect()
}

/// The answers of the bus to the advertisements of a partition.
#[derive(Debug, Default)]
struct Answers {
    /// Advertisements without an answer.
    missing: AtomicUsize,
    /// Whether an advertisement was not stored.
    has_failed: AtomicBool,
}

impl Answers {
    fn are_complete(&self) -> bool {
        self.missing.load(Ordering::Acquire) == 0
    }

    /// Contexts that may be taken: each gives one advertisement at most.
    fn room(&self) -> usize {
        MAX_UNANSWERED.saturating_sub(self.missing.load(Ordering::Acquire))
    }

    /// Notes an answer, and wakes a definer that waits for the last one, or for room.
    fn note(&self, is_stored: bool, bell: &Bell) {
        self.has_failed.fetch_or(!is_stored, Ordering::AcqRel);
        let left = self.missing.fetch_sub(1, Ordering::AcqRel).saturating_sub(1);
        if !is_stored || left == 0 || left == MAX_UNANSWERED / 2 {
            bell.ring();
        }
    }
}

/// A partition that is this definer's.
struct Part {
    number: u32,
    table: NodeTable,
    /// Earlier advertisements, until they are read up to here.
    told: Option<(Following, Position)>,
    contexts: Following,
    answers: Arc<Answers>,
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
        Some(Self { number, table, told: Some((told, until)), contexts, answers: Arc::default() })
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
        let room = self.answers.room();
        if room == 0 {
            return;
        }
        for record in self.contexts.take(courier, bell, TAKEN_AT_ONCE.min(room)) {
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
        let (answers, its_bell, told) = (Arc::clone(&self.answers), bell.clone(), Arc::clone(courier.told()));
        let settle = move |outcome: Result<Position, BusError>| {
            if let Err(error) = &outcome
                && let Some(times) = told.not_advertised.note()
            {
                tracing::warn!(%error, times, "an advertisement of groups was not stored; its partition is computed again");
            }
            answers.note(outcome.is_ok(), &its_bell);
        };
        self.answers.missing.fetch_add(1, Ordering::AcqRel);
        let done = Box::new(settle.clone());
        if let Err(error) = courier.try_append(Topic::GroupAdvertisement, self.number, append, done) {
            settle(Err(error));
        }
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tidegate_bus::{Address, Bus, Settings};
    use tidegate_document::FileText;

    use super::*;
    use crate::groups::read_groups;
    use crate::register::RecordLimits;

    const GROUPS: &str = "definer = 'gd'\n[[group]]\nname = 'all'\nwhen = 'true'\n";

    /// A definer's process on the bus of a directory that no process serves.
    struct Bench {
        directory: PathBuf,
        courier: Courier,
        bell: Bell,
        parts: Parts,
    }

    impl Bench {
        fn new(name: &str, settings: Settings) -> Self {
            let directory = std::env::temp_dir().join(format!("tidegate-definer-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&directory);
            let address = Address::Directory { path: directory.clone(), serves: false };
            let bus = Bus::open(&address, settings, Arc::new(|_| {})).unwrap();
            for topic in Topic::ALL {
                bus.know(topic.spec(1, RecordLimits::default()).unwrap());
            }
            let (courier, bell) = (Courier::new(bus, 1), Bell::default());
            let mut bench = Self { directory, courier, bell, parts: Parts::default() };
            bench.begin();
            bench
        }

        /// The first partition begins without earlier advertisements.
        fn begin(&mut self) {
            let contexts = Following::new(&self.courier, Topic::ContextReport, 0, Position::START, &self.bell);
            let table = NodeTable::new(Arc::new(read_groups(&FileText::new("g.toml", GROUPS)).unwrap()));
            self.parts.worked.insert(0, Part { number: 0, table, told: None, contexts, answers: Arc::default() });
        }

        fn advertise(&self, node: &str) {
            let advertisement = GroupAdvertisement { definer: "gd".to_owned(), ..GroupAdvertisement::default() };
            self.parts.worked[&0].tell(&self.courier, &self.bell, node, &advertisement);
        }

        /// A process serves the bus, and answers all: it has no such log.
        fn serve(&self) -> Bus {
            let address = Address::Directory { path: self.directory.clone(), serves: true };
            Bus::open(&address, Settings::default(), Arc::new(|_| {})).unwrap()
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }

    #[test]
    fn an_advertisement_refused_at_once_is_worked_out_again() {
        let mut bench = Bench::new("refused", Settings { max_waiting: 1, ..Settings::default() });
        bench.advertise("a");
        bench.parts.put_failed_aside(&bench.bell);
        assert!(bench.parts.waiting.is_empty(), "the first one waits for the bus");
        bench.advertise("b");
        bench.parts.put_failed_aside(&bench.bell);
        assert!(bench.parts.waiting.contains_key(&0) && bench.parts.worked.is_empty());
    }

    #[test]
    fn a_partition_waits_for_the_answers_of_the_bus() {
        let mut bench = Bench::new("answers", Settings::default());
        bench.advertise("a");
        bench.parts.lose(Partition(0));
        assert!(bench.parts.take_finished().is_empty(), "the next definer would not read the advertisement");
        bench.parts.gain(Partition(0));
        assert!(bench.parts.take_ready(&bench.bell).is_empty(), "it would not read it itself");
        bench.parts.lose(Partition(0));
        let _server = bench.serve();
        let finished = loop {
            match bench.parts.take_finished() {
                finished if finished.is_empty() => bench.bell.wait_until(Instant::now() + Duration::from_secs(60)),
                finished => break finished,
            }
        };
        assert_eq!(finished, [Partition(0)]);
        bench.parts.gain(Partition(0));
        assert_eq!(bench.parts.take_ready(&bench.bell), [0]);
    }

    #[test]
    fn definers_with_similar_names_share_no_group() {
        let long = "d".repeat(60);
        let names = ["gd", "g_d", "g.d", &long, &format!("{long}2"), &"d".repeat(56)];
        let groups: std::collections::BTreeSet<String> = names.iter().map(|name| group_of(name)).collect();
        assert_eq!(groups.len(), names.len(), "{groups:?}");
        assert!(groups.iter().all(|group| GroupName::new(group).is_ok()) && groups.contains("groups-gd"));
    }

    #[test]
    fn no_more_contexts_are_taken_than_the_bus_answers() {
        let (answers, bell) = (Answers::default(), Bell::default());
        answers.missing.store(MAX_UNANSWERED, Ordering::Release);
        assert_eq!(answers.room(), 0);
        for _ in 0..MAX_UNANSWERED / 2 {
            answers.note(true, &bell);
        }
        // A bell that did not ring would let this wait for an hour.
        bell.wait_until(Instant::now() + Duration::from_secs(3_600));
        assert_eq!((answers.room(), answers.are_complete()), (MAX_UNANSWERED / 2, false));
    }
}
