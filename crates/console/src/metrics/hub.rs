//! Metrics of pipelines. Without a pipeline they have no samples. Names of pipelines come from the configuration, which
//! has a limited number of them.

use std::time::Duration;

use super::Kind::{Counter, Gauge};
use super::Metric;

/// Every metric of pipelines, in the order in which they are written.
pub(super) static METRICS: &[Metric] = &[
    Metric {
        name: "tidegate_hub_messages_taken_total",
        kind: Counter,
        labels: &["pipeline"],
        help: "Messages that the pipeline has taken.",
        read: |it, out| {
            for pipeline in &it.status.pipelines {
                out.add(&[&pipeline.name], pipeline.taken);
            }
        },
    },
    Metric {
        name: "tidegate_hub_messages_total",
        kind: Counter,
        labels: &["pipeline", "outcome"],
        help: "Messages of the pipeline, by outcome.",
        read: |it, out| {
            for pipeline in &it.status.pipelines {
                for (outcome, number) in [
                    ("delivered", pipeline.delivered),
                    ("filtered", pipeline.filtered),
                    ("failed", pipeline.failed),
                    ("dropped", pipeline.dropped),
                ] {
                    out.add(&[&pipeline.name, outcome], number);
                }
            }
        },
    },
    Metric {
        name: "tidegate_hub_batches_retried_total",
        kind: Counter,
        labels: &["pipeline"],
        help: "Batches of the pipeline that a sink has not taken and that were tried once more.",
        read: |it, out| {
            for pipeline in &it.status.pipelines {
                out.add(&[&pipeline.name], pipeline.retried);
            }
        },
    },
    Metric {
        name: "tidegate_hub_dead_letters_total",
        kind: Counter,
        labels: &["pipeline"],
        help: "Failed messages of the pipeline that became dead letters.",
        read: |it, out| {
            for pipeline in &it.status.pipelines {
                out.add(&[&pipeline.name], pipeline.dead_letters);
            }
        },
    },
    Metric {
        name: "tidegate_hub_looped_total",
        kind: Counter,
        labels: &["pipeline"],
        help: "Failed messages of the pipeline that had passed 16 pipelines: these publish to topics of each other.",
        read: |it, out| {
            for pipeline in &it.status.pipelines {
                out.add(&[&pipeline.name], pipeline.looped);
            }
        },
    },
    Metric {
        name: "tidegate_hub_windows_ended_early_total",
        kind: Counter,
        labels: &["pipeline"],
        help: "Windows of the pipeline that ended before their time, as there was no room for more messages.",
        read: |it, out| {
            for pipeline in &it.status.pipelines {
                out.add(&[&pipeline.name], pipeline.ended_early);
            }
        },
    },
    Metric {
        name: "tidegate_hub_batches_total",
        kind: Counter,
        labels: &["pipeline"],
        help: "Batches of the pipeline that sinks have taken, refused or failed to take.",
        read: |it, out| {
            for pipeline in &it.status.pipelines {
                out.add(&[&pipeline.name], pipeline.batches);
            }
        },
    },
    Metric {
        name: "tidegate_hub_batch_seconds_total",
        kind: Counter,
        labels: &["pipeline"],
        help: "Time between these batches and the answers of their sinks. Divided by the number of batches it is their latency.",
        read: |it, out| {
            for pipeline in &it.status.pipelines {
                out.add(&[&pipeline.name], Duration::from_millis(pipeline.batch_ms).as_secs_f64());
            }
        },
    },
    Metric {
        name: "tidegate_hub_messages_held",
        kind: Gauge,
        labels: &["pipeline"],
        help: "Messages that the pipeline works on and that are not acknowledged. Further messages wait in the queue of its session.",
        read: |it, out| {
            for pipeline in &it.status.pipelines {
                out.add(&[&pipeline.name], pipeline.held);
            }
        },
    },
    Metric {
        name: "tidegate_hub_messages_waiting",
        kind: Gauge,
        labels: &["pipeline"],
        help: "Messages that wait in the partitions of the pipeline's log on the bus that this process has.",
        read: |it, out| {
            for pipeline in &it.status.pipelines {
                out.add(&[&pipeline.name], pipeline.waiting);
            }
        },
    },
    Metric {
        name: "tidegate_hub_lag_seconds",
        kind: Gauge,
        labels: &["pipeline"],
        help: "Age of the oldest message that the pipeline works on.",
        read: |it, out| {
            for pipeline in &it.status.pipelines {
                out.add(&[&pipeline.name], Duration::from_millis(pipeline.lag_ms).as_secs_f64());
            }
        },
    },
];
