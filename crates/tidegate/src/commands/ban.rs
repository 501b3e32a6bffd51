//! `tidegate ban`: who may not come in.

use std::fmt::Write;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::admin_client::{AdminArgs, escape, shown, time};
use crate::config::duration;
use tidegate_terminal::{Exit, print_and_exit, report};

const EXAMPLES: &str = "\
Examples:
  tidegate ban list                                          all bans, also those that the broker made itself
  tidegate ban add client sensor-17 --for 1h --reason 'sends nonsense'
  tidegate ban add address 192.0.2.0/24                      until it is removed
  tidegate ban add user bob --tenant acme
  tidegate ban remove client sensor-17

A ban closes the connections that it is about. A banned address is closed when it connects; a banned client id or user name
is refused with its CONNECT (MQTT 5: 0x8A, MQTT 3: 5). Bans of the configuration are removed there.
More: docs/limits.md.";

/// The flags of `tidegate ban`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "List, add and remove bans of clients, user names and addresses", after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

/// What is done.
#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// List all bans
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Ban
    Add {
        #[command(flatten)]
        target: Target,
        /// How long, such as 10m or 7d [default: until it is removed]
        #[arg(long = "for", value_name = "DURATION", value_parser = seconds)]
        length: Option<u64>,
        /// Why, for those who read the list
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// End a ban
    Remove {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

/// Whom a ban is about.
#[derive(Clone, Debug, ClapArgs)]
struct Target {
    /// What is banned
    #[arg(value_enum)]
    kind: Kind,
    /// The client id, the user name, or the address or network
    name: String,
    /// The tenant of the client or user [default: the default one]
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
}

/// What can be banned.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// A client id
    Client,
    /// A user name
    User,
    /// An address, or a network such as 192.0.2.0/24
    Address,
}

impl Kind {
    fn label(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::User => "user",
            Self::Address => "address",
        }
    }
}

/// Whole seconds of a length of time.
fn seconds(text: &str) -> Result<u64, String> {
    let millis = duration::parse(text).filter(|millis| *millis >= 1000 && millis % 1000 == 0);
    millis.map(|millis| millis / 1000).ok_or_else(|| "write a length such as 30s, 10m, 1h or 7d".to_owned())
}

/// Does what is asked for.
pub(crate) fn run(args: &Args) -> Exit {
    let done = match &args.action {
        Action::List { json, admin } => admin
            .request("GET", "/api/v1/bans", None)
            .map(|answer| if *json { format!("{answer}\n") } else { list(&answer) }),
        Action::Add { target, length, reason, admin } => {
            let mut body = json!({ "reason": reason, "for_seconds": length });
            body[target.kind.label()] = Value::from(target.name.as_str());
            if let Some(tenant) = &target.tenant {
                body["tenant"] = Value::from(tenant.as_str());
            }
            admin.request("POST", "/api/v1/bans", Some(&body)).map(|answer| {
                let closed = answer.get("closed").and_then(Value::as_u64).unwrap_or_default();
                format!("banned {} {}; connections closed: {closed}\n", target.kind.label(), shown(&target.name))
            })
        }
        Action::Remove { target, admin } => {
            let tenant = target.tenant.as_ref().map_or_else(String::new, |name| format!("&tenant={}", escape(name)));
            let path = format!("/api/v1/bans?{}={}{tenant}", target.kind.label(), escape(&target.name));
            let said = format!("the ban of {} {} has ended\n", target.kind.label(), shown(&target.name));
            admin.request("DELETE", &path, None).map(|_| said)
        }
    };
    match done {
        Ok(text) => print_and_exit(&text, Exit::Ok),
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

/// The bans, one per line.
fn list(answer: &Value) -> String {
    let bans = answer.get("bans").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if bans.is_empty() {
        return "nobody is banned\n".to_owned();
    }
    let mut out = String::new();
    for ban in bans {
        let text = |key: &str| shown(ban.get(key).and_then(Value::as_str).unwrap_or_default());
        let number = |key: &str| ban.get(key).and_then(Value::as_u64);
        let until =
            number("until_ms").map_or_else(|| "until it is removed".to_owned(), |at| format!("until {}", time(at)));
        let _ = write!(out, "{} {}  {until}, by {}", text("kind"), text("name"), text("origin").replace('_', " "));
        let tenant = text("tenant");
        if !tenant.is_empty() {
            let _ = write!(out, ", tenant {tenant}");
        }
        let reason = text("reason");
        let _ = if reason.is_empty() { writeln!(out) } else { writeln!(out, ": {reason}") };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_whom_until_when_by_whom_and_why() {
        let answer = json!({ "bans": [
            { "kind": "client", "name": "a", "tenant": "", "reason": "", "origin": "operator", "since_ms": 0, "until_ms": null },
            { "kind": "address", "name": "192.0.2.1", "tenant": "acme", "reason": "5 failed logins", "origin": "failed_logins",
              "since_ms": 0, "until_ms": 0 },
        ]});
        let text = list(&answer);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "client a  until it is removed, by operator");
        assert!(lines[1].starts_with("address 192.0.2.1  until 19"), "{text}");
        assert!(lines[1].ends_with(", by failed logins, tenant acme: 5 failed logins"), "{text}");
        assert_eq!(list(&json!({ "bans": [] })), "nobody is banned\n");
    }

    #[test]
    fn a_length_is_whole_seconds() {
        assert_eq!(seconds("10m"), Ok(600));
        assert!(seconds("1500ms").is_err() && seconds("0").is_err() && seconds("10").is_err());
    }
}
