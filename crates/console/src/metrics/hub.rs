//! Metrics of pipelines. Without a pipeline they have no samples. Names of pipelines come from the configuration, which
//! has a limited number of them.

use std::time::Duration;

use super::{Number, Reading, Samples};
use crate::status::PipelineNumbers;

metrics! { |it, out|
    /// Every metric of pipelines, in the order in which they are written.
    Counter "tidegate_hub_messages_taken_total" ["pipeline"] => each(it, out, |pipeline| pipeline.counts.taken),
        "Messages that the pipeline has taken.";
    Counter "tidegate_hub_messages_total" ["pipeline", "outcome"] => {
        for pipeline in &it.status.pipelines {
            for (outcome, number) in [
                ("delivered", pipeline.counts.delivered),
                ("filtered", pipeline.counts.filtered),
                ("failed", pipeline.counts.failed),
                ("dropped", pipeline.counts.dropped),
            ] {
                out.add(&[&pipeline.name, outcome], number);
            }
        }
    }, "Messages of the pipeline, by outcome.";
    Counter "tidegate_hub_batches_retried_total" ["pipeline"] => each(it, out, |pipeline| pipeline.counts.retried),
        "Batches of the pipeline that a sink has not taken and that were tried once more.";
    Counter "tidegate_hub_dead_letters_total" ["pipeline"] => each(it, out, |pipeline| pipeline.counts.dead_letters),
        "Failed messages of the pipeline that became dead letters.";
    Counter "tidegate_hub_looped_total" ["pipeline"] => each(it, out, |pipeline| pipeline.counts.looped),
        "Failed messages of the pipeline that had passed 16 pipelines: these publish to topics of each other.";
    Counter "tidegate_hub_windows_ended_early_total" ["pipeline"] => each(it, out, |pipeline| pipeline.counts.ended_early),
        "Windows of the pipeline that ended before their time, as there was no room for more messages.";
    Counter "tidegate_hub_batches_total" ["pipeline"] => each(it, out, |pipeline| pipeline.counts.batches),
        "Batches of the pipeline that sinks have taken, refused or failed to take.";
    Counter "tidegate_hub_batch_seconds_total" ["pipeline"] =>
        each(it, out, |pipeline| Duration::from_millis(pipeline.batch_ms).as_secs_f64()),
        "Time between these batches and the answers of their sinks. Divided by the number of batches it is their latency.";
    Gauge "tidegate_hub_messages_held" ["pipeline"] => each(it, out, |pipeline| pipeline.held),
        "Messages that the pipeline works on and that are not acknowledged. Further messages wait in the queue of its session.";
    Gauge "tidegate_hub_messages_waiting" ["pipeline"] => each(it, out, |pipeline| pipeline.waiting),
        "Messages that wait in the partitions of the pipeline's log on the bus that this process has.";
    Gauge "tidegate_hub_lag_seconds" ["pipeline"] =>
        each(it, out, |pipeline| Duration::from_millis(pipeline.lag_ms).as_secs_f64()),
        "Age of the oldest message that the pipeline works on.";
}

fn each<N: Into<Number>>(it: &Reading<'_>, out: &mut Samples<'_>, number: impl Fn(&PipelineNumbers) -> N) {
    for pipeline in &it.status.pipelines {
        out.add(&[&pipeline.name], number(pipeline));
    }
}
