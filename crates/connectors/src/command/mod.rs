//! `tidegate hub`: pipelines beside a broker, and questions to running pipelines.

mod attempt;
mod serve;

use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use tidegate_admin::{GetHub, PausePipeline, Pipelines, ReplayPipeline, ResumePipeline};

use tidegate_admin_cli::admin_client::{AdminArgs, json_line, shown};
use tidegate_admin_cli::parse_time;
use tidegate_config_cli::args::ConfigArgs;
use tidegate_terminal::{Exit, print_and_exit, report};

const EXAMPLES: &str = "\
Examples:
  tidegate -c hub.toml --data DIR              pipelines in the broker
  tidegate hub -c hub.toml --bus nats://127.0.0.1:4222
                                               the same beside a broker, over a bus: several processes share the work,
                                               and records of one key stay in order. The file of the broker has
                                               [hub] with bus = \"nats://127.0.0.1:4222\"; both may have the same file
  tidegate hub -c hub.toml --broker mqtt://127.0.0.1:1883
                                               the same beside any broker of MQTT 5, by shared subscriptions
  tidegate hub try hub.toml --message '{\"topic\":\"plant/a/temp\",\"payload\":{\"temp\":31}}'
                                               what each step makes of a message; nothing is sent
  tidegate hub status --json                   an object from pipeline to in, out, failed, waiting, lag_s, state
  tidegate hub pause hot                       its messages wait at the broker until `hub resume hot`
  tidegate hub replay hot --from 30m           messages of the last 30 minutes come again; needs keep = \"24h\"

More: docs/hub.md.";

/// Run pipelines beside a broker, and ask for their statuses: topics to files, databases, buses and services
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<HubAction>,

    /// The broker whose messages are taken: mqtt://USER:PASSWORD@HOST:PORT, or mqtts://. With --bus, the broker that
    /// pipelines publish to
    #[arg(long, value_name = "ADDRESS")]
    broker: Option<String>,

    /// A file (PEM) of the authorities that the broker's certificate comes from [default: the system's]
    #[arg(long, value_name = "FILE")]
    broker_ca: Option<String>,

    /// The name of this process among the hubs that share the work [default: the name of the machine, and on a bus the
    /// number of the process]. With --broker it keeps its messages while it is away
    #[arg(long, value_name = "NAME")]
    member: Option<String>,

    #[command(flatten)]
    run: ConfigArgs,
}

/// The command of an operator.
#[derive(Clone, Debug, Subcommand)]
enum HubAction {
    /// How pipelines do
    Status {
        /// Print JSON: an object from pipeline to its numbers
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Pause a pipeline: its messages wait at the broker
    Pause {
        /// The pipeline
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Have a paused pipeline go on
    Resume {
        /// The pipeline
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Bring messages to the sinks again that the broker took at a time or later, as far as they are kept
    Replay {
        /// The pipeline
        name: String,
        /// A time such as 2026-01-02T03:04:05Z, or how long ago, such as 30m
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        from: u64,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Show what each step of the pipelines of a file makes of a message; nothing is sent
    Try {
        /// The configuration
        file: PathBuf,
        /// The message: {"topic": ..., "payload": ...}, and if need be clientid, username, peerhost, qos,
        /// retain, timestamp (milliseconds), `user_properties`. A payload that is text is taken as it is
        #[arg(long, value_name = "JSON")]
        message: String,
        /// Only this pipeline
        #[arg(long, value_name = "NAME")]
        pipeline: Option<String>,
        /// Print JSON: a list with an object for each pipeline
        #[arg(long)]
        json: bool,
    },
}

impl Args {
    /// The configuration's sources. `--bus` names the bus of the hub here, and not that of a cluster.
    fn sources(&self) -> ConfigArgs {
        let mut sources = self.run.clone();
        let mut set: Vec<_> = sources.bus.take().map(|bus| ("hub.bus".to_owned(), bus)).into_iter().collect();
        // A key that is set by name wins over a flag.
        set.append(&mut sources.set);
        sources.set = set;
        sources
    }
}

/// Runs pipelines, or the command of an operator.
pub fn run(args: &Args) -> Exit {
    let done = match &args.action {
        None => return serve::run(args),
        Some(HubAction::Try { file, message, pipeline, json }) => {
            return attempt::run(file, message, pipeline.as_deref(), *json);
        }
        Some(HubAction::Status { json, admin }) => {
            admin.send(&GetHub).map(|answer| if *json { json_line(&answer) } else { table(&answer) })
        }
        Some(HubAction::Pause { name, admin }) => {
            admin.send(&PausePipeline { name: name.clone() }).map(|_| format!("paused {}\n", shown(name)))
        }
        Some(HubAction::Resume { name, admin }) => {
            admin.send(&ResumePipeline { name: name.clone() }).map(|_| format!("resumed {}\n", shown(name)))
        }
        Some(HubAction::Replay { name, from, admin }) => admin
            .send(&ReplayPipeline { name: name.clone(), from_ms: *from })
            .map(|_| format!("{} brings messages again from then on\n", shown(name))),
    };
    match done {
        Ok(text) => print_and_exit(&text, Exit::Ok),
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

fn table(pipelines: &Pipelines) -> String {
    if pipelines.is_empty() {
        return "there are no pipelines\n".to_owned();
    }
    let mut text = format!(
        "{:<24} {:<10} {:>12} {:>12} {:>8} {:>10} {:>8}  counts since\n",
        "pipeline", "state", "in", "out", "failed", "waiting", "lag"
    );
    for (name, it) in pipelines {
        let since = it.since.as_deref().map_or_else(|| "-".to_owned(), shown);
        let _ = writeln!(
            text,
            "{:<24} {:<10} {:>12} {:>12} {:>8} {:>10} {:>7.1}s  {since}",
            shown(name),
            it.state,
            it.counts.taken,
            it.counts.delivered,
            it.counts.failed,
            it.waiting,
            it.lag_s,
        );
        if let Some(error) = &it.error {
            let _ = writeln!(text, "  {}", shown(error));
        }
        if it.counts.dropped > 0 {
            let (dropped, name) = (it.counts.dropped, shown(name));
            let _ = writeln!(text, "  {dropped} messages were dropped before it got them: why pipeline {name}");
        }
        if it.counts.looped > 0 {
            let (looped, name) = (it.counts.looped, shown(name));
            let _ = writeln!(text, "  {looped} messages went round in a loop of pipelines: why pipeline {name}");
        }
        if it.counts.ended_early > 0 {
            let early = it.counts.ended_early;
            let _ =
                writeln!(text, "  {early} windows ended early: more messages came than `window` lets wait; raise it");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_pipeline_and_its_error() {
        let answer = json!({ "hot": {
            "state": "retrying", "in": 10, "out": 7, "failed": 1, "waiting": 2, "lag_s": 1.25, "error": "db: refused",
            "since": "2026-01-02T03:04:05.678Z", "looped": 3, "ended_early": 2, "dropped": 4
        } });
        let text = table(&from_value(answer).unwrap());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{text}");
        let words: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(words, ["hot", "retrying", "10", "7", "1", "2", "1.2s", "2026-01-02T03:04:05.678Z"]);
        assert_eq!(lines[2].trim(), "db: refused");
        assert!(lines[3].starts_with("  4 messages were dropped"), "{text}");
        assert!(lines[4].starts_with("  3 messages went round"), "{text}");
        assert!(lines[5].starts_with("  2 windows ended early"), "{text}");
        assert_eq!(table(&Pipelines::new()), "there are no pipelines\n");
    }
}
