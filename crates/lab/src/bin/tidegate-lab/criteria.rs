//! `tidegate lab criteria`: the survey's table of what brokers are and can do.

use clap::Args as ClapArgs;
use serde_json::json;
use tidegate_lab::criteria::{CRITERIA, Datasheet, Judged, SCHEMA, judge, markdown, plain};
use tidegate_lab::peer::without_credentials;
use tidegate_lab::probe::probe;

use tidegate_terminal::{Exit, print_and_exit, report};

/// The flags of `tidegate lab criteria`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// Brokers: NAME for what its makers say, NAME=mqtt://HOST:PORT to probe it as well; all that have a datasheet when
    /// there is none
    #[arg(value_name = "BROKER")]
    brokers: Vec<String>,

    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,

    /// Print tables in Markdown
    #[arg(long)]
    markdown: bool,
}

pub(crate) fn run(args: &Args) -> Exit {
    let judged = match judged(&args.brokers) {
        Ok(judged) => judged,
        Err((message, exit)) => {
            report(&message);
            return exit;
        }
    };
    let text = if args.json {
        let criteria: Vec<_> =
            CRITERIA.iter().map(|criterion| json!({ "id": criterion.id, "title": criterion.title })).collect();
        format!("{}\n", json!({ "schema": SCHEMA, "criteria": criteria, "brokers": judged }))
    } else if args.markdown {
        markdown(&judged)
    } else {
        plain(&judged)
    };
    print_and_exit(&text, Exit::Ok)
}

fn judged(brokers: &[String]) -> Result<Vec<Judged>, (String, Exit)> {
    let sheets = Datasheet::all().map_err(|error| (error.to_string(), Exit::Failure))?;
    if brokers.is_empty() {
        return Ok(sheets.iter().map(|sheet| judge(&sheet.name, None)).collect());
    }
    let known = || sheets.iter().map(|sheet| sheet.name.as_str()).collect::<Vec<_>>().join(", ");
    brokers
        .iter()
        .map(|broker| match broker.split_once('=') {
            Some((name, address)) => {
                let probed = probe(address).map_err(|error| (error.to_string(), Exit::Failure))?;
                Ok(judge(name, Some(&probed.findings)))
            }
            None if Datasheet::of(broker).is_some() => Ok(judge(broker, None)),
            None => {
                let message = format!(
                    "`{}` has no datasheet; there are {}, or NAME=mqtt://HOST:PORT to probe one",
                    without_credentials(broker),
                    known()
                );
                Err((message, Exit::Usage))
            }
        })
        .collect()
}
