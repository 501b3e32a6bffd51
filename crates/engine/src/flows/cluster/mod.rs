//! Flows between shards and nodes.

pub(crate) mod again;
pub(crate) mod asked_to_wait;
pub(crate) mod cuts;
pub(crate) mod dealt_before;
pub(crate) mod ending;
pub(crate) mod exchanges;
pub(crate) mod finish;
pub(crate) mod marks;
pub(crate) mod outgoing;
pub(crate) mod peering;

use crate::cluster::WELCOME_INDEX;
use crate::cluster::outgoing::OUTGOING_INDEX;
use crate::cluster::roster::Roster;
use crate::durable::RESTORING_INDEX;
use crate::flows::subscribe::subscribing::Subscribing;
use crate::now::Now;
use crate::retained::strays::STRAY_INDEX;

const _: () = assert!(
    WELCOME_INDEX != RESTORING_INDEX
        && OUTGOING_INDEX < WELCOME_INDEX
        && OUTGOING_INDEX < RESTORING_INDEX
        && STRAY_INDEX < OUTGOING_INDEX,
    "each kind of ticket has an index of its own"
);

impl Subscribing<'_> {
    /// Gives members of shared groups their seats where the groups are dealt for now.
    pub(crate) fn reseat_members(&mut self, now: Now, old: &Roster) {
        let mut moved = Vec::new();
        for (key, session) in self.desk.sessions.iter() {
            for membership in session.rare.iter().flat_map(|rare| &rare.memberships) {
                if old.home_of(membership.partition) != self.links.roster.home_of(membership.partition) {
                    moved.push((crate::ids::SessionKey(key), membership.clone()));
                }
            }
        }
        for (key, membership) in moved {
            self.take_seat_anew(now, key, &membership);
        }
    }
}
