//! Messages that wait for pipelines which are not in the configuration any more.

use std::net::IpAddr;

use tidegate_config::hub::{CLIENT_PREFIX, is_client_of};
use tidegate_config::sections::hub::Pipeline;
use tidegate_engine::{ClientQuery, ClientSummary};
use tidegate_node::NodeHandle;

use super::control::MAX_SESSIONS;

/// Queries for [`MAX_SESSIONS`] sessions each: ids of other clients may contain [`CLIENT_PREFIX`], too.
const MAX_QUESTIONS: usize = 10;

/// Logs each pipeline that is not in the configuration and has waiting messages at this node, which it does not deliver. It
/// looks at the sessions that are here at the start: in a cluster, sessions that come later with their partitions are
/// not logged.
pub(super) fn warn_of_removed(pipelines: &[Pipeline], node: &NodeHandle) {
    let mut after = None;
    for _ in 0..MAX_QUESTIONS {
        let query = ClientQuery { containing: CLIENT_PREFIX.to_owned(), after, limit: MAX_SESSIONS, filters: 0 };
        let sessions = match node.clients().list(&query) {
            Ok(sessions) => sessions,
            Err(error) => return tracing::warn!(%error, "cannot search for sessions of removed pipelines"),
        };
        warn_of(&sessions, pipelines);
        let Some((last, _)) = sessions.last().filter(|_| sessions.len() == MAX_SESSIONS) else { return };
        after = Some((last.tenant, last.client_id.clone()));
    }
    tracing::warn!(
        searched = MAX_QUESTIONS * MAX_SESSIONS,
        "more sessions than these have client ids like a pipeline; the others were not searched for removed pipelines"
    );
}

fn warn_of(sessions: &[(ClientSummary, Option<IpAddr>)], pipelines: &[Pipeline]) {
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
    (!pipelines.iter().any(|pipeline| is_client_of(pipeline, name))).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_configured_pipelines_are_left_out() {
        let to = tidegate_config::list::Texts(vec!["back".to_owned()]);
        let pipelines = [Pipeline { name: "hot".to_owned(), to, ..Pipeline::default() }];
        for known in ["hot", "hot.back", "hot.back~7", "hot.back-1", "hot.back-12~3", "hot.dead-letters~9"] {
            assert_eq!(removed(&format!("tidegate-hub-{known}"), &pipelines), None, "{known}");
        }
        assert_eq!(removed("client", &pipelines), None);
        for other in ["hotter", "hot.x", "hot.backs", "hot.back-", "hot.back~1~2", "hot.back.x", "hot."] {
            assert_eq!(removed(&format!("tidegate-hub-{other}"), &pipelines), Some(other));
        }
        assert_eq!(removed("tidegate-hub-hot", &[]), Some("hot"));
    }
}
