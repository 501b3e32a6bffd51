//! Homes in the admin API of orchestrators.

use serde::Deserialize;
use serde_json::{Value, json};
use ureq::http::Method;

use super::orchestrator_api::{OrchestratorApi, OrchestratorError};
use crate::manage::homes::{HomePlace, HomesTable, HomesView, PARTITIONS};
use crate::provider::ResourceName;

const PATH: &str = "/api/v1/homes";

#[derive(Deserialize)]
struct Answer {
    name: String,
    epoch: u64,
    places: Vec<Place>,
    homes: Vec<String>,
    leaving: Option<Leaving>,
    arriving: Option<Arriving>,
}

#[derive(Deserialize)]
struct Leaving {
    to: String,
}

#[derive(Deserialize)]
struct Arriving {
    from: String,
}

#[derive(Deserialize)]
struct Place {
    name: String,
    mqtt: String,
    relay: String,
    admin: String,
}

impl OrchestratorApi {
    /// An orchestrator's homes; `None` if its version has none, or its name differs from that in the fleet.
    pub(super) fn homes(&self, name: &ResourceName, admin: &str) -> Result<Option<HomesView>, OrchestratorError> {
        let answer = match self.ask(Method::GET, admin, PATH, None) {
            Ok(answer) => answer,
            Err(OrchestratorError::Refused(404 | 409, _)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let homes: Answer =
            serde_json::from_value(answer).map_err(|error| OrchestratorError::Strange(error.to_string()))?;
        if homes.name != name.as_str() {
            return Ok(None);
        }
        let leaving = homes.leaving.as_ref().map(|leaving| leaving.to.as_str());
        let moving =
            leaving.or(homes.arriving.as_ref().map(|arriving| arriving.from.as_str())).map(named).transpose()?;
        let table = if homes.epoch == 0 { None } else { Some(table(homes)?) };
        Ok(Some(HomesView { table, moving }))
    }

    pub(super) fn set_homes(
        &self,
        admin: &str,
        table: &HomesTable,
        if_epoch: u64,
        gone: &[ResourceName],
    ) -> Result<(), OrchestratorError> {
        let places: Vec<Value> = table
            .places
            .iter()
            .map(|(name, place)| json!({"name": name, "mqtt": place.mqtt, "relay": place.relay, "admin": place.admin}))
            .collect();
        // Without a lease: partitions change hands by moves alone, and orchestrators serve while no manager runs.
        let body = json!({
            "epoch": table.epoch, "ttl_s": null, "if_epoch": if_epoch, "places": places, "homes": table.homes,
            "gone": gone,
        });
        self.ask(Method::PUT, admin, PATH, Some(&body)).map(drop)
    }

    pub(super) fn move_partitions(
        &self,
        admin: &str,
        to: &ResourceName,
        partitions: &[u16],
        epoch: u64,
    ) -> Result<(), OrchestratorError> {
        let body = json!({"partitions": partitions, "to": to, "epoch": epoch});
        self.ask(Method::POST, admin, "/api/v1/homes/move", Some(&body)).map(drop)
    }
}

fn named(name: &str) -> Result<ResourceName, OrchestratorError> {
    let wrong = |_| OrchestratorError::Strange(format!("its table of homes names `{name}`, which no fleet has"));
    name.parse().map_err(wrong)
}

fn table(homes: Answer) -> Result<HomesTable, OrchestratorError> {
    if homes.homes.len() != PARTITIONS {
        let text = format!("its table of homes has {} partitions and not {PARTITIONS}", homes.homes.len());
        return Err(OrchestratorError::Strange(text));
    }
    let place = |place: Place| {
        let name = named(&place.name)?;
        Ok((name, HomePlace { mqtt: place.mqtt, relay: place.relay, admin: place.admin }))
    };
    Ok(HomesTable {
        epoch: homes.epoch,
        places: homes.places.into_iter().map(place).collect::<Result<_, OrchestratorError>>()?,
        homes: homes.homes.iter().map(|name| named(name)).collect::<Result<_, _>>()?,
    })
}
