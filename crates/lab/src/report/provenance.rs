//! How the numbers were made: the machine, the brokers and their configuration, the load, the missing runs.

use super::markup::{escape, put};
use crate::results::{AppliedLimits, Results, Run};
use tidegate_plot::shown;

pub(super) fn write(results: &Results, out: &mut String) {
    out.push_str("<h2 id=\"made\">How it was made</h2>");
    machine(results, out);
    brokers(results, out);
    runs(results, out);
    missing(results, out);
    let plan = results.runs.first().and_then(|run| serde_json::to_string_pretty(&run.plan).ok()).unwrap_or_default();
    put!(
        out,
        "<details><summary>The load of the first run</summary><pre>{}</pre></details>\
         <p class=\"note\">All numbers: <code>results.json</code> (schema <code>{}</code>) and <code>results.csv</code> beside this file.</p>",
        escape(&plan),
        escape(&results.schema)
    );
}

fn machine(results: &Results, out: &mut String) {
    let (machine, settings) = (&results.environment, &results.settings);
    #[expect(clippy::cast_precision_loss, reason = "a size in GiB has a few digits")]
    let memory = machine.memory as f64 / f64::from(1 << 30);
    let commit = machine.commit.as_ref().map_or_else(|| "not known".to_owned(), |commit| escape(commit));
    let rows = [
        ("Machine", format!("{} × {}, {} GiB", machine.cores, escape(&machine.processor), shown(memory))),
        ("System", format!("{}, Linux {}", escape(&machine.system), escape(&machine.kernel))),
        ("Begun", day(machine.begun_unix_s)),
        (
            "Busy with",
            format!(
                "a load average of {} before the first run; broker and generator share the machine",
                shown(machine.load_average)
            ),
        ),
        ("Lab", format!("version {}, commit {commit}", escape(&machine.lab_version))),
        ("Limits", escape(&machine.limits)),
        (
            "Order",
            format!(
                "by chance in each repetition, from the seed {}; times of phases × {}",
                settings.seed,
                shown(settings.time_scale)
            ),
        ),
    ];
    out.push_str("<dl>");
    for (name, text) in rows {
        put!(out, "<dt>{name}</dt><dd>{text}</dd>");
    }
    out.push_str("</dl>");
}

/// A day and a time of the proleptic Gregorian calendar, in UTC.
fn day(unix_s: f64) -> String {
    let time = std::time::UNIX_EPOCH + std::time::Duration::try_from_secs_f64(unix_s).unwrap_or_default();
    humantime::format_rfc3339_seconds(time).to_string().replace('T', " ").replace('Z', " UTC")
}

fn brokers(results: &Results, out: &mut String) {
    out.push_str("<h3>Brokers</h3>");
    for (name, info) in &results.peers {
        let language = if info.language.is_empty() { String::new() } else { format!(", {}", escape(&info.language)) };
        put!(
            out,
            "<details><summary>{}: {} {}{language}</summary>",
            escape(name),
            escape(&info.title),
            escape(&info.version)
        );
        for note in &info.notes {
            put!(out, "<p class=\"note\">{}.</p>", escape(note));
        }
        for (file, text) in &info.configuration {
            put!(out, "<p class=\"note\">{}</p><pre>{}</pre>", escape(file), escape(text.trim()));
        }
        out.push_str("</details>");
    }
}

fn runs(results: &Results, out: &mut String) {
    out.push_str(
        "<h3>Runs</h3><div class=\"scroll\"><table><thead><tr><th>Case</th><th>Broker</th><th>No.</th><th>Generator, busiest process</th>\
         <th>Generator lag, p99</th><th>Limits</th><th>Made to wait</th><th>Valid</th></tr></thead><tbody>",
    );
    for run in &results.runs {
        let limits = limits(run);
        put!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{} % of a core</td><td>{} ms</td><td class=\"text\">{limits}</td><td>{}</td><td class=\"text why\">{}</td></tr>",
            escape(&run.case),
            escape(&run.peer),
            run.repetition,
            shown(run.load.generator.busiest * 100.0),
            shown(milliseconds(run.load.generator.lag.at(0.99))),
            if run.limits.by.is_some() { run.limits.throttled.to_string() } else { "–".to_owned() },
            valid(run)
        );
    }
    out.push_str("</tbody></table></div>");
}

/// Whether a run counts, and the errors and refusals of a run that does.
fn valid(run: &Run) -> String {
    if let Some(why) = &run.invalid {
        return format!("no: {}", escape(why));
    }
    let problems: Vec<String> =
        run.load.problems.iter().map(|(problem, times)| format!("; but {times} times: {}", escape(problem))).collect();
    format!("yes{}", problems.concat())
}

fn limits(run: &Run) -> String {
    let files = run.limits.wanted.descriptors.map(|files| format!("{files} open files"));
    let groups = run.group_limits.iter().filter_map(|group| {
        let (name, waited) = (escape(&group.group), group.limits.throttled);
        Some(format!("{name}: {}, made to wait {waited} times", kept(&group.limits)?))
    });
    let network =
        run.network.as_ref().map(|made| format!("network: {}, by {}", escape(&made.wanted.words()), escape(&made.by)));
    let said: Vec<String> = kept(&run.limits).into_iter().chain(files).chain(groups).chain(network).collect();
    if said.is_empty() { "none".to_owned() } else { said.join("; ") }
}

/// The limits of a cgroup.
fn kept(limits: &AppliedLimits) -> Option<String> {
    let cpus = limits.wanted.cpus.map(|cpus| format!("{} cores", shown(cpus)));
    let memory = limits.wanted.memory.map(|bytes| format!("{} MiB", bytes.0 >> 20));
    let parts: Vec<String> = cpus.into_iter().chain(memory).collect();
    let by = limits.by.as_ref().filter(|_| !parts.is_empty())?;
    Some(format!("{} by {}", parts.join(", "), escape(by)))
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds have a few digits")]
fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn missing(results: &Results, out: &mut String) {
    if results.not_measured.is_empty() {
        return;
    }
    out.push_str("<h3 id=\"missing\">Not measured</h3><div class=\"scroll\"><table><tbody>");
    for entry in &results.not_measured {
        put!(
            out,
            "<tr><td>{}</td><td class=\"text\">{}</td><td>{}</td><td class=\"text\">{}</td></tr>",
            escape(&entry.case),
            escape(&entry.peer),
            entry.repetition,
            escape(&entry.why)
        );
    }
    out.push_str("</tbody></table></div>");
}
