//! How a member gets a connection: from the process that serves the bus, which may have to be this one.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use super::directory::BusDirectory;
use crate::Settings;
use crate::complaints::{Complaint, Complaints};
use crate::connection::Link;
use crate::embedded::frame::{Ask, MAX_HELLO, Tell, VERSION, next_frame};
use crate::embedded::server::DirectoryServer;

/// Pause before it is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Pause of a process that waits for another one to serve the bus.
const AGAIN_AFTER_ABSENCE: Duration = Duration::from_millis(100);
/// Pause where the directory cannot be used, or the server refuses this process.
const AGAIN_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// How long the server may take for its first answer.
const WELCOME_WITHIN: Duration = Duration::from_secs(5);

/// A connection to the process that serves the bus.
pub(super) struct Connected {
    pub(super) stream: UnixStream,
    /// Largest record that it takes, bytes.
    pub(super) max_record_bytes: usize,
    /// Bytes received behind its first answer.
    pub(super) input: BytesMut,
}

pub(super) struct Connector {
    directory: BusDirectory,
    /// Whether this process may serve the bus.
    serves: bool,
    member: u64,
    link: Arc<Link>,
    settings: Arc<Settings>,
    complaints: Complaints,
    /// The server of the directory in this process, if it has one.
    server: Option<DirectoryServer>,
}

/// Why there is no connection now.
enum NotConnected {
    /// No process serves the bus, and another one is about to.
    NobodyServes,
    /// No process serves the bus, and this one may not.
    Absent(Complaint),
    /// A fault that people have to mend.
    Wrong(Complaint),
}

impl Connector {
    pub(super) fn new(
        directory: BusDirectory,
        serves: bool,
        member: u64,
        link: Arc<Link>,
        settings: Arc<Settings>,
    ) -> Self {
        Self { directory, serves, member, link, settings, complaints: Complaints::default(), server: None }
    }

    /// Connects, however long it takes.
    pub(super) async fn connect(&mut self) -> Connected {
        loop {
            let pause = match self.attempt().await {
                Ok(connected) => {
                    self.complaints.connected();
                    return connected;
                }
                Err(NotConnected::NobodyServes) => AGAIN_AFTER,
                Err(NotConnected::Absent(complaint)) => {
                    self.complaints.tell(&self.link, &complaint);
                    AGAIN_AFTER_ABSENCE
                }
                Err(NotConnected::Wrong(complaint)) => {
                    self.complaints.tell(&self.link, &complaint);
                    AGAIN_AFTER_FAILURE
                }
            };
            sleep(pause).await;
        }
    }

    async fn attempt(&mut self) -> Result<Connected, NotConnected> {
        match UnixStream::connect(self.directory.socket()).await {
            Ok(stream) => self.greet(stream).await,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                self.take_lock()?;
                let stream = UnixStream::connect(self.directory.socket()).await;
                self.greet(stream.map_err(|error| self.wrong(&error))?).await
            }
            Err(error) => Err(self.wrong(&error)),
        }
    }

    /// Serves the bus, where the lock is free.
    fn take_lock(&mut self) -> Result<(), NotConnected> {
        // A server of this process that has ended gives its lock back.
        self.server = None;
        if !self.serves {
            let cause = format!("no process serves the bus in {}", self.directory.path().display());
            let next = "start a process that may serve it: its address has no `?serve=no`";
            return Err(NotConnected::Absent(Complaint { cause, next }));
        }
        let lock = self.directory.try_lock().map_err(|error| self.wrong(&error))?;
        let lock = lock.ok_or(NotConnected::NobodyServes)?;
        let started = DirectoryServer::start(&self.directory, lock, &self.settings);
        self.server = Some(started.map_err(|error| {
            let next = "see to that; until then no process of this directory has a bus";
            NotConnected::Wrong(Complaint { cause: error.to_string(), next })
        })?);
        Ok(())
    }

    fn wrong(&self, error: &io::Error) -> NotConnected {
        let cause = format!("{}: {error}", self.directory.path().display());
        NotConnected::Wrong(Complaint { cause, next: "see whether this user may read and write the directory" })
    }

    async fn greet(&self, stream: UnixStream) -> Result<Connected, NotConnected> {
        match timeout(WELCOME_WITHIN, self.exchange(stream)).await {
            Ok(Ok((Tell::Welcome { max_record_bytes }, stream, input))) => {
                Ok(Connected { stream, input, max_record_bytes: max_record_bytes as usize })
            }
            Ok(Ok((Tell::Refused { why }, ..))) => {
                let next = "see that all processes of the directory have one configuration of the bus";
                Err(NotConnected::Wrong(Complaint { cause: why, next }))
            }
            Ok(Ok(_)) => Err(self.wrong(&io::ErrorKind::InvalidData.into())),
            // It has ended meanwhile.
            Ok(Err(_)) => Err(NotConnected::NobodyServes),
            Err(_) => {
                let shown = self.directory.path().display();
                let cause = format!("{}, which serves the bus in {shown}, does not answer", self.directory.server());
                Err(NotConnected::Wrong(Complaint { cause, next: "see whether it is stopped, and end it if it is" }))
            }
        }
    }

    async fn exchange(&self, stream: UnixStream) -> io::Result<(Tell, UnixStream, BytesMut)> {
        let mut out = Vec::new();
        let prefix = self.settings.prefix.clone();
        Ask::Hello { version: VERSION, prefix, member: self.member }.put(&mut out);
        let mut sent = 0;
        while sent < out.len() {
            stream.writable().await?;
            match stream.try_write(&out[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        let mut input = BytesMut::new();
        loop {
            match next_frame(&mut input, MAX_HELLO) {
                Ok(Some(body)) => {
                    let tell = Tell::decode(body).ok_or(io::ErrorKind::InvalidData)?;
                    return Ok((tell, stream, input));
                }
                Ok(None) => {}
                Err(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
            stream.readable().await?;
            match stream.try_read_buf(&mut input) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}
