//! Every metric, declared once: name, type, labels, help and how it is read.
//!
//! The sets of labels are closed: directions, packet types, QoS, reasons, states, the names in the configuration. No
//! client and no topic is ever a label, so the number of series does not grow with the load.

use std::fmt::Write;

use tidegate_engine::Reason;

use crate::process::Process;
use crate::status::Status;

/// Declares the metrics of a file, in the order in which they are written: kind, name and labels, the samples, and the
/// meaning.
macro_rules! metrics {
    (|$it:ident, $out:ident| $(#[$doc:meta])* $($kind:ident $name:literal $labels:tt => $samples:expr, $help:literal;)*) => {
        $(#[$doc])*
        pub(super) static METRICS: &[super::Metric] = &[$(super::Metric {
            name: $name,
            kind: super::Kind::$kind,
            labels: &$labels,
            help: $help,
            read: |$it, $out| $samples,
        },)*];
    };
}

mod bridges;
mod cluster;
mod core;
mod fleet;
mod hub;
mod page;
mod process;
mod protocols;
mod quic;
mod relays;
mod revocation;
mod store;
mod table;
mod tenants;

pub use page::page;

/// Every metric, in the order in which they are written.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    table::METRICS
        .iter()
        .chain(process::METRICS)
        .chain(quic::METRICS)
        .chain(protocols::METRICS)
        .chain(relays::METRICS)
        .chain(cluster::METRICS)
        .chain(self::core::METRICS)
        .chain(store::METRICS)
        .chain(tenants::METRICS)
        .chain(revocation::METRICS)
        .chain(fleet::METRICS)
        .chain(bridges::METRICS)
        .chain(hub::METRICS)
}

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the broker restarts.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How many of something were within certain bounds; all its samples only grow.
    Histogram,
}

impl Kind {
    /// The type's name in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// Its meaning, in one sentence.
    pub help: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    read: fn(&Reading<'_>, &mut Samples<'_>),
}

/// The sources of metrics.
struct Reading<'a> {
    status: &'a Status,
    process: Process,
}

/// A number as the text format writes it.
#[derive(Clone, Copy)]
enum Number {
    Whole(u64),
    Fraction(f64),
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        Self::Fraction(number)
    }
}

/// Takes the samples of one metric.
struct Samples<'a> {
    metric: &'a Metric,
    out: &'a mut String,
}

impl Samples<'_> {
    /// Adds a sample with the values of the metric's labels.
    fn add(&mut self, values: &[&str], number: impl Into<Number>) {
        debug_assert_eq!(values.len(), self.metric.labels.len());
        self.out.push_str(self.metric.name);
        let mut separator = '{';
        for (label, value) in self.metric.labels.iter().zip(values) {
            // Values come from our own tables and the version: nothing in them needs an escape.
            let _ = write!(self.out, "{separator}{label}=\"{value}\"");
            separator = ',';
        }
        if !values.is_empty() {
            self.out.push('}');
        }
        let _ = match number.into() {
            Number::Whole(number) => writeln!(self.out, " {number}"),
            Number::Fraction(number) => writeln!(self.out, " {number}"),
        };
    }

    /// Adds the samples of a histogram: the number of values up to each bound, and at the end of all. `counts` has the
    /// values between a bound and the previous bound.
    fn histogram(&mut self, bounds: &[f64], counts: &[u64], sum: f64) {
        let name = self.metric.name;
        let mut below = 0;
        for (bound, count) in bounds.iter().zip(counts) {
            below += count;
            let _ = writeln!(self.out, "{name}_bucket{{le=\"{bound}\"}} {below}");
        }
        let all: u64 = counts.iter().sum();
        let _ = writeln!(self.out, "{name}_bucket{{le=\"+Inf\"}} {all}\n{name}_sum {sum}\n{name}_count {all}");
    }

    /// Adds the sample of a metric without labels.
    fn one(&mut self, number: impl Into<Number>) {
        self.add(&[], number);
    }

    /// Adds the sample of a metric without labels, if there is one.
    fn any(&mut self, number: Option<impl Into<Number>>) {
        if let Some(number) = number {
            self.one(number);
        }
    }

    /// Adds a sample for each reason.
    fn reasons(&mut self, counts: &[u64]) {
        for reason in Reason::ALL {
            let count = counts.get(reason.number()).copied().unwrap_or_default();
            self.add(&[reason.label()], count);
        }
    }

    /// Adds a sample for each direction: to the broker and from it.
    fn directions(&mut self, received: u64, sent: u64) {
        self.add(&["received"], received);
        self.add(&["sent"], sent);
    }
}

/// All metrics in the text format of Prometheus, version 0.0.4.
pub fn exposition(status: &Status) -> String {
    let reading = Reading { status, process: Process::read() };
    let mut out = String::with_capacity(32 * 1024);
    for metric in all() {
        let _ = writeln!(out, "# HELP {} {}", metric.name, metric.help);
        let _ = writeln!(out, "# TYPE {} {}", metric.name, metric.kind.name());
        let mut samples = Samples { metric, out: &mut out };
        (metric.read)(&reading, &mut samples);
    }
    out
}
