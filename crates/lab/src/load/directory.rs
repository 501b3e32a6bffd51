//! The receivers of every message, computed before any is sent.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use tidegate_mqtt::{TopicFilter, TopicName};

use super::plan::{ClientGroup, GroupError, LoadPlan, PlanError, Publishing, Role, Route, Subscribing};
use super::template::{Template, TemplateError};

/// Stages that a message can be passed on through.
const MOST_STAGES: usize = 16;

/// All streams of a plan: each publisher has one for each of its topics, in the order of the plan; the streams of
/// respondents follow, one for each stream that may ask them.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The first stream of each group's publishers.
    first: Vec<u32>,
    /// Streams of publishers.
    primary: u32,
    by_topic: HashMap<String, Vec<u32>>,
    found: HashMap<String, Rc<[u32]>>,
}

/// Adds the name of the group to a problem.
fn of(group: &ClientGroup) -> impl FnOnce(GroupError) -> PlanError + use<'_> {
    |problem| PlanError::Group { group: group.name.clone(), problem }
}

/// Clients that forward received messages under another topic.
struct Stage {
    exact: HashSet<String>,
    wild: Vec<String>,
    from: String,
    to: String,
}

impl Directory {
    /// Reads the streams of a plan.
    ///
    /// # Errors
    /// When there are too many streams, or a template is invalid.
    pub(crate) fn new(plan: &LoadPlan) -> Result<Self, PlanError> {
        let mut directory = Self { first: Vec::new(), primary: 0, by_topic: HashMap::new(), found: HashMap::new() };
        let mut stages = Vec::new();
        for group in &plan.groups {
            if let Role::Relay { subscribing, from, to, .. } = &group.role {
                stages
                    .push(Stage::new(subscribing, from, to, group.count).map_err(GroupError::from).map_err(of(group))?);
            }
        }
        stages.extend(plan.routes.iter().map(Stage::of_route));
        for group in &plan.groups {
            directory.first.push(directory.primary);
            if let Some(publishing) = group.role.publishing() {
                directory.add_publishers(publishing, group.count, &stages).map_err(of(group))?;
            }
        }
        let mut respondent = 0;
        for group in &plan.groups {
            if let Role::Respondent { subscribing, from, to, .. } = &group.role {
                directory.add_respondents(subscribing, (from, to), group.count, &mut respondent).map_err(of(group))?;
            }
        }
        Ok(directory)
    }

    fn add_publishers(&mut self, publishing: &Publishing, count: u32, stages: &[Stage]) -> Result<(), GroupError> {
        let template = Template::new(&publishing.topics.pattern)?;
        for client in 0..count {
            for topic in 0..publishing.topics.count {
                let stream = self.primary;
                self.primary =
                    stream.checked_add(1).ok_or(GroupError::Value("there are more streams than can be numbered"))?;
                for name in reached(template.expand(client, topic), stages) {
                    self.by_topic.entry(name).or_default().push(stream);
                }
            }
        }
        Ok(())
    }

    fn add_respondents(
        &mut self,
        subscribing: &Subscribing,
        (from, to): (&str, &str),
        count: u32,
        respondent: &mut u32,
    ) -> Result<(), GroupError> {
        let mut answers = Vec::new();
        for client in 0..count {
            for filter in filters_of(subscribing, client)? {
                let asked: Vec<_> = self.by_topic.keys().filter(|topic| matches(&filter, topic)).cloned().collect();
                for topic in asked {
                    let Some(answered) = rewritten(&topic, from, to) else { continue };
                    for stream in self.by_topic[&topic].iter().filter(|stream| **stream < self.primary) {
                        let answer = self
                            .answer(*respondent, *stream)
                            .ok_or(GroupError::Value("there are more respondents and streams than can be numbered"))?;
                        answers.push((answered.clone(), answer));
                    }
                }
            }
            *respondent += 1;
        }
        for (topic, stream) in answers {
            self.by_topic.entry(topic).or_default().push(stream);
        }
        Ok(())
    }

    /// The stream by which a respondent answers a stream.
    pub(crate) fn answer(&self, respondent: u32, stream: u32) -> Option<u32> {
        self.primary.checked_mul(respondent.checked_add(1)?)?.checked_add(stream)
    }

    /// Whether messages of a stream are a publisher's own.
    pub(crate) const fn is_primary(&self, stream: u32) -> bool {
        stream < self.primary
    }

    /// Streams of publishers.
    pub(crate) const fn primary(&self) -> u32 {
        self.primary
    }

    /// The first stream of a client of a group with this number of topics each.
    pub(crate) fn first_of(&self, group: usize, client: u32, topics: u32) -> u32 {
        self.first[group] + client * topics
    }

    /// The streams whose messages reach a filter.
    pub(crate) fn streams(&mut self, filter: &str) -> Rc<[u32]> {
        if let Some(found) = self.found.get(filter) {
            return Rc::clone(found);
        }
        let mut streams: Vec<u32> = match self.by_topic.get(filter) {
            Some(streams) => streams.clone(),
            None if filter.contains(['+', '#']) => {
                let matching = self.by_topic.iter().filter(|(topic, _)| matches(filter, topic));
                matching.flat_map(|(_, streams)| streams.iter().copied()).collect()
            }
            None => Vec::new(),
        };
        streams.sort_unstable();
        streams.dedup();
        let streams: Rc<[u32]> = streams.into();
        self.found.insert(filter.to_owned(), Rc::clone(&streams));
        streams
    }
}

impl Stage {
    /// A system outside of the load.
    fn of_route(route: &Route) -> Self {
        let Route { from, to } = route.clone();
        Self { exact: HashSet::new(), wild: vec![format!("{from}/#")], from, to }
    }

    fn new(subscribing: &Subscribing, from: &str, to: &str, count: u32) -> Result<Self, TemplateError> {
        let (mut exact, mut wild) = (HashSet::new(), Vec::new());
        for client in 0..count {
            for filter in filters_of(subscribing, client)? {
                if filter.contains(['+', '#']) {
                    if !wild.contains(&filter) {
                        wild.push(filter);
                    }
                } else {
                    exact.insert(filter);
                }
            }
        }
        Ok(Self { exact, wild, from: from.to_owned(), to: to.to_owned() })
    }

    fn passes_on(&self, topic: &str) -> Option<String> {
        let taken = self.exact.contains(topic) || self.wild.iter().any(|filter| matches(filter, topic));
        if taken { rewritten(topic, &self.from, &self.to) } else { None }
    }
}

/// The filters of a client, without the group that shares them.
pub(crate) fn filters_of(subscribing: &Subscribing, client: u32) -> Result<Vec<String>, TemplateError> {
    subscribing.filters.iter().map(|filter| Ok(Template::new(filter)?.expand(client, 0))).collect()
}

/// A topic that begins with `from`, with `to` in its place.
pub(crate) fn rewritten(topic: &str, from: &str, to: &str) -> Option<String> {
    topic.strip_prefix(from).map(|rest| format!("{to}{rest}"))
}

/// All topics on the way of a message.
fn reached(topic: String, stages: &[Stage]) -> Vec<String> {
    let mut topics = vec![topic];
    let mut at = 0;
    while at < topics.len() && at < MOST_STAGES {
        for next in stages.iter().filter_map(|stage| stage.passes_on(&topics[at])).collect::<Vec<_>>() {
            if !topics.contains(&next) {
                topics.push(next);
            }
        }
        at += 1;
    }
    topics
}

fn matches(filter: &str, topic: &str) -> bool {
    match (TopicFilter::new(filter), TopicName::new(topic)) {
        (Ok(filter), Ok(topic)) => filter.matches(topic),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::plan::{Pace, Payload, Target, Topics};

    fn publisher(name: &str, count: u32, pattern: &str, topics: u32) -> ClientGroup {
        let topics = Topics { pattern: pattern.to_owned(), count: topics };
        let pace = Pace::Closed { window: 1 };
        let payload = Payload::default();
        let publishing = Publishing { topics, qos: 0, retain: false, payload, pace, messages: None, expiry_s: None };
        ClientGroup::new(name, count, Role::Publisher(publishing))
    }

    fn directory(groups: Vec<ClientGroup>) -> Directory {
        let mut plan = LoadPlan::new(Target::tcp("localhost", 1883), 1000);
        plan.groups = groups;
        Directory::new(&plan).unwrap()
    }

    #[test]
    fn streams_are_found_by_name_and_by_wildcard() {
        let mut directory =
            directory(vec![publisher("a", 2, "a/{client}", 1), publisher("b", 2, "b/{client}/{topic}", 2)]);
        assert_eq!(directory.streams("a/1").as_ref(), [1]);
        assert_eq!(directory.streams("+/1").as_ref(), [1]);
        assert_eq!(directory.streams("b/#").as_ref(), [2, 3, 4, 5]);
        assert_eq!(directory.streams("b/1/1").as_ref(), [5]);
        assert_eq!(directory.streams("c").as_ref(), [0_u32; 0]);
        assert_eq!(directory.first_of(1, 1, 2), 4);
    }

    #[test]
    fn relayed_messages_are_due_behind_their_relays() {
        let relay = |filter: &str, from: &str, to: &str| {
            let (from, to) = (from.to_owned(), to.to_owned());
            ClientGroup::new(
                "r",
                1,
                Role::Relay { subscribing: Subscribing::to(filter, 0), from, to, qos: 0, work_us: 0, encoding: None },
            )
        };
        let groups =
            vec![publisher("a", 2, "one/{client}", 1), relay("one/#", "one", "two"), relay("two/0", "two", "three")];
        let mut directory = directory(groups);
        assert_eq!(directory.streams("two/+").as_ref(), [0, 1]);
        assert_eq!(directory.streams("three/#").as_ref(), [0]);
    }

    #[test]
    fn messages_through_a_platform_are_due_behind_it() {
        let mut plan = LoadPlan::new(Target::tcp("localhost", 1883), 1000);
        plan.groups = vec![publisher("a", 4, "in/{client%2}/{client}", 1)];
        plan.routes = vec![Route { from: "in".to_owned(), to: "out".to_owned() }];
        let mut directory = Directory::new(&plan).unwrap();
        assert_eq!(directory.streams("out/1/#").as_ref(), [1, 3]);
    }

    #[test]
    fn each_respondent_answers_under_its_own_name() {
        let (from, to) = ("ask".to_owned(), "answer".to_owned());
        let role = Role::Respondent { subscribing: Subscribing::to("ask/+", 0), from, to, qos: 0 };
        let mut directory = directory(vec![publisher("a", 2, "ask/{client}", 1), ClientGroup::new("r", 3, role)]);
        assert_eq!(directory.streams("answer/1").as_ref(), [3, 5, 7]);
        assert_eq!(directory.answer(2, 1), Some(7));
        assert!(!directory.is_primary(7));
    }
}
