//! `tidegate clients`: who is there.

use std::fmt::Write;

use clap::Args as ClapArgs;
use serde_json::Value;

use crate::admin_client::{AdminArgs, escape, shown};
use tidegate_terminal::{Exit, complain, print_and_exit, report};

const EXAMPLES: &str = "\
Examples:
  tidegate clients                       all clients, connected or with a session that lasts
  tidegate clients sensor                those with `sensor` in their client id
  tidegate clients sensor-17 --filters   with what they are subscribed to
  tidegate clients --json                the same for scripts

It looks at every session of the broker, so ask no more often than you read the answer.
What happened to one of them: `tidegate why client ID`. To close its connection: `tidegate ban add client ID --for 1s`.";

/// Subscriptions of each client that are named.
const FILTERS: usize = 100;

/// The flags of `tidegate clients`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "List clients: from where, as whom, with how many subscriptions and what waits for them", after_help = EXAMPLES)]
pub(crate) struct Args {
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

/// Asks the broker and prints who it is.
pub(crate) fn run(args: &Args) -> Exit {
    match args.admin.request("GET", &path(args), None) {
        Ok(answer) if args.json => print_and_exit(&format!("{answer}\n"), Exit::Ok),
        Ok(answer) => {
            let exit = print_and_exit(&list(&answer), Exit::Ok);
            if answer.get("more").and_then(Value::as_bool) == Some(true) {
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

fn path(args: &Args) -> String {
    let filters = if args.filters { FILTERS } else { 0 };
    let mut path = format!("/api/v1/clients?limit={}&filters={filters}", args.limit);
    for (key, value) in [("containing", &args.text), ("after", &args.after)] {
        if let Some(value) = value {
            let _ = write!(path, "&{key}={}", escape(value));
        }
    }
    path
}

fn list(answer: &Value) -> String {
    let clients = answer.get("clients").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if clients.is_empty() {
        return "no such client is there\n".to_owned();
    }
    let head = ["CLIENT", "FROM", "USER", "MQTT", "SUBSCRIPTIONS", "IN FLIGHT", "QUEUED"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head).chain(clients.iter().map(row)).collect();
    let widths: Vec<usize> =
        (0..rows[0].len()).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default()).collect();
    let mut out = String::new();
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
        out += cells.join("  ").trim_end();
        out.push('\n');
        let client = index.checked_sub(1).and_then(|index| clients.get(index));
        for filter in client.and_then(|client| client.get("filters")).and_then(Value::as_array).into_iter().flatten() {
            let _ = writeln!(out, "    {}", shown(filter.as_str().unwrap_or_default()));
        }
    }
    out
}

fn row(client: &Value) -> [String; 7] {
    let text = |key: &str| client.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(shown);
    let number = |key: &str| client.get(key).and_then(Value::as_u64).unwrap_or_default().to_string();
    let name = text("client").unwrap_or_default();
    let connected = client.get("connected").and_then(Value::as_bool).unwrap_or_default();
    [
        text("tenant").map_or_else(|| name.clone(), |tenant| format!("{name} of {tenant}")),
        text("address").unwrap_or_else(|| if connected { "-" } else { "away" }.to_owned()),
        text("user").unwrap_or_else(|| "-".to_owned()),
        text("version").unwrap_or_else(|| "-".to_owned()),
        number("subscriptions"),
        number("inflight_messages"),
        number("queued_messages"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clients_stand_in_columns_with_their_subscriptions_below() {
        let answer = json!({ "more": false, "clients": [
            { "client": "sensor\u{1b}", "tenant": "", "connected": true, "address": "192.0.2.7", "version": "5.0",
              "user": "ann", "subscriptions": 2, "filters": ["a/#", "$share/g/b"], "inflight_messages": 1,
              "queued_messages": 20 },
            { "client": "b", "tenant": "acme", "connected": false, "address": null, "version": null, "user": null,
              "subscriptions": 0, "filters": [], "inflight_messages": 0, "queued_messages": 0 },
            { "client": "c", "connected": true, "address": null },
        ] });
        assert_eq!(
            list(&answer).lines().collect::<Vec<_>>(),
            [
                "CLIENT        FROM       USER  MQTT  SUBSCRIPTIONS  IN FLIGHT  QUEUED",
                "sensor\\u{1b}  192.0.2.7  ann   5.0   2              1          20",
                "    a/#",
                "    $share/g/b",
                "b of acme     away       -     -     0              0          0",
                "c             -          -     -     0              0          0",
            ]
        );
    }

    #[test]
    fn nobody_is_said_to_be_nobody() {
        assert_eq!(list(&json!({ "clients": [] })), "no such client is there\n");
    }
}
