//! The file of Mosquitto's dynamic security plugin as users and access rules of ours.
//!
//! The plugin asks the roles of a client by their priority, then the roles of its groups, and in each role the rules of
//! one kind by their priority. The first rule that matches decides, and the default of its kind where none
//! does. Ours are asked in the order of the file, so that each set of clients with the same roles gets them in the
//! plugin's order, and the defaults behind.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Deserialize;
use tidegate_conversion::{ConvertedLine, File, Outcome, quoted};

/// Most rules that an access rules file may have.
const MAX_RULES: usize = 65_536;

/// The files made from a file of the plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DynamicSecurity {
    /// The password file.
    pub users: String,
    /// The file of access rules, TOML.
    pub rules: String,
    /// Each client and role with the outcome of its conversion.
    pub lines: Vec<ConvertedLine>,
    /// Whether something was left out.
    pub left_out: bool,
}

/// The text is no file of the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecurityError {
    /// It is no JSON, or its values have other types.
    #[error("this is no dynamic-security.json: {0}")]
    Json(String),
    /// There would be more rules than a file may have.
    #[error(
        "the roles of all clients are {0} rules, and a file may have {MAX_RULES}; give clients fewer roles or use groups"
    )]
    TooManyRules(usize),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Plugin {
    #[serde(default, rename = "defaultACLAccess")]
    defaults: Defaults,
    clients: Vec<Client>,
    #[serde(default)]
    groups: Vec<Group>,
    roles: Vec<Role>,
    #[serde(default)]
    anonymous_group: String,
}

/// The decisions of the plugin where no rule matches.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Defaults {
    publish_client_send: bool,
    publish_client_receive: bool,
    subscribe: bool,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { publish_client_send: false, publish_client_receive: true, subscribe: false }
    }
}

#[derive(Deserialize)]
struct Client {
    username: String,
    #[serde(default)]
    clientid: String,
    #[serde(default)]
    roles: Vec<RoleOf>,
    #[serde(default)]
    password: String,
    #[serde(default)]
    salt: String,
    #[serde(default)]
    iterations: u32,
    #[serde(default)]
    disabled: bool,
}

#[derive(Deserialize)]
struct Group {
    groupname: String,
    #[serde(default)]
    roles: Vec<RoleOf>,
    #[serde(default)]
    clients: Vec<MemberOf>,
}

#[derive(Deserialize)]
struct RoleOf {
    rolename: String,
    #[serde(default)]
    priority: i64,
}

#[derive(Deserialize)]
struct MemberOf {
    username: String,
    #[serde(default)]
    priority: i64,
}

#[derive(Deserialize)]
struct Role {
    rolename: String,
    #[serde(default)]
    acls: Vec<Acl>,
}

#[derive(Deserialize)]
struct Acl {
    acltype: String,
    topic: String,
    #[serde(default)]
    priority: i64,
    allow: bool,
}

/// Converts a file of the plugin.
///
/// # Errors
/// When the text is no such file, or there would be too many rules.
pub fn dynamic_security(file: &File) -> Result<DynamicSecurity, SecurityError> {
    let plugin: Plugin = serde_json::from_str(&file.text).map_err(|error| SecurityError::Json(error.to_string()))?;
    let mut made = Made { file, security: DynamicSecurity::default(), rules: 0 };
    made.users(&plugin);
    let _ = writeln!(made.security.rules, "# Converted from {}. The first rule that matches decides.", file.name);
    for (bearer, roles) in bearers(&plugin) {
        let roles: Vec<&Role> =
            roles.iter().filter_map(|name| plugin.roles.iter().find(|it| it.rolename == *name)).collect();
        made.rules_of(&bearer, &roles, &plugin.defaults);
    }
    made.roles(&plugin);
    if made.rules > MAX_RULES {
        return Err(SecurityError::TooManyRules(made.rules));
    }
    Ok(made.security)
}

/// The owner of a list of roles.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Bearer {
    /// A user who may connect with one client id only.
    Bound { username: String, client_id: String },
    /// Users with the same roles.
    Users(BTreeSet<String>),
    /// Clients without a user name.
    Anonymous,
}

impl Bearer {
    /// The conditions of its rules.
    fn conditions(&self) -> String {
        let list =
            |names: &mut dyn Iterator<Item = &String>| names.map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        match self {
            Self::Bound { username, client_id } => {
                format!("users = [{}]\nclients = [{}]\n", quoted(username), quoted(client_id))
            }
            Self::Users(names) => format!("users = [{}]\n", list(&mut names.iter())),
            Self::Anonymous => "anonymous = true\n".to_owned(),
        }
    }
}

/// The roles of everybody, in the plugin's order.
fn bearers(plugin: &Plugin) -> Vec<(Bearer, Vec<String>)> {
    let mut alike: BTreeMap<Vec<String>, BTreeSet<String>> = BTreeMap::new();
    let mut bearers = Vec::new();
    for client in plugin.clients.iter().filter(|client| !client.disabled) {
        let mut groups: Vec<(i64, &Group)> = Vec::new();
        for group in &plugin.groups {
            let member = group.clients.iter().find(|member| member.username == client.username);
            groups.extend(member.map(|member| (member.priority, group)));
        }
        groups.sort_by_key(|(priority, group)| (Reverse(*priority), group.groupname.clone()));
        let mut roles = sorted(&client.roles);
        for (_, group) in &groups {
            roles.extend(sorted(&group.roles));
        }
        if client.clientid.is_empty() {
            alike.entry(roles).or_default().insert(client.username.clone());
        } else {
            let (username, client_id) = (client.username.clone(), client.clientid.clone());
            bearers.push((Bearer::Bound { username, client_id }, roles));
        }
    }
    bearers.extend(alike.into_iter().map(|(roles, names)| (Bearer::Users(names), roles)));
    if let Some(group) = plugin.groups.iter().find(|group| group.groupname == plugin.anonymous_group) {
        bearers.push((Bearer::Anonymous, sorted(&group.roles)));
    }
    bearers
}

fn sorted(roles: &[RoleOf]) -> Vec<String> {
    let mut roles: Vec<&RoleOf> = roles.iter().collect();
    roles.sort_by_key(|role| (Reverse(role.priority), role.rolename.clone()));
    roles.iter().map(|role| role.rolename.clone()).collect()
}

struct Made<'a> {
    file: &'a File,
    security: DynamicSecurity,
    rules: usize,
}

impl Made<'_> {
    /// Writes the password file. A client that cannot log in here is refused here, too.
    fn users(&mut self, plugin: &Plugin) {
        for client in &plugin.clients {
            let key = format!("client {}", client.username);
            if client.disabled {
                self.add_line(
                    &client.username,
                    key,
                    Outcome::Changed,
                    "it is disabled: it is not in the password file",
                );
            } else if client.password.is_empty() || client.salt.is_empty() || client.iterations == 0 {
                self.add_line(&client.username, key, Outcome::Refused, "it has no password: it cannot log in");
            } else if client.username.contains([':', '\n', '\r']) {
                self.add_line(
                    &client.username,
                    key,
                    Outcome::Refused,
                    "its name has a colon or a line break: it cannot log in",
                );
            } else {
                let Client { username, iterations, salt, password, .. } = client;
                let _ = writeln!(self.security.users, "{username}:$7${iterations}${salt}${password}");
                let why = if client.clientid.is_empty() { "" } else { "with another client id it may do nothing" };
                let outcome = if why.is_empty() { Outcome::Carried } else { Outcome::Changed };
                self.add_line(&client.username, key, outcome, why);
            }
        }
    }

    /// Says of each role what of it has no equivalent.
    fn roles(&mut self, plugin: &Plugin) {
        for role in &plugin.roles {
            let unsubscribe = role.acls.iter().any(|acl| acl.acltype.starts_with("unsubscribe"));
            let denies = role.acls.iter().any(|acl| kind(acl) == Some(Kind::Subscribe) && !acl.allow);
            let unknown = role.acls.iter().find(|acl| kind(acl).is_none() && !acl.acltype.starts_with("unsubscribe"));
            let (outcome, why) = match unknown {
                Some(acl) => (
                    Outcome::Refused,
                    format!("rules of the kind \"{}\" are not known: nothing is allowed by them", acl.acltype),
                ),
                None if denies => {
                    let why =
                        "filters that contain denied topics are refused, too; in Mosquitto only those within them are";
                    (Outcome::Changed, why.to_owned())
                }
                None if unsubscribe => (Outcome::Changed, "everybody may unsubscribe".to_owned()),
                None => (Outcome::Carried, String::new()),
            };
            self.add_line(&role.rolename, format!("role {}", role.rolename), outcome, &why);
        }
    }

    fn add_line(&mut self, name: &str, key: String, outcome: Outcome, why: &str) {
        let name = quoted(name);
        let at = self.file.text.find(&name).unwrap_or_default();
        let line = self.file.text[..at].matches('\n').count() + 1;
        let (file, value, why) = (self.file.name.clone(), String::new(), why.to_owned());
        self.security.left_out |= outcome == Outcome::Refused;
        self.security.lines.push(ConvertedLine { file, line, key, value, outcome, why, becomes: Vec::new() });
    }

    /// Writes the rules of one bearer: for receiving, publishing and subscribing, then the defaults.
    fn rules_of(&mut self, bearer: &Bearer, roles: &[&Role], defaults: &Defaults) {
        let conditions = bearer.conditions();
        let everything = ["#", "$SYS/#"].map(str::to_owned);
        let kinds = [
            (Kind::Receive, defaults.publish_client_receive),
            (Kind::Publish, defaults.publish_client_send),
            (Kind::Subscribe, defaults.subscribe),
        ];
        for (wanted, default) in kinds {
            for role in roles {
                let mut acls: Vec<&Acl> = role.acls.iter().filter(|acl| kind(acl) == Some(wanted)).collect();
                // The plugin looks for a literal filter before all patterns, whatever their priorities.
                acls.sort_by_key(|acl| (!is_literal(acl), Reverse(acl.priority)));
                for acl in acls {
                    self.rule(&conditions, wanted, acl.allow, &[topic_of(acl)]);
                }
            }
            self.rule(&conditions, wanted, default, &everything);
        }
        if let Bearer::Bound { username, .. } = bearer {
            // Whatever it has with another client id, it is not allowed.
            let _ = writeln!(
                self.security.rules,
                "\n[[rule]]\nallow = false\nusers = [{}]\ntopics = [\"#\", \"$SYS/#\"]",
                quoted(username)
            );
            self.rules += 1;
        }
    }

    fn rule(&mut self, conditions: &str, kind: Kind, allow: bool, topics: &[String]) {
        let topics = topics.iter().map(|topic| quoted(topic)).collect::<Vec<_>>().join(", ");
        let _ = write!(
            self.security.rules,
            "\n[[rule]]\nallow = {allow}\n{conditions}actions = [\"{}\"]\ntopics = [{topics}]\n",
            kind.word()
        );
        self.rules += 1;
    }
}

/// The action that a rule of the plugin decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Publish,
    Receive,
    Subscribe,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Receive => "receive",
            Self::Subscribe => "subscribe",
        }
    }
}

fn kind(acl: &Acl) -> Option<Kind> {
    match &*acl.acltype {
        "publishClientSend" => Some(Kind::Publish),
        "publishClientReceive" => Some(Kind::Receive),
        "subscribeLiteral" | "subscribePattern" => Some(Kind::Subscribe),
        _ => None,
    }
}

/// The topic of a rule in our words.
fn topic_of(acl: &Acl) -> String {
    // The plugin compares literal filters as they stand.
    if is_literal(acl) {
        return format!("eq {}", acl.topic);
    }
    acl.topic.replace("%u", "${username}").replace("%c", "${clientid}")
}

/// True for a rule about a subscription to exactly one filter.
fn is_literal(acl: &Acl) -> bool {
    acl.acltype == "subscribeLiteral"
}
