//! Messages of groups on their way to members of other shards, and back.

use crate::link::exchange_word::ExchangeName;
use crate::link::record::GroupName;

/// The data of a message that is returned to be dealt again: see [`Record::Return`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Returned<'a> {
    pub group: GroupName<'a>,
    pub not_to: u32,
    pub of: u64,
    pub id: u64,
    pub client: u64,
    /// The name of its exchange, if a former home of the group passes it on.
    pub name: Option<ExchangeName>,
}
