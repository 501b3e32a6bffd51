//! The configuration when all lines are known: who gets in where.

use tidegate_conversion::{Plan, Setting, Value};

use crate::draft::Draft;
use crate::listener::{DEFAULT_PORT, Listener};
use crate::taken::Taken;

/// A file without users, so that a provider that reads it refuses all clients.
const NO_USERS: &str = "/dev/null";

/// The listener of bridges alone.
const DOOR: &str = "bridges";

/// Rules for listeners that Mosquitto asks no file of rules for.
const ALL_TOPICS: &str = "[\"#\", \"$SYS/#\", \"$CONTROL/#\"]";

/// A listener of the result.
struct Open<'a> {
    listener: Listener<'a>,
    name: String,
    anonymous: bool,
    users: Option<(usize, &'a str)>,
    rules: Option<(usize, &'a str)>,
}

impl Open<'_> {
    /// Whether the names of certificates are the users, whose passwords Mosquitto does not ask for.
    fn by_certificate(&self) -> bool {
        self.listener.tls.names_users()
    }

    /// Whether all clients are refused: names are required, and no provider knows any.
    fn is_shut(&self) -> bool {
        !self.anonymous && self.users.is_none() && !self.by_certificate()
    }
}

impl<'a> Draft<'a> {
    /// Puts the result together; the plan lacks the lines, whose outcomes are apart.
    pub(crate) fn finish(mut self) -> (Plan, Vec<Taken>) {
        let mut plan = Plan::default();
        self.check_bridges();
        self.check_addresses();
        let mut open = self.open_listeners(&mut plan);
        self.one_file_of_rules(&mut open, &mut plan);
        self.tenants(&mut open, &mut plan);
        let carried: Vec<Option<usize>> = open.iter().map(|one| one.listener.opened_by).collect();
        if open.is_empty() {
            open.push(shut_listener());
            plan.notes.push("no listener could be carried over; the one of the result refuses all clients".to_owned());
        }
        let door = self.build_bridges(&open, !carried.is_empty(), &mut plan);
        self.refuse_left_out(&carried);
        self.auths(&open, &mut plan);
        self.access(&open, door.is_some(), &mut plan);
        for one in &open {
            plan.listeners.push(self.listener_settings(one));
            for index in one.listener.tls.idle() {
                self.changed(index, "it says nothing here, since clients are not asked for certificates");
            }
        }
        plan.listeners.extend(door);
        if !self.everywhere.iter().any(|setting| setting.key == "max_packet_size") {
            plan.notes.push("packets of more than 2 MiB end their connection; raise `max_packet_size` of a listener for larger ones".to_owned());
        }
        self.keep();
        plan.broker.append(&mut self.broker);
        (plan, self.taken)
    }

    /// Mosquitto starts with no bridge that lacks something, and with no two of the same client id.
    fn check_bridges(&mut self) {
        let mut ids = Vec::new();
        let mut unfit = Vec::new();
        for bridge in &self.bridges {
            let id = bridge.local_id();
            let again = id.as_ref().is_some_and(|id| ids.contains(id)).then_some("two bridges have one client id here");
            unfit.extend(bridge.unfit().or(again).map(|why| (bridge.opened_by, why)));
            ids.extend(id);
        }
        for (index, why) in unfit {
            self.unstartable(index, why);
        }
    }

    /// Mosquitto does not start if it cannot open each of its listeners.
    fn check_addresses(&mut self) {
        let all: Vec<&Listener<'a>> = self.default.iter().chain(&self.listeners).collect();
        let clashes =
            |(place, one): (usize, &&Listener<'a>)| all.iter().skip(place + 1).any(|other| one.clashes(other));
        let clash = all.iter().enumerate().find(|pair| clashes(*pair)).map(|(_, one)| (one.opened_by, one.address()));
        if let Some((Some(index), address)) = clash {
            self.unstartable(index, &format!("another listener is at {address} as well"));
        }
    }

    fn unstartable(&mut self, index: usize, why: &str) {
        self.closed.get_or_insert_with(|| format!("Mosquitto does not start: {why}"));
        self.refused(index, &format!("Mosquitto does not start with it: {why}"));
    }

    fn open_listeners(&mut self, plan: &mut Plan) -> Vec<Open<'a>> {
        let mut listeners: Vec<Listener<'a>> = self.default.take().into_iter().collect();
        listeners.append(&mut self.listeners);
        if listeners.is_empty() {
            listeners.push(Listener::new(None, DEFAULT_PORT, None));
        }
        if self.local_only {
            // Mosquitto serves this machine alone then, by IPv4 and IPv6.
            let only = listeners.pop().into_iter();
            listeners = only
                .flat_map(|one| {
                    [Listener { bind: Some("127.0.0.1"), ..one.clone() }, Listener { bind: Some("::1"), ..one }]
                })
                .collect();
        }
        let mut open: Vec<Open<'a>> = Vec::new();
        for listener in listeners {
            let address = listener.address();
            let taken = open.iter().any(|other| other.listener.address() == address);
            let security = if self.per_listener { &listener.security } else { &self.security };
            let closed = (listener.closed.as_ref()).or(security.closed.as_ref()).or(self.closed.as_ref()).cloned();
            let lacks = || listener.tls.lacks().map(str::to_owned);
            let same = || taken.then(|| format!("another listener is at {address} already"));
            if let Some(reason) = closed.or_else(lacks).or_else(same) {
                let why = format!("the listener {address} is left out: {reason}");
                match listener.opened_by {
                    Some(index) => self.refused(index, &why),
                    None => plan.notes.push(why),
                }
                continue;
            }
            let own = listener.security.anonymous;
            let anonymous = own.or(security.anonymous).unwrap_or(self.local_only);
            let (users, rules) = (security.users, security.rules);
            let name = free_name(&listener, &open);
            open.push(Open { listener, name, anonymous, users, rules });
        }
        for one in &open {
            if let Some(index) = one.listener.opened_by.filter(|_| one.is_shut()) {
                let why = "all clients are refused, as in Mosquitto 2: `allow_anonymous` is not true, and no users are named. Name their file in [[auth]], or allow_anonymous = true (Mosquitto 1 did)";
                self.changed(index, why);
            }
        }
        open
    }

    /// There is one file of rules of theirs here; listeners with another one are left out.
    fn one_file_of_rules(&mut self, open: &mut Vec<Open<'a>>, plan: &mut Plan) {
        let Some((_, first)) = open.iter().find_map(|one| one.rules) else { return };
        let (kept, left): (Vec<_>, Vec<_>) =
            std::mem::take(open).into_iter().partition(|one| one.rules.is_none_or(|(_, file)| file == first));
        *open = kept;
        for one in left {
            self.leave_out(
                &one,
                "its `acl_file` is another one than that of other listeners, and there is one here",
                plan,
            );
        }
    }

    fn leave_out(&mut self, one: &Open<'a>, reason: &str, plan: &mut Plan) {
        let why = format!("the listener {} is left out: {reason}", one.listener.address());
        match one.listener.opened_by {
            Some(index) => self.refused(index, &why),
            None => plan.notes.push(why),
        }
    }

    /// A mount point keeps the topics of its listeners apart from all others, and so does a tenant.
    fn tenants(&mut self, open: &mut Vec<Open<'a>>, plan: &mut Plan) {
        if open.iter().all(|one| one.listener.mount.is_none()) {
            return;
        }
        let apart =
            open.iter().all(|one| one.listener.mount.is_some() && one.rules.is_none()) && self.bridges.is_empty();
        if !apart {
            let (kept, left): (Vec<_>, Vec<_>) =
                std::mem::take(open).into_iter().partition(|one| one.listener.mount.is_none());
            *open = kept;
            for one in left {
                let reason =
                    "its `mount_point` could be a tenant only if each listener had one, without rules and bridges";
                self.leave_out(&one, reason, plan);
            }
            return;
        }
        let mut mounts: Vec<&str> = open.iter().filter_map(|one| one.listener.mount).collect();
        mounts.sort_unstable();
        mounts.dedup();
        for (number, mount) in mounts.into_iter().enumerate() {
            let of: Vec<&Open<'a>> = open.iter().filter(|one| one.listener.mount == Some(mount)).collect();
            let names = of.iter().map(|one| one.name.clone()).collect();
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            let word: String = mount.trim_matches('/').chars().map(|c| if fits(c) { c } else { '-' }).collect();
            let name = if word.is_empty() { format!("tenant-{number}") } else { word };
            let line = of.iter().find_map(|one| one.listener.opened_by);
            let setting = |key, value| Setting { key, value, line };
            plan.tenants.push(vec![setting("name", Value::Text(name)), setting("listeners", Value::List(names))]);
        }
    }

    /// Bridges come in by a listener that asks for no name and has no rules. Without such a listener, they get one of
    /// their own, which is returned: Mosquitto asks its bridges neither for a name nor for rights.
    fn build_bridges(&mut self, open: &[Open<'a>], is_served: bool, plan: &mut Plan) -> Option<Vec<Setting>> {
        let has_rules = open.iter().any(|one| one.rules.is_some());
        let local = open.iter().find(|one| one.listener.is_plain() && one.anonymous && !has_rules);
        let mut names: Vec<String> = Vec::new();
        let mut through_door = Vec::new();
        for bridge in std::mem::take(&mut self.bridges) {
            let reason = match bridge.lacks() {
                Some(reason) => reason,
                None if names.contains(&bridge.name) => "another one has its name".to_owned(),
                None if !is_served => "no listener is carried over, so no client has messages for it".to_owned(),
                None => {
                    names.push(bridge.name.clone());
                    if local.is_none() {
                        through_door.push(bridge.opened_by);
                    }
                    plan.bridges.push(bridge.settings(local.map_or(DOOR, |local| &local.name)));
                    continue;
                }
            };
            self.refused(bridge.opened_by, &format!("the bridge is left out: {reason}"));
        }
        let line = through_door.first().copied()?;
        let path = self.socket_of_bridges();
        let base = if path.starts_with('/') { "" } else { "; the path is relative to the broker's working directory" };
        let why = format!("it comes in by the Unix socket {path}, which only the broker's user may open{base}");
        for index in through_door {
            self.changed(index, &why);
        }
        let setting = |key, value| Setting { key, value, line: Some(line) };
        let place = [
            setting("address", Value::Text(format!("unix:{path}"))),
            setting("name", Value::Text(DOOR.to_owned())),
            setting("owner_only", Value::Truth(true)),
            setting("allow_anonymous", Value::Truth(true)),
        ];
        Some(place.into_iter().chain(self.everywhere.iter().cloned()).collect())
    }

    /// The providers that authenticate clients, if there are any.
    fn auths(&mut self, open: &[Open<'a>], plan: &mut Plan) {
        let asked = open.iter().any(|one| one.users.is_some() || one.is_shut());
        if !asked {
            return;
        }
        let mut add = |kind: &str, file: Option<&str>, of: Vec<&Open<'a>>, line: Option<usize>| {
            let setting = |key, value| Setting { key, value, line };
            let mut settings = vec![setting("kind", Value::Text(kind.to_owned()))];
            if of.len() < open.len() {
                settings.push(setting("listeners", Value::List(of.iter().map(|one| one.name.clone()).collect())));
            }
            settings.extend(file.map(|file| setting("file", Value::Text(file.to_owned()))));
            plan.auths.push(settings);
        };
        let by_certificate: Vec<_> = open.iter().filter(|one| one.by_certificate()).collect();
        if let Some(first) = by_certificate.first() {
            let line = first.listener.opened_by;
            add("certificate", None, by_certificate, line);
        }
        let mut files: Vec<(usize, &str)> = Vec::new();
        for file in open.iter().filter(|one| !one.by_certificate()).filter_map(|one| one.users) {
            if files.iter().all(|(_, other)| *other != file.1) {
                files.push(file);
            }
        }
        for (index, file) in files {
            let of = |one: &&Open<'a>| !one.by_certificate() && one.users.is_some_and(|(_, other)| other == file);
            add("password-file", Some(file), open.iter().filter(of).collect(), Some(index));
        }
        let shut: Vec<_> = open.iter().filter(|one| one.is_shut()).collect();
        if let Some(first) = shut.first() {
            let line = first.listener.opened_by;
            add("password-file", Some(NO_USERS), shut, line);
        }
        for one in open.iter().filter(|one| one.anonymous && one.users.is_none() && !one.by_certificate()) {
            if let Some(index) = one.listener.opened_by {
                self.changed(
                    index,
                    "clients that give a user name are refused here, since no file of users is for this listener",
                );
            }
        }
    }

    /// The rights of clients.
    fn access(&mut self, open: &[Open<'a>], has_door: bool, plan: &mut Plan) {
        if let Some((index, file)) = open.iter().find_map(|one| one.rules) {
            self.broker.push(("access", Setting::new("acl_file", Value::Text(file.to_owned()), index)));
            if open.iter().any(|one| one.rules.is_some() && one.users.is_none() && !one.by_certificate()) {
                self.changed(index, "a user name that nothing proves counts as none: such clients have the rights of those without a name");
            }
            let without_rules = open.iter().filter(|one| one.rules.is_none()).map(|one| one.name.as_str());
            let free: Vec<String> =
                without_rules.chain(has_door.then_some(DOOR)).map(|name| format!("{name:?}")).collect();
            if !free.is_empty() {
                let rule =
                    format!("[[rule]]\nallow = true\nlisteners = [{}]\ntopics = {ALL_TOPICS}\n", free.join(", "));
                self.broker.push(("access", Setting::new("rules", Value::Text(rule), index)));
            }
        } else if !plan.auths.is_empty() || open.iter().any(Open::by_certificate) {
            // Without rules everybody who came in may do everything there, which has to be said here.
            let line = open.iter().find_map(|one| one.users.map(|(index, _)| index).or(one.listener.opened_by));
            self.broker.push(("access", Setting { key: "default", value: Value::Text("allow".into()), line }));
        }
    }

    fn listener_settings(&self, one: &Open<'a>) -> Vec<Setting> {
        let line = one.listener.opened_by;
        let setting = |key, value| Setting { key, value, line };
        let mut settings = vec![
            setting("address", Value::Text(one.listener.address())),
            setting("name", Value::Text(one.name.clone())),
        ];
        if one.anonymous {
            settings.push(setting("allow_anonymous", Value::Truth(true)));
        }
        settings.extend(one.listener.tls.settings());
        let own = |key: &str| one.listener.settings.iter().any(|other| other.key == key);
        settings.extend(self.everywhere.iter().filter(|other| !own(other.key)).cloned());
        settings.extend(one.listener.settings.iter().cloned());
        settings
    }
}

/// A listener on loopback that refuses all clients. Without a listener, our broker would open one for all local
/// clients.
fn shut_listener<'a>() -> Open<'a> {
    let listener = Listener::new(None, DEFAULT_PORT, Some("127.0.0.1"));
    let name = listener.name();
    Open { listener, name, anonymous: false, users: None, rules: None }
}

/// The name that ours would have, made different from those before it.
fn free_name(listener: &Listener<'_>, open: &[Open<'_>]) -> String {
    let name = listener.name();
    let taken = |name: &str| open.iter().any(|other| other.name == name);
    if !taken(&name) {
        return name;
    }
    (2..=open.len() + 1).map(|number| format!("{name}-{number}")).find(|name| !taken(name)).unwrap_or(name)
}
