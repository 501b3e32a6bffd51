//! The process that has the lock of a directory serves its logs to all members, at a socket in the directory.

mod peer;

use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use tokio::net::UnixListener;
use tokio::runtime::Builder;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::Embedded;
use super::member::directory::BusDirectory;
use crate::{BusError, Settings};
use peer::Peer;

/// Members that are served at once. One more is refused, and tries again.
const MAX_MEMBERS: usize = 1_024;
/// Refusals that are sent at once. Further members are disconnected without a reason.
const MAX_REFUSALS: usize = 64;

/// Serves a directory until it is dropped.
pub(super) struct DirectoryServer {
    /// Dropped with this, which ends the thread.
    _stop: watch::Sender<()>,
}

impl DirectoryServer {
    /// Opens the logs in a directory whose lock is held, and serves them.
    ///
    /// # Errors
    /// When a file of a log is damaged, or the socket or a thread cannot be had.
    pub(super) fn start(directory: &BusDirectory, lock: File, settings: &Settings) -> Result<Self, BusError> {
        let (stop, stopped) = watch::channel(());
        let (ready, started) = channel();
        let (directory, settings) = (directory.clone(), settings.clone());
        let thread = thread::Builder::new().name("bus-server".to_owned());
        let run = move || run(&directory, lock, settings, stopped, &ready);
        thread.spawn(run).map_err(|error| BusError::Client(error.to_string()))?;
        started.recv().map_err(|_| BusError::Client("the thread that serves the bus has ended".to_owned()))??;
        Ok(Self { _stop: stop })
    }
}

/// The state that the members of one server share.
struct Served {
    embedded: Embedded,
    settings: Settings,
}

fn run(
    directory: &BusDirectory,
    lock: File,
    settings: Settings,
    stopped: watch::Receiver<()>,
    ready: &Sender<Result<(), BusError>>,
) {
    let broken = Arc::new(Notify::new());
    let broke = Arc::clone(&broken);
    let opened = Embedded::durable(directory.path(), lock, &settings, Box::new(move || broke.notify_one()));
    let begun = opened.and_then(|embedded| {
        let shown = directory.path().display();
        let failed = |error: io::Error| BusError::Directory(format!("{shown}: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        Ok((embedded, runtime, listen(directory).map_err(failed)?))
    });
    let (embedded, runtime, socket) = match begun {
        Ok(begun) => begun,
        Err(error) => return drop(ready.send(Err(error))),
    };
    let served = Arc::new(Served { embedded, settings });
    tracing::info!(directory = %directory.path().display(), "this process serves the bus to all processes that share the directory");
    runtime.block_on(async {
        match UnixListener::from_std(socket) {
            Ok(socket) => {
                let _ = ready.send(Ok(()));
                accept(&socket, &served, stopped, &broken).await;
            }
            Err(error) => drop(ready.send(Err(BusError::Client(error.to_string())))),
        }
    });
    // Members that connect from now on find no server, until one of them has the lock.
    let _ = fs::remove_file(directory.socket());
    drop(runtime);
    drop(served);
}

/// Takes the place of a socket that an earlier server left behind.
fn listen(directory: &BusDirectory) -> io::Result<StdListener> {
    let path = directory.socket();
    match fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let socket = StdListener::bind(path)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn too_many() -> String {
    format!("{MAX_MEMBERS} processes are on the bus, and it takes no more")
}

/// Serves members until the bus of this process has gone, or a file could not be written: then the files are to be read
/// again, by the process that takes the lock next.
async fn accept(socket: &UnixListener, served: &Arc<Served>, mut stopped: watch::Receiver<()>, broken: &Notify) {
    let (mut members, mut refusals) = (JoinSet::new(), JoinSet::new());
    loop {
        tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) if members.len() < MAX_MEMBERS => {
                    members.spawn(Peer::serve(stream, Arc::clone(served)));
                }
                Ok((stream, _)) => {
                    tracing::warn!(limit = MAX_MEMBERS, "too many processes are on the bus; one was refused");
                    if refusals.len() < MAX_REFUSALS {
                        refusals.spawn(peer::refuse(stream, too_many()));
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a process could not connect to the bus");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            },
            Some(_) = members.join_next() => {}
            Some(_) = refusals.join_next() => {}
            _ = stopped.changed() => return,
            () = broken.notified() => return,
        }
    }
}
