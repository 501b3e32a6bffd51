//! `definitions.json`: users, their permissions, and their rights on topics.

use data_encoding::BASE64;
use serde_json::Value;

use super::Anonymous;
use crate::draft::{Draft, Report};
use crate::emqx::take_user;
use crate::entry::Entry;
use crate::expression::{self, Expression, Piece};
use crate::hash::{Algorithm, PasswordError, Salt, hashed};
use crate::listener::Access;
use crate::rule::{AccessRule, Action, Rules, everything};
use crate::{ConvertError, Password};

/// Bytes of the salt at the beginning of a hash.
const SALT_LEN: usize = 4;

/// The beginning of the names of queues that belong to clients.
const QUEUE: &str = "mqtt-subscription-";

/// Whether a text is a file of definitions: a JSON object with users and permissions.
pub(crate) fn is_definitions(text: &str) -> bool {
    text.starts_with('{')
        && serde_json::from_str::<Value>(text).is_ok_and(|it| {
            it.get("users").is_some_and(Value::is_array)
                && (it.get("permissions").is_some()
                    || it.get("rabbit_version").is_some()
                    || it.get("rabbitmq_version").is_some())
        })
}

/// Takes the users and rights. `anonymous` is the login of clients without a user name.
///
/// # Errors
/// When the text is no JSON.
pub(crate) fn take(
    draft: &mut Draft,
    file: &str,
    text: &str,
    anonymous: Option<&Anonymous<'_>>,
) -> Result<(), ConvertError> {
    let all: Value = serde_json::from_str(text).map_err(|error| ConvertError::Json(error.to_string()))?;
    let list = |key: &str| all.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let vhost = draft.report.value("mqtt.vhost").unwrap_or("/").to_owned();
    let exchange = draft.report.value("mqtt.exchange").unwrap_or("amq.topic").to_owned();
    let mut rules = Rules::default();
    for user in list("users") {
        let name = field(&user, "name");
        let index = draft.report.add(Entry::text(file, line_of(text, &name), &format!("user {name}"), ""));
        draft.users_line.get_or_insert(index);
        draft.rules_line.get_or_insert(index);
        if is_local(&draft.report, &name) {
            draft.report.refused(index, "it may log in from the machine itself alone: it is left out");
            continue;
        }
        match limit(user.get("limits")) {
            Limit::None => {}
            Limit::Bound => draft.report.refused(index, "its limits are not kept: set `[limits]` by hand"),
            Limit::Zero => {
                draft.report.refused(index, "its limits let it do nothing: it is left out");
                continue;
            }
        }
        let Some(permission) =
            list("permissions").into_iter().find(|it| field(it, "user") == name && field(it, "vhost") == vhost)
        else {
            draft
                .report
                .changed(index, &format!("it has no permissions in the virtual host {vhost}, so it cannot log in"));
            continue;
        };
        let password = password(&field(&user, "password_hash"), &field(&user, "hashing_algorithm"));
        let is_anonymous = anonymous.is_some_and(|anonymous| anonymous.is(&name, &password));
        take_user(draft, index, &name, password);
        let topics = list("topic_permissions");
        let topics = topics
            .iter()
            .find(|it| field(it, "user") == name && field(it, "vhost") == vhost && field(it, "exchange") == exchange);
        let topics = topics.map(|it| (field(it, "write"), field(it, "read")));
        let permission = [field(&permission, "configure"), field(&permission, "write"), field(&permission, "read")];
        let (these, lacks) = rights(&name, &permission, topics.as_ref(), &exchange);
        if let Some(why) = lacks {
            draft.report.refused(index, &why);
        }
        if is_anonymous {
            draft.access = Access::UsersAndAnonymous;
            rules.0.extend(these.iter().cloned().map(|rule| of_anonymous([rule])));
        }
        rules.0.extend(these);
    }
    draft.rules = Some(rules);
    Rest { draft, file, text, vhost: &vhost }.take(&all);
    Ok(())
}

/// The line of a name in the text, from 1.
fn line_of(text: &str, name: &str) -> usize {
    1 + text[..text.find(&format!("\"{name}\"")).unwrap_or_default()].matches('\n').count()
}

/// The meaning of a limit of a user or a virtual host.
enum Limit {
    /// They bound nothing.
    None,
    /// Some number is bounded.
    Bound,
    /// Some number is 0, or the limits cannot be read.
    Zero,
}

fn limit(limits: Option<&Value>) -> Limit {
    match limits {
        None | Some(Value::Null) => Limit::None,
        Some(Value::Array(list)) if list.is_empty() => Limit::None,
        Some(Value::Object(limits)) => {
            let numbers: Vec<Option<i64>> = limits.values().map(Value::as_i64).collect();
            // A negative number is no limit.
            if numbers.iter().any(|number| number.is_none_or(|number| number == 0)) {
                Limit::Zero
            } else if numbers.iter().flatten().any(|&number| number > 0) {
                Limit::Bound
            } else {
                Limit::None
            }
        }
        Some(_) => Limit::Zero,
    }
}

/// The content of definitions beside users and rights.
struct Rest<'a> {
    draft: &'a mut Draft,
    file: &'a str,
    text: &'a str,
    vhost: &'a str,
}

impl Rest<'_> {
    fn take(&mut self, all: &Value) {
        for (key, value) in all.as_object().into_iter().flatten() {
            let each: &[Value] = value.as_array().map_or(&[], Vec::as_slice);
            match key.as_str() {
                "vhosts" => each.iter().for_each(|one| self.take_vhost(one)),
                "parameters" => each.iter().for_each(|one| self.take_parameter(one)),
                "global_parameters" => each.iter().for_each(|one| self.take_global_parameter(&field(one, "name"))),
                "users"
                | "permissions"
                | "topic_permissions"
                | "rabbit_version"
                | "rabbitmq_version"
                | "rabbitmq_definition_format"
                | "product_name"
                | "product_version"
                | "original_cluster_name"
                | "explanation" => {}
                _ if each.is_empty() && value.is_array() => {}
                "queues" | "exchanges" | "bindings" | "policies" => self.refuse(key, key, super::AMQP),
                _ => self.refuse(key, key, "it is not carried"),
            }
        }
    }

    /// The index of a setting at the line of a name.
    fn add(&mut self, name: &str, path: &str) -> usize {
        self.draft.report.add(Entry::text(self.file, line_of(self.text, name), path, ""))
    }

    fn refuse(&mut self, name: &str, path: &str, why: &str) {
        let index = self.add(name, path);
        self.draft.report.refused(index, why);
    }

    fn take_vhost(&mut self, vhost: &Value) {
        if field(vhost, "name") == self.vhost {
            self.take_limits("vhosts", &format!("vhosts {}", self.vhost), vhost.get("limits"));
        }
    }

    fn take_parameter(&mut self, parameter: &Value) {
        let (component, name) = (field(parameter, "component"), field(parameter, "name"));
        let path = format!("parameters {component} {name}");
        if component != "vhost-limits" {
            self.refuse(&name, &path, "parameters of plugins are not carried");
        } else if field(parameter, "vhost") == self.vhost {
            self.take_limits(&component, &path, parameter.get("value"));
        }
    }

    fn take_global_parameter(&mut self, name: &str) {
        let index = self.add(name, &format!("global_parameters {name}"));
        match name {
            "cluster_name" | "cluster_tags" | "internal_cluster_id" => {
                self.draft.report.changed(index, super::OPERATION);
            }
            "mqtt_port_to_vhost_mapping" | "mqtt_default_vhosts" => {
                self.draft.closed_by(index, "only the users of one virtual host are carried");
            }
            _ => self.draft.report.refused(index, "parameters of plugins are not carried"),
        }
    }

    fn take_limits(&mut self, name: &str, path: &str, limits: Option<&Value>) {
        match limit(limits) {
            Limit::None => {}
            Limit::Bound => self.refuse(name, path, "the limits are not kept: set `[limits]` by hand"),
            Limit::Zero => {
                let index = self.add(name, path);
                self.draft.closed_by(index, "the limits of the virtual host let no client do anything");
            }
        }
    }
}

fn field(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Whether a user may log in from the machine itself alone; `guest` is so without a setting.
pub(crate) fn is_local(report: &Report, user: &str) -> bool {
    if report.value("loopback_users") == Some("none") {
        return false;
    }
    let set = report.find(&format!("loopback_users.{user}")).map(|index| report.entries[index].truth() != Some(false));
    let listed = report
        .entries
        .iter()
        .any(|entry| !entry.replaced && entry.path.starts_with("loopback_users.") && entry.value == user);
    listed || set.unwrap_or(user == "guest")
}

fn password(hash: &str, algorithm: &str) -> Result<Password, PasswordError> {
    let algorithm = match algorithm {
        "" | "rabbit_password_hashing_sha256" => Algorithm::Sha256(Salt::Prefix),
        "rabbit_password_hashing_sha512" => Algorithm::Sha512(Salt::Prefix),
        other => return Err(PasswordError::Kind(other.to_owned())),
    };
    let bytes = BASE64.decode(hash.as_bytes()).map_err(|_| PasswordError::Base64)?;
    let (salt, hash) =
        bytes.split_at_checked(SALT_LEN).filter(|(_, hash)| !hash.is_empty()).ok_or(PasswordError::Missing)?;
    hashed(algorithm, salt, &BASE64.encode(hash)).map(Password::Hash)
}

/// Rights on everything.
pub(crate) fn all_rights(user: &str) -> [AccessRule; 1] {
    [AccessRule { allow: true, users: vec![user.to_owned()], topics: everything(), ..AccessRule::default() }]
}

/// A rule of a user as one of clients without a user name.
pub(crate) fn of_anonymous([rule]: [AccessRule; 1]) -> AccessRule {
    AccessRule { users: Vec::new(), anonymous: Some(true), ..rule }
}

/// The rules of a user, and the rights in RabbitMQ that they lack.
fn rights(
    user: &str,
    permission: &[String; 3],
    topics: Option<&(String, String)>,
    exchange: &str,
) -> (Vec<AccessRule>, Option<String>) {
    if user.ends_with('*') {
        return (Vec::new(), Some("its name would stand for others in a rule: it may do nothing".to_owned()));
    }
    let [configure, write, read] = permission.each_ref().map(|text| expression::parse(text));
    let (Some(configure), Some(write), Some(read)) = (configure, write, read) else {
        return (Vec::new(), Some("a permission is an expression that is not carried: it may do nothing".to_owned()));
    };
    let publishes = write.matches(exchange);
    let subscribes = read.matches(exchange) && [&configure, &write, &read].into_iter().all(owns_queues);
    let mut rules = Vec::new();
    let mut lacks = None;
    let mut add = |action: Action, text: Option<&String>| {
        let topics = match text {
            None => Some(everything()),
            Some(text) => expression::parse(text).and_then(|it| {
                let all = it.is_everything();
                let filters = if action == Action::Subscribe { it.subscriptions() } else { it.filters() };
                if all { Some(everything()) } else { filters }
            }),
        };
        match topics {
            Some(topics) => {
                let topics: Vec<String> = topics.into_iter().filter(|topic| !topic.is_empty()).collect();
                if !topics.is_empty() {
                    rules.push(AccessRule {
                        allow: true,
                        action,
                        users: vec![user.to_owned()],
                        topics,
                        ..AccessRule::default()
                    });
                }
            }
            None => {
                lacks =
                    Some("a right on topics is an expression that is not carried: nothing is allowed by it".to_owned());
            }
        }
    };
    // An expression that matches nothing but the empty text allows nothing.
    let nothing = |text: &str| text.is_empty() || text == "^$";
    if publishes && topics.is_none_or(|(write, _)| !nothing(write)) {
        add(Action::Publish, topics.map(|(write, _)| write));
    }
    if subscribes && topics.is_none_or(|(_, read)| !nothing(read)) {
        add(Action::Subscribe, topics.map(|(_, read)| read));
    }
    (rules, lacks)
}

/// Whether all queues of clients match.
fn owns_queues(expression: &Expression) -> bool {
    let any = Piece::Any { least: 0 };
    expression.is_everything()
        || expression.0.iter().any(|pieces| match pieces.as_slice() {
            [Piece::Text(text), last] => *last == any && QUEUE.starts_with(text.as_str()),
            _ => false,
        })
}
