//! The configuration under way: settings of another broker go in, a plan comes out.

use std::fmt::Display;

use tidegate_conversion::{Conversion, ConvertedLine, Outcome, Plan, Sections, Setting, Value, conversion};

use crate::entry::{Entry, Form, matches};
use crate::keys::{Key, Rule};
use crate::listener::{Access, Kind, Listener};
use crate::provider::Provider;
use crate::rule::Rules;
use crate::{Converted, KeyFile, User};

/// A file without users, so that a provider that reads it refuses all clients.
pub(crate) const NO_USERS: &str = "/dev/null";

/// The settings with their outcomes.
pub(crate) struct Report {
    pub(crate) entries: Vec<Entry>,
    outcomes: Vec<(Outcome, String)>,
}

impl Report {
    /// Adds a setting of another file, and returns its index.
    pub(crate) fn add(&mut self, entry: Entry) -> usize {
        self.entries.push(entry);
        self.outcomes.push((Outcome::Carried, String::new()));
        self.entries.len() - 1
    }

    /// The index of the setting in force at this path.
    pub(crate) fn find(&self, path: &str) -> Option<usize> {
        self.entries.iter().rposition(|entry| entry.path == path && !entry.replaced)
    }

    /// The value of the setting in force at this path.
    pub(crate) fn value(&self, path: &str) -> Option<&str> {
        self.find(path).map(|index| self.entries[index].value.as_str())
    }

    /// It is done in another way.
    pub(crate) fn changed(&mut self, index: usize, why: &str) {
        if let Some(outcome) = self.outcomes.get_mut(index).filter(|(outcome, _)| *outcome == Outcome::Carried) {
            *outcome = (Outcome::Changed, why.to_owned());
        }
    }

    /// It is not in the result.
    pub(crate) fn refused(&mut self, index: usize, why: &str) {
        if let Some(outcome) = self.outcomes.get_mut(index).filter(|(outcome, _)| *outcome != Outcome::Refused) {
            *outcome = (Outcome::Refused, why.to_owned());
        }
    }

    /// It is done in another way, if there is a reason.
    pub(crate) fn note_change(&mut self, index: usize, why: Option<String>) {
        if let Some(why) = why {
            self.changed(index, &why);
        }
    }
}

/// The configuration under way.
pub(crate) struct Draft {
    pub(crate) report: Report,
    pub(crate) listeners: Vec<Listener>,
    /// The clients that may connect at listeners without their own setting.
    pub(crate) access: Access,
    /// The users, with the line that names them.
    pub(crate) users: Vec<User>,
    pub(crate) users_line: Option<usize>,
    /// The providers that are asked, in their order; none for the file of users alone.
    pub(crate) providers: Vec<Provider>,
    /// Rules of access, if any are asked.
    pub(crate) rules: Option<Rules>,
    pub(crate) rules_line: Option<usize>,
    /// The decision where no rule applies.
    pub(crate) default_allow: bool,
    /// Settings of all listeners.
    everywhere: Vec<Setting>,
    broker: Sections,
    /// Why all listeners are left out.
    closed: Option<String>,
    pub(crate) notes: Vec<String>,
    /// Whether something without its own setting was left out.
    pub(crate) left_out: bool,
}

impl Draft {
    /// An empty draft of these settings.
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        let outcomes = vec![(Outcome::Carried, String::new()); entries.len()];
        Self {
            report: Report { entries, outcomes },
            listeners: Vec::new(),
            access: Access::Refused("nothing names its clients".to_owned()),
            users: Vec::new(),
            users_line: None,
            providers: Vec::new(),
            rules: None,
            rules_line: None,
            default_allow: true,
            everywhere: Vec::new(),
            broker: Vec::new(),
            closed: None,
            notes: Vec::new(),
            left_out: false,
        }
    }

    /// Applies the table to every setting, and returns the settings that the module has to take.
    pub(crate) fn apply(&mut self, keys: &'static [Key]) -> Vec<usize> {
        let mut parts = Vec::new();
        for index in 0..self.report.entries.len() {
            let entry = self.report.entries[index].clone();
            if entry.replaced {
                self.report.changed(index, "a later setting replaces it");
                continue;
            }
            let Some(key) = keys.iter().find(|key| matches(key.pattern, &entry.path)) else {
                self.closed_by(index, "it is not known whether this restricts access");
                continue;
            };
            if entry.form == Form::Unknown && !matches!(key.rule, Rule::Changed | Rule::Refused) {
                self.closed_by(index, "its value comes from the environment: write the value itself");
                continue;
            }
            match key.rule {
                Rule::Part => parts.push(index),
                Rule::Changed => self.report.changed(index, key.how),
                Rule::Refused => self.report.refused(index, key.how),
                Rule::ClosesUnless(harmless) if !harmless.is_empty() && is(&entry, harmless) => {}
                Rule::ClosesUnless(_) => self.closed_by(index, key.how),
                Rule::Broker(section, ours, translate) => match translate(&entry) {
                    Ok((value, changed)) => {
                        self.broker.retain(|(name, other)| (*name, other.key) != (section, ours));
                        self.broker.push((section, Setting::new(ours, value, index)));
                        self.report.note_change(index, changed);
                    }
                    Err(error) => self.closed_by(index, &error),
                },
                Rule::EveryListener(ours, translate) => match translate(&entry) {
                    Ok((value, changed)) => {
                        self.everywhere.retain(|other| other.key != ours);
                        self.everywhere.push(Setting::new(ours, value, index));
                        self.report.note_change(index, changed);
                    }
                    Err(error) => self.closed_by(index, &error),
                },
            }
        }
        parts
    }

    /// It restricts access and is not in the result: all listeners are left out.
    pub(crate) fn closed_by(&mut self, index: usize, why: impl Display) {
        let path = self.report.entries.get(index).map_or_else(String::new, |entry| entry.path.clone());
        self.closed.get_or_insert_with(|| format!("`{path}`: {why}"));
        self.report.refused(index, &why.to_string());
    }

    /// It restricts access at one listener, which is left out.
    pub(crate) fn closes_listener(&mut self, index: usize, listener: usize, why: impl Display) {
        let path = self.report.entries.get(index).map_or_else(String::new, |entry| entry.path.clone());
        if let Some(listener) = self.listeners.get_mut(listener) {
            listener.close(format!("`{path}`: {why}"));
        }
        self.report.refused(index, &why.to_string());
    }

    /// The listener with this name there; it is made when it is missing.
    pub(crate) fn listener(&mut self, name: &str, kind: Kind, index: Option<usize>) -> usize {
        if let Some(place) = self.listeners.iter().position(|listener| listener.name == name) {
            let listener = &mut self.listeners[place];
            listener.opened_by = listener.opened_by.or(index);
            return place;
        }
        self.listeners.push(Listener::new(name, kind, index));
        self.listeners.len() - 1
    }

    /// Puts the result together. `users_file` is the path that the users are written to.
    pub(crate) fn finish(mut self, name: &str, users_file: &str) -> Converted {
        let left_out = self.left_out;
        let mut plan = Plan { name: name.to_owned(), ..Plan::default() };
        let open = self.open_listeners(&mut plan);
        let files = self.auths(&open, users_file, &mut plan);
        self.rights(&open, &plan);
        for (listener, access) in &open {
            plan.listeners.push(self.listener_settings(listener, access));
        }
        if !self.everywhere.iter().any(|setting| setting.key == "max_packet_size") {
            let why = "packets of more than 2 MiB end their connection; raise `max_packet_size` of a listener for larger ones";
            plan.notes.push(why.to_owned());
        }
        plan.notes.append(&mut self.notes);
        plan.broker.append(&mut self.broker);
        plan.lines = self
            .report
            .entries
            .into_iter()
            .zip(self.report.outcomes)
            .map(|(entry, (outcome, why))| ConvertedLine {
                value: entry.shown(),
                file: entry.file,
                line: entry.line,
                key: entry.path,
                outcome,
                why,
                becomes: Vec::new(),
            })
            .collect();
        let uses_users = open.iter().any(|(_, access)| matches!(access, Access::Users | Access::UsersAndAnonymous));
        let mut conversion: Conversion = conversion(plan);

        conversion.left_out |= left_out;
        Converted { conversion, users: if uses_users { self.users } else { Vec::new() }, files }
    }

    /// Listeners of the result, each with who may connect.
    fn open_listeners(&mut self, plan: &mut Plan) -> Vec<(Listener, Access)> {
        let mut open: Vec<(Listener, Access)> = Vec::new();
        for listener in std::mem::take(&mut self.listeners) {
            if !listener.enabled {
                if let Some(index) = listener.opened_by {
                    self.report.changed(index, "it is disabled, so it is not in the result");
                }
                continue;
            }
            let address = listener.address();
            let same = open.iter().any(|(other, _)| other.port == listener.port && other.host == listener.host);
            let reason = (self.closed.clone())
                .or_else(|| listener.closed.clone())
                .or_else(|| listener.lacks())
                .or_else(|| same.then(|| format!("another listener is at {address} already")));
            if let Some(reason) = reason {
                let why = format!("the listener {} is left out: {reason}", listener.name);
                match listener.opened_by {
                    Some(index) => self.report.refused(index, &why),
                    None => plan.notes.push(why),
                }
                continue;
            }
            let access = if listener.names_users {
                Access::Everyone
            } else {
                listener.access.clone().unwrap_or_else(|| self.access.clone())
            };
            let access = match access {
                Access::Users if self.users.is_empty() && !self.asks_others() => {
                    Access::Refused("no user could be carried over".to_owned())
                }
                access => access,
            };
            if let (Access::Refused(why), Some(index)) = (&access, listener.opened_by) {
                self.report.changed(index, &format!("all clients are refused: {why}"));
            }
            open.push((listener, access));
        }
        if open.is_empty() {
            let mut shut = Listener::new("none", Kind::Tcp, None);
            "127.0.0.1".clone_into(&mut shut.host);
            shut.port = Some(1883);
            plan.notes.push("no listener could be carried over; the one of the result refuses all clients".to_owned());
            open.push((shut, Access::Refused("no listener could be carried over".to_owned())));
        }
        open
    }

    /// Whether a provider besides the file of users is asked.
    fn asks_others(&self) -> bool {
        self.providers.iter().any(|provider| matches!(provider, Provider::Other(..)))
    }

    /// The providers that authenticate clients, if there are any. Returns the files that they name, but that of the users.
    fn auths(&self, open: &[(Listener, Access)], users_file: &str, plan: &mut Plan) -> Vec<KeyFile> {
        let with = |fits: &dyn Fn(&Access) -> bool| -> Vec<&Listener> {
            open.iter().filter(|(one, access)| !one.names_users && fits(access)).map(|(one, _)| one).collect()
        };
        let mut add = |mut settings: Vec<Setting>, of: &[&Listener]| {
            if of.len() < open.len() {
                let names = Value::List(of.iter().map(|one| one.our_name()).collect());
                let line = settings.first().and_then(|kind| kind.line);
                settings.insert(1, Setting { key: "listeners", value: names, line });
            }
            plan.auths.push(settings);
        };
        let file_of_users = |file: &str, line| {
            let setting = |key, text: &str| Setting { key, value: Value::Text(text.to_owned()), line };
            vec![setting("kind", "password-file"), setting("file", file)]
        };
        let refused = with(&|access| matches!(access, Access::Refused(_)));
        if !refused.is_empty() {
            add(file_of_users(NO_USERS, None), &refused);
        }
        let asked = with(&|access| matches!(access, Access::Users | Access::UsersAndAnonymous));
        let mut files = Vec::new();
        if asked.is_empty() {
            return files;
        }
        if !self.asks_others() {
            let file = if self.users.is_empty() { NO_USERS } else { users_file };
            add(file_of_users(file, self.users_line), &asked);
            return files;
        }
        for provider in &self.providers {
            match provider {
                // A file without users would refuse the clients of the others.
                Provider::Users if self.users.is_empty() => {}
                Provider::Users => add(file_of_users(users_file, self.users_line), &asked),
                Provider::Other(settings, file) => {
                    let mut settings = settings.clone();
                    if let Some((setting, file)) = file.as_ref().map(|file| file.named(users_file)) {
                        settings.push(setting);
                        files.push(file);
                    }
                    add(settings, &asked);
                }
            }
        }
        files
    }

    /// The rights of clients.
    fn rights(&mut self, open: &[(Listener, Access)], plan: &Plan) {
        let line = self.rules_line.or(self.users_line);
        if let Some(rules) = self.rules.take() {
            let text = rules.text(self.default_allow);
            self.broker.push(("access", Setting { key: "rules", value: Value::Text(text), line }));
            let unproven = open.iter().any(|(one, access)| *access == Access::Everyone && !one.names_users);
            if let Some(index) = self.rules_line.filter(|_| unproven && rules.names_users()) {
                self.report.changed(
                    index,
                    "a user name that nothing proves counts as none: such clients have the rights of those without a name",
                );
            }
        } else if !plan.auths.is_empty() || open.iter().any(|(one, _)| one.names_users) || !self.default_allow {
            let word = if self.default_allow { "allow" } else { "deny" };
            self.broker.push(("access", Setting { key: "default", value: Value::Text(word.to_owned()), line }));
        }
    }

    fn listener_settings(&self, listener: &Listener, access: &Access) -> Vec<Setting> {
        let line = listener.opened_by;
        let setting = |key, value| Setting { key, value, line };
        let mut settings = vec![
            setting("address", Value::Text(listener.address())),
            setting("name", Value::Text(listener.our_name())),
        ];
        let anonymous = matches!(access, Access::Everyone | Access::UsersAndAnonymous);
        if anonymous && !listener.names_users {
            settings.push(setting("allow_anonymous", Value::Truth(true)));
        }
        settings.extend(listener.own_settings());
        let own: Vec<&str> = settings.iter().map(|setting| setting.key).collect();
        let more: Vec<Setting> = self.everywhere.iter().filter(|other| !own.contains(&other.key)).cloned().collect();
        settings.extend(more);
        settings
    }
}

/// Whether a setting has this value, truths in any of their words.
fn is(entry: &Entry, value: &str) -> bool {
    match value {
        "false" => entry.truth() == Some(false),
        "true" => entry.truth() == Some(true),
        _ => entry.value == value,
    }
}
