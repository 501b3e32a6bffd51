//! Metrics of the process, under the names that Prometheus gives them.

use std::time::{SystemTime, UNIX_EPOCH};

metrics! { |it, out|
    /// Every metric of the process, in the order in which they are written.
    Gauge "process_start_time_seconds" [] => out.any(seconds_since_1970(it.status.started)),
        "When the broker was started, in seconds since 1970.";
    Counter "process_cpu_seconds_total" [] => out.any(it.process.cpu_seconds),
        "CPU time of the process, in user and system mode.";
    Gauge "process_resident_memory_bytes" [] => out.any(it.process.resident_bytes),
        "Memory of the process that is in RAM.";
    Gauge "process_virtual_memory_bytes" [] => out.any(it.process.virtual_bytes),
        "Address space of the process.";
    Gauge "process_threads" [] => out.any(it.process.threads),
        "Threads of the process.";
    Gauge "process_open_fds" [] => out.any(it.process.open_files),
        "Open files, which include connections.";
    Gauge "process_max_fds" [] => out.any(it.process.max_files),
        "Open files that the system allows.";
}

fn seconds_since_1970(time: SystemTime) -> Option<f64> {
    let age = time.duration_since(UNIX_EPOCH).ok()?;
    Some(age.as_secs_f64())
}
