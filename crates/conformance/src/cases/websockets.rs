//! MQTT over WebSocket.

use crate::case::Case;
use crate::outcome::{Outcome, Stop, ensure, failed};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::websocket::{Frame, WebSocket, opcode, unmasked_frame};
use crate::wire::packet::frame;
use crate::wire::{Packet, Publish, Subscribe};
use std::time::Instant;

const NEEDS: &[Feature] = &[Feature::WebSocket];

pub(super) const CASES: &[Case] = &[
    Case::all("websockets.subprotocol_is_mqtt", subprotocol_is_mqtt)
        .proves_5(&["MQTT-6.0.0-3", "MQTT-6.0.0-4"])
        .needs(NEEDS),
    Case::all("websockets.messages_of_each_qos", messages_of_each_qos)
        .proves_311(&["MQTT-6.0-1"])
        .proves_5(&["MQTT-6.0.0-1", "MQTT-4.2-1"])
        .needs(&[Feature::WebSocket, Feature::Qos2]),
    Case::all("websockets.packets_across_frames", packets_across_frames).proves_5(&["MQTT-6.0.0-2"]).needs(NEEDS),
    Case::all("websockets.many_packets_in_one_frame", many_packets_in_one_frame)
        .proves_5(&["MQTT-6.0.0-2"])
        .needs(NEEDS),
    Case::all("websockets.fragments_and_empty_frames", fragments_and_empty_frames)
        .proves_5(&["MQTT-6.0.0-2"])
        .needs(NEEDS),
    Case::both("websockets.text_frame_closes", text_frame_closes)
        .proves_311(&["MQTT-6.0-1"])
        .proves_5(&["MQTT-6.0.0-1"])
        .needs(NEEDS),
    Case::both("websockets.ping_is_answered", ping_is_answered).needs(NEEDS),
    Case::both("websockets.close_is_answered", close_is_answered).needs(NEEDS),
    Case::both("websockets.unmasked_frame_closes", unmasked_frame_closes).needs(NEEDS),
    Case::both("websockets.large_message", large_message).needs(NEEDS),
    Case::both("websockets.lost_connection_publishes_the_will", lost_connection_publishes_the_will).needs(NEEDS),
];

/// A WebSocket on which nothing of MQTT was sent yet.
fn open(s: &Scenario<'_>) -> Outcome<WebSocket> {
    let (address, path) = s.websocket_address()?;
    let (socket, handshake) = WebSocket::open(&address, &path, "mqtt", s.patience())?;
    ensure!(handshake.status == 101, "the WebSocket handshake is answered with status {}", handshake.status);
    Ok(socket)
}

/// The next packet, out of as many frames as the broker likes.
fn next_packet(s: &Scenario<'_>, socket: &mut WebSocket, inbound: &mut Vec<u8>) -> Outcome<Packet> {
    let deadline = Instant::now() + s.patience();
    loop {
        if let Some(found) = frame(inbound).map_err(|fault| Stop::Failed(fault.to_string()))? {
            let packet = Packet::decode(found.first_byte, found.body, s.version);
            let packet = packet.map_err(|fault| Stop::Failed(fault.to_string()))?;
            let length = found.length;
            inbound.drain(..length);
            return Ok(packet);
        }
        match socket.next_frame(deadline)? {
            Some(Frame { opcode: opcode::BINARY | opcode::CONTINUATION, payload, .. }) => inbound.extend(payload),
            Some(frame) => return failed(format!("MQTT-6.0.0-1: a frame with opcode {} came", frame.opcode)),
            None => return failed("the broker closed the connection"),
        }
    }
}

fn expect_connack(s: &Scenario<'_>, socket: &mut WebSocket, inbound: &mut Vec<u8>) -> Outcome {
    match next_packet(s, socket, inbound)? {
        Packet::Connack { code: 0, .. } => Ok(()),
        other => failed(format!("expected CONNACK, got {other:?}")),
    }
}

fn subprotocol_is_mqtt(s: &Scenario<'_>) -> Outcome {
    let (address, path) = s.websocket_address()?;
    for offer in ["mqtt", "chat, mqtt", "mqtt, mqttv3.1"] {
        let (_, handshake) = WebSocket::open(&address, &path, offer, s.patience())?;
        ensure!(handshake.status == 101, "offering `{offer}` is answered with status {}", handshake.status);
        let chosen = handshake.header("Sec-WebSocket-Protocol");
        ensure!(chosen == Some("mqtt"), "MQTT-6.0.0-4: offering `{offer}`, the broker chose {chosen:?}");
    }
    // A client that does not offer it: the broker may refuse, but must not choose another protocol.
    let (_, handshake) = WebSocket::open(&address, &path, "chat", s.patience())?;
    let chosen = handshake.header("Sec-WebSocket-Protocol");
    ensure!(handshake.status != 101 || chosen.is_none(), "offering `chat`, the broker chose {chosen:?}");
    Ok(())
}

fn messages_of_each_qos(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut client = s.open_websocket("websocket")?;
    client.send_connect(&s.connection("websocket"))?;
    client.expect_connack()?;
    client.subscribe(&topic, 2)?;
    let (mut plain, mut publisher) = s.subscriber_and_publisher(&topic, 2)?;
    for qos in 0..=2 {
        // From TCP to WebSocket and back.
        publisher.publish(&Publish::new(&topic, format!("to {qos}")).qos(qos))?;
        client.take_with(format!("to {qos}"))?;
        plain.take_with(format!("to {qos}"))?;
        client.publish(&Publish::new(&topic, format!("from {qos}")).qos(qos))?;
        client.take_with(format!("from {qos}"))?;
        plain.take_with(format!("from {qos}"))?;
    }
    client.ping()
}

fn packets_across_frames(s: &Scenario<'_>) -> Outcome {
    let mut socket = open(s)?;
    let mut inbound = Vec::new();
    for byte in s.connection("c").encode() {
        socket.send(true, opcode::BINARY, &[byte], s.patience())?;
    }
    expect_connack(s, &mut socket, &mut inbound)?;
    for half in Subscribe::new(&s.topic("t"), 0).id(1).encode(s.version).chunks(3) {
        socket.send(true, opcode::BINARY, half, s.patience())?;
    }
    next_packet(s, &mut socket, &mut inbound)?;
    Ok(())
}

fn many_packets_in_one_frame(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut bytes = s.connection("c").encode();
    bytes.extend(Subscribe::new(&topic, 0).id(1).encode(s.version));
    for number in 0..10 {
        bytes.extend(Publish::new(&topic, format!("{number}")).encode(s.version));
    }
    // The last packet is cut by the end of the frame and continues in the next.
    let last = Publish::new(&topic, "last").encode(s.version);
    let (head, tail) = last.split_at(5);
    bytes.extend(head);
    let mut socket = open(s)?;
    socket.send(true, opcode::BINARY, &bytes, s.patience())?;
    socket.send(true, opcode::BINARY, tail, s.patience())?;
    let mut inbound = Vec::new();
    expect_connack(s, &mut socket, &mut inbound)?;
    let mut arrived = Vec::new();
    while arrived.last().is_none_or(|text| text != "last") {
        if let Packet::Publish(publish) = next_packet(s, &mut socket, &mut inbound)? {
            arrived.push(publish.text());
        }
    }
    ensure!(arrived.len() == 11, "of eleven messages {arrived:?} came");
    Ok(())
}

/// One message of the WebSocket protocol in three fragments, an empty one among them, a ping between.
fn fragments_and_empty_frames(s: &Scenario<'_>) -> Outcome {
    let mut socket = open(s)?;
    let connect = s.connection("c").encode();
    let (head, tail) = connect.split_at(9);
    socket.send(true, opcode::BINARY, &[], s.patience())?;
    socket.send(false, opcode::BINARY, head, s.patience())?;
    socket.send(true, opcode::PING, b"between", s.patience())?;
    socket.send(false, opcode::CONTINUATION, &[], s.patience())?;
    socket.send(true, opcode::CONTINUATION, tail, s.patience())?;
    let deadline = Instant::now() + s.patience();
    let (mut inbound, mut answered) = (Vec::new(), false);
    while inbound.is_empty() || !answered {
        match socket.next_frame(deadline)? {
            Some(Frame { opcode: opcode::PONG, payload, .. }) => {
                ensure!(payload == b"between", "PONG carries {payload:02x?}");
                answered = true;
            }
            Some(Frame { opcode: opcode::BINARY, payload, .. }) => inbound.extend(payload),
            other => return failed(format!("expected CONNACK and PONG, got {other:?}")),
        }
    }
    expect_connack(s, &mut socket, &mut inbound)
}

/// The broker ends the connection: perhaps with a close frame, then for good.
fn expect_end(s: &Scenario<'_>, socket: &mut WebSocket) -> Outcome {
    let deadline = Instant::now() + s.patience();
    loop {
        match socket.next_frame(deadline)? {
            None => return Ok(()),
            // The client's part of the closing handshake.
            Some(Frame { opcode: opcode::CLOSE, payload, .. }) => {
                socket.send(true, opcode::CLOSE, payload.get(..2).unwrap_or_default(), s.patience())?;
                let _ = socket.stream().shutdown(std::net::Shutdown::Write);
            }
            // An MQTT 5 broker may say DISCONNECT first.
            Some(Frame { opcode: opcode::BINARY, .. }) => {}
            Some(frame) => return failed(format!("expected the end, got a frame with opcode {}", frame.opcode)),
        }
    }
}

fn text_frame_closes(s: &Scenario<'_>) -> Outcome {
    // As the first frame, and on a connection that is in use.
    let mut fresh = open(s)?;
    fresh.send(true, opcode::TEXT, &s.connection("fresh").encode(), s.patience())?;
    expect_end(s, &mut fresh)?;
    let mut used = open(s)?;
    used.write_binary(&s.connection("used").encode(), s.patience())?;
    expect_connack(s, &mut used, &mut Vec::new())?;
    used.send(true, opcode::TEXT, &[0xc0, 0], s.patience())?;
    expect_end(s, &mut used)
}

fn ping_is_answered(s: &Scenario<'_>) -> Outcome {
    let mut socket = open(s)?;
    for payload in [&b""[..], b"hello", &[7; 125]] {
        socket.send(true, opcode::PING, payload, s.patience())?;
        match socket.next_frame(Instant::now() + s.patience())? {
            Some(frame) => ensure!(
                frame.opcode == opcode::PONG && frame.fin && frame.payload == payload,
                "a WebSocket ping is answered with opcode {} and {:02x?}",
                frame.opcode,
                frame.payload
            ),
            None => return failed("the broker closed the connection on a WebSocket ping"),
        }
    }
    Ok(())
}

fn close_is_answered(s: &Scenario<'_>) -> Outcome {
    let mut socket = open(s)?;
    socket.write_binary(&s.connection("c").encode(), s.patience())?;
    expect_connack(s, &mut socket, &mut Vec::new())?;
    socket.send(true, opcode::CLOSE, &1000_u16.to_be_bytes(), s.patience())?;
    let answer = socket.next_frame(Instant::now() + s.patience())?;
    let closes = answer.as_ref().is_none_or(|frame| frame.opcode == opcode::CLOSE);
    ensure!(closes, "a close frame is answered with {answer:?}");
    ensure!(answer.is_some() || !s.is_strict(), "a close frame is not answered with one (strict)");
    Ok(())
}

fn unmasked_frame_closes(s: &Scenario<'_>) -> Outcome {
    let mut socket = open(s)?;
    socket.send_raw(&unmasked_frame(opcode::BINARY, &s.connection("c").encode()), s.patience())?;
    expect_end(s, &mut socket)
}

fn large_message(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut client = s.open_websocket("websocket")?;
    client.send_connect(&s.connection("websocket"))?;
    client.expect_connack()?;
    client.subscribe(&topic, 0)?;
    // Around the steps of the length of a frame.
    for length in [100, 126, 65_500, 65_536, 100_000] {
        let payload: Vec<u8> = (0..length).map(|index: u32| (index % 251) as u8).collect();
        client.publish(&Publish::new(&topic, &payload))?;
        ensure!(client.take()?.payload == payload, "a payload of {length} bytes came altered");
    }
    Ok(())
}

fn lost_connection_publishes_the_will(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("will");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 0)?;
    let mut client = s.open_websocket("c")?;
    client.send_connect(&s.connection("c").will(crate::wire::Will::new(&topic, "gone")))?;
    client.expect_connack()?;
    drop(client);
    observer.take_with("gone")?;
    Ok(())
}
