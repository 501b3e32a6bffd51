//! A black-box conformance suite for MQTT brokers.
//!
//! A *case* is a small scenario of one or more raw clients that write exact bytes and read exact packets. It runs in
//! each version of the protocol that it is about, and names the normative statements (`[MQTT-x.x.x-n]`) that it proves.
//! The suite needs nothing but the address of a broker, shares no code with the codec under test, waits for events and
//! never for a guess, and gives every client and topic its own name, so that many cases run at the same time and
//! two runs do not meet.
//!
//! The *manifest* (`manifest.toml`) has a row for every normative statement of MQTT 3.1.1 and 5.0, with its cases or
//! with the reason why it has no case; a test keeps rows and cases in agreement.
//!
//! ```no_run
//! let options = tidegate_conformance::Options::new("127.0.0.1:1883");
//! match tidegate_conformance::run(&options) {
//!     Ok(report) => println!("{}", report.summary()),
//!     Err(error) => println!("{error}"),
//! }
//! ```

mod case;
mod cases;
mod client;
mod journal;
mod manifest;
mod monitor;
mod options;
mod outcome;
mod probe;
mod registry;
mod report;
mod runner;
mod scenario;
mod target;
mod tcp;
mod transport;
mod version;
mod websocket;
mod wire;

pub use case::Case;
pub use manifest::{Binds, Manifest, ManifestError, Row, Status};
pub use options::Options;
pub use outcome::{Outcome, Stop};
pub use probe::Unreachable;
pub use registry::cases;
pub use report::{CaseOutcome, Report, Result, Score};
pub use runner::{run, run_with};
pub use scenario::Scenario;
pub use target::{Feature, Target};
pub use version::{UnknownVersion, Version};
