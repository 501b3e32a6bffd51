//! `tidegate meter`: what tenants have used, and what that costs.

mod invoice;
mod prices;
mod times;

pub use times::parse as parse_time;

use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tidegate_admin::{MeterBy, MeterRequest, Metered, TenantUsage};
use tidegate_terminal::{Exit, complain, print_and_exit, report};

use crate::admin_client::{AdminArgs, json_line, name_unreachable, shown};
use prices::PriceList;

const EXAMPLES: &str = "\
Examples:
  tidegate meter                                      all that the books have
  tidegate meter --from 24h --json                    the last day, for scripts
  tidegate meter --from 2026-10-01 --to 2026-11-01 --csv
  tidegate meter --by user --from 30d                 by user, where `hub.usage_by_user` is set
  tidegate meter --from 2026-10-01 --to 2026-11-01 --prices prices.toml

A time is a date or a time of UTC (2026-10-01, 2026-10-01T12:00), a time with its offset, Unix seconds, or how long ago
it is (24h). Usage is in the books by the minute for a day, by the hour for 62 days, then by the day; a period counts
when it begins within the times.
Any node of a cluster answers for all of them; one that does not answer is named, and the exit code is 3.";

/// The columns of a table of usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// A row for each tenant.
    Tenant,
    /// A row for each user of each tenant.
    User,
}

/// The flags of `tidegate meter`.
#[derive(Clone, Debug, Args)]
#[command(about = "Show what tenants have used, or their invoices with a price list", after_help = EXAMPLES)]
pub struct MeterArgs {
    /// From this time on
    #[arg(long, value_name = "TIME", value_parser = times::parse)]
    from: Option<u64>,
    /// Before this time
    #[arg(long, value_name = "TIME", value_parser = times::parse)]
    to: Option<u64>,
    /// The subject of a row
    #[arg(long, value_enum, default_value = "tenant")]
    by: By,
    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print invoices with the prices of this file, TOML
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Asks the broker, and prints the usage of tenants.
pub fn run(args: &MeterArgs) -> Exit {
    let all = MeterRequest::default();
    let by = match args.by {
        By::Tenant => MeterBy::Tenant,
        By::User => MeterBy::User,
    };
    let (from_ms, to_ms) = (args.from.unwrap_or(all.from_ms), args.to.unwrap_or(all.to_ms));
    let request = MeterRequest { from_ms, to_ms, by };
    if request.from_ms >= request.to_ms {
        report(&"--to must be later than --from");
        return Exit::Usage;
    }
    if args.by == By::User && args.prices.is_some() {
        report(&"invoices are for tenants; leave out --by user or --prices");
        return Exit::Usage;
    }
    let prices = match args.prices.as_deref().map(PriceList::read).transpose() {
        Ok(prices) => prices,
        Err(error) => {
            report(&error);
            return Exit::Usage;
        }
    };
    match args.admin.send(&request) {
        Ok(answer) => {
            let exit = print_and_exit(&text(args, &answer, prices.as_ref()), name_unreachable(&answer.unreachable));
            for node in &answer.in_memory {
                let node = shown(node);
                complain(format_args!(
                    "node {node} has no data directory: its books begin with the start of its process\n"
                ));
            }
            exit
        }
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

fn text(args: &MeterArgs, answer: &Metered, prices: Option<&PriceList>) -> String {
    let rows = match prices {
        Some(prices) if args.json => return json_line(&invoice::to_json(prices, &answer.tenants)),
        None if args.json => return json_line(&answer.tenants.iter().map(usage_json).collect::<Vec<_>>()),
        Some(prices) => invoice::rows(prices, &answer.tenants),
        None => rows(&answer.tenants, args.by),
    };
    if args.csv { csv(&rows) } else { table(&rows, args.by) }
}

/// Milliseconds as minutes, rounded to thousandths.
fn minutes(millis: u64) -> String {
    let thousandths = (u128::from(millis) + 30) / 60;
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}

fn usage_json(usage: &TenantUsage) -> Value {
    let minutes = |millis| minutes(millis).parse::<f64>().unwrap_or_default();
    let mut value = json!({
        "tenant": usage.tenant,
        "messages_in": usage.messages_in,
        "messages_out": usage.messages_out,
        "bytes_in": usage.bytes_in,
        "bytes_out": usage.bytes_out,
        "connection_minutes": minutes(usage.connection_ms),
        "sink_deliveries": usage.sink_deliveries,
        "session_minutes": minutes(usage.session_ms),
        "retained_byte_seconds": usage.retained_byte_seconds,
        "stored_byte_seconds": usage.stored_byte_seconds,
    });
    if let Some(user) = &usage.user {
        value["user"] = json!(user);
    }
    value
}

/// The header, and a row for each tenant or user.
fn rows(tenants: &[TenantUsage], by: By) -> Vec<Vec<String>> {
    let mut header = vec!["tenant"];
    if by == By::User {
        header.push("user");
    }
    header.extend([
        "messages_in",
        "messages_out",
        "bytes_in",
        "bytes_out",
        "connection_minutes",
        "sink_deliveries",
        "session_minutes",
        "retained_byte_seconds",
        "stored_byte_seconds",
    ]);
    let mut rows = vec![header.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for usage in tenants {
        let mut row = vec![usage.tenant.clone()];
        if by == By::User {
            row.push(usage.user.clone().unwrap_or_default());
        }
        row.extend([
            usage.messages_in.to_string(),
            usage.messages_out.to_string(),
            usage.bytes_in.to_string(),
            usage.bytes_out.to_string(),
            minutes(usage.connection_ms),
            usage.sink_deliveries.to_string(),
            minutes(usage.session_ms),
            usage.retained_byte_seconds.to_string(),
            usage.stored_byte_seconds.to_string(),
        ]);
        rows.push(row);
    }
    rows
}

/// Rows as comma-separated values (RFC 4180, lines end with a line feed).
fn csv(rows: &[Vec<String>]) -> String {
    let quoted = |cell: &String| {
        if cell.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.clone() }
    };
    let line = |row: &Vec<String>| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n";
    rows.iter().map(line).collect()
}

/// Rows as a table for a person: the first column to the left, numbers to the right.
fn table(rows: &[Vec<String>], by: By) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| shown(cell)).collect()).collect();
    if rows.len() < 2 {
        return match by {
            By::Tenant => "no tenant has used anything in this time\n".to_owned(),
            By::User => "no user has used anything in this time\n".to_owned(),
        };
    }
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let is_number = |column: usize| rows.iter().skip(1).all(|row| row.get(column).is_some_and(|cell| is_numeric(cell)));
    let numbers: Vec<bool> = (0..columns).map(is_number).collect();
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for ((cell, width), number) in row.iter().zip(&widths).zip(&numbers) {
            let _ = if *number { write!(line, "{cell:>width$}  ") } else { write!(line, "{cell:<width$}  ") };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn is_numeric(cell: &str) -> bool {
    cell.bytes().all(|byte| byte.is_ascii_digit() || b".-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acme() -> TenantUsage {
        TenantUsage {
            tenant: "acme, inc".to_owned(),
            messages_in: 12,
            bytes_in: 3400,
            connection_ms: 90_000,
            ..TenantUsage::default()
        }
    }

    #[test]
    fn usage_has_the_fields_that_scripts_read() {
        let value = usage_json(&acme());
        assert_eq!((value["tenant"].as_str(), value["messages_in"].as_u64()), (Some("acme, inc"), Some(12)));
        assert_eq!(value["connection_minutes"].as_f64(), Some(1.5));
        for field in ["messages_out", "bytes_in", "bytes_out", "sink_deliveries"] {
            assert!(value[field].is_u64(), "{field}");
        }
    }

    #[test]
    fn a_name_with_a_comma_is_one_value() {
        let text = csv(&rows(&[acme()], By::Tenant));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("tenant,messages_in,messages_out,bytes_in,"));
        assert_eq!(lines[1], "\"acme, inc\",12,0,3400,0,1.500,0,0.000,0,0");
    }

    #[test]
    fn usage_by_user_has_the_user_name() {
        let usage = TenantUsage { user: Some("pump".to_owned()), ..acme() };
        assert_eq!(usage_json(&usage)["user"], "pump");
        let text = csv(&rows(&[usage], By::User));
        assert!(text.starts_with("tenant,user,messages_in,"), "{text}");
        assert!(text.contains("\n\"acme, inc\",pump,12,"), "{text}");
    }

    #[test]
    fn no_usage_is_said_in_words() {
        assert_eq!(table(&rows(&[], By::Tenant), By::Tenant), "no tenant has used anything in this time\n");
    }
}
