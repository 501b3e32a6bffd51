//! The allocation profile as a drawing: for each policy a panel with the offered load and the resources over time.

use tidegate_plot::{Anchor, Axis, Drawing, Frame, Key};

use super::report::{ProfilePoint, Report};
use super::trace::Trace;

/// Units of the whole drawing across.
const WIDTH: f64 = 960.0;
/// Units of a panel's plot from top to bottom.
const PLOT_HEIGHT: f64 = 150.0;
/// Units from one panel to the next.
const PANEL_HEIGHT: f64 = PLOT_HEIGHT + 66.0;
/// Units above the first panel, for the title and the legend.
const HEAD: f64 = 64.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 24.0;
/// Points of the offered load; more would not be seen.
const POINTS_MAX: usize = 1200;

/// A count of resources in a profile.
type Count = fn(&ProfilePoint) -> u32;

/// The lines of a panel: the place in the list is the series.
const LINES: [(&str, Count); 3] = [
    ("brokers serving", |point| point.brokers),
    ("brokers allocated", |point| point.brokers_allocated),
    ("orchestrators serving", |point| point.orchestrators),
];

/// Draws the reports of one trace one below the other, all with the same axes. `capacity` is one broker's messages per
/// second: the offered load is drawn as the number of brokers that it would keep fully busy.
pub fn draw(trace: &Trace, capacity: f64, reports: &[Report]) -> String {
    let count = f64::from(u32::try_from(reports.len()).unwrap_or(u32::MAX));
    let mut drawing = Drawing::new(WIDTH, HEAD + count * PANEL_HEIGHT);
    drawing.title((LEFT, 24.0), Anchor::Start, "Allocation profile");
    let mut entries = vec![(Key::Shade, "offered load, in brokers fully busy")];
    let points = || reports.iter().flat_map(|report| &report.profile);
    let drawn = LINES.iter().enumerate().filter(|(_, (_, count))| points().any(|point| count(point) > 0));
    entries.extend(drawn.map(|(series, (name, _))| (Key::Line(series), *name)));
    Key::draw(&entries, (LEFT, 48.0), &mut drawing);
    let offered = offered(trace, capacity);
    let highest = offered.iter().map(|point| point.1).fold(0.0, f64::max);
    let most = points().map(|point| f64::from(point.brokers_allocated.max(point.orchestrators_allocated)));
    let most = most.fold(highest, f64::max);
    let mut top = HEAD + 26.0;
    for report in reports {
        let (x, unit) = Axis::time(trace.start_s(), trace.end_s(), LEFT, RIGHT);
        let frame = Frame { x, y: Axis::counts(most, top + PLOT_HEIGHT, top) };
        caption(top - 8.0, report, &mut drawing);
        frame.shade(&offered, &mut drawing);
        frame.named(&format!("time ({unit})"), "resources", &mut drawing);
        for (series, (_, count)) in LINES.iter().enumerate() {
            if report.profile.iter().any(|point| count(point) > 0) {
                let steps = report.profile.iter().map(|point| (point.time_s, f64::from(count(point))));
                frame.steps(series, &steps.collect::<Vec<_>>(), &mut drawing);
            }
        }
        top += PANEL_HEIGHT;
    }
    drawing.file()
}

/// The ending of a noun.
fn plural(is_one: bool) -> &'static str {
    if is_one { "" } else { "s" }
}

/// The policy and its figures, above its panel.
fn caption(y: f64, report: &Report, drawing: &mut Drawing) {
    drawing.strong((LEFT, y), Anchor::Start, &report.policy.to_string());
    let figures = format!(
        "mean {:.2} resources, cost {:.0}, missed {} s, {} action{}, {} false positive{}",
        report.resource,
        report.cost,
        report.missed_s,
        report.actions.len(),
        plural(report.actions.len() == 1),
        report.false_positives,
        plural(report.false_positives == 1)
    );
    drawing.text((RIGHT, y), Anchor::End, &figures);
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
