//! Homes in the admin API of orchestrators.

use tidegate_admin::ClientError;
use tidegate_admin::homes::{GetHomes, HomeOf, HomesTable as TableBody, MovePartitions, Place, SetHomes};

use super::orchestrator_api::{OrchestratorApi, OrchestratorError};
use crate::manage::homes::{HomePlace, HomesTable, HomesView, PARTITIONS};
use crate::provider::ResourceName;

impl OrchestratorApi {
    /// The homes of an orchestrator; `None` where it has none, or another name than the fleet gives it.
    pub(super) fn homes(&self, name: &ResourceName, admin: &str) -> Result<Option<HomesView>, OrchestratorError> {
        let homes = match self.ask(admin, &GetHomes) {
            Ok(homes) => homes,
            Err(OrchestratorError::Client(ClientError::Refused { status: 409, .. })) => return Ok(None),
            Err(error) => return Err(error),
        };
        if homes.name != name.as_str() {
            return Ok(None);
        }
        let leaving = homes.leaving.as_ref().map(|leaving| leaving.to.as_str());
        let moving =
            leaving.or(homes.arriving.as_ref().map(|arriving| arriving.from.as_str())).map(named).transpose()?;
        let table = if homes.table.epoch == 0 { None } else { Some(table(homes.table)?) };
        Ok(Some(HomesView { table, moving }))
    }

    pub(super) fn set_homes(
        &self,
        admin: &str,
        table: &HomesTable,
        if_epoch: u64,
        gone: &[ResourceName],
    ) -> Result<(), OrchestratorError> {
        let places = table.places.iter().map(|(name, place)| Place {
            name: name.to_string(),
            mqtt: place.mqtt.clone(),
            relay: place.relay.clone(),
            admin: place.admin.clone(),
        });
        let homes = table.homes.iter().map(|home| HomeOf::Name(home.to_string()));
        let request = SetHomes {
            table: TableBody { epoch: table.epoch, places: places.collect(), homes: homes.collect() },
            // Without a lease: partitions change hands by moves alone, and orchestrators serve while no manager runs.
            ttl_s: None,
            if_epoch: Some(if_epoch),
            gone: gone.iter().map(ToString::to_string).collect(),
        };
        self.ask(admin, &request).map(drop)
    }

    pub(super) fn move_partitions(
        &self,
        admin: &str,
        to: &ResourceName,
        partitions: &[u16],
        epoch: u64,
    ) -> Result<(), OrchestratorError> {
        let request = MovePartitions {
            partitions: Some(partitions.to_vec()),
            to: to.to_string(),
            epoch: Some(epoch),
            ..MovePartitions::default()
        };
        self.ask(admin, &request).map(drop)
    }
}

fn named(name: &str) -> Result<ResourceName, OrchestratorError> {
    let wrong = |_| OrchestratorError::Strange(format!("its table of homes names `{name}`, which no fleet has"));
    name.parse().map_err(wrong)
}

fn table(homes: TableBody) -> Result<HomesTable, OrchestratorError> {
    if homes.homes.len() != PARTITIONS {
        let text = format!("its table of homes has {} partitions and not {PARTITIONS}", homes.homes.len());
        return Err(OrchestratorError::Strange(text));
    }
    let place = |place: Place| {
        let name = named(&place.name)?;
        Ok((name, HomePlace { mqtt: place.mqtt, relay: place.relay, admin: place.admin }))
    };
    let home = |home: &HomeOf| match home {
        HomeOf::Name(name) => named(name),
        HomeOf::Position(at) => {
            Err(OrchestratorError::Strange(format!("its table of homes has the number {at} for a name")))
        }
    };
    Ok(HomesTable {
        epoch: homes.epoch,
        places: homes.places.into_iter().map(place).collect::<Result<_, OrchestratorError>>()?,
        homes: homes.homes.iter().map(home).collect::<Result<_, _>>()?,
    })
}
