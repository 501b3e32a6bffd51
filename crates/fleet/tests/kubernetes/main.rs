//! The provider and the manager against a real kube-apiserver with simulated nodes. e2e/kubernetes/run.sh prepares it
//! and runs these tests; `TIDEGATE_KUBERNETES` names the directory with its credentials.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod cluster;
mod managing;
mod orchestrator;
mod providing;
