//! Nodes and their groups, as a restart finds them.

use crate::now::{Millis, Now};
use crate::session::{Session, Standing};
use crate::settings::Settings;

/// A bit of the options of a stored subscription that no subscription has: what stands in the place of its filter is
/// the name of a group that a node is in.
pub(crate) const NODE_GROUP: u8 = 1 << 4;

/// What a group's name is stored behind. No topic filter has this character ([MQTT-4.7.3-2]), so that a node that has
/// subscribed to a filter of the same text has both.
const GROUP_MARK: char = '\0';

/// What stands in the place of a filter for a group of nodes.
pub(crate) fn stored_group(name: &str) -> String {
    format!("{GROUP_MARK}{name}")
}

/// The name of the group that stands in the place of a filter.
pub(crate) fn group_of_stored(filter: &str) -> &str {
    filter.strip_prefix(GROUP_MARK).unwrap_or(filter)
}

impl Settings {
    /// Makes a session of another place one of this place, whose settings may be others: how long a mailbox lasts is
    /// said here, and without addresses what is kept for a node is a client's session that lasts as long.
    pub(crate) fn fit_standing(&self, now: Now, session: &mut Session) {
        let ends_at = session.rare.as_ref().and_then(|rare| rare.ends_at);
        match (&self.addresses, session.standing) {
            (_, Standing::Client) | (Some(_), Standing::Node) => {}
            (None, _) => {
                session.standing = Standing::Client;
                session.expiry_seconds = if ends_at.is_some() { session.expiry_seconds.max(1) } else { u32::MAX };
            }
            (Some(addresses), Standing::Mailbox) => {
                let until = addresses.mailbox_ends_at(now.monotonic);
                let ends_at = (until != Millis::NEVER).then(|| ends_at.unwrap_or(until));
                session.rare_mut().ends_at = ends_at;
            }
        }
    }
}
