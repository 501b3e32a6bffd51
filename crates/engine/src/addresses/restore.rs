//! Restores nodes and their groups after a restart.

use crate::now::{Millis, Now};
use crate::session::{Session, Standing};
use crate::settings::Settings;

/// A bit of the options of a stored subscription that no subscription has: the entry names a group of a node instead of
/// a filter.
pub(crate) const NODE_GROUP: u8 = 1 << 4;

/// The mark before a stored name of a group. No topic filter has this character ([MQTT-4.7.3-2]), so a node may have a
/// group and a filter of the same text.
const GROUP_MARK: char = '\0';

/// The stored text of a group, in place of a filter.
pub(crate) fn stored_group(name: &str) -> String {
    format!("{GROUP_MARK}{name}")
}

/// The name of the group that is stored in place of a filter.
pub(crate) fn group_of_stored(filter: &str) -> &str {
    filter.strip_prefix(GROUP_MARK).unwrap_or(filter)
}

impl Settings {
    /// Fits a session from another place to the settings of this place: the lifetime of a mailbox is set here, and
    /// without addresses a node's session is an ordinary client's session with the same end.
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
