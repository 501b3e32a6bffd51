//! Groups by context (`CTX-58` to `CTX-60`). Definers assign nodes to groups, each by its own rules. Gateways keep the
//! last statement of each definer, and a node is in all groups that any definer puts it in.

mod definition;
mod file;
mod geofence;
mod members;
mod rule;
mod set;
mod table;

pub use definition::{Definition, DefinitionError, Group, MAX_GROUPS, is_group_name};
pub use file::{GroupsFileError, read_groups};
pub use geofence::{Circle, GeofenceError, MAX_CORNERS, Polygon, Position};
pub use members::{AdvertisementRefused, MAX_DEFINERS, MAX_MEMBER_NODES, MembershipChange, Memberships};
pub use rule::{PositionFields, Rule, Threshold};
pub use set::GroupSet;
pub use table::{ContextRefused, MAX_CONTEXT_BYTES, MAX_NODES, NodeTable, TableCounters};
