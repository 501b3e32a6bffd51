//! The allocation profile as a drawing: for each policy a panel with the offered load and the resources over time.

mod axis;

use std::fmt::Write;

use self::axis::{Axis, Unit, time_unit};
use super::report::{ProfilePoint, Report};
use super::trace::Trace;

/// Pixels of the whole drawing across.
const WIDTH: f64 = 960.0;
/// Pixels of a panel's plot from top to bottom.
const PLOT_HEIGHT: f64 = 150.0;
/// Pixels from one panel to the next.
const PANEL_HEIGHT: f64 = PLOT_HEIGHT + 66.0;
/// Pixels above the first panel, for the title and the legend.
const HEAD: f64 = 64.0;
/// Pixels left and right of the plot.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
/// Points of the offered load; more would not be seen.
const POINTS_MAX: usize = 1200;

const OFFERED: &str = "#c7cdd4";
const SERVING: &str = "#0b6bb8";
const ALLOCATED: &str = "#7fb6e0";
const ORCHESTRATORS: &str = "#c2540a";
const INK: &str = "#1f2933";
const GRID: &str = "#e4e8ec";
const PAPER: &str = "#ffffff";

/// The colours on dark pages. Attributes hold everywhere; a viewer with style sheets exchanges them.
fn style() -> String {
    let dark = [
        ("fill", PAPER, "#14171b"),
        ("fill", INK, "#e7eaee"),
        ("stroke", INK, "#e7eaee"),
        ("stroke", GRID, "#333a43"),
        ("fill", OFFERED, "#454e59"),
        ("fill", SERVING, "#6cb0ff"),
        ("stroke", SERVING, "#6cb0ff"),
        ("fill", ALLOCATED, "#31679e"),
        ("stroke", ALLOCATED, "#31679e"),
        ("fill", ORCHESTRATORS, "#ff9a5c"),
        ("stroke", ORCHESTRATORS, "#ff9a5c"),
    ];
    let rules = dark.map(|(attribute, light, dark)| format!("[{attribute}=\"{light}\"] {{ {attribute}: {dark} }}"));
    format!("<style>@media (prefers-color-scheme: dark) {{ {} }}</style>", rules.join(" "))
}

/// A count of resources in a profile.
type Count = fn(&ProfilePoint) -> u32;

/// The area of a panel's plot.
struct Plot {
    top: f64,
    x: Axis,
    y: Axis,
}

impl Plot {
    fn x(&self, time: f64) -> f64 {
        LEFT + self.x.fraction(time) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, resources: f64) -> f64 {
        self.top + (1.0 - self.y.fraction(resources)) * PLOT_HEIGHT
    }
}

/// Draws the reports of one trace one below the other, all with the same axes. `capacity` is one broker's messages per
/// second: the offered load is drawn as the number of brokers that it would keep fully busy.
pub fn draw(trace: &Trace, capacity: f64, reports: &[Report]) -> String {
    let count = f64::from(u32::try_from(reports.len()).unwrap_or(u32::MAX));
    let height = HEAD + count * PANEL_HEIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"{INK}\">\n\
         {}\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"{PAPER}\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"16\" font-weight=\"bold\">Allocation profile</text>\n",
        style()
    );
    legend(&mut svg, reports);
    let offered = offered(trace, capacity);
    let highest = offered.iter().map(|point| point.1).fold(0.0, f64::max);
    let most = reports
        .iter()
        .flat_map(|report| &report.profile)
        .map(|point| f64::from(point.brokers_allocated.max(point.orchestrators_allocated)));
    let y = Axis::counts(most.fold(highest, f64::max).max(1.0));
    let unit = time_unit(trace.end_s() - trace.start_s());
    let x = Axis::between(trace.start_s(), trace.end_s(), unit);
    let mut top = HEAD + 26.0;
    for report in reports {
        let plot = Plot { top, x: x.clone(), y: y.clone() };
        panel(&mut svg, &plot, &offered, report, unit);
        top += PANEL_HEIGHT;
    }
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String, reports: &[Report]) {
    let orchestrators =
        reports.iter().flat_map(|report| &report.profile).any(|point| point.orchestrators_allocated > 0);
    let mut entries = vec![
        ("offered load, in brokers fully busy", OFFERED),
        ("brokers serving", SERVING),
        ("brokers allocated", ALLOCATED),
    ];
    if orchestrators {
        entries.push(("orchestrators serving", ORCHESTRATORS));
    }
    let mut left = LEFT;
    for (name, colour) in entries {
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"40\" width=\"18\" height=\"8\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"48\">{name}</text>",
            left + 24.0
        );
        left += 44.0 + 6.6 * f64::from(u32::try_from(name.len()).unwrap_or(0));
    }
}

/// The ending of a noun.
fn plural(is_one: bool) -> &'static str {
    if is_one { "" } else { "s" }
}

fn panel(svg: &mut String, plot: &Plot, offered: &[(f64, f64)], report: &Report, unit: Unit) {
    let scale = unit.seconds;
    let top = plot.top;
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"bold\">{}</text><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">\
         mean {:.2} resources, cost {:.0}, missed {} s, {} action{}, {} false positive{}</text>",
        top - 8.0,
        report.policy,
        WIDTH - RIGHT,
        top - 8.0,
        report.resource,
        report.cost,
        report.missed_s,
        report.actions.len(),
        plural(report.actions.len() == 1),
        report.false_positives,
        plural(report.false_positives == 1)
    );
    axes(svg, plot, unit.name);
    let bottom = plot.y(0.0);
    let mut area = String::new();
    for (time, load) in offered {
        let _ = write!(area, "L{:.1} {:.1}", plot.x(time / scale), plot.y(*load));
    }
    let (first, last) = (offered.first().map_or(0.0, |point| point.0), offered.last().map_or(0.0, |point| point.0));
    let (first, last) = (plot.x(first / scale), plot.x(last / scale));
    let _ = writeln!(svg, "<path d=\"M{first:.1} {bottom:.1}{area}L{last:.1} {bottom:.1}Z\" fill=\"{OFFERED}\"/>");
    let lines: [(&str, f64, Count); 3] = [
        (ALLOCATED, 1.2, |point| point.brokers_allocated),
        (SERVING, 1.8, |point| point.brokers),
        (ORCHESTRATORS, 1.4, |point| point.orchestrators),
    ];
    for (colour, width, count) in lines {
        if report.profile.iter().any(|point| count(point) > 0) {
            let path = steps(plot, &report.profile, scale, count);
            let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>");
        }
    }
}

fn axes(svg: &mut String, plot: &Plot, unit: &str) {
    let (top, bottom, right) = (plot.top, plot.y(0.0), WIDTH - RIGHT);
    for (value, label) in plot.y.ticks() {
        let y = plot.y(value);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"{GRID}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 8.0,
            y + 4.0
        );
    }
    for (value, label) in plot.x.ticks() {
        let x = plot.x(value);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{bottom:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"{INK}\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            bottom + 4.0,
            bottom + 17.0
        );
    }
    let middle = f64::midpoint(top, bottom);
    let _ = writeln!(
        svg,
        "<line x1=\"{LEFT}\" y1=\"{bottom:.1}\" x2=\"{right}\" y2=\"{bottom:.1}\" stroke=\"{INK}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">time ({unit})</text>\
         <text x=\"18\" y=\"{middle:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {middle:.1})\">resources</text>",
        f64::midpoint(LEFT, right),
        bottom + 32.0
    );
}

/// A line that keeps its height until the next point.
fn steps(plot: &Plot, profile: &[ProfilePoint], scale: f64, count: Count) -> String {
    let mut path = String::new();
    let mut height = None;
    for point in profile {
        let (x, y) = (plot.x(point.time_s / scale), plot.y(f64::from(count(point))));
        match height.replace(y) {
            None => {
                let _ = write!(path, "M{x:.1} {y:.1}");
            }
            Some(before) if (before - y).abs() > f64::EPSILON => {
                let _ = write!(path, "H{x:.1}V{y:.1}");
            }
            Some(_) => {}
        }
    }
    let _ = write!(path, "H{:.1}", WIDTH - RIGHT);
    path
}

/// The offered load in brokers, in as many points as can be seen; of several seconds the highest, so that peaks stay.
fn offered(trace: &Trace, capacity: f64) -> Vec<(f64, f64)> {
    let seconds: Vec<f64> = trace.seconds().collect();
    let each = seconds.len().div_ceil(POINTS_MAX).max(1);
    let points = seconds.chunks(each).zip(0_u32..);
    let each = f64::from(u32::try_from(each).unwrap_or(u32::MAX));
    let point = |(chunk, place): (&[f64], u32)| {
        let time = trace.start_s() + f64::from(place) * each;
        (time, chunk.iter().copied().fold(0.0, f64::max) / capacity)
    };
    points.map(point).collect()
}
