//! One file per command of this crate.

#[cfg(feature = "lab")]
pub(crate) mod lab;
#[cfg(any(
    test,
    not(all(
        feature = "pipelines",
        feature = "fleet",
        feature = "lab",
        feature = "mobile",
        feature = "admin",
        feature = "clients"
    ))
))]
pub(crate) mod left_out;
pub(crate) mod orchestrator;
pub(crate) mod run;
