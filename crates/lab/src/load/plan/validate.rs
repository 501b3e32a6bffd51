//! Whether a plan can be carried out.

use tidegate_mqtt::{TopicError, TopicFilter, TopicName};

use super::{
    ClientGroup, Encoding, LoadPlan, Pace, Protocol, Publishing, Ramp, Rate, Role, Size, Subscribing, Transport,
};
use crate::load::stamp::STAMP_LEN;
use crate::load::template::{Template, TemplateError};

/// Clients of one process; many systems allow 20,000 descriptors, and a few are needed for other purposes.
pub const CLIENTS_PER_PROCESS: u64 = 19_900;

/// Why a plan cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The plan has no clients.
    #[error("the plan has no clients: add a group")]
    NoClients,
    /// The connections exceed the limit of a process.
    #[error("{clients} clients are too many for {processes} processes: raise `processes` to {needed}")]
    TooManyClients {
        /// Clients of the plan.
        clients: u64,
        /// Its processes.
        processes: u32,
        /// The processes that are needed.
        needed: u64,
    },
    /// A value of a group is out of its range.
    #[error("group `{group}`: {problem}")]
    Group {
        /// The group's name.
        group: String,
        /// The fault, with its remedy.
        problem: GroupError,
    },
    /// A value of the plan is out of its range.
    #[error("{0}")]
    Value(&'static str),
}

/// An invalid group of clients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// A value is out of its range, or two exclude each other.
    #[error("{0}")]
    Value(&'static str),
    /// A group with limits has more clients than a process carries.
    #[error("with `limits` it lives in one process, which carries {CLIENTS_PER_PROCESS} clients at most")]
    TooManyForLimits,
    /// There is no such quality of service.
    #[error("there is no QoS {0}: give 0, 1 or 2")]
    NoQos(u8),
    /// A payload has no room for its stamp, or its bounds are the wrong way round.
    #[error("a payload has at least {STAMP_LEN} bytes, and the largest is not below the smallest")]
    Payload,
    /// A topic is invalid.
    #[error("`{topic}` is no topic: {error}")]
    Topic {
        /// The topic of the first client.
        topic: String,
        /// Why.
        error: TopicError,
    },
    /// A topic filter is invalid.
    #[error("`{filter}` is no topic filter: {error}")]
    Filter {
        /// The filter of the first client.
        filter: String,
        /// Why.
        error: TopicError,
    },
    /// A name has an unusable placeholder.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

impl LoadPlan {
    /// Processes that its clients need at least.
    pub fn processes_needed(&self) -> u32 {
        u32::try_from(self.clients().div_ceil(CLIENTS_PER_PROCESS)).unwrap_or(u32::MAX).max(1)
    }

    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn validate(&self) -> Result<(), PlanError> {
        let clients = self.clients();
        if clients == 0 {
            return Err(PlanError::NoClients);
        }
        if self.processes == 0 || self.dialing == 0 {
            return Err(PlanError::Value("`processes` and `dialing` are at least 1"));
        }
        let slow =
            |group: &ClientGroup| matches!(&group.role, Role::Subscriber(subscribing) if subscribing.slow.is_some());
        if self.target.transport == Transport::Quic && self.groups.iter().any(slow) {
            return Err(PlanError::Value(
                "slow reading is not possible over QUIC: use another transport, or leave `slow` out",
            ));
        }
        let needed = clients.div_ceil(CLIENTS_PER_PROCESS);
        if needed > u64::from(self.processes) {
            return Err(PlanError::TooManyClients { clients, processes: self.processes, needed });
        }
        if self.workers() > 1 && self.groups.iter().any(ClientGroup::is_respondent) {
            let problem = "a survey is counted in one process: set `processes` to 1, and give no group `limits`";
            return Err(PlanError::Value(problem));
        }
        if self.ramp_is_empty() {
            return Err(PlanError::Value("`ramp` lets no client in: give a rate above 0"));
        }
        if self.warm_up_ms.saturating_add(self.duration_ms) > 72 * 3_600_000 {
            return Err(PlanError::Value("a run takes at most 72 hours, since messages carry their time in 48 bits"));
        }
        self.groups.iter().try_for_each(|group| {
            check(group, self)
                .and_then(|()| lives_alone(group, self))
                .map_err(|problem| PlanError::Group { group: group.name.clone(), problem })
        })
    }

    fn ramp_is_empty(&self) -> bool {
        match self.ramp {
            Ramp::AtOnce => false,
            Ramp::PerSecond(rate) => !(rate.is_finite() && rate > 0.0),
            Ramp::Steps { clients, .. } => clients == 0,
        }
    }
}

/// Whether a group with limits can have its own process.
fn lives_alone(group: &ClientGroup, plan: &LoadPlan) -> Result<(), GroupError> {
    let Some(limits) = group.limits else { return Ok(()) };
    if limits.descriptors.is_some() || !limits.takes_cgroup() {
        return Err(GroupError::Value("the `limits` of a group are `cpus` and `memory`"));
    }
    if limits.cpus.is_some_and(|cpus| !(cpus.is_finite() && cpus > 0.0)) {
        return Err(GroupError::Value("`limits.cpus` is a number of cores above 0"));
    }
    if plan.ramp != Ramp::AtOnce {
        return Err(GroupError::Value(
            "with `limits` its clients are dialled by a process of their own, which keeps no `ramp`: leave one of them out",
        ));
    }
    if u64::from(group.count) > CLIENTS_PER_PROCESS {
        return Err(GroupError::TooManyForLimits);
    }
    Ok(())
}

fn check(group: &ClientGroup, plan: &LoadPlan) -> Result<(), GroupError> {
    match &group.role {
        Role::Publisher(publishing) => publishes(publishing)?,
        Role::Subscriber(subscribing) => subscribes(subscribing)?,
        Role::Requester { requests, answers } => {
            publishes(requests)?;
            subscribes(answers)?;
        }
        Role::Relay { subscribing, qos, .. } | Role::Respondent { subscribing, qos, .. } => {
            subscribes(subscribing)?;
            quality(*qos)?;
        }
        Role::Idle => {}
    }
    if group.disturbances.iter().any(|disturbance| !(0.0..=1.0).contains(&disturbance.share())) {
        return Err(GroupError::Value("a share is a number from 0 to 1"));
    }
    let v5_only = group.connect.session_expiry_s.is_some() || group.connect.receive_maximum.is_some();
    if v5_only && plan.protocol == Protocol::V311 {
        return Err(GroupError::Value("session expiry and receive maximum are MQTT 5's: set `protocol` to \"5\""));
    }
    if group.connect.receive_maximum == Some(0) {
        return Err(GroupError::Value("a receive maximum is at least 1"));
    }
    Template::new(&group.connect.client_id)?;
    Ok(())
}

fn quality(qos: u8) -> Result<(), GroupError> {
    if qos > 2 { Err(GroupError::NoQos(qos)) } else { Ok(()) }
}

fn publishes(publishing: &Publishing) -> Result<(), GroupError> {
    quality(publishing.qos)?;
    let (min, max) = publishing.payload.size.bounds();
    if (min as usize) < STAMP_LEN || max < min {
        return Err(GroupError::Payload);
    }
    if max > 256 * 1024 * 1024 - 65_600 {
        return Err(GroupError::Value("MQTT has no packets above 256 MiB"));
    }
    if publishing.payload.record.is_some() && publishing.payload.size != Size::default() {
        return Err(GroupError::Value("a record has the size that it has: give either `record` or `size`"));
    }
    if publishing.payload.record.is_some_and(|record| record.is_stamped() && record.encoding != Encoding::Json) {
        return Err(GroupError::Value(
            "a record with `customers` has the encoding \"json\": its stamp is found in JSON alone",
        ));
    }
    if publishing.topics.count == 0 {
        return Err(GroupError::Value("a publisher has at least one topic"));
    }
    let topic = Template::new(&publishing.topics.pattern)?.expand(0, 0);
    if let Err(error) = TopicName::new(&topic) {
        return Err(GroupError::Topic { topic, error });
    }
    match publishing.pace {
        Pace::Open { rate: Rate::PerClient(rate) | Rate::Total(rate), .. } if !(rate.is_finite() && rate > 0.0) => {
            Err(GroupError::Value("a rate is a number above 0"))
        }
        Pace::Closed { window } if !(1..=65_535).contains(&window) => {
            Err(GroupError::Value("a window is 1 to 65535 messages"))
        }
        _ => Ok(()),
    }
}

fn subscribes(subscribing: &Subscribing) -> Result<(), GroupError> {
    quality(subscribing.qos)?;
    if subscribing.filters.is_empty() {
        return Err(GroupError::Value("a subscriber has at least one filter"));
    }
    if subscribing.slow.is_some_and(|slow| slow.bytes == 0 || slow.every_ms == 0) {
        return Err(GroupError::Value("a slow reader reads at least 1 byte, at least 1 ms apart"));
    }
    for filter in &subscribing.filters {
        let filter = Template::new(filter)?.expand(0, 0);
        if let Err(error) = TopicFilter::new(&filter) {
            return Err(GroupError::Filter { filter, error });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::plan::{Payload, Record, Target, Topics};

    fn plan(group: ClientGroup) -> LoadPlan {
        let mut plan = LoadPlan::new(Target::tcp("localhost", 1883), 1000);
        plan.groups.push(group);
        plan
    }

    fn publisher(pace: Pace, payload: Payload) -> ClientGroup {
        let topics = Topics::one("a/{client}");
        let publishing = Publishing { topics, qos: 0, retain: false, payload, pace, messages: None, expiry_s: None };
        ClientGroup::new("p", 1, Role::Publisher(publishing))
    }

    #[test]
    fn a_plan_in_its_ranges_passes() {
        let sound = plan(publisher(Pace::Closed { window: 1 }, Payload::fixed(16)));
        assert_eq!(sound.validate(), Ok(()));
        let text = serde_json::to_string(&sound).unwrap();
        assert_eq!(serde_json::from_str::<LoadPlan>(&text).unwrap(), sound, "another process gets the same plan");
    }

    #[test]
    fn a_stamped_record_is_json() {
        let of = |encoding, customers| {
            let record = Some(Record { encoding, readings: 16, customers });
            plan(publisher(Pace::Closed { window: 1 }, Payload { record, ..Payload::default() })).validate()
        };
        let error = of(Encoding::MessagePack, 4).unwrap_err().to_string();
        assert!(error.contains("encoding \"json\""), "{error}");
        assert_eq!([of(Encoding::Json, 4), of(Encoding::MessagePack, 0)], [Ok(()), Ok(())]);
    }

    #[test]
    fn values_out_of_range_are_reported() {
        let closed = |window| Pace::Closed { window };
        let problems = [
            plan(publisher(closed(0), Payload::default())),
            plan(publisher(closed(1), Payload::fixed(15))),
            plan(publisher(
                Pace::Open { rate: Rate::Total(0.0), arrival: crate::load::plan::Arrival::Uniform },
                Payload::default(),
            )),
            plan(ClientGroup::new("s", 1, Role::Subscriber(Subscribing::to("a/#/b", 0)))),
            plan(ClientGroup::new("s", 1, Role::Subscriber(Subscribing::to("a", 3)))),
        ];
        for problem in problems {
            assert!(matches!(problem.validate(), Err(PlanError::Group { .. })), "{problem:?}");
        }
        let many = plan(ClientGroup::new("i", 20_000, Role::Idle));
        assert_eq!(
            many.validate(),
            Err(PlanError::TooManyClients { clients: 20_000, processes: 1, needed: 2 }),
            "a process has {CLIENTS_PER_PROCESS} connections at most"
        );
    }
}
