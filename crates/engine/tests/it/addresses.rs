//! Mobile nodes and their addresses.

use tidegate_engine::{AddressSettings, MembershipChange, MembershipOutcome, Settings, TenantId};
use tidegate_mqtt::QoS::{self, AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::ReasonCode;

use crate::harness::*;

mod leaving;
mod mailbox;
mod names;
mod priority;
mod receipts;
mod weather;

/// Everybody may publish to everybody.
pub(super) fn open(settings: &mut Settings) {
    settings.addresses = Some(AddressSettings { guarded: false, ..AddressSettings::default() });
}

/// Puts a node into groups and takes it out of others, at its home.
fn change(world: &World, client_id: &str, add: &[&str], remove: &[&str]) -> MembershipOutcome {
    let change = MembershipChange {
        tenant: TenantId::DEFAULT,
        client_id: client_id.to_owned(),
        add: add.iter().map(|name| (*name).to_owned()).collect(),
        remove: remove.iter().map(|name| (*name).to_owned()).collect(),
    };
    let home = world.home_of(client_id);
    let outcome = world.engine(home, |engine, now| engine.insiders().change_membership(now, &change));
    world.run();
    outcome
}
