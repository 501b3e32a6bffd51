//! The clients of a plan that live in one of its processes.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::client::{Client, Output, State};
use super::publish::Publisher;
use super::receive::Receiver;
use super::refusals::Refusals;
use super::{Core, Meter, NONE, Phase, Times};
use crate::load::chance::{Chance, mix};
use crate::load::directory::{Directory, filters_of, publishing, subscribing};
use crate::load::ledger::Ledger;
use crate::load::outcome::{GroupOutcome, LoadOutcome};
use crate::load::plan::{Begin, ClientGroup, Filler, LoadPlan, PlanError, Role, Subscribing};
use crate::load::rounds::RoundBooks;
use crate::load::stamp::{Marks, STAMP_LEN};
use crate::load::timers::{Timer, Timers};

impl Core {
    /// The clients that live in worker number `worker` of the plan's processes.
    ///
    /// # Errors
    /// When the plan cannot be carried out.
    pub(crate) fn new(plan: Rc<LoadPlan>, worker: u32) -> Result<Self, PlanError> {
        plan.validate()?;
        let directory = Directory::new(&plan)?;
        let groups =
            plan.groups.iter().map(|group| GroupOutcome { name: group.name.clone(), ..GroupOutcome::default() });
        let books = LoadOutcome { groups: groups.collect(), ..LoadOutcome::default() };
        let mut core = Self {
            version: plan.protocol.version(),
            marks: Marks::of(plan.seed),
            owners: vec![NONE; directory.primary() as usize],
            directory,
            clients: Vec::new(),
            publishers: Vec::new(),
            receivers: Vec::new(),
            answered: HashMap::new(),
            respondents: HashMap::new(),
            refused: HashMap::new(),
            refusals: Refusals::default(),
            held: HashMap::new(),
            eager: Vec::new(),
            ledger: Ledger::default(),
            timers: Timers::default(),
            phase: Phase::Gathering,
            times: Times::UNKNOWN,
            next_dial: 0,
            on_their_way: 0,
            pending: 0,
            next_to_leave: 0,
            outstanding: None,
            publishing: 0,
            connected: 0,
            fillers: plan.groups.iter().map(|group| filler(group, plan.seed)).collect(),
            document: Vec::new(),
            books,
            meter: Meter::default(),
            actions: Vec::new(),
            dirty: Vec::new(),
            rounds: plan.groups.iter().map(|group| group.rounds.then(RoundBooks::default)).collect(),
            at_work: HashMap::new(),
            plan,
        };
        core.populate(worker)?;
        core.pending = core.clients.len() as u32;
        core.publishing = core.publishers.len() as u32;
        core.timers.set(0, Timer::Ramp);
        if core.plan.begin == Begin::AtOnce {
            core.begin(0);
        }
        Ok(core)
    }

    fn populate(&mut self, worker: u32) -> Result<(), PlanError> {
        let plan = Rc::clone(&self.plan);
        let mut shared = HashMap::new();
        let mut respondent = 0;
        for (index, group) in plan.groups.iter().enumerate() {
            for number in 0..group.count {
                let answers = matches!(group.role, Role::Respondent { .. });
                if plan.worker_of(index, number) == worker {
                    if answers {
                        self.respondents.insert(self.clients.len() as u32, respondent);
                    }
                    let wrong = |problem| PlanError::Group { group: group.name.clone(), problem };
                    self.add_client(index as u16, number, &mut shared).map_err(wrong)?;
                }
                respondent += u32::from(answers);
            }
        }
        Ok(())
    }

    fn add_client(&mut self, group: u16, number: u32, shared: &mut HashMap<String, u32>) -> Result<(), String> {
        let client = self.clients.len() as u32;
        let role = &self.plan.groups[usize::from(group)].role;
        let mut receiver = NONE;
        if let Some(subscribing) = subscribing(role) {
            let next = self.receivers.len() as u32;
            receiver = match share(subscribing, number)? {
                Some(share) => *shared.entry(share).or_insert(next),
                None => next,
            };
            if receiver == next {
                self.receivers.push(Receiver::new(subscribing, client));
            }
        }
        let mut publisher = NONE;
        if let Some(publishing) = publishing(role) {
            publisher = self.publishers.len() as u32;
            let first = self.directory.first_of(usize::from(group), number, publishing.topics.count);
            for stream in first..first + publishing.topics.count {
                self.owners[stream as usize] = publisher;
            }
            let chance = Chance::of_part(self.plan.seed, u64::from(group) << 32 | u64::from(number));
            self.publishers.push(Publisher::new(publishing, client, number, first, chance)?);
        }
        self.clients.push(Client {
            group,
            number,
            state: State::Waiting,
            slot: 0,
            queued: false,
            known: false,
            on_its_way: false,
            epoch: 0,
            since_ns: 0,
            publisher,
            receiver,
            place: self.first_place(group, number),
            relayed_id: 0,
            out: Output::default(),
        });
        Ok(())
    }
}

impl Core {
    /// Where a client connects first.
    fn first_place(&self, group: u16, number: u32) -> u16 {
        let places = 1 + self.plan.target.others.len() as u32;
        let wanted = u32::from(self.plan.groups[usize::from(group)].connect.places);
        (number % if wanted == 0 { places } else { wanted.min(places) }) as u16
    }
}

/// The subscription that a client shares with others.
fn share(subscribing: &Subscribing, number: u32) -> Result<Option<String>, String> {
    let Some(share) = &subscribing.shared else { return Ok(None) };
    Ok(Some(format!("{share}/{}", filters_of(subscribing, number)?.join(" "))))
}

/// The bytes that the payloads of a group are cut from.
fn filler(group: &ClientGroup, seed: u64) -> Vec<u8> {
    let Some(payload) = publishing(&group.role).map(|publishing| &publishing.payload) else { return Vec::new() };
    let mut bytes = vec![0; (payload.size.bounds().1 as usize).saturating_sub(STAMP_LEN)];
    match &payload.filler {
        Filler::Zeros => {}
        Filler::Repeated(pattern) => {
            for (byte, filled) in bytes.iter_mut().zip(pattern.iter().cycle()) {
                *byte = *filled;
            }
        }
        Filler::Random => {
            let mut number = seed;
            for chunk in bytes.chunks_mut(8) {
                number = mix(number);
                chunk.copy_from_slice(&number.to_le_bytes()[..chunk.len()]);
            }
        }
    }
    bytes
}

impl Core {
    /// Notes the receivers of all messages: clients that subscribed before the first one.
    pub(super) fn note_who_is_there(&mut self) {
        let ready: HashSet<u32> =
            self.clients.iter().filter(|client| client.state == State::Ready).map(|client| client.receiver).collect();
        let always = self.plan.begin == Begin::WhenReady;
        for (index, receiver) in self.receivers.iter_mut().enumerate() {
            receiver.from_begin = always && ready.contains(&(index as u32));
        }
        for receiver in 0..self.receivers.len() {
            if !self.receivers[receiver].from_begin {
                continue;
            }
            for stream in self.streams_of(receiver as u32).iter() {
                if let Some(publisher) =
                    self.owners.get(*stream as usize).and_then(|owner| self.publishers.get_mut(*owner as usize))
                {
                    publisher.fan += u64::from(*stream == publisher.first_stream);
                }
            }
        }
    }

    /// The streams whose messages are due to a receiver.
    pub(super) fn streams_of(&mut self, receiver: u32) -> Rc<[u32]> {
        let client = &self.clients[self.receivers[receiver as usize].client as usize];
        let Some(subscribing) = subscribing(&self.plan.groups[usize::from(client.group)].role) else {
            return Rc::new([]);
        };
        let filters = filters_of(subscribing, client.number).unwrap_or_default();
        if let [filter] = filters.as_slice() {
            return self.directory.streams(filter);
        }
        let mut streams: Vec<u32> = Vec::new();
        for filter in &filters {
            streams.extend(self.directory.streams(filter).iter());
        }
        streams.sort_unstable();
        streams.dedup();
        streams.into()
    }
}
