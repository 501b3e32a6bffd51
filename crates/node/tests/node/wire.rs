//! A raw client: a socket of any transport, and the few packets that these tests need.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tidegate_node::LocalAddress;

use crate::pki::COMMON;
use crate::quic_client::{QuicOptions, QuicSocket};

/// Long enough that only a broken broker lets a read run into it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connected client.
pub(crate) struct Client {
    stream: Box<dyn Socket>,
    /// Whether it is a WebSocket.
    web: bool,
    /// Bytes received and not yet asked for; of a WebSocket, without its frames.
    received: Vec<u8>,
}

impl Client {
    /// Connects without sending anything of MQTT.
    pub(crate) fn dial(address: &LocalAddress) -> Self {
        let (stream, path): (Box<dyn Socket>, _) = match address {
            LocalAddress::Tcp(at) => (Box::new(tcp(*at)), None),
            LocalAddress::Unix(path) => {
                let stream = UnixStream::connect(path).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                (Box::new(stream), None)
            }
            LocalAddress::Tls(at) => (Box::new(tls(*at, &COMMON.client)), None),
            LocalAddress::Quic(at) => (Box::new(QuicSocket::connect(*at, &QuicOptions::default()).unwrap()), None),
            LocalAddress::WebSocket(at, path) => (Box::new(tcp(*at)), Some(path)),
            LocalAddress::WebSocketTls(at, path) => (Box::new(tls(*at, &COMMON.client)), Some(path)),
        };
        Self::over(stream, path.map(String::as_str))
    }

    /// A client over a socket, as a WebSocket for `path` if there is one.
    pub(crate) fn over(mut stream: Box<dyn Socket>, path: Option<&str>) -> Self {
        if let Some(path) = path {
            upgrade(&mut *stream, path);
        }
        Self { stream, web: path.is_some(), received: Vec::new() }
    }

    /// Connects as an MQTT client and waits for the CONNACK.
    pub(crate) fn connect(address: &LocalAddress, client_id: &str) -> Self {
        let mut client = Self::dial(address);
        client.send(&connect(client_id));
        client.expect(&CONNACK);
        client
    }

    /// Sends bytes, as one frame if this is a WebSocket.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).unwrap();
    }

    /// The same where the broker may have closed the connection.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.web { self.stream.write_all(&frame(0x82, bytes)) } else { self.stream.write_all(bytes) }
    }

    /// Sends bytes as they are, below any WebSocket.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.socket().write_all(bytes).unwrap();
    }

    /// The socket, below any WebSocket.
    pub(crate) fn socket(&mut self) -> &mut dyn Socket {
        &mut *self.stream
    }

    /// Waits for exactly these bytes of MQTT.
    pub(crate) fn expect(&mut self, expected: &[u8]) {
        let received = self.receive(expected.len());
        assert!(received == expected, "expected {expected:02x?}, received {received:02x?}");
    }

    /// Waits for this number of bytes of MQTT.
    pub(crate) fn receive(&mut self, length: usize) -> Vec<u8> {
        while self.received.len() < length {
            assert!(self.fill().unwrap(), "closed after {:02x?}", self.received);
        }
        self.received.drain(..length).collect()
    }

    /// Waits for the end of the connection and returns the bytes before it.
    pub(crate) fn rest(mut self) -> Vec<u8> {
        loop {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return self.received,
                // A reset is an end, too. A timeout is not.
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
                    return self.received;
                }
            }
        }
    }

    /// Receives bytes; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        if self.web {
            return Ok(read_frame(&mut *self.stream)?.is_some_and(|(first, payload)| {
                let data = first == 0x82;
                if data {
                    self.received.extend_from_slice(&payload);
                }
                data
            }));
        }
        let mut buffer = vec![0; 64 * 1024];
        let length = self.socket().read(&mut buffer)?;
        self.received.extend_from_slice(&buffer[..length]);
        Ok(length > 0)
    }
}

/// The common interface of all stream sockets.
pub(crate) trait Socket: Read + Write + Send {
    /// Sends FIN.
    fn finish(&mut self);
}

impl Socket for TcpStream {
    fn finish(&mut self) {
        // A broker that has reset the connection has ended it, too.
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl Socket for UnixStream {
    fn finish(&mut self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

/// TLS over TCP.
pub(crate) type TlsSocket = StreamOwned<ClientConnection, TcpStream>;

impl Socket for TlsSocket {
    fn finish(&mut self) {
        self.conn.send_close_notify();
        self.flush().unwrap();
        // The broker may have answered and closed by now.
        let _ = self.sock.shutdown(Shutdown::Write);
    }
}

/// A TLS client that has not shaken hands yet.
pub(crate) fn tls(at: SocketAddr, config: &Arc<ClientConfig>) -> TlsSocket {
    tls_over(tcp(at), config)
}

/// The same over a socket that is connected.
pub(crate) fn tls_over(socket: TcpStream, config: &Arc<ClientConfig>) -> TlsSocket {
    let session = ClientConnection::new(Arc::clone(config), "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(session, socket)
}

pub(crate) fn tcp(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// The request of a WebSocket client.
pub(crate) fn request(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\
         Sec-WebSocket-Version: 13\r\n\r\n"
    )
}

fn upgrade(stream: &mut dyn Socket, path: &str) {
    stream.write_all(request(path).as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend_from_slice(&byte);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
}

/// A frame as a client sends it, masked.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x5a, 0xa5, 0x0f, 0xf0];
    let mut bytes = vec![first];
    match u16::try_from(payload.len()) {
        Ok(length @ 0..=125) => bytes.push(0x80 | length as u8),
        Ok(length) => {
            bytes.push(0xfe);
            bytes.extend_from_slice(&length.to_be_bytes());
        }
        Err(_) => {
            bytes.push(0xff);
            bytes.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

/// Reads a frame of the server: its first byte and its payload, `None` at the end.
pub(crate) fn read_frame(stream: &mut (impl Read + ?Sized)) -> io::Result<Option<(u8, Vec<u8>)>> {
    let mut head = [0; 2];
    match stream.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        outcome => outcome?,
    }
    let mut extended = vec![0; [0, 2, 8][usize::from(head[1].saturating_sub(125))]];
    stream.read_exact(&mut extended)?;
    let length = match extended.as_slice() {
        [] => u64::from(head[1]),
        bytes => bytes.iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
    };
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut payload)?;
    Ok(Some((head[0], payload)))
}

/// A packet around its variable header and payload.
fn packet(first: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = vec![first];
    loop {
        let more = if length > 0x7f { 0x80 } else { 0 };
        bytes.push(more | (length & 0x7f) as u8);
        length >>= 7;
        if length == 0 {
            break;
        }
    }
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat()
}

/// CONNECT of MQTT 3.1.1 with a clean session and no keep-alive.
pub(crate) fn connect(client_id: &str) -> Vec<u8> {
    packet(0x10, &[b"\0\x04MQTT\x04\x02\0\0", &text(client_id)])
}

/// CONNECT of MQTT 3.1.1 with a clean session and a user name.
pub(crate) fn connect_as(client_id: &str, user: &str) -> Vec<u8> {
    packet(0x10, &[b"\0\x04MQTT\x04\x82\0\0", &text(client_id), &text(user)])
}

/// CONNECT of MQTT 3.1.1 for a session that outlives its connection.
pub(crate) fn connect_lasting(client_id: &str) -> Vec<u8> {
    packet(0x10, &[b"\0\x04MQTT\x04\0\0\0", &text(client_id)])
}

/// CONNECT of MQTT 5.0 with a clean start, no keep-alive and no properties.
pub(crate) fn connect_v5(client_id: &str) -> Vec<u8> {
    packet(0x10, &[b"\0\x04MQTT\x05\x02\0\0\0", &text(client_id)])
}

/// CONNECT of MQTT 3.1.1 with a will of QoS 0.
pub(crate) fn connect_with_will(client_id: &str, topic: &str, payload: &str) -> Vec<u8> {
    packet(0x10, &[b"\0\x04MQTT\x04\x06\0\0", &text(client_id), &text(topic), &text(payload)])
}

/// CONNACK of MQTT 3.1.1 without a session.
pub(crate) const CONNACK: [u8; 4] = [0x20, 2, 0, 0];
/// PINGREQ and its answer.
pub(crate) const PINGREQ: [u8; 2] = [0xc0, 0];
pub(crate) const PINGRESP: [u8; 2] = [0xd0, 0];
pub(crate) const DISCONNECT: [u8; 2] = [0xe0, 0];

/// SUBSCRIBE with packet id 1 at QoS 0, and its answer.
pub(crate) fn subscribe(filter: &str) -> Vec<u8> {
    packet(0x82, &[&[0, 1], &text(filter), &[0]])
}
pub(crate) const SUBACK: [u8; 5] = [0x90, 3, 0, 1, 0];

/// SUBSCRIBE with packet id 1 at QoS 1; the answer is as long as [`SUBACK`].
pub(crate) fn subscribe_qos1(filter: &str) -> Vec<u8> {
    packet(0x82, &[&[0, 1], &text(filter), &[1]])
}

/// PUBLISH at QoS 0.
pub(crate) fn publish(topic: &str, payload: &[u8]) -> Vec<u8> {
    packet(0x30, &[&text(topic), payload])
}

/// PUBLISH at QoS 1 with packet id 7, and its answer.
pub(crate) fn publish_qos1(topic: &str, payload: &[u8]) -> Vec<u8> {
    packet(0x32, &[&text(topic), &[0, 7], payload])
}
pub(crate) const PUBACK: [u8; 4] = [0x40, 2, 0, 7];
