//! Taxi positions in the format of the study's data set (CRAWDAD roma/taxi), which must not be redistributed: records
//! of one's own copy become a [`Trace`](super::Trace), and similar records can be generated.
//!
//! A line is `156;2014-02-01 00:00:00.739166+01;POINT(41.8836718276551 12.4877775603346)`: the taxi, which is the topic
//! (BRK-45); when; where. Latitude comes *first*, fractions of a second have as many digits as they need, the zone has
//! no minutes, and there is no line of names.

mod calendar;
mod generate;
mod import;
mod record;

pub use generate::{Taxis, TaxisError};
pub use import::{BadLine, Import, ImportError, Imported};
pub use record::{RecordError, TaxiRecord};
