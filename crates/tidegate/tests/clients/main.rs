//! `tidegate pub`, `sub` and `rr` as scripts use them: against our broker (or the one at `TIDEGATE_TEST_BROKER`,
//! HOST:PORT), against Mosquitto where it is installed, and against servers that misbehave.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test may stop at the first surprise"
)]

mod misbehaving;
mod scripts;
mod target;
mod tool;
