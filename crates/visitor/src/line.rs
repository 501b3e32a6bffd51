//! The connection of a client to the broker: MQTT over a socket within the process.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::num::NonZeroU16;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_client::{Acknowledgement, Client, Event, Options, Version};
use tokio::net::UnixStream;

use crate::{Credentials, Failure};

/// Bytes that are read at once.
const READ_SIZE: usize = 16 << 10;
/// How long the broker may take to answer CONNECT; it asks authentication services meanwhile.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// A client id that no other client can guess: its keys are random, and so no client takes the session over.
pub fn new_client_id(protocol: &str) -> String {
    let keys = RandomState::new();
    format!("{protocol}-{:016x}{:016x}", keys.hash_one(0), keys.hash_one(1))
}

/// Options of a CONNECT. `window` is the number of messages that the broker sends without an acknowledgement. The
/// listener ends idle clients, so they need no keep alive.
pub fn options(client_id: &str, credentials: Credentials, window: NonZeroU16) -> Options {
    let mut options = Options::new(client_id);
    options.version = Version::V5;
    options.keep_alive = 0;
    options.connect_timeout = CONNECT_TIMEOUT;
    options.username = credentials.user_name;
    options.password = credentials.password;
    options.acknowledgement = Acknowledgement::Manual;
    options.properties.receive_maximum = Some(window);
    options
}

/// A client's MQTT and its socket to the broker.
pub struct Line {
    /// The client. Its output is written by [`Line::next`] and [`Line::write`].
    pub client: Client,
    stream: Arc<UnixStream>,
    buffer: Vec<u8>,
    over: bool,
}

impl Line {
    /// Begins to connect, within a runtime of tokio; the socket does not block.
    ///
    /// # Errors
    /// If the options are invalid, or the socket is of no use.
    pub fn open(stream: StdStream, options: Options) -> Result<Self, Failure> {
        let stream = UnixStream::from_std(stream).map_err(|error| Failure::Invalid(error.to_string()))?;
        let mut client = Client::new(options, Instant::now());
        client.open(Instant::now()).map_err(|error| Failure::Invalid(error.to_string()))?;
        Ok(Self { client, stream: Arc::new(stream), buffer: vec![0; READ_SIZE], over: false })
    }

    /// The socket.
    pub fn stream(&self) -> &Arc<UnixStream> {
        &self.stream
    }

    /// True after the end of the connection. Then [`Line::next`] has nothing more.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The next event that is there already.
    pub fn try_next(&mut self) -> Option<Event> {
        let event = self.client.poll_event()?;
        self.over |= matches!(event, Event::Disconnected(_));
        Some(event)
    }

    /// Works until the client has an event. It may be dropped at any time, and nothing is lost.
    pub async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.try_next() {
                return event;
            }
            if self.write() || self.read() {
                continue;
            }
            let writes = !self.client.output().is_empty();
            let due = self.client.next_deadline().map(tokio::time::Instant::from_std);
            tokio::select! {
                // An error of the socket shows with the next read.
                _ = self.stream.readable() => {}
                _ = self.stream.writable(), if writes => {}
                () = tokio::time::sleep_until(due.unwrap_or_else(tokio::time::Instant::now)), if due.is_some() => {
                    self.client.handle_deadline(Instant::now());
                }
            }
        }
    }

    /// Writes once; false when there is nothing to do.
    pub fn write(&mut self) -> bool {
        if self.over || self.client.output().is_empty() {
            return false;
        }
        match self.stream.try_write(self.client.output()) {
            Ok(count) => self.client.advance_output(Instant::now(), count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => self.close(),
        }
        true
    }

    /// Reads once; false when there is nothing to do.
    pub fn read(&mut self) -> bool {
        if self.over {
            return false;
        }
        match self.stream.try_read(&mut self.buffer) {
            Ok(0) => self.close(),
            Ok(count) => self.client.handle_input(Instant::now(), self.buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => self.close(),
        }
        true
    }

    /// The connection has ended.
    pub fn close(&mut self) {
        self.client.handle_closed();
        self.over = true;
    }

    /// Writes the rest, and waits until the broker closes the socket.
    ///
    /// # Errors
    /// The errors of the socket.
    pub async fn until_closed(&mut self) -> io::Result<()> {
        while !self.client.output().is_empty() {
            match self.stream.try_write(self.client.output()) {
                Ok(count) => self.client.advance_output(Instant::now(), count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.writable().await?,
                Err(error) => return Err(error),
            }
        }
        loop {
            match self.stream.try_read(&mut self.buffer) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.readable().await?,
                Err(error) => return Err(error),
            }
        }
    }
}
