//! Keys and values on a disk that survive `kill -9`, power loss and a full disk.
//!
//! Several writers submit batches of operations. One journal takes them in one total order, a group of batches with one
//! `fdatasync`, and reports to each writer how far it is committed. In the background, closed files of the journal are
//! merged into one sorted table. The store does not interpret its keys.
//!
//! ```text
//! let disk = Arc::new(RealDisk::create(path)?);
//! let Opened { store, report } = open(disk, Settings::default(), keep_all())?;
//! store.for_each(&mut |key, value| ...)?;                    // everything, in ascending order of the keys
//! let running = store.start(|writer: u16, sequence: u64| ...)?; // threads; called back after each group
//! let writer = running.writer(0);
//! writer.submit(1, batch)?;                                   // committed when (0, 1) or (0, higher) is reported
//! running.reader().load(from, to, max_bytes, Box::new(|loaded| ...));
//! running.status().is_full();
//! running.stop();
//! ```
//!
//! - From outside: `store`, [`operation`] (batches), `settings`, `status`, [`inspect`] (a store at rest).
//! - On the disk: `disk` (the seam, real and simulated), `journal`, `table`, `manifest`, `catalog` (which files are in
//!   use).
//! - Behaviour: `journal_writer` (groups), `threads` (they wait and call), `recovery` (a start), `merge` with `pace`, `room` and `sweep`
//!   (policies), `load` (reads while it runs), `reserve` (space for a full disk).

pub mod inspect;
pub mod operation;

mod catalog;
mod commits;
mod disk;
mod error;
mod journal;
mod journal_writer;
mod load;
mod manifest;
mod merge;
mod pace;
mod recovery;
mod reserve;
mod room;
mod settings;
mod state;
mod status;
mod store;
mod sweep;
mod table;
mod threads;

pub use commits::Commits;
pub use disk::{Disk, DiskFile, Failure, LockError, LockGuard, RealDisk, SimulatedDisk};
pub use error::{Fenced, OpenError, ReadError, SubmitError, with_directory};
pub use load::{LoadCallback, Loaded};
pub use merge::MergeError;
pub use operation::{Operation, OperationError, Operations};
pub use recovery::{RecoveryReport, Torn};
pub use settings::{Durability, Settings};
pub use state::State;
pub use status::{SYNC_BOUNDS_MICROSECONDS, Status};
pub use store::{Opened, Reader, Running, Stepped, Store, Visit, Writer, open};
pub use sweep::{Sweep, SweepFactory, keep_all};
pub use threads::UNAWAITED_WAIT;
