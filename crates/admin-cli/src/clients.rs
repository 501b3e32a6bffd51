//! `tidegate clients`: who is there.

use std::fmt::Write;

use clap::Args as ClapArgs;
use tidegate_admin::{ClientEntry, Clients, ClientsRequest};

use crate::admin_client::{AdminArgs, json_line, name_unreachable, of_answering};
use tidegate_terminal::{Exit, complain, print_and_exit, report};
use tidegate_units::visible::shown;

const EXAMPLES: &str = "\
Examples:
  tidegate clients                       all clients, connected or with a session that lasts
  tidegate clients sensor                those with `sensor` in their client id
  tidegate clients sensor-17 --filters   with their subscriptions
  tidegate clients --json                the same for scripts

It looks at every session of the broker, so ask no more often than you read the answer. Any node of a cluster answers for
all of them; one that does not answer is named, and the exit code is 3.
What happened to one of them: `tidegate why client ID`. To close its connection: `tidegate kick client ID`.";

/// Subscriptions of each client that are named.
const FILTERS: u32 = 100;

/// The flags of `tidegate clients`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "List clients: address, user, number of subscriptions, and queue", after_help = EXAMPLES)]
pub struct Args {
    /// Only those whose client id contains this
    text: Option<String>,
    /// Clients at most, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Only those behind this client id, where an earlier list ended
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// Name their subscriptions as well
    #[arg(long)]
    filters: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Asks the broker and prints its clients.
pub fn run(args: &Args) -> Exit {
    match args.admin.send(&request(args)) {
        Ok(answer) if args.json => print_and_exit(&json_line(&answer), name_unreachable(&answer.unreachable)),
        Ok(answer) => {
            let exit = print_and_exit(&list(&answer, args), name_unreachable(&answer.unreachable));
            if answer.more {
                complain(
                    "hint: there are more; raise --limit, name a part of the client id, or go on with --after ID\n",
                );
            }
            exit
        }
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

fn request(args: &Args) -> ClientsRequest {
    ClientsRequest {
        containing: args.text.clone().unwrap_or_default(),
        after: args.after.clone(),
        limit: args.limit.into(),
        filters: if args.filters { FILTERS } else { 0 },
        ..ClientsRequest::default()
    }
}

/// Why a list has no clients.
fn none(args: &Args) -> String {
    let further = if args.after.is_some() { " behind that one" } else { "" };
    match &args.text {
        Some(part) => format!("no client id{further} contains `{}`\n", shown(part)),
        None => format!("no client{further} is connected or has a session\n"),
    }
}

fn list(answer: &Clients, args: &Args) -> String {
    if answer.clients.is_empty() {
        return of_answering(&answer.unreachable).to_owned() + &none(args);
    }
    let head = ["CLIENT", "NODE", "FROM", "USER", "MQTT", "SUBSCRIPTIONS", "IN FLIGHT", "QUEUED"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head).chain(answer.clients.iter().map(row)).collect();
    let widths: Vec<usize> =
        (0..rows[0].len()).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default()).collect();
    let mut out = String::new();
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
        out += cells.join("  ").trim_end();
        out.push('\n');
        let client = index.checked_sub(1).and_then(|index| answer.clients.get(index));
        for filter in client.iter().flat_map(|client| &client.filters) {
            let _ = writeln!(out, "    {}", shown(filter));
        }
    }
    out
}

fn row(client: &ClientEntry) -> [String; 8] {
    let or = |text: &Option<String>, other: &str| text.as_deref().map_or_else(|| other.to_owned(), shown);
    let name = shown(&client.client);
    [
        if client.tenant.is_empty() { name } else { format!("{name} of {}", shown(&client.tenant)) },
        if client.node.is_empty() { "-".to_owned() } else { shown(&client.node) },
        or(&client.address, if client.connected { "-" } else { "away" }),
        or(&client.user, "-"),
        or(&client.version, "-"),
        client.subscriptions.to_string(),
        client.inflight_messages.to_string(),
        client.queued_messages.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: Args,
    }

    fn asking(words: &[&str]) -> Args {
        CommandLine::parse_from([&["clients"], words].concat()).args
    }

    #[test]
    fn clients_stand_in_columns_with_their_subscriptions_below() {
        let sensor = ClientEntry {
            client: "sensor\u{1b}".into(),
            node: "a".into(),
            connected: true,
            address: Some("192.0.2.7".into()),
            version: Some("5.0".into()),
            user: Some("ann".into()),
            subscriptions: 2,
            filters: vec!["a/#".into(), "$share/g/b".into()],
            inflight_messages: 1,
            queued_messages: 20,
            ..ClientEntry::default()
        };
        let away = ClientEntry { client: "b".into(), tenant: "acme".into(), ..ClientEntry::default() };
        let unknown = ClientEntry { client: "c".into(), connected: true, ..ClientEntry::default() };
        let answer = Clients { clients: vec![sensor, away, unknown], ..Clients::default() };
        assert_eq!(
            list(&answer, &asking(&[])).lines().collect::<Vec<_>>(),
            [
                "CLIENT        NODE  FROM       USER  MQTT  SUBSCRIPTIONS  IN FLIGHT  QUEUED",
                "sensor\\u{1b}  a     192.0.2.7  ann   5.0   2              1          20",
                "    a/#",
                "    $share/g/b",
                "b of acme     -     away       -     -     0              0          0",
                "c             -     -          -     -     0              0          0",
            ]
        );
    }

    #[test]
    fn an_empty_list_says_so() {
        let told = |words: &[&str]| list(&Clients::default(), &asking(words));
        assert_eq!(told(&[]), "no client is connected or has a session\n");
        let partial = Clients { unreachable: vec!["b".to_owned()], ..Clients::default() };
        let said = list(&partial, &asking(&[]));
        assert_eq!(said, "on the nodes that answered: no client is connected or has a session\n");
        assert_eq!(told(&["sen"]), "no client id contains `sen`\n");
        assert_eq!(told(&["--after", "b"]), "no client behind that one is connected or has a session\n");
    }
}
