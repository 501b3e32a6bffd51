//! `/api/v1/cluster`: the state of a node in its cluster, and whether it takes a share of the partitions.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, put};
use axum::{Router, middleware};
use tidegate_admin::cluster::{GetCluster, SetShare};
use tidegate_admin::{Done, Request, read_body};

use super::answers::answer;
use super::body::WholeBody;
use super::fleet::guard_changes;
use super::{Control, ControlError, NO_CLUSTER, waiting};

/// The paths of the cluster.
pub(super) fn router<S: Control>() -> Router<Arc<S>> {
    Router::new()
        .route(GetCluster::ROUTE, get(view::<S>))
        .route(SetShare::ROUTE, put(set_share::<S>))
        .layer(middleware::from_fn(guard_changes))
}

async fn view<S: Control>(State(source): State<Arc<S>>) -> Response {
    let none = || ControlError::Refused(NO_CLUSTER.to_owned());
    answer(waiting(move || source.cluster().ok_or_else(none)).await)
}

async fn set_share<S: Control>(State(source): State<Arc<S>>, WholeBody(body): WholeBody) -> Response {
    let request = read_body::<SetShare>(&body);
    answer(waiting(move || source.want_share(request?.wanted).map(|()| Done {})).await)
}
