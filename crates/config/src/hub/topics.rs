//! Pipelines whose two choices of topics have no topic in common.

use tidegate_hub::Steps;
use tidegate_mqtt::topic::overlaps;

use crate::sections::hub::Pipeline;
use crate::value::Problem;

/// The problem of a pipeline that takes no message: no topic matches both `from` and FROM.
pub(super) fn nothing_in_common(pipeline: &Pipeline) -> Option<(&'static str, Problem)> {
    // `check_steps` reports a step that cannot be read.
    let steps = Steps::new(&pipeline.step_settings()).ok()?;
    let (from, of_sql) = (&pipeline.from.0, steps.from());
    let meet = |one: &String| of_sql.iter().any(|other| overlaps(one, &other.to_string()));
    if from.is_empty() || of_sql.is_empty() || from.iter().any(meet) {
        return None;
    }
    let names: Vec<String> = of_sql.iter().map(|filter| format!("'{filter}'")).collect();
    let problem = Problem::new(format!("no topic matches both `pipeline.from` and FROM {}", names.join(", ")));
    Some(("from", problem.hint("leave out `from`, or name the same topics in both")))
}
