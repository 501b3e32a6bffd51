//! Whether a peer answers.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use tidegate_mqtt::{
    ConnAck, Connect, ConnectProperties, DecodeError, EncodeError, FrameError, MAX_PACKET_SIZE, PacketType, ReasonCode,
    Version, split_frame,
};

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(2);

/// How one finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// A CONNECT is answered by a CONNACK.
    Mqtt,
    /// A TCP connection is accepted.
    Tcp,
}

/// Why a peer does not answer yet.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotReady {
    #[error("{0}")]
    System(#[from] io::Error),
    #[error("{0} has no address")]
    NoAddress(String),
    #[error("{0}")]
    Encode(#[from] EncodeError),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Decode(#[from] DecodeError),
    #[error("it answers a CONNECT by {0:?}")]
    OtherPacket(PacketType),
    #[error("it reports that it does not serve yet")]
    Unavailable,
    #[error("it closes the connection instead of a CONNACK")]
    Closed,
}

/// Tries whether it answers, with this number of clients over MQTT; the reason if it does not. Of a cluster each client
/// may have another home.
pub(super) fn answers(kind: Kind, host: &str, port: u16, clients: u32) -> Result<(), NotReady> {
    let address = resolve(host, port)?;
    if kind == Kind::Tcp {
        return Ok(TcpStream::connect_timeout(&address, ATTEMPT).map(drop)?);
    }
    (0..clients).try_for_each(|client| is_let_in(address, client))
}

fn is_let_in(address: SocketAddr, client: u32) -> Result<(), NotReady> {
    let mut stream = TcpStream::connect_timeout(&address, ATTEMPT)?;
    stream.set_read_timeout(Some(ATTEMPT))?;
    stream.set_write_timeout(Some(ATTEMPT))?;
    let mut out = Vec::new();
    let client_id = format!("tidegate-lab-ready-{client}");
    let connect = Connect {
        version: Version::V311,
        bridge: false,
        clean_start: true,
        keep_alive: 30,
        client_id: &client_id,
        will: None,
        username: None,
        password: None,
        properties: ConnectProperties::default(),
    };
    connect.encode(&mut out)?;
    stream.write_all(&out)?;
    let mut received = Vec::new();
    let mut buffer = [0; 64];
    loop {
        let frame = split_frame(&received, MAX_PACKET_SIZE)?;
        if let Some(frame) = frame {
            if frame.packet_type() != PacketType::ConnAck {
                return Err(NotReady::OtherPacket(frame.packet_type()));
            }
            let answer = ConnAck::decode(Version::V311, frame.first_byte, frame.body)?;
            if answer.reason_code == ReasonCode::ServerUnavailable {
                return Err(NotReady::Unavailable);
            }
            // The answer is complete, and another refusal also shows a ready broker; the farewell need not arrive.
            let _ = stream.write_all(&[0xE0, 0x00]);
            return Ok(());
        }
        match stream.read(&mut buffer)? {
            0 => return Err(NotReady::Closed),
            read => received.extend_from_slice(&buffer[..read]),
        }
    }
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, NotReady> {
    let mut found = (host, port).to_socket_addrs()?;
    found.next().ok_or_else(|| NotReady::NoAddress(host.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn answer_with(bytes: &'static [u8]) -> Result<(), NotReady> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut byte = [0; 1];
            stream.read_exact(&mut byte).unwrap();
            stream.write_all(bytes).unwrap();
            // Read until the client is done, so that its input does not reset the connection.
            let mut rest = Vec::new();
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut rest);
        });
        let result = answers(Kind::Mqtt, "127.0.0.1", port, 1);
        server.join().unwrap();
        result
    }

    #[test]
    fn a_connack_is_an_answer_and_anything_else_is_not() {
        assert!(answer_with(b"\x20\x02\x00\x00").is_ok());
        assert!(answer_with(b"\x20\x02\x00\x05").is_ok(), "a refusal comes from a broker that is ready");
        assert!(
            matches!(answer_with(b"\x20\x02\x00\x03"), Err(NotReady::Unavailable)),
            "a node that is no member of its cluster"
        );
        assert!(answer_with(b"\xd0\x00").is_err());
        assert!(matches!(answer_with(b""), Err(NotReady::Closed)));
    }
}
