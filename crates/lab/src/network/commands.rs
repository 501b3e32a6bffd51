//! Commands of iproute2.

use std::process::{Command, Stdio};

use super::shaper::QUEUE_BYTES;
use super::{Network, NetworkError};

/// Maximum number of packets in netem: delayed and queued ones.
const UNDER_WAY: &str = "1000000";

/// Runs a command whose words contain no spaces.
pub(super) type Run<'a> = &'a mut dyn FnMut(&str) -> Result<(), NetworkError>;

/// Runs a command of words that have no spaces in them.
pub(super) fn run(command: &str) -> Result<(), NetworkError> {
    let failed = |message: String| NetworkError::Command { command: command.to_owned(), message };
    let mut words = command.split_ascii_whitespace();
    let program = tidegate_proc::program::find(words.next().unwrap_or_default());
    let program = program.ok_or_else(|| failed("it is not installed".to_owned()))?;
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(format!("{}: {}", output.status, said.trim().replace('\n', " "))))
}

/// The queueing discipline of the kernel for packets that leave by this end of the link, and its name in reports.
pub(super) fn discipline(network: &Network) -> Option<(String, &'static str)> {
    if network.disturbs() {
        return Some((netem(network), "netem"));
    }
    let rate = network.rate?.0;
    // As much at once as the kernel's timer lets through in one of its ticks, 4 ms at most.
    let burst = (rate / 8 / 250).max(20_000);
    Some((format!("tbf rate {rate}bit burst {burst} limit {QUEUE_BYTES}"), "tbf"))
}

fn netem(network: &Network) -> String {
    let (delay, jitter) = (network.delay.0.as_micros(), network.jitter.0.as_micros());
    let parts = [
        Some(format!("netem limit {UNDER_WAY}")),
        (delay > 0).then(|| format!("delay {delay}us")),
        (jitter > 0).then(|| format!("{jitter}us")),
        (network.loss > 0.0).then(|| format!("loss {}%", network.loss)),
        network.rate.map(|rate| format!("rate {}bit", rate.0)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Option<(String, &'static str)> {
        discipline(&toml::from_str(text).unwrap())
    }

    #[test]
    fn the_kernel_gets_the_settings_of_the_scenario() {
        assert_eq!(words(""), None);
        let tbf = "tbf rate 100000000bit burst 50000 limit 1500000".to_owned();
        assert_eq!(words("rate = '100Mbit'"), Some((tbf, "tbf")));
        let netem = "netem limit 1000000 delay 20000us 2000us loss 1.5% rate 1000000bit".to_owned();
        assert_eq!(words("delay = '20ms'\njitter = '2ms'\nloss = 1.5\nrate = '1Mbit'"), Some((netem, "netem")));
    }

    #[test]
    fn the_output_of_a_command_is_in_the_error() {
        let error = run("ls /no/such/directory").unwrap_err().to_string();
        assert!(error.contains("ls /no/such/directory") && error.contains("No such file"), "{error}");
        assert!(run("no-such-program x").unwrap_err().to_string().contains("not installed"));
    }
}
