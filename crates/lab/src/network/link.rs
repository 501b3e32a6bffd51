//! The lab's side of a broker's network.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tidegate_proc::program::find;

use super::commands::{discipline, run};
use super::inside::{Answer, Asked, configure, shape};
use super::{Network, NetworkError};
use crate::peer::is_root;

/// The command of this program that holds a namespace: `tidegate lab link`.
const HOLD: &str = "link";
/// The first of the addresses that RFC 2544 keeps for measuring (198.18.0.0/15); a link takes four of them.
const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 0]);
/// The maximum number of links.
const LINKS: u32 = 1 << 15;

/// A namespace with a link to it, as long as this value lives.
#[derive(Debug)]
pub struct Link {
    holder: Child,
    inner: Ipv4Addr,
    by: &'static str,
}

impl Link {
    /// Makes one; `executable` is this program, `seed` decides which packets are lost.
    ///
    /// # Errors
    /// When this user may not, or something that it takes is missing.
    pub fn make(network: &Network, executable: &Path, seed: u64) -> Result<Self, NetworkError> {
        network.check()?;
        if !is_root() {
            return Err(NetworkError::NotRoot);
        }
        for program in ["ip", "tc", "nsenter"] {
            find(program).ok_or(NetworkError::Missing(program))?;
        }
        let unshare = find("unshare").ok_or(NetworkError::Missing("unshare"))?;
        let (outer, inner) = addresses()?;
        let mut command = Command::new(unshare);
        command.args(["--net", "--"]).arg(executable).arg(HOLD);
        // Typed at the terminal, Ctrl-C reaches the lab only, which stops the broker first.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let holder = command.spawn().map_err(NetworkError::io("start the process that holds the network"))?;
        let mut link = Self { holder, inner, by: "" };
        let asked = Asked { network: *network, outer, inner, lab: std::process::id(), seed };
        let answer = link.ask(&asked)?;
        configure(&answer.device, outer, inner, &mut run)?;
        if answer.by_kernel {
            shape(&answer.device, network, &mut run)?;
        }
        link.by = match (answer.by_kernel, discipline(network)) {
            (false, _) => {
                "a process of the lab that carries packets between two TUN devices, since this kernel has no netem"
            }
            (true, Some((_, "netem"))) => "netem of the kernel, in a network namespace of its own",
            (true, Some(_)) => "a token bucket of the kernel, in a network namespace of its own",
            (true, None) => "a network namespace of its own",
        };
        Ok(link)
    }

    fn ask(&mut self, asked: &Asked) -> Result<Answer, NetworkError> {
        let text = serde_json::to_string(asked).map_err(|error| NetworkError::Holder(error.to_string()))?;
        let (Some(input), Some(output)) = (&mut self.holder.stdin, &mut self.holder.stdout) else {
            return Err(NetworkError::Holder("it has no pipes".to_owned()));
        };
        writeln!(input, "{text}").map_err(NetworkError::io("ask for a network"))?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).map_err(NetworkError::io("hear of the network"))?;
        serde_json::from_str(&line).map_err(|_| {
            let mut said = String::new();
            if let Some(errors) = &mut self.holder.stderr {
                // Unreadable output is not reported.
                let _ = errors.read_to_string(&mut said);
            }
            NetworkError::Holder(said.trim().to_owned())
        })
    }

    /// The host of the broker.
    pub fn host(&self) -> String {
        self.inner.to_string()
    }

    /// The file by which a process enters it.
    pub fn namespace(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.holder.id()))
    }

    /// The process that holds it, and carries its packets where the kernel does not.
    pub fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// The mechanism that makes it, in words for the report.
    pub const fn by(&self) -> &'static str {
        self.by
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The end of its input is its sign; everything in the namespace ends with it.
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// Two addresses that this machine does not have yet.
fn addresses() -> Result<(Ipv4Addr, Ipv4Addr), NetworkError> {
    let candidates = (0..LINKS).map(|step| FIRST + (std::process::id().wrapping_add(step) % LINKS) * 4);
    let free = candidates.map(|first| (Ipv4Addr::from(first + 1), Ipv4Addr::from(first + 2)));
    // An address that can be bound belongs to this machine already.
    let mut free = free.filter(|(outer, _)| TcpListener::bind((*outer, 0)).is_err());
    free.next().ok_or(NetworkError::Together("all addresses in 198.18.0.0/15 are taken"))
}
