//! The books of usage: of each tenant, or each user, in each period.
//!
//! [`Reading`] makes differences of counters that start from zero with each process. [`Books`] keep them in a file.

mod books;
mod ledger;
mod name;
mod period;
mod reading;
mod record;

pub use books::{Books, FILE, Payers, USERS_FILE};
pub use ledger::{Bound, Excess, Ledger};
pub use name::{NAME_FILE, lasting_name};
pub use period::{DAYS_KEPT_S, HOURS_KEPT_S, MINUTES_KEPT_S, Period};
pub use reading::{Counted, Present, Reading};
pub use record::{Amounts, Record};
