//! A disk of the store whose files are on the bus, so that another node can go on with them.
//!
//! ```text
//! let mirror = open(&bus, Settings::new("node-1", directory)?)?;   // who had the files before can confirm nothing any more
//! let opened = tidegate_store::open(mirror.disk.clone(), settings, sweep)?;
//! ...                                                              // a sync returns when the bus has confirmed it
//! mirror.disk.close(patience);
//! ```
//!
//! Every change of a file is a record in a log with one fenced owner, in the order in which the changes were made, so
//! that what the log has is always what a disk may have after power loss: all that was synced, and some of what was
//! not. The directory is a working copy: it is read, and proven by checksums and used again when the node starts where
//! it was. `docs/store.md` has the whole of it.
//!
//! - `disk` is what the store sees; `local`, `files` and `extents` are the files here and on the bus; `record` is a
//!   record.
//! - `carrier` and `line` carry records in one order and wait for confirmations; `mend` goes on after an outage or a
//!   fence.
//! - `open` and `replay` make the directory what the log has; `house` keeps the log short; `fetch` is for another node.

mod ask;
mod carrier;
mod disk;
mod error;
mod extents;
mod fetch;
mod files;
mod house;
mod line;
mod local;
mod mend;
mod open;
mod record;
mod refill;
mod replay;
mod settings;

pub use disk::{MirrorDisk, MirrorStatus};
pub use error::{Lost, MirrorError};
pub use fetch::fetch;
pub use local::is_copy;
pub use open::{OpenReport, OpenedMirror, open};
pub use settings::{OnLost, Settings, log_of};
