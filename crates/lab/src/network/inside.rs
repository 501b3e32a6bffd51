//! The process that holds a broker's network namespace.

use std::fs::{self, File};
use std::io::{self, BufRead, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};

use super::commands::{Run, discipline, run};
use super::{Network, NetworkError, carry, tun};

/// The link's end in the namespace.
const INNER: &str = "broker";

/// Interval of searches for processes that are left.
const ROUNDS: u32 = 1_000;

/// The request of the lab, on the first line of the standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) network: Network,
    /// The address of the lab's end.
    pub(super) outer: Ipv4Addr,
    /// That of the broker's end.
    pub(super) inner: Ipv4Addr,
    /// A process in the namespace in which the lab's end is to be.
    pub(super) lab: u32,
    pub(super) seed: u64,
}

/// Its answer, on a line of the standard output.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    /// The lab's end.
    pub(super) device: String,
    /// Whether the kernel carries packets, and the lab has to set up its own end.
    pub(super) by_kernel: bool,
}

/// Makes this process's network namespace a broker's, one link away from the lab, until the input ends; then kills what
/// runs there. This process has to be the first in its namespace.
///
/// # Errors
/// When the system refuses.
pub fn hold(mut input: impl BufRead, mut output: impl Write) -> Result<(), NetworkError> {
    let mut line = String::new();
    input.read_line(&mut line).map_err(NetworkError::io("read the request"))?;
    let wrong = |error: serde_json::Error| NetworkError::Holder(error.to_string());
    let asked: Asked = serde_json::from_str(&line).map_err(wrong)?;
    if let Some(backlog) = asked.network.backlog {
        // Each network namespace has its own.
        fs::write("/proc/sys/net/core/somaxconn", backlog.to_string()).map_err(NetworkError::io("set the backlog"))?;
    }
    let device = format!("tgl{}", std::process::id());
    let by_kernel = make(&asked, &device, &mut run)?;
    let answer = serde_json::to_string(&Answer { device, by_kernel }).map_err(wrong)?;
    writeln!(output, "{answer}").and_then(|()| output.flush()).map_err(NetworkError::io("answer"))?;
    // No further message follows; this ends with the lab.
    io::copy(&mut input, &mut io::sink()).map_err(NetworkError::io("wait for the lab"))?;
    kill_all_here();
    if by_kernel { run(&format!("ip link del {INNER}")) } else { Ok(()) }
}

/// Makes the link and this end of it; whether the kernel carries packets.
fn make(asked: &Asked, device: &str, run: Run<'_>) -> Result<bool, NetworkError> {
    run("ip link set lo up")?;
    let by_kernel = !asked.network.disturbs() || has_netem(run);
    if by_kernel {
        run(&format!("ip link add {INNER} type veth peer name {device} netns {}", asked.lab))?;
    } else {
        by_program(asked, device)?;
    }
    configure(INNER, asked.inner, asked.outer, run)?;
    if by_kernel {
        shape(INNER, &asked.network, run)?;
    }
    Ok(by_kernel)
}

/// Gives an end its address and takes it up. Packets are as large as in a real network: losses and delays apply to one
/// packet each.
pub(super) fn configure(device: &str, own: Ipv4Addr, other: Ipv4Addr, run: Run<'_>) -> Result<(), NetworkError> {
    run(&format!("ip addr add {own} peer {other} dev {device}"))?;
    run(&format!("ip link set {device} mtu 1500 gso_max_segs 1 up"))
}

/// Gives a device the queueing discipline of the network.
pub(super) fn shape(device: &str, network: &Network, run: Run<'_>) -> Result<(), NetworkError> {
    discipline(network).map_or(Ok(()), |(words, _)| run(&format!("tc qdisc add dev {device} root {words}")))
}

/// Whether this kernel has netem: tried on this namespace's own loopback.
fn has_netem(run: Run<'_>) -> bool {
    run("tc qdisc add dev lo root netem delay 1us").is_ok() && run("tc qdisc del dev lo root").is_ok()
}

/// Carries packets between a device here and one where the lab is.
fn by_program(asked: &Asked, device: &str) -> Result<(), NetworkError> {
    let namespace = |path: String| File::open(path).map_err(NetworkError::io("open a network namespace"));
    let here = namespace("/proc/thread-self/ns/net".to_owned())?;
    let there = namespace(format!("/proc/{}/ns/net", asked.lab))?;
    let go = |to: &File| {
        let gone = move_into_link_name_space(to.as_fd(), Some(LinkNameSpaceType::Network));
        gone.map_err(|error| NetworkError::io("enter a network namespace")(error.into()))
    };
    go(&there)?;
    let outer = tun::open(device).map_err(NetworkError::NoTun);
    // Back, also without a device: the inner end is cleaned up from here.
    go(&here)?;
    let (outer, inner) = (outer?, tun::open(INNER).map_err(NetworkError::NoTun)?);
    carry::both_ways(outer, inner, asked.network, asked.seed).map_err(NetworkError::io("start a thread"))
}

/// Kills every other process in this namespace: only processes of the run are in it.
fn kill_all_here() {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let Some(own) = namespace("self") else { return };
    // Again, for processes spawned by a process before it was killed.
    for _ in 0..ROUNDS {
        let Ok(entries) = fs::read_dir("/proc") else { return };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let here = names.filter(|name| namespace(name).is_some_and(|theirs| theirs == own));
        let pids = here.filter_map(|name| name.parse::<i32>().ok());
        let others: Vec<i32> = pids.filter(|pid| u32::try_from(*pid) != Ok(std::process::id())).collect();
        if others.is_empty() {
            return;
        }
        for pid in others.into_iter().filter_map(Pid::from_raw) {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands by which both ends of a link are made where the kernel has netem.
    fn recorded(network: &str) -> Vec<String> {
        let network: Network = toml::from_str(network).unwrap();
        let (outer, inner) = (Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2));
        let asked = Asked { network, outer, inner, lab: 7, seed: 1 };
        let mut commands = Vec::new();
        let mut run = |command: &str| {
            commands.push(command.to_owned());
            Ok(())
        };
        assert!(make(&asked, "tgl9", &mut run).unwrap());
        configure("tgl9", outer, inner, &mut run).unwrap();
        shape("tgl9", &network, &mut run).unwrap();
        commands
    }

    // The meaning of these words was read off the netlink messages that tc (iproute2 6.1) makes of them: a
    // latency of 20 ms and a jitter of 2 ms in ticks of 64 ns, 1,000,000 packets, a loss of 0.015 × 2^32, and 125,000
    // bytes in a second.
    #[test]
    fn netem_is_tried_first_and_then_set_at_both_ends() {
        let netem = "root netem limit 1000000 delay 20000us 2000us loss 1.5% rate 1000000bit";
        assert_eq!(
            recorded("delay = '20ms'\njitter = '2ms'\nloss = 1.5\nrate = '1Mbit'"),
            [
                "ip link set lo up",
                "tc qdisc add dev lo root netem delay 1us",
                "tc qdisc del dev lo root",
                "ip link add broker type veth peer name tgl9 netns 7",
                "ip addr add 198.18.0.2 peer 198.18.0.1 dev broker",
                "ip link set broker mtu 1500 gso_max_segs 1 up",
                &format!("tc qdisc add dev broker {netem}"),
                "ip addr add 198.18.0.1 peer 198.18.0.2 dev tgl9",
                "ip link set tgl9 mtu 1500 gso_max_segs 1 up",
                &format!("tc qdisc add dev tgl9 {netem}"),
            ]
        );
    }

    #[test]
    fn a_network_that_disturbs_nothing_needs_no_netem() {
        let commands = recorded("rate = '100Mbit'");
        let tc: Vec<&str> = commands.iter().map(String::as_str).filter(|command| command.starts_with("tc")).collect();
        let tbf = "root tbf rate 100000000bit burst 50000 limit 1500000";
        assert_eq!(tc, [format!("tc qdisc add dev broker {tbf}"), format!("tc qdisc add dev tgl9 {tbf}")]);
        assert!(!recorded("").iter().any(|command| command.starts_with("tc")));
    }
}
