//! Pipelines of several tenants, which bring records and dead letters back to topics.

use super::member::Member;
use super::stage::done;
use crate::broker::until;

/// Pipelines of each tenant: enough that each node of a cluster runs some.
const PIPELINES: usize = 4;

/// The pipelines of a user's tenant.
pub(super) fn sections(user: &str) -> String {
    let tenant = if user == "app" { "" } else { "tenant = 'acme'\n" };
    let one = |number: usize| {
        format!(
            "[[pipeline]]\nname = '{user}-{number}'\n{tenant}from = ['in/{user}/{number}']\n\
             sql = \"SELECT payload.n AS n FROM 'in/{user}/{number}'\"\ntopic = \"'out/' + topic\"\nto = ['back']\n\
             dead_letter_topic = 'dead/{number}'\n"
        )
    };
    (0..PIPELINES).map(one).collect()
}

/// Waits until a member says that all pipelines run, wherever: these and one more.
pub(super) fn wait_until_all_run(member: &Member, users: &[&str]) {
    until("all pipelines", || {
        let view: serde_json::Value = serde_json::from_str(&member.get("/api/v1/hub")).unwrap();
        let running = view.as_object()?.values().filter(|it| it["state"] == "running").count();
        (running == 1 + users.len() * PIPELINES).then_some(())
    });
}

/// Publishes to the pipelines of a tenant at one member, and takes their records and dead letters at another.
pub(super) fn use_topics(takes: &Member, publishes: &Member, user: &str) {
    let client = |at: &Member, words: &[&str]| {
        done(&at.client("mqtt://", &[words, &["-u", user, "-P", user, "-q", "1"]].concat()))
    };
    let reader = ["sub", "-i", "records", "-c", "-t", "out/#", "-t", "dead/#"];
    client(takes, &[&reader[..], &["-E"]].concat());
    let mut wanted = Vec::new();
    for number in 0..PIPELINES {
        let topic = format!("in/{user}/{number}");
        client(publishes, &["pub", "-t", &topic, "-m", "{\"n\": 1}"]);
        client(publishes, &["pub", "-t", &topic, "-m", "no JSON"]);
        wanted.extend([format!("dead/{number}"), format!("out/{topic}")]);
    }
    let count = wanted.len().to_string();
    let took = client(takes, &[&reader[..], &["-v", "-C", &count, "-W", "120"]].concat());
    let mut topics: Vec<&str> = took.lines().filter_map(|line| line.split(' ').next()).collect();
    topics.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(topics, wanted, "{took}");
}
