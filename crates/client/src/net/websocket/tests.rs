use proptest::prelude::*;

use super::*;

/// A server's answer to the request that `socket` has sent.
fn answer(socket: &WebSocket) -> String {
    let request = String::from_utf8(socket.output().to_vec()).unwrap();
    let key = request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n",
        accept_of(key)
    )
}

fn open() -> WebSocket {
    let mut socket = WebSocket::new("h", 80, "/mqtt");
    let answer = answer(&socket);
    socket.advance_output(socket.output().len());
    assert_eq!(read(&mut socket, answer.as_bytes()), Ok(vec![]));
    assert!(socket.is_open());
    socket
}

fn read(socket: &mut WebSocket, bytes: &[u8]) -> Result<Vec<u8>, WebSocketError> {
    let mut payload = Vec::new();
    socket.handle_input(bytes, &mut payload)?;
    Ok(payload)
}

/// Takes a masked frame apart.
fn unmask(frame: &[u8]) -> (u8, Vec<u8>) {
    let (len, start) = match frame[1] & !MASKED {
        126 => (usize::from(u16::from_be_bytes([frame[2], frame[3]])), 4),
        127 => (u64::from_be_bytes(frame[2..10].try_into().unwrap()) as usize, 10),
        len => (usize::from(len), 2),
    };
    assert_ne!(frame[1] & MASKED, 0);
    let mask = &frame[start..start + 4];
    let payload = &frame[start + 4..];
    assert_eq!(payload.len(), len);
    let payload = payload.iter().zip(mask.iter().cycle());
    (frame[0], payload.map(|(byte, mask)| byte ^ mask).collect())
}

#[test]
fn the_accept_of_the_rfc() {
    assert_eq!(accept_of("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

#[test]
fn the_request_names_the_subprotocol() {
    let socket = WebSocket::new("::1", 8080, "/mqtt");
    let request = String::from_utf8(socket.output().to_vec()).unwrap();
    assert!(request.starts_with("GET /mqtt HTTP/1.1\r\nHost: [::1]:8080\r\n"));
    assert!(request.contains("\r\nSec-WebSocket-Protocol: mqtt\r\n"));
    assert!(request.ends_with("\r\n\r\n"));
    assert!(!socket.is_open());
}

#[test]
fn an_answer_that_is_not_the_right_one() {
    let good = answer(&WebSocket::new("h", 80, "/mqtt"));
    let cases = [
        ("HTTP/1.1 404 Not Found\r\n\r\n".to_owned(), WebSocketError::NotAccepted { status: 404 }),
        ("MQTT\x00\x01\r\n\r\n".to_owned(), WebSocketError::InvalidResponse),
        // It answers to another key.
        (good.clone(), WebSocketError::WrongHandshake),
        ("x".repeat(MAX_HEAD), WebSocketError::InvalidResponse),
    ];
    for (answer, error) in cases {
        let mut socket = WebSocket::new("h", 80, "/mqtt");
        assert_eq!(read(&mut socket, answer.as_bytes()), Err(error));
    }
    let mut socket = WebSocket::new("h", 80, "/mqtt");
    let other = answer(&socket).replace(": mqtt", ": other");
    let result = read(&mut socket, other.as_bytes());
    assert_eq!(result, Err(WebSocketError::WrongHandshake));
}

#[test]
fn frames_of_every_length_are_masked() {
    let mut socket = open();
    for len in [1_usize, 125, 126, 65_535, 65_536] {
        let payload: Vec<u8> = (0..len).map(|index| index as u8).collect();
        socket.wrap(&payload);
        assert_eq!(unmask(socket.output()), (FINAL | BINARY, payload));
        socket.advance_output(socket.output().len());
    }
    socket.wrap(b"");
    assert!(socket.output().is_empty());
}

#[test]
fn payloads_pass_through_frames_of_any_length() {
    let mut socket = open();
    let mut bytes = vec![BINARY, 1, b'a', CONTINUATION, 0, FINAL, 126, 0, 2, b'b', b'c'];
    bytes.extend([FINAL | BINARY, 127, 0, 0, 0, 0, 0, 0, 0, 1, b'd']);
    assert_eq!(read(&mut socket, &bytes).unwrap(), b"abcd");
}

#[test]
fn pings_are_answered_between_the_fragments_of_a_message() {
    let mut socket = open();
    let bytes = [BINARY, 1, b'a', FINAL | PING, 2, b'h', b'i', FINAL | PONG, 0, FINAL, 1, b'b'];
    assert_eq!(read(&mut socket, &bytes).unwrap(), b"ab");
    assert_eq!(unmask(socket.output()), (FINAL | PONG, b"hi".to_vec()));
}

#[test]
fn invalid_frames_and_the_end() {
    let cases: [(&[u8], WebSocketError); 6] = [
        (&[FINAL | 0x40 | BINARY, 0], WebSocketError::InvalidFrame),
        (&[FINAL | BINARY, MASKED], WebSocketError::InvalidFrame),
        (&[FINAL | 1, 0], WebSocketError::InvalidFrame),
        (&[PING, 0], WebSocketError::InvalidFrame),
        (&[FINAL | PING, 126, 0, 126], WebSocketError::InvalidFrame),
        (&[FINAL | CLOSE, 0], WebSocketError::Closed),
    ];
    for (bytes, error) in cases {
        assert_eq!(read(&mut open(), bytes), Err(error), "{bytes:?}");
    }
}

#[test]
fn pings_without_end_do_not_fill_the_memory() {
    let mut socket = open();
    let ping = [&[FINAL | PING, 125][..], &[0; 125]].concat();
    for _ in 0..10_000 {
        read(&mut socket, &ping).unwrap();
    }
    assert!(socket.output().len() < MAX_WAITING_FOR_PONG + 200);
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces(bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1..9_usize) {
        let mut socket = open();
        for bytes in bytes.chunks(piece) {
            if read(&mut socket, bytes).is_err() {
                break;
            }
        }
        let mut socket = WebSocket::new("h", 80, "/");
        for bytes in bytes.chunks(piece) {
            if read(&mut socket, bytes).is_err() {
                break;
            }
        }
    }
}
