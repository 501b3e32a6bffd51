//! The table of partitions and nodes of a cluster.
//!
//! All of it is pure: no clock, no bus, no socket. One node, the *leader*, looks at who lives ([`Seen`]) and says by
//! [`decide`] which [`Table`] comes next; every node reads the tables in their order and gets its steps from a
//! [`Follower`]. The transport of tables, the choice of the leader and the images of partitions are the caller's.
//! `docs/cluster.md` tells the whole of it.
//!
//! Three things hold whatever dies, is late or returns (`tests/simulation/`):
//!
//! 1. No two nodes serve a partition at one time. A partition changes its node only when the former node does not
//!    serve it any more: it has said so (a move), its lease has run out, or the bus takes nothing from it any more (a
//!    fence).
//! 2. A node that is not a member serves nothing.
//! 3. When nothing happens any more, every partition is served, the shares are even, and nothing moves.

mod advert;
mod apart;
mod balance;
mod decide;
mod doubt;
mod follow;
mod recover;
mod returned;
mod seen;
mod settle;
mod table;
mod watch;
mod weighing;

pub use advert::{Addresses, Advert, GROUP_VERSION, MemberKind, Weight};
pub use balance::MOVE_AT_ONCE;
pub use decide::{decide, deputy};
pub use doubt::{DOUBT_LIMIT, Doubts, Sign};
pub use follow::{Follower, Standing, Step};
pub use recover::{Logged, Next, next};
pub use seen::{Seen, Sighting};
pub use settle::{SETTLE_LIMIT, Settling};
pub use table::homes::Homes;
pub use table::record::{EARLIER_PARTITIONS, parts_of_earlier};
pub use table::{Factor, Former, Home, Move, PARTITIONS, RecordError, Table};
pub use watch::{DIFFERENCE_LIMIT, LONGEST_SAVE, PartitionDifference, SHORTEST_BOUND, Sight, Watchdog};
pub use weighing::{Burden, PARTITIONS_PER_CHANGE, Weighing, WeighingSettings};
