//! Metrics of the process, under the names that Prometheus gives them.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Kind::{Counter, Gauge};
use super::Metric;
use super::table::metric;

/// Every metric of the process, in the order in which they are written.
pub(super) static METRICS: &[Metric] = &[
    metric(
        "process_start_time_seconds",
        Gauge,
        &[],
        "When the broker was started, in seconds since 1970.",
        |it, out| {
            out.one(seconds_since_1970(it.status.started));
        },
    ),
    metric(
        "process_cpu_seconds_total",
        Counter,
        &[],
        "CPU time of the process, in user and system mode.",
        |it, out| out.one(it.process.cpu_seconds),
    ),
    metric("process_resident_memory_bytes", Gauge, &[], "Memory of the process that is in RAM.", |it, out| {
        out.one(it.process.resident_bytes);
    }),
    metric("process_virtual_memory_bytes", Gauge, &[], "Address space of the process.", |it, out| {
        out.one(it.process.virtual_bytes);
    }),
    metric("process_threads", Gauge, &[], "Threads of the process.", |it, out| out.one(it.process.threads)),
    metric("process_open_fds", Gauge, &[], "Open files, which include connections.", |it, out| {
        out.one(it.process.open_files);
    }),
    metric("process_max_fds", Gauge, &[], "Open files that the system allows.", |it, out| {
        out.one(it.process.max_files);
    }),
];

fn seconds_since_1970(time: SystemTime) -> Option<f64> {
    let age = time.duration_since(UNIX_EPOCH).ok()?;
    Some(age.as_secs_f64())
}
