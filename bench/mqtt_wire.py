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
    """A string behind its length."""
    return struct.pack(">H", len(value)) + value


def packet(first, body):
    """A packet with this first byte."""
    length, out = len(body), bytearray([first])
    while True:
        out.append(length & 0x7F | (0x80 if length > 0x7F else 0))
        length >>= 7
        if not length:
            return bytes(out) + body
