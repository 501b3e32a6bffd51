//! A disk of the store whose files are on the bus, so that another node can go on with them.
//!
//! ```text
//! let mirror = open(&bus, Settings::new("node-1", directory)?)?;   // the previous owner can confirm no more records
//! let opened = tidegate_store::open(mirror.disk.clone(), settings, sweep)?;
//! ...                                                              // a sync returns when the bus has confirmed it
//! mirror.disk.close(patience);
//! ```
//!
//! Every change of a file is a record in a log with one fenced owner, in the order of the changes. So the log always
//! has a content that a disk may have after power loss: all synced bytes, and some others. The directory is a working
//! copy: it is read, and used again after a restart once its checksums agree. `docs/store.md` has the details.
//!
//! - `disk` is the store's interface; `local`, `files` and `extents` are the files here and on the bus; `record` is a
//!   record.
//! - `carrier` and `send_queue` carry records in one order and wait for confirmations; `mend` resumes after an outage
//!   or a fence.
//! - `membership` decides which fences are for this process.
//! - `open` and `replay` bring the directory to the state of the log; `compaction` keeps the log short; `fetch` is for
//!   another node.

mod ask;
mod carrier;
mod compaction;
mod disk;
mod error;
mod extents;
mod fetch;
mod files;
pub mod kept_file;
mod local;
mod membership;
mod mend;
mod open;
mod record;
mod refill;
mod replay;
mod send_queue;
mod settings;

pub use disk::{MirrorDisk, MirrorStatus};
pub use error::{Damage, Lost, MirrorError};
pub use fetch::fetch;
pub use local::{is_copy, is_fenced};
pub use open::{OpenReport, OpenedMirror, open};
pub use settings::{OnLost, Settings, log_of};
