//! A TLS session on its socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// Plaintext that is encrypted ahead of a socket that does not take it, bytes.
const MAX_WAITING: usize = 64 << 10;

/// TLS over TCP.
#[derive(Debug)]
pub(in crate::net) struct TlsStream {
    socket: mio::net::TcpStream,
    session: ClientConnection,
}

impl TlsStream {
    /// Shakes hands, and blocks for that, for at most `limit`.
    pub(in crate::net) fn connect(
        mut socket: TcpStream,
        host: &str,
        config: Arc<ClientConfig>,
        limit: Duration,
    ) -> io::Result<Self> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| io::Error::new(ErrorKind::InvalidInput, "this is no name that a certificate can have"))?;
        let mut session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        session.set_buffer_limit(Some(MAX_WAITING));
        let deadline = Instant::now() + limit;
        socket.set_nonblocking(false)?;
        while session.is_handshaking() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(ErrorKind::TimedOut, "the TLS handshake takes too long"));
            }
            socket.set_read_timeout(Some(left))?;
            socket.set_write_timeout(Some(left))?;
            while session.wants_write() {
                session.write_tls(&mut socket)?;
            }
            if session.is_handshaking() {
                if session.read_tls(&mut socket)? == 0 {
                    let text = "the server closed the connection in the TLS handshake";
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, text));
                }
                if let Err(error) = session.process_new_packets() {
                    // Sends the alert if possible; an error here adds no information.
                    let _ = session.write_tls(&mut socket);
                    return Err(io::Error::new(ErrorKind::InvalidData, error));
                }
            }
        }
        socket.set_read_timeout(None)?;
        socket.set_write_timeout(None)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket: mio::net::TcpStream::from_std(socket), session })
    }

    pub(in crate::net) fn socket_mut(&mut self) -> &mut mio::net::TcpStream {
        &mut self.socket
    }

    /// Whether encrypted bytes wait for the socket.
    pub(in crate::net) fn is_waiting(&self) -> bool {
        self.session.wants_write()
    }

    /// Ends the sending side.
    pub(in crate::net) fn shutdown_write(&mut self) -> io::Result<()> {
        self.session.send_close_notify();
        self.flush()?;
        self.socket.shutdown(Shutdown::Write)
    }
}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Many servers close without TLS's close_notify. MQTT packets have their own length.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                result => return result,
            }
            self.session.read_tls(&mut self.socket)?;
            let processed = self.session.process_new_packets();
            // Records of the session itself, such as a key update or an alert, are sent with the next output if they
            // cannot be now.
            let flushed = self.flush();
            processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            match flushed {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let taken = self.session.writer().write(buffer)?;
        match self.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock && taken > 0 => Ok(taken),
            Err(error) => Err(error),
            // The session was full, and now it is not.
            Ok(()) if taken == 0 => self.session.writer().write(buffer),
            Ok(()) => Ok(taken),
        }
    }

    /// Writes encrypted bytes, as far as the socket accepts them.
    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}
