//! `tidegate ban`: who may not come in.

use std::fmt::Write;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use tidegate_admin::bans::MAX_BAN_SECONDS;
use tidegate_admin::{BanList, BanRequest, BanTarget, ListBans, UnbanRequest};

use crate::admin_client::{AdminArgs, is_of_several, json_line, name_unreachable, of_answering, time};
use tidegate_terminal::{Exit, print_and_exit, report};
use tidegate_units::duration;
use tidegate_units::visible::shown;

const EXAMPLES: &str = "\
Examples:
  tidegate ban list                                          all bans, also bans by the broker itself
  tidegate ban add client sensor-17 --for 1h --reason 'sends nonsense'
  tidegate ban add address 192.0.2.0/24                      until it is removed
  tidegate ban add user bob --tenant acme
  tidegate ban remove client sensor-17

A ban holds on all nodes of a cluster, also on nodes that are away now and return. It closes the connections of the address,
of the client id, or of the user where the user name is proven. A banned address is closed when it connects; a banned client
id or user name is refused with its CONNECT (MQTT 5: 0x8A, MQTT 3: 5). Bans of the configuration are removed there.
Exit codes: 0 done, 1 not done, 3 done but for nodes that did not answer.
More: docs/limits.md.";

/// The flags of `tidegate ban`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "List, add and remove bans of clients, user names and addresses", after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

/// The action.
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
        /// The reason, for readers of the list
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// End a ban
    Remove {
        #[command(flatten)]
        target: Target,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

/// The target of a ban.
#[derive(Clone, Debug, ClapArgs)]
pub(super) struct Target {
    /// The kind of target
    #[arg(value_enum)]
    kind: Kind,
    /// The client id, the user name, or the address or network
    name: String,
    /// The tenant of the client or user [default: the default one]
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
}

/// A kind of subject that can be banned.
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

    fn target(self, name: String) -> BanTarget {
        match self {
            Self::Client => BanTarget::Client(name),
            Self::User => BanTarget::User(name),
            Self::Address => BanTarget::Address(name),
        }
    }
}

impl Target {
    /// As it is asked for.
    pub(super) fn asked(&self) -> BanTarget {
        self.kind.target(self.name.clone())
    }

    /// The name of the tenant; empty for the default one.
    pub(super) fn tenant(&self) -> String {
        self.tenant.clone().unwrap_or_default()
    }

    /// Its kind and its name.
    pub(super) fn named(&self) -> (&'static str, &str) {
        (self.kind.label(), &self.name)
    }
}

/// The length of a ban is not written as whole seconds, or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a length such as 30s, 10m, 1h or 7d, at most 36500d")]
struct BanLengthError;

/// Whole seconds of a length of time.
fn seconds(text: &str) -> Result<u64, BanLengthError> {
    let millis = duration::parse(text).filter(|millis| millis % 1000 == 0);
    millis.map(|millis| millis / 1000).filter(|seconds| (1..=MAX_BAN_SECONDS).contains(seconds)).ok_or(BanLengthError)
}

/// Runs the command.
pub fn run(args: &Args) -> Exit {
    let done = match &args.action {
        Action::List { json, admin } => admin.send(&ListBans {}).map(|answer| {
            let text = if *json { json_line(&answer) } else { list(&answer) };
            (text, answer.unreachable)
        }),
        Action::Add { target, length, reason, json, admin } => {
            let request = BanRequest {
                target: target.asked(),
                tenant: target.tenant(),
                reason: reason.clone(),
                for_seconds: *length,
            };
            admin.send(&request).map(|answer| {
                let (kind, name) = target.named();
                let text = format!("banned {kind} {}; connections closed: {}\n", shown(name), answer.closed);
                let text = if *json { json_line(&answer) } else { text };
                (text, answer.unreachable)
            })
        }
        Action::Remove { target, json, admin } => {
            let (kind, name) = target.named();
            let text = format!("the ban of {kind} {} has ended\n", shown(name));
            let request = UnbanRequest { target: target.asked(), tenant: target.tenant() };
            admin.send(&request).map(|answer| {
                let text = if *json { json_line(&answer) } else { text };
                (text, answer.unreachable)
            })
        }
    };
    match done {
        Ok((text, unreachable)) => print_and_exit(&text, name_unreachable(&unreachable)),
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

/// The bans, one per line.
fn list(answer: &BanList) -> String {
    if answer.bans.is_empty() {
        return of_answering(&answer.unreachable).to_owned() + "no bans\n";
    }
    let mut out = String::new();
    for ban in &answer.bans {
        let until = ban.until_ms.map_or_else(|| "until it is removed".to_owned(), |at| format!("until {}", time(at)));
        let origin = shown(&ban.origin).replace('_', " ");
        let _ = write!(out, "{} {}  {until}, by {origin}", shown(&ban.kind), shown(&ban.name));
        if !ban.tenant.is_empty() {
            let _ = write!(out, ", tenant {}", shown(&ban.tenant));
        }
        if is_of_several(&answer.nodes, &answer.unreachable) {
            let nodes: Vec<String> = ban.nodes.iter().map(|node| shown(node)).collect();
            let _ = write!(out, ", on {}", nodes.join(", "));
        }
        let _ = if ban.reason.is_empty() { writeln!(out) } else { writeln!(out, ": {}", shown(&ban.reason)) };
    }
    out
}

#[cfg(test)]
mod tests {
    use tidegate_admin::BanEntry;

    use super::*;

    #[test]
    fn a_list_names_target_end_author_and_reason() {
        let client = BanEntry {
            kind: "client".into(),
            name: "a".into(),
            origin: "operator".into(),
            nodes: vec!["n1".into(), "n2".into()],
            ..BanEntry::default()
        };
        let address = BanEntry {
            kind: "address".into(),
            name: "192.0.2.1".into(),
            tenant: "acme".into(),
            reason: "5 failed logins".into(),
            origin: "failed_logins".into(),
            until_ms: Some(0),
            nodes: vec!["n1".into()],
            ..BanEntry::default()
        };
        let answer =
            BanList { bans: vec![client, address], nodes: vec!["n1".into(), "n2".into()], ..BanList::default() };
        let text = list(&answer);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "client a  until it is removed, by operator, on n1, n2");
        assert!(lines[1].starts_with("address 192.0.2.1  until 19"), "{text}");
        assert!(lines[1].ends_with(", by failed logins, tenant acme, on n1: 5 failed logins"), "{text}");
        assert_eq!(list(&BanList::default()), "no bans\n");
    }

    #[test]
    fn a_length_is_whole_seconds() {
        assert_eq!(seconds("10m"), Ok(600));
        assert!(seconds("1500ms").is_err() && seconds("0").is_err() && seconds("10").is_err());
    }
}
