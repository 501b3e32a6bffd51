//! `tidegate why slow`: who reads slowly or does not acknowledge.

use std::fmt::Write;

use clap::Args as ClapArgs;
use tidegate_admin::{SlowClients, SlowRequest};

use crate::admin_client::{AdminArgs, is_of_several, json_line, name_unreachable, of_answering};
use tidegate_terminal::{Exit, print_and_exit, report};
use tidegate_units::visible::shown;

/// The flags of `tidegate why slow`.
#[derive(Clone, Debug, ClapArgs)]
pub(super) struct Args {
    /// Clients at most, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Asks the broker and prints who it is.
pub(super) fn run(args: &Args) -> Exit {
    match args.admin.send(&SlowRequest { limit: args.limit.into() }) {
        Ok(answer) => {
            let text = if args.json { json_line(&answer) } else { list(&answer) };
            print_and_exit(&text, name_unreachable(&answer.unreachable))
        }
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

fn list(answer: &SlowClients) -> String {
    if answer.clients.is_empty() {
        let partial = of_answering(&answer.unreachable);
        return format!("{partial}no client is slow: all acknowledge in time, and no queue is full\n");
    }
    let mut out = String::new();
    let several = is_of_several(&answer.nodes, &answer.unreachable);
    for client in &answer.clients {
        let state = if client.connected { "connected" } else { "away" };
        let tenant = match &*client.tenant_name {
            "" => String::new(),
            name => format!(" of {}", shown(name)),
        };
        let node = if several { format!(", on {}", shown(&client.node)) } else { String::new() };
        let _ = writeln!(out, "{}{tenant}, {state}{node}", shown(&client.client));
        if let Some(packet_id) = client.unacknowledged_packet_id {
            let since = match client.waiting_ms / 1000 {
                // A client that is away cannot acknowledge.
                0 => String::new(),
                seconds => format!("; nothing was for {seconds} s"),
            };
            let inflight = client.inflight_messages;
            let _ = writeln!(out, "    packet id {packet_id} is the oldest of {inflight} not acknowledged{since}");
        }
        let blocked = match client.blocked_publishers {
            0 => String::new(),
            blocked => format!(", and {blocked} publishers wait for that"),
        };
        let _ = writeln!(out, "    {} messages wait ({} bytes){blocked}", client.queued_messages, client.queued_bytes);
    }
    out
}

#[cfg(test)]
mod tests {
    use tidegate_admin::SlowClient;

    use super::*;

    #[test]
    fn a_slow_client_is_named_with_packet_id_time_and_queue() {
        let reader = SlowClient {
            client: "a\u{1b}".into(),
            node: "n1".into(),
            connected: true,
            unacknowledged_packet_id: Some(7),
            inflight_messages: 3,
            waiting_ms: 31_999,
            queued_messages: 5,
            queued_bytes: 500,
            blocked_publishers: 2,
            ..SlowClient::default()
        };
        let away = SlowClient {
            client: "b".into(),
            tenant_name: "acme".into(),
            tenant: 4,
            queued_messages: 10,
            queued_bytes: 1000,
            ..SlowClient::default()
        };
        let answer = SlowClients { clients: vec![reader, away], ..SlowClients::default() };
        let text = list(&answer);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "a\\u{1b}, connected",
                "    packet id 7 is the oldest of 3 not acknowledged; nothing was for 31 s",
                "    5 messages wait (500 bytes), and 2 publishers wait for that",
                "b of acme, away",
                "    10 messages wait (1000 bytes)",
            ]
        );
    }

    #[test]
    fn an_empty_list_says_so() {
        assert!(list(&SlowClients::default()).starts_with("no client is slow"));
    }
}
