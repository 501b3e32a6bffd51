#!/usr/bin/env python3
"""The platform of the study LAV with all of its parts: devices, two brokers, two gateways, NATS of three servers, two hubs, customers.

    cargo build --release && bench/lavva.py [--broker target/release/tidegate] [--devices 1000] [--seconds 300] [--format json] [--qos 1]

Each part is a process with the limits of CPU and memory of the study (LAV-10; with `--format msgpack` those of LAV-19), by cgroups;
it needs root. Devices publish a record of 1.5 KB a second to one of the brokers, each at its own moment. A gateway (`tidegate hub`
beside its broker) brings records to a JetStream stream with three replicas, in JSON or as MessagePack. The hubs (`tidegate hub` with
one durable consumer) decode them, choose the customer, and publish JSON to both brokers' customers at QoS 1. Latency is from a
device's schedule to the customer. A message is dropped when no customer has it 10 s after the last one. Nothing is left out of the
times. Uses nothing but Python; devices and customers are processes of this script. `docs/studies.md` keeps results.
"""

import argparse
import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from hub import cpu, free_port, packet, text
from hubs import Nats, is_open, wait_until

CUSTOMERS = 4
WARM_UP = 10
DRAIN = 10
# Cores and MiB of one instance: LAV-10, and LAV-19 for the brokers and gateways of the last experiment. JetStream has what NATS
# and NATS Streaming were allowed together: 3 cores and 4,000 MiB in all.
LIMITS = {
    "json": {"broker": (0.35, 700), "gateway": (0.2, 150), "nats": (0.5, 700), "hub": (0.2, 100)},
    "msgpack": {"broker": (0.45, 750), "gateway": (0.1, 100), "nats": (0.5, 700), "hub": (0.2, 100)},
}
GATEWAY = """
[[sink]]
name = "bus"
kind = "nats"
url = "nats://127.0.0.1:{nats}"
stream = "DEVICES"
subject = "devices"
batch_time = "{batch}"
[[pipeline]]
name = "gateway"
from = ["lab/device/#"]
encode = "{format}"
to = ["bus"]
"""
HUB = """
[[source]]
name = "devices"
kind = "jetstream"
url = "nats://127.0.0.1:{nats}"
stream = "DEVICES"
subject = "devices.>"
group = "hub"
[[sink]]
name = "customers"
kind = "topic"
batch_time = "{batch}"
[[pipeline]]
name = "hub"
source = "devices"
format = "{format}"
encode = "json"
topic = "'customer/' + payload.customer"
to = ["customers"]
"""
NATS = """
server_name: n{place}
listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{folder}/n{place}", max_mem: 64M, max_file: 8G }}
cluster {{ name: lavva, listen: "127.0.0.1:{route}", routes: [{routes}] }}
"""


class Cgroup:
    """Limits of one process, version 1 or 2."""

    def __init__(self, name, cores, mebibytes):
        root, name = pathlib.Path("/sys/fs/cgroup"), f"tidegate-lavva-{os.getpid()}-{name}"
        quota, memory = int(cores * 100_000), mebibytes << 20
        if (root / "cgroup.controllers").exists():
            self.folders = [root / name]
            settings = [("cpu.max", f"{quota} 100000"), ("memory.max", memory)]
        else:
            self.folders = [root / "cpu" / name, root / "memory" / name]
            settings = [("cpu.cfs_period_us", 100_000), ("cpu.cfs_quota_us", quota), ("memory.limit_in_bytes", memory)]
        for folder in self.folders:
            folder.mkdir()
        for key, value in settings:
            next(folder / key for folder in self.folders if (folder / key).exists()).write_text(str(value), encoding="ascii")

    def join(self):
        for folder in self.folders:
            (folder / "cgroup.procs").write_text("0", encoding="ascii")

    def throttled(self):
        for folder in self.folders:
            if (folder / "cpu.stat").exists():
                words = (folder / "cpu.stat").read_text(encoding="ascii").split()
                return int(words[words.index("nr_throttled") + 1])
        return 0

    def remove(self):
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


class Part:
    """A limited process."""

    def __init__(self, name, command, limits, folder):
        self.name, self.log, self.limits = name, folder / f"{name}.log", limits
        self.cgroup = Cgroup(name, *limits)
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, preexec_fn=self.cgroup.join)

    def is_ready(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name}: {self.log.read_text(encoding='utf-8')[-2000:]}")
        return " ready: " in self.log.read_text(encoding="utf-8")

    def memory(self):
        """The peak, MiB."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
        return 0.0

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.cgroup.remove()


class Stream(Nats):
    """The cluster of NATS, spoken to through its first server."""

    def __init__(self, port):  # pylint: disable=super-init-not-called
        self.port = port

    def open(self, *words):
        client, lines = super().open(*words)
        # Servers without a leader do not answer.
        client.settimeout(2)
        return client, lines

    def make(self):
        wanted = {"name": "DEVICES", "subjects": ["devices.>"], "storage": "file", "num_replicas": 3, "max_bytes": 1 << 30}
        with contextlib.suppress(TimeoutError):
            return "error" not in self.ask("CREATE.DEVICES", wanted)
        return False


class Platform:
    """All parts, running."""

    def __init__(self, given, folder, stack):
        limits, self.parts = LIMITS[given.format], []

        def part(name, kind, command):
            made = Part(name, list(map(str, command)), limits[kind], folder)
            stack.callback(made.stop)
            self.parts.append(made)
            return made

        installed = pathlib.Path(__file__).resolve().parent.parent / "target" / "servers" / "bin" / "nats-server"
        server = installed if installed.exists() else shutil.which("nats-server")
        ports, routes = [free_port() for _ in range(3)], [free_port() for _ in range(3)]
        for place in range(3):
            others = ", ".join(f'"nats://127.0.0.1:{route}"' for route in routes)
            conf = folder / f"n{place}.conf"
            conf.write_text(NATS.format(place=place, port=ports[place], route=routes[place], routes=others, folder=folder), encoding="utf-8")
            part(f"nats-{place}", "nats", [server, "-c", conf])
        wait_until(lambda: all(map(is_open, ports)), "NATS")
        wait_until(Stream(ports[0]).make, "the stream")
        self.brokers = []
        for place in range(2):
            admin = free_port()
            port = free_port()
            broker = [given.broker, "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}", "--shards", "1", "--data", folder / f"data-{place}"]
            wait_until(part(f"broker-{place}", "broker", broker).is_ready, "a broker")
            self.brokers.append(port)
        for kind, template in (("gateway", GATEWAY), ("hub", HUB)):
            for place in range(2):
                config = folder / f"{kind}-{place}.toml"
                # Each at its broker, and at a server of NATS of its own.
                written = template.format(nats=ports[1 + place], format=given.format, batch=given.batch)
                config.write_text(written, encoding="utf-8")
                command = [given.broker, "hub", "-c", config, "--broker", f"mqtt://127.0.0.1:{self.brokers[place]}"]
                command += ["--member", f"{kind}-{place}", "--admin", f"127.0.0.1:{free_port()}"]
                wait_until(part(f"{kind}-{place}", kind, command).is_ready, kind)

    def used(self):
        return {part.name: cpu(part.process) for part in self.parts}


def open_client(port, name):
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.sendall(packet(0x10, text("MQTT") + bytes([4, 2, 0, 0]) + text(name)))
    assert client.recv(4) == b"\x20\2\0\0"
    client.setblocking(False)
    return client


def record(device, sequence, due_us):
    """As the lab's record of a device: about 1.5 KB."""
    names = [("temperature", "celsius"), ("humidity", "percent"), ("pressure", "hectopascal"), ("voltage", "volt")]
    readings = [{"name": names[place % 4][0], "unit": names[place % 4][1], "value": (device * 7 + sequence * 3 + place) % 1000 / 10,
                 "quality": place % 16, "time": 1_700_000_000_000 + sequence * 1000 + place} for place in range(16)]
    head = {"device": device, "customer": str(device % CUSTOMERS), "sequence": sequence, "due": due_us,
            "position": {"latitude": 51.0 + device / 1e4, "longitude": 3.7}}
    return json.dumps({**head, "readings": readings}, separators=(",", ":")).encode()


def drive(ports, given):
    """The devices: prints how many messages were sent, how many of them acknowledged, and bytes."""
    poll, clients = select.epoll(), []
    for device in range(given.devices):
        client = open_client(ports[device % len(ports)], f"device-{device}")
        poll.register(client, select.EPOLLIN)
        clients.append(client)
    places = {client.fileno(): place for place, client in enumerate(clients)}
    held, acknowledged, sent, size = [0] * given.devices, 0, 0, 0
    begin, total = time.time() + 1, given.devices * (WARM_UP + given.seconds)
    while sent < total or (given.qos and acknowledged < total and time.time() < begin + WARM_UP + given.seconds + DRAIN):
        due = begin + sent / given.devices
        while sent < total and due <= time.time():
            device, sequence = sent % given.devices, sent // given.devices
            payload = record(device, sequence, int(due * 1e6))
            head = text(f"lab/device/{device}") + (struct.pack("!H", sequence % 60_000 + 1) if given.qos else b"")
            data = packet(0x30 | given.qos << 1, head + payload)
            clients[device].sendall(data)
            size += len(data)
            sent += 1
            due = begin + sent / given.devices
        left = max(0.0, min(0.05, due - time.time())) if sent < total else 0.05
        for number, _ in poll.poll(left):
            place = places[number]
            data = clients[place].recv(4096)
            if not data:
                raise ConnectionError(f"device {place} was disconnected")
            held[place] += len(data)
            acknowledged += held[place] // 4
            held[place] %= 4
    print(json.dumps({"sent": sent, "acknowledged": acknowledged if given.qos else sent, "bytes": size, "last": time.time()}))


def take(ports, given):
    """The customers: prints what has come, once nothing is missing or time is over."""
    poll, clients, rest = select.epoll(), {}, {}
    for customer in range(CUSTOMERS):
        for port in ports:
            client = open_client(port, f"customer-{customer}")
            client.setblocking(True)
            client.sendall(packet(0x82, struct.pack("!H", 1) + text(f"customer/{customer}") + b"\1"))
            assert client.recv(5)[0] == 0x90
            client.setblocking(False)
            poll.register(client, select.EPOLLIN)
            clients[client.fileno()], rest[client.fileno()] = client, b""
    print("ready", flush=True)
    seen, times, twice, size = set(), [], 0, 0
    wanted = given.devices * (WARM_UP + given.seconds)
    end = time.time() + 30 + WARM_UP + given.seconds + DRAIN
    while len(seen) < wanted and time.time() < end:
        for number, _ in poll.poll(0.2):
            data, answers = rest[number] + clients[number].recv(1 << 18), []
            now, at = time.time(), 0
            while at + 5 < len(data):
                length = shift = 0
                start = at + 1
                while True:
                    digit = data[start]
                    length |= (digit & 0x7F) << shift
                    shift, start = shift + 7, start + 1
                    if digit < 0x80:
                        break
                if start + length > len(data):
                    break
                topic = struct.unpack_from("!H", data, start)[0]
                answers.append(b"\x40\2" + data[start + 2 + topic:start + 4 + topic])
                value = json.loads(data[start + 4 + topic:start + length])
                key = value["device"], value["sequence"]
                if key in seen:
                    twice += 1
                elif value["sequence"] >= WARM_UP:
                    times.append(now - value["due"] / 1e6)
                seen.add(key)
                at = start + length
            size += at
            rest[number] = data[at:]
            clients[number].sendall(b"".join(answers))
    times.sort()
    share = lambda part: times[min(len(times) - 1, int(len(times) * part))] * 1e3 if times else None
    print(json.dumps({"received": len(seen), "twice": twice, "bytes": size, "late": sum(1 for each in times if each > 1),
                      "mean_ms": sum(times) / max(1, len(times)) * 1e3, "p50_ms": share(0.5), "p99_ms": share(0.99), "max_ms": share(1)}))


def measure(given):
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory(prefix="tidegate-lavva-", ignore_cleanup_errors=True) as folder:
        with contextlib.ExitStack() as parts:
            platform = Platform(given, pathlib.Path(folder), parts)
            role = [sys.executable, __file__, "--devices", str(given.devices), "--seconds", str(given.seconds), "--qos", str(given.qos), "--ports",
                    ",".join(map(str, platform.brokers))]
            customers = stack.enter_context(subprocess.Popen([*role, "--role", "customers"], stdout=subprocess.PIPE, text=True))
            assert customers.stdout.readline() == "ready\n"
            before, begin = platform.used(), time.monotonic()
            devices = stack.enter_context(subprocess.Popen([*role, "--role", "devices"], stdout=subprocess.PIPE, text=True))
            sent = json.loads(devices.stdout.readline())
            took, after = time.monotonic() - begin, platform.used()
            received = json.loads(customers.stdout.readline())
            state = {part.name: {"cores": (after[part.name] - before[part.name]) / took, "limit": part.limits[0], "MiB": part.memory(),
                                 "throttled": part.cgroup.throttled()} for part in platform.parts}
    return sent, received, state


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", default="target/release/tidegate")
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--format", choices=list(LIMITS), default="json", help="between gateways and hubs; it also chooses the limits")
    parser.add_argument("--batch", default="1ms", help="how long a record waits for others at gateways and hubs")
    parser.add_argument("--qos", type=int, choices=[0, 1], default=1)
    parser.add_argument("--role", choices=["devices", "customers"], help=argparse.SUPPRESS)
    parser.add_argument("--ports", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role:
        ports = [int(port) for port in given.ports.split(",")]
        return (drive if given.role == "devices" else take)(ports, given)
    # A stop by a signal also ends the parts and removes their cgroups.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    load = os.getloadavg()[0]
    sent, received, state = measure(given)
    print(f"{given.devices} devices, QoS {given.qos}, {given.format}, {given.seconds} s, load average {load:.1f} before, {os.getloadavg()[0]:.1f} after")
    print(f"sent {sent['sent']:,}, acknowledged {sent['acknowledged']:,}, received {received['received']:,}, "
          f"dropped {sent['sent'] - received['received']:,}, twice {received['twice']:,}, later than 1 s {received['late']:,}")
    print("latency, ms: " + ", ".join(f"{name[:-3]} {received[name]:.1f}" for name in ("mean_ms", "p50_ms", "p99_ms", "max_ms") if received[name] is not None))
    print("| part | cores | limit | peak, MiB | throttled |\n| --- | --- | --- | --- | --- |")
    for name, values in state.items():
        print(f"| {name} | {values['cores']:.3f} | {values['limit']} | {values['MiB']:.0f} | {values['throttled']} |")
    return None


if __name__ == "__main__":
    main()
