//! The intended table of homes, from the orchestrators' states.

use std::collections::BTreeMap;

use super::{HomePlace, HomesTable, HomesView, PARTITIONS, rendezvous};
use crate::level::Level;
use crate::manage::book::{Member, Phase};
use crate::manage::command::Command;
use crate::manage::machine::Manager;
use crate::manage::sight::Sight;
use crate::provider::ResourceName;

/// How the homes of a fleet are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::manage) enum HomesState {
    /// One orchestrator serves all clients, or some have no relay address: there is no table.
    Unkept,
    /// No change is possible now, for this reason.
    Waiting(String),
    /// Some orchestrators that answer do not have this table yet.
    Changing(HomesTable),
    /// All answering orchestrators have it, and no move is in progress.
    Agreed(HomesTable),
}

/// The orchestrators' states, by name.
type Views<'a> = BTreeMap<&'a ResourceName, &'a HomesView>;

impl Manager {
    /// How the homes are, and which table all shall have.
    pub(in crate::manage) fn homes_state(&self, sight: &Sight) -> HomesState {
        let members: Vec<&Member> =
            self.book.level(Level::Orchestrator).filter(|member| member.phase != Phase::Leaving).collect();
        let reachable = |member: &&&Member| sight.resource(&member.wanted.name).is_some();
        if sight.resources.is_none()
            || members.iter().filter(reachable).any(|member| place(&member.wanted.name, sight).is_none())
        {
            return HomesState::Unkept;
        }
        let answer = |member: &&Member| sight.orchestrators.get(&member.wanted.name)?.homes.as_ref();
        let views: Views<'_> =
            members.iter().filter_map(|member| Some((&member.wanted.name, answer(member)?))).collect();
        let Some(newest) = views.values().filter_map(|view| view.table.as_ref()).max_by_key(|table| table.epoch) else {
            return first(&members, &views, sight);
        };
        // A move with an orchestrator that is gone for good ends with the table that says so.
        let moves = |view: &HomesView| view.moving.as_ref().is_some_and(|with| !self.is_gone(with, sight));
        if let Some((name, _)) = views.iter().find(|(_, view)| moves(view)) {
            return HomesState::Waiting(format!("partitions of {name} are moving"));
        }
        let mut table = HomesTable {
            epoch: newest.epoch,
            homes: merged(newest, &views),
            places: places(newest, &members, &views, sight),
        };
        self.house_orphans(&mut table, sight);
        let homes = &table.homes;
        table.places.retain(|name, _| {
            let stays = members.iter().any(|member| member.wanted.name == *name);
            stays || homes.contains(name)
        });
        let differs = |view: &&&HomesView| {
            view.table.as_ref().is_some_and(|known| known.epoch == newest.epoch && *known != table)
        };
        if views.values().any(|view| differs(&view)) {
            table.epoch += 1;
        }
        if views.values().all(|view| view.moving.is_none() && view.table.as_ref() == Some(&table)) {
            HomesState::Agreed(table)
        } else {
            HomesState::Changing(table)
        }
    }

    /// Partitions whose home is gone for good start empty at others.
    fn house_orphans(&self, table: &mut HomesTable, sight: &Sight) {
        let serving = self.book.names(Level::Orchestrator, &[Phase::Serving]);
        for (partition, home) in (0..).zip(&mut table.homes) {
            if self.is_gone(home, sight)
                && let Some(new) = rendezvous(serving.iter().filter(|name| table.places.contains_key(*name)), partition)
            {
                home.clone_from(new);
            }
        }
    }

    /// Sends the table to orchestrators that do not have it.
    pub(in crate::manage) fn set_homes(&mut self, sight: &Sight) {
        let HomesState::Changing(table) = self.homes_state(sight) else { return };
        for (at, view) in &sight.orchestrators {
            let Some(homes) = &view.homes else { continue };
            let current = !matches!(self.book.phase(at), None | Some(Phase::Leaving));
            let gone: Vec<_> = homes.moving.iter().filter(|with| self.is_gone(with, sight)).cloned().collect();
            if current && (homes.table.as_ref() != Some(&table) || !gone.is_empty()) {
                let (at, if_epoch) = (at.clone(), homes.epoch());
                self.command(Command::SetHomes { at, table: table.clone(), if_epoch, gone });
            }
        }
    }

    /// Why an orchestrator that joins cannot serve yet: others do not know it as a place, or it not the others.
    pub(in crate::manage) fn waits_for_homes(&self, at: &ResourceName, sight: &Sight) -> Option<String> {
        let why = match self.homes_state(sight) {
            HomesState::Unkept => return None,
            HomesState::Waiting(why) => why,
            HomesState::Changing(_) | HomesState::Agreed(_) => "it does not have the table of homes yet".to_owned(),
        };
        let homes = sight.orchestrators.get(at).and_then(|view| view.homes.as_ref());
        let known = homes.and_then(|homes| homes.table.as_ref()).is_some_and(|table| table.places.contains_key(at));
        (!known).then(|| format!("{at}: {why}"))
    }
}

/// The first table: all partitions stay with the orchestrator that has served for longest.
fn first(members: &[&Member], views: &Views<'_>, sight: &Sight) -> HomesState {
    let there: Vec<&&Member> = members.iter().filter(|member| member.phase != Phase::Pending).collect();
    let Some(home) = there.iter().min_by_key(|member| (member.phase != Phase::Serving, member.order)) else {
        return HomesState::Unkept;
    };
    if there.len() < 2 {
        return HomesState::Unkept;
    }
    // One that does not answer may serve all clients, or have a table.
    if let Some(silent) = there.iter().find(|member| !views.contains_key(&member.wanted.name)) {
        return HomesState::Waiting(format!("{} does not answer, and may have a table of homes", silent.wanted.name));
    }
    let names = there.iter().map(|member| &member.wanted.name);
    let places = names.filter_map(|name| Some((name.clone(), place(name, sight)?))).collect();
    HomesState::Changing(HomesTable { epoch: 1, places, homes: vec![home.wanted.name.clone(); PARTITIONS] })
}

/// The places of the current table, with their newest addresses, and of new orchestrators.
fn places(
    newest: &HomesTable,
    members: &[&Member],
    views: &Views<'_>,
    sight: &Sight,
) -> BTreeMap<ResourceName, HomePlace> {
    let mut places = newest.places.clone();
    for (name, known) in &mut places {
        if let Some(place) = place(name, sight) {
            *known = place;
        }
    }
    let serves = |member: &&&Member| matches!(member.phase, Phase::Joining | Phase::Serving);
    let come = members.iter().filter(serves).map(|member| &member.wanted.name);
    for name in come.filter(|name| views.contains_key(*name)) {
        if let Some(place) = place(name, sight) {
            places.insert(name.clone(), place);
        }
    }
    places
}

/// The home of each partition, by the states of their homes.
fn merged(newest: &HomesTable, views: &Views<'_>) -> Vec<ResourceName> {
    let word = |name: &ResourceName| views.get(name).and_then(|view| view.table.as_ref());
    let home = |(partition, stated): (u16, &ResourceName)| {
        let claims = views.iter().filter_map(|(name, view)| Some((*name, view.table.as_ref()?)));
        let own = claims.filter(|(name, table)| table.home(partition) == Some(name));
        if let Some((name, _)) = own.max_by_key(|(_, table)| table.epoch) {
            return name.clone();
        }
        // The supposed home's own table decides if it names another home, which does not answer.
        let better = word(stated).and_then(|table| table.home(partition)).filter(|name| word(name).is_none());
        better.unwrap_or(stated).clone()
    };
    (0..).zip(&newest.homes).map(home).collect()
}

/// Where an orchestrator is, when it can be a place.
fn place(name: &ResourceName, sight: &Sight) -> Option<HomePlace> {
    let resource = &sight.resource(name)?.resource;
    let (mqtt, admin) = (&resource.address, resource.admin.as_ref()?);
    Some(HomePlace {
        mqtt: mqtt.strip_prefix("mqtt://").unwrap_or(mqtt).to_owned(),
        relay: resource.relay.clone()?,
        admin: admin.strip_prefix("http://").unwrap_or(admin).trim_end_matches('/').to_owned(),
    })
}
