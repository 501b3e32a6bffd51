//! Pipelines that publish to topics of each other in a circle: each message would go round until it has passed
//! [`MAX_HOPS`] pipelines.

use tidegate_hub::{MAX_HOPS, Steps};
use tidegate_mqtt::topic::overlaps;

use super::hub_sections::HubSections;
use crate::finding::Findings;
use crate::path::KeyPath;
use crate::sections::hub::{Pipeline, SinkType};
use crate::value::Problem;

/// The topics of a pipeline at its broker.
struct Topics {
    /// Lists of topic filters: it takes messages whose topic matches one of each list. None for another source.
    takes: Option<Vec<Vec<String>>>,
    /// Topics, or filters of topics, that it publishes each message to. Computed topics and conditions are left out: they may
    /// end a circle.
    publishes: Vec<String>,
}

impl Topics {
    fn of(pipeline: &Pipeline, hub: HubSections<'_>) -> Option<Self> {
        // `check_steps` reports a step that cannot be read.
        let steps = Steps::new(&pipeline.step_settings()).ok()?;
        let from = steps.from().iter().map(ToString::to_string).collect::<Vec<_>>();
        let lists = [pipeline.from.0.clone(), from].into_iter().filter(|list| !list.is_empty()).collect();
        let takes: Option<Vec<Vec<String>>> = pipeline.source.is_none().then_some(lists);
        let mut publishes = Vec::new();
        for sink in hub.sinks.iter().filter(|sink| sink.kind == SinkType::Topic && pipeline.to.0.contains(&sink.name)) {
            if !sink.topic.is_empty() {
                publishes.push(sink.topic.clone());
            } else if pipeline.topic.is_none() {
                // Messages keep their topics. Where `from` and FROM both choose, their common topics are not known here.
                publishes.extend(takes.iter().filter(|lists| lists.len() == 1).flatten().flatten().cloned());
            }
        }
        if !steps.takes_all() {
            publishes.clear();
        }
        Some(Self { takes, publishes })
    }

    fn reaches(&self, other: &Self) -> bool {
        let takes = |topic: &String| {
            other
                .takes
                .as_ref()
                .is_some_and(|lists| lists.iter().all(|list| list.iter().any(|filter| overlaps(filter, topic))))
        };
        self.publishes.iter().any(takes)
    }
}

/// Refuses each circle once, at its first pipeline.
pub(super) fn check(findings: &mut Findings, hub: HubSections<'_>) {
    let topics: Vec<Option<Topics>> = hub.pipelines.iter().map(|pipeline| Topics::of(pipeline, hub)).collect();
    let feeds = |from: usize, to: usize| {
        // Without a bus, a pipeline does not take its own messages.
        let may_feed = from != to || hub.hub.bus.is_some();
        let is_one_tenant = hub.pipelines[from].tenant_name() == hub.pipelines[to].tenant_name();
        may_feed
            && is_one_tenant
            && topics[from].as_ref().zip(topics[to].as_ref()).is_some_and(|(from, to)| from.reaches(to))
    };
    for first in 0..topics.len() {
        let Some(circle) = circle_of(first, topics.len(), feeds) else { continue };
        let names: Vec<String> =
            circle.iter().chain([&first]).map(|index| format!("`{}`", hub.pipelines[*index].name)).collect();
        let problem = Problem::new(format!(
            "pipelines publish to topics of each other, so each message passes {MAX_HOPS} of them: {}",
            names.join(" to ")
        ));
        let hint = "publish to topics that none of them takes, or add a condition that ends the circle";
        let path = KeyPath { section: "pipeline", index: first, key: "to" };
        findings.push(problem.hint(hint), hub.origins.source(&path).clone());
    }
}

/// A shortest circle from a number back to it over larger ones.
fn circle_of(first: usize, count: usize, feeds: impl Fn(usize, usize) -> bool) -> Option<Vec<usize>> {
    let (mut paths, mut known) = (std::collections::VecDeque::from([vec![first]]), vec![false; count]);
    while let Some(path) = paths.pop_front() {
        let last = *path.last()?;
        if feeds(last, first) {
            return Some(path);
        }
        for next in (first + 1..count).filter(|next| feeds(last, *next)) {
            if !std::mem::replace(&mut known[next], true) {
                paths.push_back(path.iter().copied().chain([next]).collect());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::source::FileText;
    use crate::{Config, Inputs};

    /// Problems of pipelines with the name, the lines, and the topic of the sink of each.
    fn findings(start: &str, pipelines: &[(&str, &str, &str)]) -> String {
        let section = |(name, lines, topic): &(&str, &str, &str)| {
            let topic = if topic.is_empty() { String::new() } else { format!("topic = \"{topic}\"\n") };
            format!(
                "[[sink]]\nname = \"to-{name}\"\nkind = \"topic\"\n{topic}\
                 [[pipeline]]\nname = \"{name}\"\nto = [\"to-{name}\"]\n{lines}\n"
            )
        };
        let text = start.to_owned() + &pipelines.iter().map(section).collect::<Vec<_>>().concat();
        let inputs = Inputs { file: Some(FileText::new("tidegate.toml", &text)), ..Inputs::default() };
        Config::load(inputs).map_or_else(|findings| findings.to_string(), |_| String::new())
    }

    #[test]
    fn pipelines_that_feed_each_other_are_refused() {
        let (a, b) = ("from = [\"a/#\"]", "from = [\"b/+\"]");
        let found = findings("", &[("one", a, "b/x"), ("two", b, "a/x")]);
        assert!(found.contains("`one` to `two` to `one`") && found.contains("passes 16"), "{found}");
        assert!(found.contains("tidegate.toml:7"), "{found}");
        let found = findings("", &[("one", a, "b/x"), ("two", b, "c"), ("three", "from = [\"c\"]", "a")]);
        assert_eq!(found.matches("publish to topics of each other").count(), 1, "{found}");
        let keeps_topics = findings("", &[("one", "from = [\"a/+\"]", ""), ("two", "from = [\"+/x\"]", "")]);
        assert!(keeps_topics.contains("`one` to `two`"), "{keeps_topics}");
        let sql = |from: &str| format!("sql = \"SELECT payload FROM '{from}'\"");
        let found = findings("", &[("one", &sql("a"), "b"), ("two", &sql("b"), "a")]);
        assert!(found.contains("`one` to `two`"), "{found}");
    }

    #[test]
    fn a_circle_that_ends_is_no_problem() {
        let (a, b) = ("from = [\"a/#\"]", "from = [\"b/+\"]");
        assert_eq!(findings("", &[("one", a, "b/x/y"), ("two", b, "a/x")]), "");
        assert_eq!(findings("", &[("one", &format!("{a}\nfilter = \"retain\""), "b/x"), ("two", b, "a/x")]), "");
        let sql = format!("{b}\nsql = \"SELECT payload FROM 'b/#' WHERE payload.n > 1\"");
        assert_eq!(findings("", &[("one", a, "b/x"), ("two", &sql, "a/x")]), "");
        assert_eq!(findings("", &[("one", &format!("{a}\ntopic = \"'b/' + clientid\""), ""), ("two", b, "a/x")]), "");
        let other = "[[listener]]\nname = \"acme\"\naddress = \"tcp://127.0.0.1:0\"\n[[tenant]]\nname = \"acme\"\nlisteners = [\"acme\"]\n";
        assert_eq!(findings(other, &[("one", a, "b/x"), ("two", &format!("{b}\ntenant = \"acme\""), "a/x")]), "");
    }

    #[test]
    fn a_pipeline_on_a_bus_may_feed_itself() {
        let one = [("one", "from = [\"a/#\"]", "a/x")];
        assert_eq!(findings("", &one), "", "a broker leaves them out");
        let found = findings("[hub]\nbus = \"nats://h\"\n", &one);
        assert!(found.contains("`one` to `one`"), "{found}");
    }
}
