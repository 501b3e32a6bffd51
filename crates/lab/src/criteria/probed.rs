//! Short answers from the findings of a probe. Without a finding there is no answer.

use crate::probe::{Answer, Finding};

fn answer<'a>(findings: &'a [Finding], id: &str) -> Option<&'a Answer> {
    findings.iter().find(|finding| finding.id == id).map(|finding| &finding.answer)
}

/// Whether a feature works; `None` if that was not tested.
fn holds(findings: &[Finding], id: &str) -> Option<bool> {
    match answer(findings, id)? {
        Answer::Yes => Some(true),
        Answer::No => Some(false),
        Answer::Value(_) | Answer::Unknown(_) => None,
    }
}

/// The working and the failing features of a list, such as `a, b; not c`.
fn which(findings: &[Finding], asked: &[(&str, &str)]) -> Option<String> {
    let those = |wanted: bool| -> Vec<&str> {
        asked.iter().filter(|(id, _)| holds(findings, id) == Some(wanted)).map(|(_, name)| *name).collect()
    };
    let (yes, no) = (those(true).join(", "), those(false).join(", "));
    match (yes.is_empty(), no.is_empty()) {
        (true, true) => None,
        (false, true) => Some(yes),
        (true, false) => Some(format!("no {no}")),
        (false, false) => Some(format!("{yes}; no {no}")),
    }
}

pub(super) fn protocols(findings: &[Finding]) -> Option<String> {
    which(findings, &[("mqtt-3.1", "MQTT 3.1"), ("mqtt-3.1.1", "MQTT 3.1.1"), ("mqtt-5", "MQTT 5.0")])
}

pub(super) fn patterns(findings: &[Finding]) -> Option<String> {
    let asked = [
        ("qos-0", "publish and subscribe"),
        ("shared", "point to point, pipeline and survey's answers by shared subscriptions"),
        ("response-topic", "request and response by the properties of MQTT 5"),
    ];
    which(findings, &asked)
}

pub(super) fn persistence(findings: &[Finding]) -> Option<String> {
    which(findings, &[("queued", "messages for clients that are away"), ("retained", "retained messages")])
}

pub(super) fn balancing(findings: &[Finding]) -> Option<String> {
    which(findings, &[("shared", "messages dealt to the members of a shared subscription")])
}

pub(super) fn routing(findings: &[Finding]) -> Option<String> {
    which(findings, &[("wildcard-one", "by topic with +"), ("wildcard-many", "by topic with #")])
}

pub(super) fn queues(findings: &[Finding]) -> Option<String> {
    which(findings, &[("queued", "a queue for each client that is away"), ("shared", "a queue that several share")])
}

pub(super) fn delayed(findings: &[Finding]) -> Option<String> {
    which(findings, &[("delayed", "$delayed topics")])
}

pub(super) fn format(findings: &[Finding]) -> Option<String> {
    which(findings, &[("content-type", "payloads are passed on with their content type")])
}

pub(super) fn quality(findings: &[Finding]) -> Option<String> {
    let asked = [
        ("qos-0", "QoS 0"),
        ("qos-1", "QoS 1"),
        ("qos-2", "QoS 2"),
        ("order", "order kept"),
        ("expired", "expired messages purged"),
    ];
    let said = which(findings, &asked)?;
    match answer(findings, "payload") {
        Some(Answer::Value(size)) => Some(format!("{said}; payloads of {size}")),
        _ => Some(said),
    }
}

pub(super) fn security(findings: &[Finding]) -> Option<String> {
    let lets = |id, name: &str| {
        holds(findings, id).map(|yes| if yes { format!("lets {name} in") } else { format!("refuses {name}") })
    };
    let said: Vec<String> = [lets("anonymous", "clients without a name"), lets("unknown-user", "unknown names")]
        .into_iter()
        .flatten()
        .collect();
    (!said.is_empty()).then(|| format!("as configured by the lab: {}", said.join(", ")))
}

pub(super) fn coupling(findings: &[Finding]) -> Option<String> {
    which(findings, &[("queued", "in time: messages wait for who is away"), ("wildcard-many", "in space: by topics")])
}

pub(super) fn console(findings: &[Finding]) -> Option<String> {
    which(findings, &[("sys", "$SYS topics")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::How;

    fn finding(id: &'static str, answer: Answer) -> Finding {
        Finding { group: "g", id, title: "t", answer, how: How::Tried }
    }

    #[test]
    fn working_failing_and_unknown_features_are_distinct() {
        let findings = [
            finding("mqtt-3.1", Answer::Unknown("it was late".to_owned())),
            finding("mqtt-3.1.1", Answer::Yes),
            finding("mqtt-5", Answer::No),
        ];
        assert_eq!(protocols(&findings).as_deref(), Some("MQTT 3.1.1; no MQTT 5.0"));
        assert_eq!(delayed(&findings), None);
        assert_eq!(delayed(&[finding("delayed", Answer::No)]).as_deref(), Some("no $delayed topics"));
    }
}
