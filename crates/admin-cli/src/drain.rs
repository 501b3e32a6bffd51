//! `tidegate drain`: sends the clients of an orchestrator or a broker elsewhere and waits until it may go.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use tidegate_admin::cluster::{ClusterStatus, GetCluster, SetShare};
use tidegate_admin::{ClientError, DrainRequest, EndDrain, GetDrain};

use crate::admin_client::{AdminArgs, AdminError};
use tidegate_terminal::{Exit, print_and_exit, report};
use tidegate_units::duration;

const EXAMPLES: &str = "\
Examples:
  tidegate drain                                     of the orchestrator on this machine
  tidegate drain --per-second 100 --limit 5m
  tidegate drain --token-file /etc/tidegate/token --server-reference mqtt.example.com:1883
  tidegate drain --end                               takes clients again

A member of a cluster first hands its partitions over to other members that take some. Then the
orchestrator takes no new clients, sends MQTT 5 clients to the server reference (0x9C) and closes the
others, at a limited rate per second. A broker without an orchestrator does the same with its clients. It takes
clients again after `--end` or a restart. The command ends with exit code 0 when no client is left and nothing is
owed but messages in the store for clients that are away, and with 1 after the limit. It may be
repeated, also while another command drains the same orchestrator. A preStop hook of Kubernetes can
call it. More: docs/kubernetes.md.";

/// The end of the answer: the state that a drain leaves behind.
const REFUSING: &str = "new clients are refused until `tidegate drain --end` or a restart";

/// Time between two questions how far it is.
const LOOK: Duration = Duration::from_millis(500);
/// Answers in a row that may be missing: a busy orchestrator still answers, a stopped one never does.
const MAX_SILENCE: u32 = 5;

/// The flags of `tidegate drain`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "Send the clients of an orchestrator or a broker elsewhere and wait until it owes nothing", after_help = EXAMPLES)]
pub struct Args {
    /// Clients that are sent away per second
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    per_second: u32,

    /// The Server Reference for MQTT 5 clients
    #[arg(long, value_name = "HOST:PORT")]
    server_reference: Option<String>,

    /// Give up after this time; clients stay away all the same
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::read_flag)]
    limit: Duration,

    /// End the drain: clients are taken again, and a member of a cluster takes partitions again
    #[arg(long, conflicts_with_all = ["per_second", "server_reference", "limit"])]
    end: bool,

    #[command(flatten)]
    admin: AdminArgs,
}

/// Hands over partitions, drains, and waits; or ends a drain.
pub fn run(args: &Args) -> Exit {
    if args.end {
        return match end(&args.admin) {
            Ok(()) => print_and_exit("the drain has ended; clients are taken again\n", Exit::Ok),
            Err(error) => {
                report(&error);
                Exit::Failure
            }
        };
    }
    let until = Instant::now().checked_add(args.limit);
    let begun = args.admin.send(&GetDrain);
    if let Err(error) = begun {
        report(&error);
        return Exit::Failure;
    }
    if let Err(failure) = hand_over(args, until) {
        return failure;
    }
    drain(args, until)
}

/// Ends a drain; a member that was handing over its partitions takes some again.
fn end(admin: &AdminArgs) -> Result<(), AdminError> {
    admin.send(&EndDrain)?;
    if cluster(admin)?.is_some_and(|status| status.member && status.leaving) {
        admin.send(&SetShare { wanted: true })?;
    }
    Ok(())
}

/// The state of the cluster, if there is one.
fn cluster(admin: &AdminArgs) -> Result<Option<ClusterStatus>, AdminError> {
    match admin.send(&GetCluster) {
        Ok(status) => Ok(Some(status)),
        Err(AdminError::Client(ClientError::Refused { status: 404 | 409, .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Asks the member to hand over its partitions, and waits until it has none: a drained member would refuse their clients.
fn hand_over(args: &Args, until: Option<Instant>) -> Result<(), Exit> {
    let mut silence = 0;
    // No sender exists: the time limit is the pause.
    let (_never, nothing) = mpsc::channel::<()>();
    loop {
        match ask_to_hand_over(&args.admin) {
            Ok(None) => return Ok(()),
            Ok(Some(left)) if until.is_some_and(|until| Instant::now() >= until) => {
                report(&format_args!("not handed over within {}: {left}", duration::show_length(args.limit)));
                return Err(Exit::Failure);
            }
            Ok(Some(_)) => silence = 0,
            Err(error) => {
                silence += 1;
                if silence >= MAX_SILENCE {
                    report(&error);
                    return Err(Exit::Failure);
                }
            }
        }
        let _ = nothing.recv_timeout(LOOK);
    }
}

/// Asks a member to hand over its partitions. Returns the rest to hand over.
fn ask_to_hand_over(admin: &AdminArgs) -> Result<Option<String>, AdminError> {
    let Some(status) = cluster(admin)? else { return Ok(None) };
    // A manager that does not know of the removal yet may have asked for the opposite meanwhile.
    if status.member && !status.leaving {
        admin.send(&SetShare { wanted: false })?;
    }
    Ok(left_to_hand_over(&status))
}

/// A member's partitions and moves to hand over, as far as others take them.
fn left_to_hand_over(status: &ClusterStatus) -> Option<String> {
    let has_heirs = status.nodes.iter().any(|node| node.name != status.name && !node.leaving);
    if !status.member || !has_heirs {
        return None;
    }
    let own = status.nodes.iter().find(|node| node.name == status.name).map_or(0, |node| node.partitions);
    match (own, status.passing) {
        (0, 0) if status.leaving => None,
        (own, passing) => Some(format!("{own} partitions are here, and {passing} moves still forward messages")),
    }
}

fn drain(args: &Args, until: Option<Instant>) -> Exit {
    let request = DrainRequest {
        server_reference: args.server_reference.clone(),
        per_second: args.per_second,
        ..DrainRequest::default()
    };
    // A running drain continues as it is: it may know a better server reference.
    let begun = match args.admin.send(&GetDrain) {
        Ok(status) if status.draining => Ok(()),
        Ok(_) => args.admin.send(&request).map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = begun {
        report(&error);
        return Exit::Failure;
    }
    wait(args, until)
}

fn wait(args: &Args, until: Option<Instant>) -> Exit {
    let mut silence = 0;
    // No sender exists: the timeout is the pause between two questions.
    let (_never, nothing) = mpsc::channel::<()>();
    loop {
        match args.admin.send(&GetDrain) {
            Ok(left) if left.is_drained() && left.kept == 0 => {
                return print_and_exit(&format!("drained; {REFUSING}\n"), Exit::Ok);
            }
            Ok(left) if left.is_drained() => {
                let kept = left.kept;
                let text =
                    format!("drained; {kept} messages stay in the store for clients that are away; {REFUSING}\n");
                return print_and_exit(&text, Exit::Ok);
            }
            Ok(left) if until.is_some_and(|until| Instant::now() >= until) => {
                report(&format_args!(
                    "not drained within {}: {} clients are left and {} messages are owed, {} of them in the store \
                     for clients that are away",
                    duration::show_length(args.limit),
                    left.clients,
                    left.owed,
                    left.kept
                ));
                return Exit::Failure;
            }
            Ok(_) => silence = 0,
            Err(error) => {
                silence += 1;
                if silence >= MAX_SILENCE {
                    report(&error);
                    return Exit::Failure;
                }
            }
        }
        let _ = nothing.recv_timeout(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use tidegate_admin::cluster::ClusterMember;

    use super::*;

    fn status(own: usize, passing: u64, other_leaves: bool) -> ClusterStatus {
        let node = |name: &str, partitions, leaving| ClusterMember { name: name.to_owned(), partitions, leaving };
        ClusterStatus {
            name: "a".to_owned(),
            member: true,
            leaving: true,
            passing,
            nodes: vec![node("a", own, true), node("b", 64 - own, other_leaves)],
            ..ClusterStatus::default()
        }
    }

    #[test]
    fn a_drain_waits_until_all_partitions_are_handed_over() {
        for (own, passing) in [(3, 0), (0, 1)] {
            let left = left_to_hand_over(&status(own, passing, false)).unwrap();
            assert!(left.starts_with(&format!("{own} partitions are here, and {passing} moves")), "{left}");
        }
        assert_eq!(left_to_hand_over(&status(0, 0, false)), None);
        let unasked = ClusterStatus { leaving: false, ..status(0, 0, false) };
        assert!(left_to_hand_over(&unasked).is_some(), "the table may give it some yet");
    }

    #[test]
    fn a_drain_hands_nothing_over_without_a_taker() {
        assert_eq!(left_to_hand_over(&status(64, 0, true)), None, "all members leave");
        assert_eq!(left_to_hand_over(&ClusterStatus { member: false, ..status(3, 0, false) }), None);
        assert_eq!(left_to_hand_over(&ClusterStatus::default()), None);
    }
}
