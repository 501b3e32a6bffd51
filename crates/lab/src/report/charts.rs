//! The plots of a report, and their data.

use super::markup::{escape, put};
use super::measures;
use super::percentile::percentiles;
use super::summary::advantage;
use tidegate_plot::{Bar, Curve, Mark, Scale, legend, lines, ratios as bars};

use crate::load::{Histogram, Second};
use crate::results::{Results, Run, Table};
use crate::sample::Sampled;

/// Cases whose curves over time are shown at once; others are there to be opened.
const OPEN: usize = 3;

/// Each measure of each other broker against the base, over all cases.
pub(super) fn ratios(results: &Results, out: &mut String) {
    let peers = results.peer_names();
    let Some((base, others)) = peers.split_first() else { return };
    if others.is_empty() {
        return;
    }
    let before = out.len();
    let mut figures = 0;
    put!(out, "<h2 id=\"ratios\">Against {}</h2>", escape(base));
    put!(
        out,
        "<p class=\"note\">How many times as good as {} each other broker is: the geometric mean over all cases in which both have a valid run and a number \
         above 0. A bar to the left is worse.</p><div class=\"pair\">",
        escape(base)
    );
    for measure in measures(results) {
        let table = Table::of(results, measure);
        let mut rows = Vec::new();
        for (series, peer) in others.iter().enumerate() {
            let factors: Vec<f64> = results
                .case_names()
                .iter()
                .filter_map(|case| {
                    let (theirs, ours) = (table.get(case, peer)?, table.get(case, base)?);
                    // A run in which the generator was the bottleneck compares generators.
                    let valid = !theirs.invalid && !ours.invalid;
                    valid.then(|| advantage(measure, theirs.median, ours.median))?
                })
                .collect();
            if let Some(ratio) = geometric_mean(&factors) {
                rows.push(Bar { label: peer.clone(), series: series + 1, ratio });
            }
        }
        if rows.iter().any(|bar| !(0.99..=1.01).contains(&bar.ratio)) {
            let (name, unit) = measure.name();
            put!(out, "<figure><figcaption><b>{name}</b>, {unit}</figcaption>{}</figure>", bars(name, base, &rows));
            figures += 1;
        }
    }
    out.push_str("</div>");
    if figures == 0 {
        out.truncate(before);
        put!(
            out,
            "<h2 id=\"ratios\">Against {}</h2><p class=\"note\">In no case have two brokers a valid run each that differ.</p>",
            escape(base)
        );
    }
}

fn geometric_mean(values: &[f64]) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a few cases")]
    let count = values.len() as f64;
    (!values.is_empty()).then(|| (values.iter().map(|value| value.ln()).sum::<f64>() / count).exp())
}

/// Latency by percentile, a plot for each case.
pub(super) fn latency(results: &Results, out: &mut String) {
    if results.runs.iter().all(|run| run.load.latency.count() == 0) {
        return;
    }
    let peers = results.peer_names();
    out.push_str("<h2 id=\"latency\">Latency</h2>");
    out.push_str(
        "<p class=\"note\">How long the slowest share of deliveries took, from the time at which each message was due to be sent. Each further \
         nine has as much room as the one before. All repetitions together; a curve ends where there are too few deliveries to say more.</p>",
    );
    out.push_str(&legend(&peers));
    out.push_str("<div class=\"pair\">");
    for case in results.case_names() {
        let together: Vec<(usize, Histogram)> = peers
            .iter()
            .enumerate()
            .map(|(series, peer)| {
                let mut all = Histogram::new();
                results.runs_of(&case, peer).for_each(|run| all.add(&run.load.latency));
                (series, all)
            })
            .filter(|(_, all)| all.count() > 0)
            .collect();
        if together.is_empty() {
            continue;
        }
        let borrowed: Vec<(usize, &Histogram)> = together.iter().map(|(series, all)| (*series, all)).collect();
        put!(
            out,
            "<figure><figcaption><b>{}</b></figcaption>{}</figure>",
            escape(&case),
            percentiles(&case, &borrowed)
        );
    }
    out.push_str("</div>");
}

/// Throughput, latency, connections, CPU and memory over time, for each case; of the first valid repetition.
pub(super) fn time(results: &Results, out: &mut String) {
    if results.runs.is_empty() {
        return;
    }
    out.push_str("<h2 id=\"time\">Over time</h2>");
    out.push_str(
        "<p class=\"note\">The first valid repetition of each broker, from the start of sampling. Letters mark what happened; they are explained \
         below each case.</p>",
    );
    let peers = results.peer_names();
    let cases = results.case_names();
    for (place, case) in cases.iter().enumerate() {
        let runs: Vec<(usize, &Run)> = peers
            .iter()
            .enumerate()
            .filter_map(|(series, peer)| {
                let valid = results.runs_of(case, peer).find(|run| run.invalid.is_none());
                Some((series, valid.or_else(|| results.runs_of(case, peer).next())?))
            })
            .collect();
        let open = if place < OPEN { " open" } else { "" };
        put!(out, "<details{open}><summary>{}</summary>{}", escape(case), legend(&peers));
        curves_of(&runs, out);
        out.push_str("</details>");
    }
}

fn curves_of(runs: &[(usize, &Run)], out: &mut String) {
    let marks: Vec<Mark> = runs
        .first()
        .map(|(_, run)| run.events.iter().map(|event| Mark { at: event.at_s, event: event.event.clone() }).collect())
        .unwrap_or_default();
    out.push_str("<div class=\"pair\">");
    let mut plot = |name: &str, unit: &str, scale: Scale, of: &dyn Fn(&Run) -> Vec<(f64, f64)>| {
        let curves: Vec<Curve> = runs.iter().map(|(series, run)| Curve { series: *series, points: of(run) }).collect();
        if curves.iter().any(|curve| curve.points.iter().any(|(_, value)| *value > 0.0)) {
            put!(
                out,
                "<figure><figcaption><b>{name}</b></figcaption>{}</figure>",
                lines(name, unit, scale, &curves, &marks)
            );
        }
    };
    plot("Received", "messages/s", Scale::Linear, &|run| seconds(run, |second| float(second.received)));
    plot("Latency, p99 of each second", "milliseconds (logarithmic)", Scale::Logarithmic, &|run| {
        let points = seconds(run, |second| float(second.p99_ns) / 1e6);
        points.into_iter().filter(|(_, ms)| *ms > 0.0).collect()
    });
    plot("Connected", "clients", Scale::Linear, &|run| seconds(run, |second| float(second.connected)));
    plot("Broker CPU", "cores", Scale::Linear, &|run| cores(&run.broker));
    plot("Broker memory, resident", "MiB", Scale::Linear, &|run| {
        let memory = run.broker.at_s.iter().zip(&run.broker.rss);
        memory.map(|(at, bytes)| (*at, float(*bytes) / f64::from(1 << 20))).collect()
    });
    plot("Generator CPU", "cores", Scale::Linear, &|run| cores(&run.generator));
    out.push_str("</div>");
    if !marks.is_empty() {
        let list: Vec<String> = marks
            .iter()
            .zip('a'..='z')
            .map(|(mark, name)| {
                format!("<b>{name}</b> {} s {}", super::shown((mark.at * 1e3).round() / 1e3), escape(&mark.event))
            })
            .collect();
        put!(out, "<p class=\"note\">{}</p>", list.join(" · "));
    }
}

/// A column of the load's seconds on the run's time axis; each value is at the middle of its second.
fn seconds(run: &Run, value: impl Fn(&Second) -> f64) -> Vec<(f64, f64)> {
    let at = |second: &Second| run.load_zero_s + f64::from(second.second) + 0.5;
    run.load.series.iter().map(|second| (at(second), value(second))).collect()
}

/// CPU time between looks, about a second apart: ticks of the clock are too coarse for less.
fn cores(sampled: &Sampled) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut last: Option<(f64, f64)> = None;
    for (at, cpu) in sampled.at_s.iter().zip(&sampled.cpu_s) {
        match last {
            Some((before, used)) if at - before >= 0.95 => {
                points.push((f64::midpoint(*at, before), ((cpu - used) / (at - before)).max(0.0)));
                last = Some((*at, *cpu));
            }
            None => last = Some((*at, *cpu)),
            Some(_) => {}
        }
    }
    points
}

#[expect(clippy::cast_precision_loss, reason = "numbers are drawn, not counted")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_geometric_mean_of_a_factor_and_its_inverse_is_one() {
        assert!((geometric_mean(&[4.0, 0.25]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
    }

    #[test]
    fn cpu_is_a_rate_between_looks() {
        let sampled = Sampled { at_s: vec![0.0, 0.5, 1.0, 2.0], cpu_s: vec![0.0, 0.1, 0.5, 0.5], ..Sampled::default() };
        assert_eq!(cores(&sampled), [(0.5, 0.5), (1.5, 0.0)]);
    }
}
