//! The view of a terminal while runs are made: rows that fit its width.

use std::collections::VecDeque;
use std::time::Duration;

use super::Said;
use crate::load::Second;
use crate::report::shown;

/// Seconds that the curve shows at most.
const CURVE_SECONDS: usize = 60;
/// Least columns of a row; a narrower terminal gets a row of this width.
const LEAST_COLUMNS: usize = 20;

/// A run that is under way.
#[derive(Debug)]
struct Doing {
    case: String,
    phase: String,
    about: Duration,
    since: Duration,
    last: Option<Second>,
    /// Messages received in each second, or sent if there are no receivers.
    curve: VecDeque<u64>,
    failed: u64,
    lost: u64,
}

/// A series of runs and the run in progress.
#[derive(Debug)]
pub(super) struct View {
    runs: usize,
    done: usize,
    kept: usize,
    doing: Option<Doing>,
    is_unicode: bool,
}

impl View {
    pub(super) fn new(is_unicode: bool) -> Self {
        Self { runs: 0, done: 0, kept: 0, doing: None, is_unicode }
    }

    /// Adds a report that came this long after the begin.
    pub(super) fn take(&mut self, said: &Said, at: Duration) {
        match said {
            Said::Begin { runs, kept, .. } => (self.runs, self.done, self.kept) = (*runs, *kept, *kept),
            Said::Run { case, about } => {
                self.doing = Some(Doing {
                    case: case.clone(),
                    phase: "clients connect".to_owned(),
                    about: *about,
                    since: at,
                    last: None,
                    curve: VecDeque::new(),
                    failed: 0,
                    lost: 0,
                });
            }
            Said::Second(second) => {
                if let Some(doing) = &mut self.doing {
                    doing.take(*second);
                }
            }
            Said::Event(event) => {
                if let Some(doing) = &mut self.doing {
                    doing.phase.clone_from(event);
                }
            }
            Said::Done(_) => {
                self.done += 1;
                self.doing = None;
            }
            Said::Note(_) => {}
        }
    }

    /// A second in one line, where there is no terminal.
    pub(super) fn second_line(&self, second: &Second) -> String {
        let case = self.doing.as_ref().map_or("", |doing| doing.case.as_str());
        format!("{case}: {} s, {}", second.second, figures(second).join(", "))
    }

    /// The rows for a terminal of this width, at a time after the begin. None is as long as the terminal is wide,
    /// since some terminals go on to the next row then.
    pub(super) fn rows(&self, columns: usize, at: Duration) -> Vec<String> {
        let width = columns.max(LEAST_COLUMNS) - 1;
        let mut rows = Vec::new();
        if self.runs > 1 {
            rows.push(self.head(width, at));
        }
        if let Some(doing) = &self.doing {
            rows.extend(doing.rows(width, at, self.is_unicode));
        }
        if !self.is_unicode {
            for row in &mut rows {
                *row = row.replace('µ', "u");
            }
        }
        rows.iter().map(|row| cut(row, width, self.is_unicode)).collect()
    }

    fn head(&self, width: usize, at: Duration) -> String {
        let cells = if width < 60 { 6 } else { 24 };
        let full = cells * self.done.min(self.runs) / self.runs.max(1);
        let (on, off) = if self.is_unicode { ("█", "░") } else { ("#", "-") };
        let bar = format!("{}{}", on.repeat(full), off.repeat(cells - full));
        let left = self.left(at).map(|left| format!(", about {} left", clock(left))).unwrap_or_default();
        format!("{}/{} runs {bar} {}{left}", self.done, self.runs, clock(at))
    }

    /// How long it will take, by how long runs have taken so far.
    fn left(&self, at: Duration) -> Option<Duration> {
        let made = u32::try_from(self.done - self.kept).ok().filter(|made| *made > 0)?;
        let missing = u32::try_from(self.runs.saturating_sub(self.done)).ok().filter(|missing| *missing > 0)?;
        let spent = self.doing.as_ref().map_or(at, |doing| doing.since);
        Some((spent / made * missing).saturating_sub(at.saturating_sub(spent)))
    }
}

impl Doing {
    fn take(&mut self, second: Second) {
        self.failed += second.failed;
        self.lost += second.lost;
        if self.curve.len() == CURVE_SECONDS {
            self.curve.pop_front();
        }
        self.curve.push_back(if second.received > 0 { second.received } else { second.sent });
        self.last = Some(second);
    }

    fn rows(&self, width: usize, at: Duration, is_unicode: bool) -> Vec<String> {
        let passed = at.saturating_sub(self.since).as_secs();
        let times = format!("{passed} s of about {} s", self.about.as_secs().max(1));
        let mut rows = packed(&[format!("{}:", self.case), format!("{},", self.phase), times], " ", width);
        let Some(last) = &self.last else { return rows };
        let mut parts = figures(last);
        parts.extend((self.failed > 0).then(|| format!("{} failed to connect", shown(float(self.failed)))));
        parts.extend((self.lost > 0).then(|| format!("{} connections lost", shown(float(self.lost)))));
        rows.extend(packed(&parts, "  ", width).into_iter().map(|row| format!("  {row}")));
        rows.extend(self.curve(width, is_unicode).map(|row| format!("  {row}")));
        rows
    }

    /// The load, second by second.
    fn curve(&self, width: usize, is_unicode: bool) -> Option<String> {
        let most = self.curve.iter().copied().max().filter(|most| *most > 0 && self.curve.len() > 1)?;
        let end = format!(" {}/s at most", shown(float(most)));
        let room = width.saturating_sub(2 + end.len());
        let heights = if is_unicode {
            ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
        } else {
            ['_', '.', ',', '-', '=', '+', '*', '#']
        };
        let shown = self.curve.iter().skip(self.curve.len().saturating_sub(room));
        let cells = shown.map(|value| heights[(value * (heights.len() as u64 - 1)).div_ceil(most) as usize]);
        Some(cells.chain(end.chars()).collect())
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown numbers have three digits")]
fn float(number: u64) -> f64 {
    number as f64
}

/// The figures of a second, the most important first.
fn figures(second: &Second) -> Vec<String> {
    let mut parts = vec![format!("{} clients", shown(float(second.connected)))];
    if second.accepted > 0 {
        parts.push(format!("{} connected/s", shown(float(second.accepted))));
    }
    if second.sent + second.received > 0 {
        parts.push(format!("{} sent/s", shown(float(second.sent))));
        parts.push(format!("{} received/s", shown(float(second.received))));
    }
    // While a broker warms up messages come, and none of them is measured.
    if second.max_ns > 0 {
        parts.push(format!("p50 {}", time(second.p50_ns)));
        parts.push(format!("p99 {}", time(second.p99_ns)));
    }
    let share = float(second.cpu_ns) / 1e7;
    parts.push(format!("generator {share:.0} % of a core, {} late", time(second.lag_ns)));
    parts
}

fn time(ns: u64) -> String {
    match ns {
        0 => "0 ms".to_owned(),
        1..1_000_000 => format!("{} µs", shown(float(ns) / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", shown(float(ns) / 1e6)),
        _ => format!("{} s", shown(float(ns) / 1e9)),
    }
}

fn clock(time: Duration) -> String {
    let (hours, minutes, seconds) = (time.as_secs() / 3600, time.as_secs() / 60 % 60, time.as_secs() % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// Parts in as few rows as they fit into, none of them divided.
fn packed(parts: &[String], between: &str, width: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for part in parts {
        let room = width.saturating_sub(2 + between.len() + part.chars().count());
        match rows.last_mut().filter(|row| row.chars().count() <= room) {
            Some(row) => {
                row.push_str(between);
                row.push_str(part);
            }
            None => rows.push(part.clone()),
        }
    }
    rows
}

/// A line in rows, broken between words; all but the first are set in. A number stays with its unit.
pub(super) fn wrapped(line: &str, columns: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_number = false;
    for word in line.split(' ') {
        match words.last_mut().filter(|_| is_number) {
            Some(number) => number.extend([" ", word]),
            None => words.push(word.to_owned()),
        }
        is_number = word.starts_with(|first: char| first.is_ascii_digit())
            && word.ends_with(|last: char| last.is_ascii_digit());
    }
    let rows = packed(&words, " ", columns.max(LEAST_COLUMNS) - 1);
    rows.into_iter().enumerate().map(|(number, row)| if number == 0 { row } else { format!("  {row}") }).collect()
}

fn cut(row: &str, width: usize, is_unicode: bool) -> String {
    if row.chars().count() <= width {
        return row.to_owned();
    }
    let end = if is_unicode { "…" } else { "..." };
    let mut cut: String = row.chars().take(width - end.chars().count()).collect();
    cut.push_str(end);
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Second = Second {
        second: 3,
        sent: 2_000,
        acknowledged: 2_000,
        received: 1_991,
        connected: 2,
        accepted: 0,
        failed: 0,
        lost: 0,
        p50_ns: 310_000,
        p99_ns: 6_700_000,
        max_ns: 9_000_000,
        lag_ns: 120_000,
        cpu_ns: 120_000_000,
    };

    /// A series of four runs, kept so far that the second one is under way.
    fn view(is_unicode: bool) -> View {
        let mut view = View::new(is_unicode);
        let s = Duration::from_secs;
        view.take(&Said::Begin { runs: 4, kept: 0, about: s(16) }, s(0));
        view.take(&Said::Run { case: "1 to 1, QoS 1, tidegate, 1".to_owned(), about: s(4) }, s(0));
        view.take(&Said::Done("done".to_owned()), s(5));
        view.take(&Said::Run { case: "1 to 1, QoS 1, mosquitto, 1".to_owned(), about: s(4) }, s(5));
        view.take(&Said::Event("publishing".to_owned()), s(6));
        for received in [500, 1_000, 1_991] {
            view.take(&Said::Second(Second { received, ..SECOND }), s(7));
        }
        view
    }

    #[test]
    fn a_wide_terminal_shows_the_run_its_figures_and_its_curve() {
        assert_eq!(
            view(true).rows(120, Duration::from_secs(7)),
            [
                "1/4 runs ██████░░░░░░░░░░░░░░░░░░ 0:07, about 0:13 left",
                "1 to 1, QoS 1, mosquitto, 1: publishing, 2 s of about 4 s",
                "  2 clients  2,000 sent/s  1,991 received/s  p50 310 µs  p99 6.7 ms  generator 12 % of a core, 120 µs late",
                "  ▃▅█ 1,991/s at most",
            ]
        );
    }

    #[test]
    fn a_second_in_which_nothing_is_measured_tells_no_latency() {
        let warming_up = Second { p50_ns: 0, p99_ns: 0, max_ns: 0, ..SECOND };
        assert_eq!(figures(&warming_up)[2..], ["1,991 received/s", "generator 12 % of a core, 120 µs late"]);
    }

    #[test]
    fn every_row_fits_the_width_and_ascii_suffices() {
        for columns in 1..200 {
            for row in view(true).rows(columns, Duration::from_secs(7)) {
                assert!(row.chars().count() < columns.max(LEAST_COLUMNS), "{columns}: {row}");
            }
        }
        assert_eq!(
            view(false).rows(40, Duration::from_secs(7)),
            [
                "1/4 runs #----- 0:07, about 0:13 left",
                "1 to 1, QoS 1, mosquitto, 1:",
                "publishing, 2 s of about 4 s",
                "  2 clients  2,000 sent/s",
                "  1,991 received/s  p50 310 us",
                "  p99 6.7 ms",
                "  generator 12 % of a core, 120 us late",
                "  ,=# 1,991/s at most",
            ]
        );
    }

    #[test]
    fn a_line_is_broken_between_words() {
        assert_eq!(
            wrapped("not valid: the generator was behind", 22),
            ["not valid: the", "  generator was", "  behind"]
        );
        assert_eq!(wrapped("memory peak 37.3 MiB, p99 8 ms", 20), ["memory peak", "  37.3 MiB, p99", "  8 ms"]);
        assert_eq!(wrapped("", 80), [""]);
    }

    #[test]
    fn new_runs_and_series_of_one_have_short_views() {
        let mut view = View::new(true);
        assert!(view.rows(80, Duration::ZERO).is_empty());
        view.take(&Said::Begin { runs: 1, kept: 0, about: Duration::ZERO }, Duration::ZERO);
        view.take(&Said::Run { case: "a, b, 1".to_owned(), about: Duration::from_millis(10) }, Duration::ZERO);
        assert_eq!(view.rows(80, Duration::ZERO), ["a, b, 1: clients connect, 0 s of about 1 s"]);
        assert_eq!(clock(Duration::from_secs(3_723)), "1:02:03");
    }
}
