//! `/api/v1/hub`: pipelines.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use tidegate_admin::members::{MemberAnswer, MemberRequest, Shares};
use tidegate_admin::read_body;
use tidegate_admin::{
    Done, GetHub, PausePipeline, PipelineCommand, PipelineOrder, Pipelines, ReplayPipeline, Request, ResumePipeline,
};

use super::answers::answer;
use super::body::JsonBody;
use super::cluster_wide::ask_all;
use super::{Control, ControlError, waiting};

/// The paths of pipelines.
pub(super) fn router<S: Control>() -> Router<Arc<S>> {
    Router::new()
        .route(GetHub::ROUTE, get(view::<S>))
        .route(PausePipeline::ROUTE, post(pause::<S>))
        .route(ResumePipeline::ROUTE, post(resume::<S>))
        .route(ReplayPipeline::ROUTE, post(replay::<S>))
}

async fn view<S: Control>(State(source): State<Arc<S>>) -> Response {
    answer(waiting(move || all_pipelines(&*source)).await)
}

fn all_pipelines<S: Control>(source: &S) -> Result<Pipelines, ControlError> {
    let mut shares = Shares::default();
    let asked = ask_all(source, &MemberRequest::Hub, MemberAnswer::Hub(source.hub()?));
    shares.unreachable = asked.unreachable;
    for (node, share) in asked.answered {
        match share {
            MemberAnswer::Hub(pipelines) => shares.answered.push((node, pipelines)),
            _ => shares.unreachable.push(node),
        }
    }
    Ok(shares.pipelines(&source.pipeline_names()))
}

async fn pause<S: Control>(State(source): State<Arc<S>>, Path(name): Path<String>) -> Response {
    order(source, name, PipelineCommand::Pause).await
}

async fn resume<S: Control>(State(source): State<Arc<S>>, Path(name): Path<String>) -> Response {
    order(source, name, PipelineCommand::Resume).await
}

async fn replay<S: Control>(
    State(source): State<Arc<S>>,
    Path(name): Path<String>,
    JsonBody(body): JsonBody,
) -> Response {
    match read_body::<ReplayPipeline>(&body) {
        Ok(request) => order(source, name, PipelineCommand::Replay(request.from_ms)).await,
        Err(error) => answer(Err::<Done, ControlError>(error.into())),
    }
}

async fn order<S: Control>(source: Arc<S>, name: String, command: PipelineCommand) -> Response {
    answer(waiting(move || order_all(&*source, &PipelineOrder { name, command })).await)
}

/// Has all members carry out an order: any of them may run the pipeline, now or later.
fn order_all<S: Control>(source: &S, order: &PipelineOrder) -> Result<Done, ControlError> {
    let own = MemberAnswer::PipelineOrdered(source.order_pipeline(order)?);
    let shares = ask_all(source, &MemberRequest::OrderPipeline(order.clone()), own);
    let mut done = false;
    for (node, share) in shares.answered {
        match share {
            MemberAnswer::PipelineOrdered(here) => done |= here,
            MemberAnswer::Refused(why) => return Err(ControlError::Refused(format!("node {node}: {why}"))),
            _ => return Err(ControlError::Refused(format!("node {node} has another release"))),
        }
    }
    if !shares.unreachable.is_empty() {
        let silent = shares.unreachable.join(", ");
        return Err(ControlError::Refused(format!(
            "{silent} did not answer, so the order may not hold there: repeat it"
        )));
    }
    if done {
        return Ok(Done {});
    }
    let name = &order.name;
    Err(ControlError::Invalid(format!("no pipeline `{name}` runs here; `tidegate hub status` has their names")))
}
