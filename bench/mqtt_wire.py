"""Packets of MQTT and free ports, for the scripts beside this file."""

import socket
import struct


def free_ports(count):
    """Ports that the system gave out, all different."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def text(value):
    """A string, as text or bytes, behind its length."""
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(">H", len(data)) + data


def packet(first, body):
    """A packet with this first byte."""
    length, out = len(body), bytearray([first])
    while True:
        out.append(length & 0x7F | (0x80 if length > 0x7F else 0))
        length >>= 7
        if not length:
            return bytes(out) + body


def connect(client_id, clean=True):
    """CONNECT of MQTT 3.1.1 without keep-alive."""
    return packet(0x10, text("MQTT") + bytes([4, 2 if clean else 0, 0, 0]) + text(client_id))


def subscribe(topic, qos=0):
    """SUBSCRIBE with packet id 1."""
    return packet(0x82, b"\0\1" + text(topic) + bytes([qos]))
