//! Whether a peer answers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use tidegate_mqtt::{
    ConnAck, Connect, ConnectProperties, MAX_PACKET_SIZE, PacketType, ReasonCode, Version, split_frame,
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

/// Whether it answers now, so many clients where it is asked by MQTT; why not, otherwise. Of a cluster each client may
/// have another home.
pub(super) fn answers(kind: Kind, host: &str, port: u16, clients: u32) -> Result<(), String> {
    let address = resolve(host, port)?;
    if kind == Kind::Tcp {
        return TcpStream::connect_timeout(&address, ATTEMPT).map(drop).map_err(|error| error.to_string());
    }
    (0..clients).try_for_each(|client| is_let_in(address, client))
}

fn is_let_in(address: SocketAddr, client: u32) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect_timeout(&address, ATTEMPT).map_err(text)?;
    stream.set_read_timeout(Some(ATTEMPT)).map_err(text)?;
    stream.set_write_timeout(Some(ATTEMPT)).map_err(text)?;
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
    connect.encode(&mut out).map_err(|error| error.to_string())?;
    stream.write_all(&out).map_err(text)?;
    let mut received = Vec::new();
    let mut buffer = [0; 64];
    loop {
        let frame = split_frame(&received, MAX_PACKET_SIZE).map_err(|error| error.to_string())?;
        if let Some(frame) = frame {
            if frame.packet_type() != PacketType::ConnAck {
                return Err(format!("it answers a CONNECT by {:?}", frame.packet_type()));
            }
            let answer =
                ConnAck::decode(Version::V311, frame.first_byte, frame.body).map_err(|error| error.to_string())?;
            if answer.reason_code == ReasonCode::ServerUnavailable {
                return Err("it reports that it does not serve yet".to_owned());
            }
            // The answer is complete, and another refusal also shows a ready broker; the farewell need not arrive.
            let _ = stream.write_all(&[0xE0, 0x00]);
            return Ok(());
        }
        match stream.read(&mut buffer).map_err(text)? {
            0 => return Err("it closes the connection instead of a CONNACK".to_owned()),
            read => received.extend_from_slice(&buffer[..read]),
        }
    }
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let mut found = (host, port).to_socket_addrs().map_err(|error| error.to_string())?;
    found.next().ok_or_else(|| format!("{host} has no address"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn answer_with(bytes: &'static [u8]) -> Result<(), String> {
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
        assert_eq!(answer_with(b"\x20\x02\x00\x00"), Ok(()));
        assert_eq!(answer_with(b"\x20\x02\x00\x05"), Ok(()), "a refusal comes from a broker that is ready");
        assert!(
            answer_with(b"\x20\x02\x00\x03").unwrap_err().contains("not serve yet"),
            "a node that is no member of its cluster"
        );
        assert!(answer_with(b"\xd0\x00").is_err());
        assert!(answer_with(b"").unwrap_err().contains("closes"));
    }
}
