//! `tidegate lab criteria`: the criteria of a survey of middleware, answered by probes.

use clap::Args as ClapArgs;
use serde_json::json;
use tidegate_lab::criteria::{CRITERIA, Judged, SCHEMA, judge, markdown, plain};
use tidegate_lab::peer::without_credentials;
use tidegate_lab::probe::probe;

use tidegate_terminal::{Exit, print_and_exit, report};

/// The flags of `tidegate lab criteria`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// Brokers to probe, as NAME=mqtt://HOST:PORT; without one, how each criterion is answered
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
    brokers
        .iter()
        .map(|broker| {
            let Some((name, address)) = broker.split_once('=') else {
                let message =
                    format!("`{}` has no address; name it as NAME=mqtt://HOST:PORT", without_credentials(broker));
                return Err((message, Exit::Usage));
            };
            let probed = probe(address).map_err(|error| (error.to_string(), Exit::Failure))?;
            Ok(judge(name, Some(&probed.findings)))
        })
        .collect()
}
