//! The ways of the links and of the store to the shards.

use super::StartError;
use crate::clock::Clock;
use crate::cluster::{FromLinks, LinksThread, PreparedLinks, ShardDoor};
use crate::durable::Commits;
use crate::orders::{Admin, ShardSender, ToShard};

/// Starts the links. The only shard of a node works them.
pub(super) fn start_links(
    links: PreparedLinks,
    clock: Clock,
    shards: &[ShardSender],
    alarm: impl Send + 'static,
) -> Result<LinksThread, StartError> {
    let doors = shards.iter().cloned().map(door_of).collect();
    let thread = links.start(clock, doors, alarm).map_err(StartError::LinksThread)?;
    if let [only] = shards {
        only.send(ToShard::WorkLinks(thread.shared()));
    }
    Ok(thread)
}

/// The way of the links to a shard.
fn door_of(inbox: ShardSender) -> ShardDoor {
    ShardDoor::new(move |message| {
        inbox.send(match message {
            FromLinks::Batch(batch) => ToShard::Batch(batch),
            FromLinks::Roster(order) => ToShard::Admin(Admin::Roster(order)),
            FromLinks::News(news) => ToShard::Admin(Admin::PeerNews(news)),
        });
    })
}

/// The way of the store's commits to a shard.
pub(super) fn commits_of(inbox: ShardSender) -> Commits {
    Box::new(move |sequence| inbox.send(ToShard::Committed(sequence)))
}
