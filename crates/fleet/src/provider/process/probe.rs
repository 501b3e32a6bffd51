//! Whether a process answers.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::template::Probe;

/// Why a probe has no good answer.
#[derive(Debug, thiserror::Error)]
pub(in crate::provider) enum ProbeError {
    /// The template names a port that the process does not have.
    #[error("there is no port `{0}`")]
    NoPort(String),
    /// The process does not answer, or not as it should.
    #[error("no answer to {protocol} at {host}:{port}: {source}")]
    NoAnswer {
        /// The protocol of the probe.
        protocol: &'static str,
        /// The probed host.
        host: String,
        /// The probed port.
        port: u16,
        /// The error of the connection.
        source: io::Error,
    },
    /// The system gives no thread for the probe.
    #[error("cannot start a thread for a probe: {0}")]
    Thread(#[source] io::Error),
    /// The probe itself panicked.
    #[error("the probe failed")]
    Failed,
}

/// Probes once.
///
/// # Errors
/// When the process does not answer.
pub(in crate::provider) fn ask(
    probe: &Probe,
    host: &str,
    ports: &BTreeMap<String, u16>,
    timeout: Duration,
) -> Result<(), ProbeError> {
    let port = |name: &String| ports.get(name).copied().ok_or_else(|| ProbeError::NoPort(name.clone()));
    let (at, protocol) = match probe {
        Probe::Process => return Ok(()),
        Probe::Tcp(name) => (port(name)?, "TCP"),
        Probe::Mqtt(name) => (port(name)?, "MQTT"),
        Probe::Http(name, _) => (port(name)?, "HTTP"),
    };
    let outcome = connect(host, at, timeout).and_then(|mut stream| match probe {
        Probe::Mqtt(_) => mqtt(&mut stream),
        Probe::Http(_, path) => http(&mut stream, host, path),
        Probe::Process | Probe::Tcp(_) => Ok(()),
    });
    outcome.map_err(|source| ProbeError::NoAnswer { protocol, host: host.to_owned(), port: at, source })
}

fn connect(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    let first = addresses.first().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the host has no address"))?;
    let stream = TcpStream::connect_timeout(first, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    Ok(stream)
}

/// CONNECT of MQTT 3.1.1 with a clean session, keep alive 10 s, and one client id for all probes of the fleet: each
/// probe takes the former one over, and none is left behind.
const CONNECT: &[u8] = b"\x10\x1a\x00\x04MQTT\x04\x02\x00\x0a\x00\x0etidegate-probe";
const DISCONNECT: &[u8] = b"\xe0\x00";

/// A broker that answers CONNECT works, also when it refuses this client.
fn mqtt(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(CONNECT)?;
    let mut connack = [0; 4];
    stream.read_exact(&mut connack)?;
    if connack[0] != 0x20 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "what answers is no MQTT broker"));
    }
    // A failure here says nothing about its health.
    let _ = stream.write_all(DISCONNECT);
    Ok(())
}

fn http(stream: &mut TcpStream, host: &str, path: &str) -> io::Result<()> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    // The status line's beginning: `HTTP/1.1 200`.
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    let text = String::from_utf8_lossy(&head).into_owned();
    if text.starts_with("HTTP/1.") && text.get(9..10) == Some("2") {
        return Ok(());
    }
    Err(io::Error::other(format!("it answers {text:?}")))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A server that reads at least this number of bytes and answers.
    fn serve(reads: usize, answer: &'static [u8]) -> (BTreeMap<String, u16>, thread::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut got = vec![0; reads];
            stream.read_exact(&mut got).unwrap();
            stream.write_all(answer).unwrap();
            // Closing a socket with unread bytes would reset the connection.
            let _ = stream.read_to_end(&mut Vec::new());
            got
        });
        (BTreeMap::from([("mqtt".to_owned(), port)]), server)
    }

    fn ask_mqtt(ports: &BTreeMap<String, u16>) -> Result<(), ProbeError> {
        ask(&Probe::Mqtt("mqtt".to_owned()), "127.0.0.1", ports, Duration::from_secs(10))
    }

    #[test]
    fn a_connack_is_an_answer() {
        let (ports, server) = serve(CONNECT.len(), b"\x20\x02\x00\x05");
        ask_mqtt(&ports).unwrap();
        let got = server.join().unwrap();
        assert_eq!((usize::from(got[1]), &got[14..]), (CONNECT.len() - 2, &b"tidegate-probe"[..]));
    }

    #[test]
    fn other_text_is_no_probe() {
        let (ports, server) = serve(CONNECT.len(), b"SSH-2.0-x");
        assert!(ask_mqtt(&ports).unwrap_err().to_string().contains("no MQTT broker"));
        server.join().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let ports = BTreeMap::from([("mqtt".to_owned(), closed)]);
        assert!(ask_mqtt(&ports).unwrap_err().to_string().contains(&closed.to_string()));
    }

    #[test]
    fn http_answers_with_2xx_or_not_at_all() {
        for (answer, good) in [(&b"HTTP/1.1 200 OK\r\n\r\n"[..], true), (b"HTTP/1.1 503 No\r\n\r\n", false)] {
            let (ports, server) = serve(20, answer);
            let probe = Probe::Http("mqtt".to_owned(), "/readyz".to_owned());
            let asked = ask(&probe, "127.0.0.1", &ports, Duration::from_secs(10));
            assert_eq!(asked.is_ok(), good, "{asked:?}");
            server.join().unwrap();
        }
    }
}
