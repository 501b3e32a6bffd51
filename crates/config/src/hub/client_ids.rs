//! Client ids of pipelines at their broker.

use tidegate_engine::{TenantId, partition_of};

use super::way::Way;
use crate::sections::hub::Pipeline;
use crate::sections::tenant::Tenant;

/// The end of the client id that publishes dead letters.
pub(super) const DEAD_LETTERS: &str = "dead-letters";

impl Pipeline {
    /// The number of its tenant. `tenants` are in the order of their numbers.
    pub fn tenant_number(&self, tenants: &[Tenant]) -> TenantId {
        let place = tenants.iter().position(|tenant| tenant.name == self.tenant_name());
        let number = place.and_then(|place| u16::try_from(place + 1).ok());
        number.map_or(TenantId::DEFAULT, TenantId)
    }
}

/// The client id of a pipeline's session.
pub(super) fn of_session(pipeline: &Pipeline, way: &Way) -> String {
    format!("{}{}{}", way.prefix, pipeline.name, way.suffix)
}

/// Client ids of the lanes of a sink.
pub(super) fn of_lanes(client_id: &str, lanes: u16) -> Vec<String> {
    let of = |lane| if lane == 0 { client_id.to_owned() } else { format!("{client_id}-{lane}") };
    (0..lanes.max(1)).map(of).collect()
}

/// Client ids of the lanes of a sink that publishes at the broker of the pipeline. Within a broker they are in the partition
/// of the pipeline's session, so that the member that runs the pipeline serves its sinks, too: pipelines come in by a
/// listener of their own process.
pub(super) fn at_broker(pipeline: &Pipeline, tenants: &[Tenant], way: &Way, sink: &str, lanes: u16) -> Vec<String> {
    let session = of_session(pipeline, way);
    let lanes = of_lanes(&format!("{session}.{sink}"), lanes);
    if way.shared {
        return lanes;
    }
    let tenant = pipeline.tenant_number(tenants);
    let wanted = partition_of(tenant, &session);
    let draw = |client_id: String| {
        let mut drawn = client_id.clone();
        let mut number = 0_u64;
        while partition_of(tenant, &drawn) != wanted {
            number += 1;
            drawn = format!("{client_id}~{number}");
        }
        drawn
    };
    lanes.into_iter().map(draw).collect()
}

/// Whether a client id, without the prefix of all pipelines, is one of a pipeline in a broker: of its session, or of a sink
/// that publishes at the broker.
pub fn is_client_of(pipeline: &Pipeline, client_id: &str) -> bool {
    let Some(rest) = client_id.strip_prefix(&*pipeline.name) else { return false };
    let sinks = pipeline.to.0.iter().chain(&pipeline.dead_letter).map(String::as_str).chain([DEAD_LETTERS]);
    let is_of = |sink: &str| {
        let lane = rest.strip_prefix('.').and_then(|rest| rest.strip_prefix(sink));
        lane.is_some_and(|lane| {
            let (lane, drawn) = lane.split_once('~').unwrap_or((lane, "0"));
            let is_lane = lane.strip_prefix('-').map_or(lane.is_empty(), is_number);
            is_lane && is_number(drawn)
        })
    };
    rest.is_empty() || sinks.into_iter().any(is_of)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use tidegate_hub::net::{Address, SocketOptions};

    use super::*;

    fn way(shared: bool) -> Way {
        Way {
            address: Address::Tcp { host: "127.0.0.1".to_owned(), port: 1 },
            socket: SocketOptions::default(),
            user_name: None,
            password: None,
            shared,
            origins: true,
            prefix: "tidegate-hub-".to_owned(),
            suffix: String::new(),
            tenants: Vec::new(),
            kept_filters: None,
        }
    }

    #[test]
    fn sinks_are_in_the_partition_of_their_pipeline() {
        let tenants = ["bolt", "acme"].map(|name| Tenant { name: name.to_owned(), ..Tenant::default() });
        for (tenant, number) in [(None, TenantId::DEFAULT), (Some("acme".to_owned()), TenantId(2))] {
            let pipeline = Pipeline { name: "hot".to_owned(), tenant, ..Pipeline::default() };
            assert_eq!(pipeline.tenant_number(&tenants), number);
            let wanted = partition_of(number, "tidegate-hub-hot");
            let ids = at_broker(&pipeline, &tenants, &way(false), "back", 3);
            assert!(ids.iter().all(|id| partition_of(number, id) == wanted), "{ids:?}");
            assert!(ids.iter().all(|id| id.starts_with("tidegate-hub-hot.back")), "{ids:?}");
            let with_sink = Pipeline { to: crate::list::Texts(vec!["back".to_owned()]), ..pipeline.clone() };
            assert!(
                ids.iter().all(|id| is_client_of(&with_sink, id.strip_prefix("tidegate-hub-").unwrap())),
                "{ids:?}"
            );
            assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{ids:?}");
        }
    }

    #[test]
    fn sinks_beside_a_broker_have_plain_client_ids() {
        let pipeline = Pipeline { name: "hot".to_owned(), ..Pipeline::default() };
        let ids = at_broker(&pipeline, &[], &way(true), "back", 2);
        assert_eq!(ids, ["tidegate-hub-hot.back", "tidegate-hub-hot.back-1"]);
    }
}
