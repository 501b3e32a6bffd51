//! `/api/v1/fleet`: the brokers behind an orchestrator.

use serde::{Deserialize, Serialize};

use crate::request::{Body, Done, Method, Request, with_name, with_query};

const COMMAND: Option<&str> = Some("fleet");

/// `GET /api/v1/fleet`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetFleet;

impl Request for GetFleet {
    type Answer = FleetStatus;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = "/api/v1/fleet";
}

/// `PUT /api/v1/fleet/brokers/NAME`: adds a broker, or changes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetBroker {
    /// Its name.
    pub name: String,
    /// The rest.
    pub settings: BrokerAddress,
}

/// The body of [`SetBroker`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerAddress {
    /// Its address, `mqtt://HOST:PORT` or `mqtts://HOST:PORT`, with its login.
    pub address: String,
    /// Names of dead brokers whose address it may have taken over.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub replaces: Vec<String>,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Request for BrokerAddress {
    type Answer = Done;
    const METHOD: Method = Method::Put;
    const ROUTE: &'static str = "/api/v1/fleet/brokers/{name}";
    const COMMAND: Option<&'static str> = COMMAND;
}

impl Request for SetBroker {
    type Answer = Done;
    const METHOD: Method = Method::Put;
    const ROUTE: &'static str = BrokerAddress::ROUTE;
    const COMMAND: Option<&'static str> = COMMAND;

    fn path(&self) -> String {
        with_name(Self::ROUTE, &self.name)
    }

    fn body(&self) -> Body<'_> {
        Body::json(&self.settings)
    }
}

/// `POST /api/v1/fleet/brokers/NAME/drain`: the broker is given no more messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainBroker {
    /// Its name.
    pub name: String,
}

impl Request for DrainBroker {
    type Answer = Done;
    const METHOD: Method = Method::Post;
    const ROUTE: &'static str = "/api/v1/fleet/brokers/{name}/drain";
    const COMMAND: Option<&'static str> = COMMAND;

    fn path(&self) -> String {
        with_name(Self::ROUTE, &self.name)
    }
}

/// `DELETE /api/v1/fleet/brokers/NAME`: takes a broker out of the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveBroker {
    /// Its name.
    pub name: String,
    /// The rest.
    pub options: RemoveOptions,
}

/// The query of [`RemoveBroker`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveOptions {
    /// Whether it is taken out although it owes messages.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

impl Request for RemoveOptions {
    type Answer = Done;
    const METHOD: Method = Method::Delete;
    const ROUTE: &'static str = BrokerAddress::ROUTE;
    const COMMAND: Option<&'static str> = COMMAND;
}

impl Request for RemoveBroker {
    type Answer = Done;
    const METHOD: Method = Method::Delete;
    const ROUTE: &'static str = BrokerAddress::ROUTE;
    const COMMAND: Option<&'static str> = COMMAND;

    fn path(&self) -> String {
        with_query(&with_name(Self::ROUTE, &self.name), &self.options)
    }
}

/// An orchestrator and its brokers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetStatus {
    /// The orchestrator's name in the fleet.
    #[serde(default)]
    pub orchestrator: String,
    /// How publishes are spread, a word such as `topic-hash`.
    #[serde(default)]
    pub policy: String,
    /// Clients that are connected, at home here or relayed to their home.
    #[serde(default)]
    pub clients: u64,
    /// Sessions of clients, connected or away.
    #[serde(default)]
    pub sessions: u64,
    /// Filters that they want, each counted once.
    #[serde(default)]
    pub filters: u64,
    /// Whether the fleet takes messages.
    #[serde(default)]
    pub open: bool,
    /// Users whose own credentials brokers are shown.
    #[serde(default)]
    pub identities: u64,
    /// Messages accepted and not settled, over all brokers.
    #[serde(default)]
    pub owed: u64,
    /// The longest turn of a shard lately, milliseconds; `None` from a release that does not say it.
    #[serde(default)]
    pub loop_lag_ms: Option<u64>,
    /// Messages received from clients and brokers so far.
    #[serde(default)]
    pub messages_in: u64,
    /// Messages sent to clients and brokers so far.
    #[serde(default)]
    pub messages_out: u64,
    /// Messages that clients did not get so far because this orchestrator had no room for them; `None` from a release
    /// that does not say it.
    #[serde(default)]
    pub dropped: Option<u64>,
    /// Messages that were not taken so far because brokers owed as much as they may, or no broker was there; `None` from a release that does
    /// not say it.
    #[serde(default)]
    pub dropped_fleet_full: Option<u64>,
    /// Messages that were accepted so far and then dropped, since no broker takes them: too long, denied, or such that the broker
    /// closes the connection; `None` from a release that does not say it.
    #[serde(default)]
    pub dropped_given_up: Option<u64>,
    /// The brokers.
    pub brokers: Vec<BrokerStatus>,
}

/// The state of a broker at an orchestrator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BrokerState {
    /// It is being connected to.
    #[default]
    Connecting,
    /// It does not hold all subscriptions yet.
    Subscribing,
    /// It is online and holds all subscriptions (BRK-26).
    Serving,
    /// It gets no more messages and owes some.
    Draining,
    /// It gets no more messages and owes none.
    Drained,
    /// It does not answer.
    Down,
}

impl BrokerState {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Connecting, Self::Subscribing, Self::Serving, Self::Draining, Self::Drained, Self::Down];

    /// The name in the API and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Subscribing => "subscribing",
            Self::Serving => "serving",
            Self::Draining => "draining",
            Self::Drained => "drained",
            Self::Down => "down",
        }
    }
}

/// One broker of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerStatus {
    /// Its name.
    pub name: String,
    /// Its address, without credentials.
    #[serde(default)]
    pub address: String,
    /// Its state.
    pub state: BrokerState,
    /// Since when, milliseconds since 1970.
    #[serde(default)]
    pub since_ms: u64,
    /// The version of MQTT that is spoken with it.
    #[serde(default)]
    pub version: Option<String>,
    /// Filters that it holds.
    #[serde(default)]
    pub filters: u64,
    /// Filters that it does not hold yet.
    #[serde(default)]
    pub filters_pending: u64,
    /// Filters that it refuses, or whose SUBSCRIBE makes it close the connection.
    #[serde(default)]
    pub filters_refused: u64,
    /// Messages that wait to be sent to it.
    #[serde(default)]
    pub queued: u64,
    /// Messages that it has not acknowledged.
    #[serde(default)]
    pub in_flight: u64,
    /// Messages that it has acknowledged and not brought back.
    #[serde(default)]
    pub unreturned: u64,
    /// Messages accepted from clients and not settled by it: `queued`, `in_flight` and `unreturned` together.
    #[serde(default)]
    pub owed: u64,
    /// Messages given to it so far, at any QoS.
    #[serde(default)]
    pub sent: u64,
    /// Messages that it has acknowledged so far.
    #[serde(default)]
    pub acknowledged: u64,
    /// Messages that it has acknowledged and brought back so far; always 0 with MQTT 3.1.1.
    #[serde(default)]
    pub returned: u64,
    /// Messages taken from it and given to others so far.
    #[serde(default)]
    pub resent: u64,
    /// Messages received from it so far.
    #[serde(default)]
    pub received: u64,
    /// Messages received from it more than once.
    #[serde(default)]
    pub duplicates: u64,
    /// Messages received from it beyond the Receive Maximum announced to it.
    #[serde(default)]
    pub beyond_window: u64,
    /// Messages delivered to clients without it, which took them and does not bring them back.
    #[serde(default)]
    pub delivered_here: u64,
    /// Messages given to no broker any more, because this one closed the connection each time that it got them.
    #[serde(default)]
    pub set_aside: u64,
    /// Acknowledged messages settled although another orchestrator did not say that it has them.
    #[serde(default)]
    pub unconfirmed: u64,
    /// The last error; may be empty.
    #[serde(default)]
    pub last_error: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{read_body, read_query};

    #[test]
    fn requests_about_brokers_name_them_in_the_path() {
        let options = RemoveOptions { force: true };
        assert_eq!(RemoveBroker { name: "b-1".into(), options }.path(), "/api/v1/fleet/brokers/b-1?force=true");
        let options = RemoveOptions { force: false };
        assert_eq!(RemoveBroker { name: "b-1".into(), options }.path(), "/api/v1/fleet/brokers/b-1");
        assert_eq!(DrainBroker { name: "b-1".into() }.path(), "/api/v1/fleet/brokers/b-1/drain");
        assert!(read_query::<RemoveOptions>(Some("force=maybe")).is_err());
        assert!(read_query::<RemoveOptions>(Some("force=true")).unwrap().force);
        assert!(!read_query::<RemoveOptions>(None).unwrap().force);
    }

    #[test]
    fn an_address_of_a_broker_is_a_text() {
        let read = |body: &str| read_body::<BrokerAddress>(body.as_bytes());
        assert_eq!(read(r#"{"address":"mqtt://h:1","replaces":null}"#).unwrap().address, "mqtt://h:1");
        assert_eq!(read(r#"{"address":"a","replaces":["b"]}"#).unwrap().replaces, ["b"]);
        assert!(read(r#"{"address":1}"#).is_err() && read("{}").is_err());
        assert!(read(r#"{"address":"a","replaces":"b"}"#).unwrap_err().to_string().starts_with("`replaces`"));
    }

    #[test]
    fn a_status_of_an_earlier_release_is_read() {
        let text = r#"{"brokers":[{"name":"b","state":"serving"}]}"#;
        let status: FleetStatus = serde_json::from_str(text).unwrap();
        assert_eq!((status.dropped, status.brokers[0].state), (None, BrokerState::Serving));
    }
}
