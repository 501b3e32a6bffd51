#!/usr/bin/env python3
"""What a message costs in a cluster of three whose stores are on the bus: on a directory that the nodes share, and on NATS.

    cargo build --release && bench/bus.py [--broker target/release/tidegate] [--nats nats-server]

Publishers at one node, subscribers with lasting sessions at the next one, all at QoS 1 and with a data directory. The CPU
is that of all nodes and of nats-server. Uses nothing but Python. `docs/performance.md` keeps results.
"""

import argparse
import os
import pathlib
import socket
import struct
import subprocess
import tempfile
import threading
import time
import urllib.request

PAIRS = 12
RATE = 50  # messages a second of each pair
SECONDS = 20
TICKS = os.sysconf("SC_CLK_TCK")


def read_exactly(client, count):
    data = b""
    while len(data) < count:
        part = client.recv(count - len(data))
        if not part:
            raise ConnectionError
        data += part
    return data


def packet(client):
    first, length = read_exactly(client, 2)
    return first, read_exactly(client, length)


def connect(port, client_id):
    """A client of MQTT 3.1.1 with a lasting session."""
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    body = struct.pack("!H4sBBHH", 4, b"MQTT", 4, 0, 0, len(client_id)) + client_id.encode()
    client.sendall(bytes([0x10, len(body)]) + body)
    assert packet(client)[1][1] == 0
    return client


def cpu(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def start(binary, bus, folder, name):
    command = [binary, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--shards", "1", "--node", name, "--bus", bus]
    command += ["--data", f"{folder}/{name}", "--set", "cluster.settle=0", "--set", "mirror.max_bytes=256MiB", "--log", "error"]
    node = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return node


def ports(node):
    words = node.stdout.readline().split()
    port = {word.split("://")[0]: int(word.rsplit(":", 1)[1].strip("/")) for word in words if "://" in word}
    return port["mqtt"], port["admin=http"]


def wait_even(admins):
    while True:
        views = [urllib.request.urlopen(f"http://127.0.0.1:{admin}/api/v1/cluster").read().decode() for admin in admins]
        served = [int(view.split('"served":')[1].split(",")[0].strip("} ")) for view in views]
        if min(served) >= 341 and sum(served) == 1024:
            return
        time.sleep(0.1)


class Pair(threading.Thread):
    """One publisher, which waits for each PUBACK, and its subscriber."""

    def __init__(self, number, at):
        super().__init__()
        self.topic = f"pair/{number}".encode()
        self.publisher = connect(at[number % 3], f"publisher-{number}")
        self.subscriber = connect(at[(number + 1) % 3], f"subscriber-{number}")
        body = struct.pack("!HH", 1, len(self.topic)) + self.topic + b"\x01"
        self.subscriber.sendall(bytes([0x82, len(body)]) + body)
        assert packet(self.subscriber)[0] == 0x90
        self.times = []

    def run(self):
        begun = time.monotonic()
        for number in range(RATE * SECONDS):
            time.sleep(max(0.0, begun + number / RATE - time.monotonic()))
            sent = time.monotonic()
            body = struct.pack("!H", len(self.topic)) + self.topic + struct.pack("!H", number % 60_000 + 1) + b"x" * 64
            self.publisher.sendall(bytes([0x32, len(body)]) + body)
            _, received = packet(self.subscriber)
            at = 2 + len(self.topic)
            self.subscriber.sendall(b"\x40\x02" + received[at : at + 2])
            assert packet(self.publisher)[0] == 0x40
            self.times.append(time.monotonic() - sent)


def measure(binary, bus, others, folder):
    nodes = [start(binary, bus, folder, name) for name in "abc"]
    at = [ports(node) for node in nodes]
    wait_even([admin for _, admin in at])
    pairs = [Pair(number, [port for port, _ in at]) for number in range(PAIRS)]
    before, begun = sum(map(cpu, nodes + others)), time.monotonic()
    for pair in pairs:
        pair.start()
    for pair in pairs:
        pair.join()
    used, took = sum(map(cpu, nodes + others)) - before, time.monotonic() - begun
    times = sorted(each for pair in pairs for each in pair.times)
    for node in nodes:
        node.terminate()
        node.wait()
    micros = used / len(times) * 1e6
    p50, p99 = times[len(times) // 2] * 1e3, times[len(times) * 99 // 100] * 1e3
    return f"{micros:.0f} | {p50:.1f} | {p99:.1f} | {len(times) / took:.0f}"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--broker", default="target/release/tidegate")
    arguments.add_argument("--nats", default="nats-server")
    given = arguments.parse_args()
    print("| bus | CPU of all nodes and the bus for each message, µs | median, ms | p99, ms | messages/s |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        row = measure(given.broker, f"embedded://{folder}/bus", [], f"{folder}/embedded")
        print(f"| `embedded://DIRECTORY` | {row} |")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [given.nats, "-js", "-a", "127.0.0.1", "-p", str(port), "-sd", f"{folder}/js"]
        nats = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        row = measure(given.broker, f"nats://127.0.0.1:{port}", [nats], f"{folder}/nats")
        print(f"| NATS | {row} |")
        nats.terminate()
        nats.wait()


if __name__ == "__main__":
    main()
