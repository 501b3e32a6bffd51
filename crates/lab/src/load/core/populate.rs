//! The clients of a plan that live in one of its processes.

use std::collections::HashMap;
use std::rc::Rc;

use super::arrivals::Arrivals;
use super::client::{Client, Output, State};
use super::clients::Clients;
use super::departures::Departures;
use super::publish::Publishers;
use super::publisher::Publisher;
use super::receive::{Receiver, Receivers};
use super::refusals::Refusals;
use super::run::RunState;
use super::{Core, Meter, NONE, Phase, Times};
use crate::load::chance::{Chance, mix};
use crate::load::directory::{Directory, filters_of};
use crate::load::outcome::{GroupOutcome, LoadOutcome};
use crate::load::plan::{Begin, ClientGroup, Filler, GroupError, LoadPlan, PlanError, Role, Subscribing};
use crate::load::stamp::{Marks, STAMP_LEN};
use crate::load::template::TemplateError;
use crate::load::timers::{Timer, Timers};

impl Core {
    /// The clients that live in worker number `worker` of the plan's processes.
    ///
    /// # Errors
    /// When the plan cannot be carried out.
    pub(crate) fn new(plan: &Rc<LoadPlan>, worker: u32) -> Result<Self, PlanError> {
        plan.validate()?;
        let directory = Directory::new(plan)?;
        let groups =
            plan.groups.iter().map(|group| GroupOutcome { name: group.name.clone(), ..GroupOutcome::default() });
        let books = LoadOutcome { groups: groups.collect(), ..LoadOutcome::default() };
        let run = RunState {
            version: plan.protocol.version(),
            marks: Marks::of(plan.seed),
            clients: Clients::default(),
            timers: Timers::default(),
            phase: Phase::Gathering,
            times: Times::UNKNOWN,
            books,
            meter: Meter::default(),
            outstanding: None,
            plan: Rc::clone(plan),
        };
        let fillers = plan.groups.iter().map(|group| filler(group, plan.seed)).collect();
        let mut core = Self {
            run,
            publishers: Publishers::new(directory.primary(), fillers),
            receivers: Receivers::new(directory, plan),
            refusals: Refusals::default(),
            arrivals: Arrivals::default(),
            departures: Departures::default(),
        };
        core.populate(worker)?;
        core.arrivals = Arrivals::of(core.run.clients.count());
        core.run.timers.set(0, Timer::Ramp);
        if plan.begin == Begin::AtOnce {
            core.begin(0);
        }
        Ok(core)
    }

    fn populate(&mut self, worker: u32) -> Result<(), PlanError> {
        let plan = Rc::clone(&self.run.plan);
        let mut shared = HashMap::new();
        let mut respondent = 0;
        for (index, group) in plan.groups.iter().enumerate() {
            for number in 0..group.count {
                let answers = matches!(group.role, Role::Respondent { .. });
                if plan.worker_of(index, number) == worker {
                    if answers {
                        self.receivers.add_respondent(self.run.clients.count() as u32, respondent);
                    }
                    let wrong =
                        |error| PlanError::Group { group: group.name.clone(), problem: GroupError::Template(error) };
                    self.add_client(index as u16, number, &mut shared).map_err(wrong)?;
                }
                respondent += u32::from(answers);
            }
        }
        Ok(())
    }

    fn add_client(&mut self, group: u16, number: u32, shared: &mut HashMap<String, u32>) -> Result<(), TemplateError> {
        let client = self.run.clients.count() as u32;
        let role = &self.run.plan.groups[usize::from(group)].role;
        let mut receiver = NONE;
        if let Some(subscribing) = role.subscribing() {
            let next = self.receivers.next();
            receiver = match share(subscribing, number)? {
                Some(share) => *shared.entry(share).or_insert(next),
                None => next,
            };
            if receiver == next {
                self.receivers.add(Receiver::new(subscribing, client));
            }
        }
        let mut publisher = NONE;
        if let Some(publishing) = role.publishing() {
            let first = self.receivers.directory().first_of(usize::from(group), number, publishing.topics.count);
            let chance = Chance::of_part(self.run.plan.seed, u64::from(group) << 32 | u64::from(number));
            publisher = self.publishers.add(Publisher::new(publishing, client, number, first, chance)?);
        }
        self.run.clients.add(Client {
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
            place: first_address(&self.run.plan, group, number),
            relayed_id: 0,
            out: Output::default(),
        });
        Ok(())
    }
}

/// The number of the target's address that a client connects to first.
fn first_address(plan: &LoadPlan, group: u16, number: u32) -> u16 {
    let addresses = 1 + plan.target.others.len() as u32;
    let wanted = u32::from(plan.groups[usize::from(group)].connect.places);
    (number % if wanted == 0 { addresses } else { wanted.min(addresses) }) as u16
}

/// The subscription that a client shares with others.
fn share(subscribing: &Subscribing, number: u32) -> Result<Option<String>, TemplateError> {
    let Some(share) = &subscribing.shared else { return Ok(None) };
    Ok(Some(format!("{share}/{}", filters_of(subscribing, number)?.join(" "))))
}

/// The bytes that the payloads of a group are cut from.
fn filler(group: &ClientGroup, seed: u64) -> Vec<u8> {
    let Some(payload) = group.role.publishing().map(|publishing| &publishing.payload) else { return Vec::new() };
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
