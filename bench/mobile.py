#!/usr/bin/env python3
"""What a mobile node costs, and how long a change of groups takes to reach its gateway over NATS.

    cargo build --release && bench/mobile.py [--broker target/release/tidegate] [--nats nats-server]

Uses nothing but Python. The memory is the difference of the broker's resident memory over all connections.
`docs/performance.md` keeps results.
"""

import argparse
import resource
import socket
import statistics
import struct
import subprocess
import tempfile
import time
import urllib.request

NODES = 4_000
CHANGES = 200
GROUPS = "definer = 'bench'\n[[group]]\nname = 'fast'\nwhen = 'context.speed > 50'\n"


def connect(port, client_id):
    """A client of MQTT 3.1.1 that starts clean."""
    client = socket.create_connection(("127.0.0.1", port))
    body = struct.pack("!H4sBBHH", 4, b"MQTT", 4, 2, 0, len(client_id)) + client_id.encode()
    client.sendall(bytes([0x10, len(body)]) + body)
    assert client.recv(4)[:1] == b"\x20"
    return client


def start(binary, *settings):
    """A broker, its port and that of its console."""
    command = [binary, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--shards", "2", *settings]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    words = broker.stdout.readline().split()
    port = {word.split("://")[0]: int(word.rsplit(":", 1)[1].strip("/")) for word in words if "://" in word}
    return broker, port["mqtt"], port["admin=http"]


def resident(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def bytes_per_client(binary, *settings):
    broker, port, _ = start(binary, *settings)
    warm = [connect(port, f"warm-{number}") for number in range(200)]
    before = resident(broker)
    clients = [connect(port, f"node-{number:06}") for number in range(NODES)]
    after = resident(broker)
    broker.kill()
    broker.wait()
    del warm, clients
    return (after - before) / NODES


def changes(admin):
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics") as page:
        lines = page.read().decode().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("tidegate_context_group_changes_total "))


def group_changes(binary, server):
    """Milliseconds from the PUBLISH of a context to the change of groups at the gateway, as its metrics tell it."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        with open(f"{folder}/groups.toml", "w", encoding="utf-8") as file:
            file.write(GROUPS)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        nats = subprocess.Popen([server, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", folder], **quiet)
        bus = f"nats://127.0.0.1:{port}"
        common = ["--set", "addresses.enabled=true", "--set", "context.enabled=true", "--set", f"context.bus={bus}"]
        gateway, mqtt, admin = start(binary, *common)
        core = subprocess.Popen([binary, "core", "--bus", bus, "--groups", f"{folder}/groups.toml"], **quiet)
        node, took = connect(mqtt, "n"), []
        try:
            for number in range(CHANGES + 1):
                payload = b'{"speed":%d}' % (90 if number % 2 == 0 else 10)
                before, topic = changes(admin), b"ctx/context/n"
                began = time.monotonic()
                node.sendall(bytes([0x30, 2 + len(topic) + len(payload)]) + struct.pack("!H", len(topic)) + topic + payload)
                while changes(admin) == before:
                    assert time.monotonic() - began < 60, "no change came"
                took.append((time.monotonic() - began) * 1_000)
        finally:
            for process in (core, gateway, nats):
                process.kill()
                process.wait()
        # The first one waits for everything to be ready.
        return sorted(took[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", default="target/release/tidegate")
    parser.add_argument("--nats", default="nats-server", help="the NATS server, as a command or a path")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    plain = bytes_per_client(arguments.broker)
    mobile = bytes_per_client(arguments.broker, "--set", "addresses.enabled=true")
    print(f"{NODES} idle clients over TCP: {plain:.0f} bytes each; as mobile nodes {mobile:.0f}")
    times = group_changes(arguments.broker, arguments.nats)
    print(f"{len(times)} changes of groups: median {statistics.median(times):.1f} ms, p99 {times[int(len(times) * 0.99)]:.1f} ms, most {times[-1]:.1f} ms")


if __name__ == "__main__":
    main()
