//! Checks of the section before the start.

use tidegate_bus::Address;
use tidegate_context::ContextTopics;

use super::points;
use crate::feature::bus_problem;
use crate::finding::Findings;
use crate::origins::Origins;
use crate::sections::address::Addresses;
use crate::sections::context::Context;
use crate::value::Problem;

/// Checks the section as a whole.
pub fn check(context: &Context, addresses: &Addresses, origins: &Origins, findings: &mut Findings) {
    let mut find = |key, problem: Problem| findings.push(problem, origins.source_of("context", key).clone());
    if context.enabled && !addresses.enabled {
        let problem = Problem::new("a gateway needs addresses: it reaches nodes by them");
        find("enabled", problem.hint("set `addresses.enabled = true`"));
    }
    if let Err(error) = ContextTopics::new(&addresses.prefix, &context.topics.0, &[]) {
        find("topics", Problem::new(error.to_string()));
    }
    if let Err(error) = ContextTopics::new(&addresses.prefix, &[], &context.property_topics.0) {
        find("property_topics", Problem::new(error.to_string()));
    }
    if let Some(problem) = context.bus.as_deref().and_then(|bus| bus_problem(&bus.parse::<Address>())) {
        find("bus", problem);
    }
    if context.bus_certificate.is_some() != context.bus_key.is_some() {
        let (key, other) =
            if context.bus_key.is_some() { ("bus_key", "bus_certificate") } else { ("bus_certificate", "bus_key") };
        find(key, Problem::new(format!("a certificate and its key go together; add context.{other}")));
    }
    if let Err(error) = points(context) {
        find(error.key, Problem::new(error.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use crate::source::FileText;
    use crate::{Config, Inputs};

    fn problems(text: &str) -> String {
        let file = FileText::new("tidegate.toml", text);
        let inputs = Inputs { file: Some(file), ..Inputs::default() };
        Config::load(inputs).err().map(|findings| findings.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_mistake_of_the_manager_is_reported_at_its_line() {
        let said = problems("[addresses]\nenabled = true\n[context]\nenabled = true\nping_window_min = '1m'\n");
        assert!(said.contains("the shortest ping window") && said.contains("tidegate.toml:5:"), "{said}");
        let said = problems("[context]\nping_factors = ['50%: 2', 'often: 1']\n");
        assert!(said.contains("`often: 1` is no ping rate") && said.contains("tidegate.toml:2:"), "{said}");
    }

    #[test]
    fn mistakes_are_found_before_anything_runs() {
        for (text, wanted) in [
            ("[context]\nenabled = true", "needs addresses"),
            ("[context]\ntopics = ['a/#/b']", "topic of contexts"),
            ("[context]\nbus = 'nats://'", "names no server"),
            ("[context]\nbus_key = 'k.pem'", "add context.bus_certificate"),
            ("[context]\nranking = 'expression'", "needs context.score"),
            ("[context]\nranking = 'expression'\nscore = 'gateway.'", "context.score"),
            ("[context]\nweights = ['disk: 3']", "context.weights: `disk: 3` is not a weight"),
            ("[context]\nscore = 'gateway.'", "context.score: the expression cannot be read"),
        ] {
            let said = problems(text);
            assert!(said.contains(wanted), "{text}: {said}");
        }
        assert_eq!(problems("[addresses]\nenabled = true\n[context]\nenabled = true\nbus = 'nats://h'"), "");
    }
}
