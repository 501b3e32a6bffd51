//! Waits while another process runs as the node. A node that joins takes the name, and the store on the bus, from the
//! process that has them: two machines with one `cluster.name` would take them from each other for ever.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tidegate_administration::BrokerStatus;
use tidegate_bus::{BusError, GroupName, MemberName, NameUse, Position, Wake};
use tidegate_cluster::Advert;
use tidegate_config::Config;

use super::control::GROUP;
use super::error::NodeError;
use super::logs::{Logs, lease, wait};
use super::{MemoryFile, NotJoined};

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// How long an address may take to accept or refuse a connection.
const ANSWER_LIMIT: Duration = Duration::from_millis(300);
/// Leases after which a start does not wait for the log of the group any more.
const PATIENCE: u32 = 3;
/// Advertisements that are read at once.
const BATCH: usize = 256;

/// Whether the data directory says that the last process of the node has ended: it is that process's own, and no other
/// process has taken the store from it.
fn is_successor(config: &Config) -> bool {
    let directory = config.store.directory.as_deref().map(Path::new);
    directory.is_some_and(|directory| {
        (tidegate_mirror::is_copy(directory) || MemoryFile::is_in(directory)) && !tidegate_mirror::is_fenced(directory)
    })
}

/// Waits until no other process runs as this node: none is a member under its name, or its count has stood still for a
/// lease, or nothing listens at its address any more. Returns the life that was silent for a lease, if one was.
///
/// # Errors
/// When the process gets a signal to stop, or the bus cannot be used.
pub(super) fn wait_for_end(
    config: &Config,
    logs: &Logs,
    listen: SocketAddr,
    status: &BrokerStatus,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Option<u64>, NotJoined> {
    if is_successor(config) {
        return Ok(None);
    }
    let name = config.cluster.name.as_str();
    let (group, member) = (GroupName::new(GROUP)?, MemberName::new(name)?);
    let mut watch = logs.bus.watch_name(&group, &member);
    let (began, mut address, mut is_announced) = (Instant::now(), None, false);
    loop {
        match watch.look(Instant::now()) {
            Ok(NameUse::Free) => break,
            Ok(NameUse::Silent(life)) => return Ok(Some(life)),
            Ok(NameUse::Unknown) if began.elapsed() > lease(config) * PATIENCE => {
                tracing::warn!("cannot see whether another process has the node's name; starting all the same");
                break;
            }
            Ok(NameUse::Unknown) => {}
            Ok(NameUse::Taken) => {
                if !is_announced {
                    address = address_of(logs, name, stop)?;
                }
                if address.is_some_and(|address| has_ended(address, listen)) {
                    break;
                }
                if !std::mem::replace(&mut is_announced, true) {
                    announce(name, address, status);
                }
            }
            Err(error @ (BusError::Away { .. } | BusError::Unconfirmed { .. } | BusError::Trimmed { .. })) => {
                tracing::warn!(%error, "cannot see yet whether another process has the node's name; retrying");
            }
            Err(source) => return Err(NodeError::NameWatch(source).into()),
        }
        if stop() {
            return Err(NotJoined::Stopped);
        }
        super::pause(PAUSE);
    }
    Ok(None)
}

fn announce(name: &str, address: Option<SocketAddr>, status: &BrokerStatus) {
    let place = address.map_or_else(String::new, |address| format!(" at {address}"));
    let why = format!(
        "another process{place} is node `{name}`: each node needs a cluster.name of its own. This process starts when the other one has ended, or was silent for cluster.lease"
    );
    tracing::warn!("{why}");
    status.waits_because(why);
}

/// Whether the process that listened at the address has ended. A fixed address that this process will listen at is free,
/// or the start fails.
fn has_ended(address: SocketAddr, listen: SocketAddr) -> bool {
    let is_own = listen.port() != 0 && listen == address;
    let refused = || {
        let answer = TcpStream::connect_timeout(&address, ANSWER_LIMIT);
        answer.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    is_own || refused()
}

/// The address at which the node of this name listens for links, by its advertisement.
fn address_of(logs: &Logs, name: &str, stop: &mut dyn FnMut() -> bool) -> Result<Option<SocketAddr>, NotJoined> {
    let failed = NodeError::NameWatch;
    let end = wait(|done| logs.bus.bounds(&logs.adverts, done), stop)?.map_err(failed)?.next;
    let (sender, woken) = channel();
    let wake: Wake = Arc::new(move || {
        let _ = sender.send(());
    });
    let mut reader = logs.bus.read(&logs.adverts, Position::START, wake).map_err(failed)?;
    let (mut found, mut at) = (BTreeMap::new(), Position::START);
    while at < end {
        let taken = reader.take(BATCH).map_err(failed)?;
        at = taken.next;
        for record in &taken.records {
            if let (Ok(of), Ok(advert)) = (std::str::from_utf8(&record.key), Advert::from_bytes(&record.payload)) {
                found.insert(of.to_owned(), advert.addresses.cluster);
            }
        }
        if at < end && taken.records.is_empty() {
            if stop() {
                return Err(NotJoined::Stopped);
            }
            let _ = woken.recv_timeout(PAUSE);
        }
    }
    Ok(found.get(name).and_then(|address| address.parse().ok()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tidegate_console::StatusSource;

    use super::*;

    #[test]
    fn a_process_whose_address_refuses_has_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        assert!(!has_ended(address, any), "it listens");
        assert!(has_ended(address, address), "no other process listens where this one will");
        drop(listener);
        assert!(has_ended(address, any));
    }

    #[test]
    fn a_start_waits_while_its_name_is_taken() {
        let mut config = Config::default();
        config.cluster.name = "b".to_owned();
        config.cluster.bus = Some("embedded".to_owned());
        let (status, any) = (BrokerStatus::starting(), SocketAddr::from(([127, 0, 0, 1], 0)));
        let Ok(logs) = Logs::open(&config, &status, &mut || false) else { panic!("the bus is in this process") };
        status.has_bus();
        let wait = |stop: &mut dyn FnMut() -> bool| wait_for_end(&config, &logs, any, &status, stop);
        assert!(wait(&mut || false).is_ok(), "no process has the name");
        let (sender, woken) = channel();
        let wake: Wake = Arc::new(move || {
            let _ = sender.send(());
        });
        let (group, member) = (GroupName::new(GROUP).unwrap(), MemberName::new("b").unwrap());
        let first = logs.bus.join(&group, &member, 1, wake).unwrap();
        while first.members().is_empty() {
            woken.recv().unwrap();
        }
        let announced = || status.block_reason().is_some_and(|why| why.contains("is node `b`"));
        assert!(matches!(wait(&mut || announced()), Err(NotJoined::Stopped)));
        first.leave(Duration::from_secs(120));
        assert!(wait(&mut || false).is_ok(), "the other process has left");
    }

    #[test]
    fn a_directory_whose_store_was_taken_is_no_proof() {
        let directory = std::env::temp_dir().join(format!("tidegate-namesake-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut config = Config::default();
        assert!(!is_successor(&config));
        config.store.directory = Some(directory.to_str().unwrap().to_owned());
        assert!(!is_successor(&config), "an empty directory may be that of a second machine");
        std::fs::write(directory.join("cluster.json"), "{}").unwrap();
        assert!(is_successor(&config));
        std::fs::write(directory.join("MIRROR.fenced"), "").unwrap();
        assert!(!is_successor(&config));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
