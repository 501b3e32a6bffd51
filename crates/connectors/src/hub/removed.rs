//! Messages that wait for pipelines which are not in the configuration any more.

use tidegate_config::hub::CLIENT_PREFIX;
use tidegate_config::sections::hub::Pipeline;
use tidegate_engine::ClientQuery;
use tidegate_node::NodeHandle;

use super::control::MAX_SESSIONS;

/// Logs each pipeline that is not in the configuration and has waiting messages at this node, which it does not deliver.
pub(super) fn warn_of_removed(pipelines: &[Pipeline], node: &NodeHandle) {
    let query = ClientQuery { containing: CLIENT_PREFIX.to_owned(), after: None, limit: MAX_SESSIONS, filters: 0 };
    let sessions = match node.clients().list(&query) {
        Ok(sessions) => sessions,
        Err(error) => return tracing::warn!(%error, "cannot search for sessions of removed pipelines"),
    };
    for (session, _) in sessions {
        let (messages, seconds) = (session.queued_messages + session.inflight_messages, session.expiry_seconds);
        if let Some(pipeline) = removed(&session.client_id, pipelines).filter(|_| messages > 0) {
            tracing::warn!(
                pipeline,
                messages,
                seconds,
                "messages wait for a pipeline that is not in the configuration; they are kept until it is there again, or for this time"
            );
        }
    }
}

/// The pipeline of a session, if it is not in the configuration.
fn removed<'a>(client_id: &'a str, pipelines: &[Pipeline]) -> Option<&'a str> {
    let name = client_id.strip_prefix(CLIENT_PREFIX)?;
    // Its sinks at this broker have client ids below its own.
    let is_of = |pipeline: &Pipeline| {
        name.strip_prefix(&*pipeline.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    (!pipelines.iter().any(is_of)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_configured_pipelines_are_left_out() {
        let pipelines = [Pipeline { name: "hot".to_owned(), ..Pipeline::default() }];
        for known in ["tidegate-hub-hot", "tidegate-hub-hot.back", "tidegate-hub-hot.back~7", "client"] {
            assert_eq!(removed(known, &pipelines), None, "{known}");
        }
        assert_eq!(removed("tidegate-hub-hotter", &pipelines), Some("hotter"));
        assert_eq!(removed("tidegate-hub-hot", &[]), Some("hot"));
    }
}
