"""Restarts the nodes of a cluster in turn under load, and counts what clients notice.

    bench/rolling.py TIDEGATE [--clients 30] [--rate 10] [--qos 0] [--nodes 3] [--brokers 0] [--users]

Each client has a lasting session of MQTT 3.1.1, subscribes to a topic of its own, and publishes numbered messages to the
topic of the next client. A client that loses its connection connects to a random node at once, and again every 20 ms.
The bus is a NATS server. RATE is in messages per second and client. Nodes are restarted until each is ready again, with
PAUSE seconds between them; SETTLE is their cluster.settle, so that shares are evened out under load. With BROKERS the nodes
are orchestrators of one shard in front of so many brokers, which are not restarted. With --users each client has a user of
its own in a password file of all nodes, with the cheapest hash that the broker takes (PBKDF2, 1 round).

The order of the restarts and the random node of each reconnect give the expected number of disconnects, which is printed
beside the counted one: for 3 nodes 1/3 + 1/2 + 3/4, since a client of the first node has no restarted one to go to.
"""

import argparse
import asyncio
import base64
import collections
import hashlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request

from mqtt_wire import free_ports, packet, text


PASSWORD = b"rolling"


def expected_losses(nodes):
    """Disconnects per client, if each stop ends the connections of its node, which go to the others in equal parts."""
    shares, losses = [1 / nodes] * nodes, 0
    for stopped in range(nodes):
        lost = shares[stopped]
        losses += lost
        shares = [0 if at == stopped else share + lost / (nodes - 1) for at, share in enumerate(shares)]
    return losses


class Client:
    def __init__(self, number, world):
        self.number, self.world = number, world
        self.node = number
        self.losses, self.away, self.lost_at = 0, [], None
        self.sent, self.unanswered, self.got, self.twice = 0, {}, set(), 0
        self.writer, self.next_id = None, 0

    async def live(self):
        while not self.world.over:
            try:
                await self.connect()
                await self.receive()
            except (OSError, EOFError, asyncio.IncompleteReadError):
                pass
            if self.writer:
                self.writer.close()
                self.writer = None
                if not self.world.over:
                    self.losses += 1
                    self.world.foreign += self.node % len(self.world.ports) != self.world.stopping
                    self.lost_at = time.monotonic()
                    self.world.spans[-1].begin()
            elif not self.world.over:
                await asyncio.sleep(0.02)
            self.node = random.randrange(len(self.world.ports))

    async def connect(self):
        port = self.world.ports[self.node % len(self.world.ports)]
        try:
            self.reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            self.world.attempts["connection refused"] += 1
            raise
        try:
            name = b"client-%d" % self.number
            flags, proof = (0xC0, text(name) + text(PASSWORD)) if self.world.arguments.users else (0, b"")
            writer.write(packet(0x10, text(b"MQTT") + bytes([4, flags, 0, 0x3C]) + text(name) + proof))
            answer = await asyncio.wait_for(self.read_packet(), 5)
            if answer[0] != 0x20 or answer[1][1] != 0:
                self.world.attempts[f"CONNACK {answer[1][1]}"] += 1
                raise EOFError
        except asyncio.IncompleteReadError as error:
            self.world.attempts["closed before CONNACK"] += 1
            writer.close()
            raise EOFError from error
        except BaseException as error:
            writer.close()
            raise EOFError from error
        self.writer = writer
        if self.lost_at is not None:
            self.away.append(time.monotonic() - self.lost_at)
            self.lost_at = None
            self.world.spans[-1].end()
        if not answer[1][0] & 1:
            writer.write(packet(0x82, b"\0\1" + text(b"to/%d" % self.number) + bytes([self.world.qos])))
        for body, count in self.unanswered.values():
            writer.write(packet(0x30 | self.world.qos << 1 | 8, body))

    async def read_packet(self):
        first = (await self.reader.readexactly(1))[0]
        length = shift = 0
        while True:
            byte = (await self.reader.readexactly(1))[0]
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return first, await self.reader.readexactly(length)

    async def receive(self):
        while True:
            first, body = await self.read_packet()
            if first >> 4 == 3:
                at = 2 + struct.unpack(">H", body[:2])[0]
                if first & 6:
                    self.writer.write(b"\x40\x02" + body[at : at + 2])
                    at += 2
                number = int(body[at:].split()[0])
                self.twice += number in self.got
                self.got.add(number)
            elif first >> 4 == 4:
                self.unanswered.pop(struct.unpack(">H", body)[0], None)
            elif first >> 4 == 9:
                self.world.ready += 1

    def publish(self):
        """A client that is away publishes at QoS 1 when it is back; at QoS 0 it would not."""
        if len(self.unanswered) > 60_000 or not self.writer and self.world.qos == 0:
            return
        body = text(b"to/%d" % ((self.number + 1) % len(self.world.clients)))
        if self.world.qos:
            self.next_id = self.next_id % 65_535 + 1
            body += struct.pack(">H", self.next_id)
        body += b"%d " % self.sent + b"x" * 40
        self.sent += 1
        if self.world.qos:
            self.unanswered[self.next_id] = (body, self.sent)
        if self.writer:
            self.writer.write(packet(0x30 | self.world.qos << 1, body))


class Span:
    """From the first lost connection to the last return of a client, by the clock and by the rig's own CPU time."""

    def __init__(self):
        self.first = self.last = None

    def begin(self):
        self.first = self.first or (time.monotonic(), time.thread_time())

    def end(self):
        self.last = time.monotonic(), time.thread_time()

    def lengths(self):
        """Seconds by the clock, and seconds of CPU of the rig's one thread."""
        return [round(last - first, 2) for first, last in zip(self.first, self.last)] if self.first and self.last else None


class World:
    def __init__(self, arguments):
        self.arguments, self.qos = arguments, arguments.qos
        self.over, self.ready = False, 0
        # The node that is stopped or was stopped last, and losses of connections to other nodes.
        self.stopping, self.foreign = None, 0
        self.spans = [Span()]
        # Attempts to connect that failed, by their outcomes.
        self.attempts = collections.Counter()
        self.folder = tempfile.mkdtemp(prefix="rolling-")
        ports = free_ports(1 + 2 * arguments.nodes + arguments.brokers)
        self.bus, *ports = ports
        self.ports, self.admin = ports[: arguments.nodes], ports[arguments.nodes : 2 * arguments.nodes]
        self.nodes = [None] * arguments.nodes
        self.clients, self.nats = [], None
        self.brokers, self.broker_ports = [], ports[2 * arguments.nodes :]

    def start_bus(self):
        conf = os.path.join(self.folder, "bus.conf")
        with open(conf, "w") as out:
            out.write(f'listen: 127.0.0.1:{self.bus}\njetstream {{ store_dir: "{self.folder}/js"\n max_file_store: 30GB }}\n')
        self.nats = subprocess.Popen(["nats-server", "-c", conf], stderr=subprocess.DEVNULL)

    def write_users(self):
        salt = b"rolling-rolling-"
        proof = base64.b64encode(hashlib.pbkdf2_hmac("sha512", PASSWORD, salt, 1)).decode()
        salt = base64.b64encode(salt).decode()
        with open(os.path.join(self.folder, "passwords"), "w") as out:
            for number in range(self.arguments.clients):
                out.write(f"client-{number}:$7$1${salt}${proof}\n")
        with open(os.path.join(self.folder, "users.toml"), "w") as out:
            out.write(f'[[auth]]\nkind = "password-file"\nfile = "{self.folder}/passwords"\n[access]\ndefault = "allow"\n')

    def start_brokers(self):
        for at, port in enumerate(self.broker_ports):
            log = open(os.path.join(self.folder, f"broker-{at}.log"), "a")
            command = [self.arguments.tidegate, "-l", f"127.0.0.1:{port}", "--admin", "off"]
            command += ["--data", f"{self.folder}/broker-{at}"]
            self.brokers.append(subprocess.Popen(command, stdout=log, stderr=log))

    def start(self, at):
        log = open(os.path.join(self.folder, f"{at}.log"), "a")
        kind = ["orchestrator", "--shards", "1"] if self.broker_ports else []
        for number, port in enumerate(self.broker_ports):
            kind += ["--broker", f"broker-{number}=mqtt://127.0.0.1:{port}"]
        self.nodes[at] = subprocess.Popen(
            [self.arguments.tidegate, *kind, "-l", f"127.0.0.1:{self.ports[at]}", "--node", "abcdefgh"[at]]
            + ["--bus", f"nats://127.0.0.1:{self.bus}", "--data", f"{self.folder}/{at}"]
            + ["--admin", f"127.0.0.1:{self.admin[at]}", "--set", f"cluster.settle={self.arguments.settle}s"]
            + ["--set", "cluster.lease=10s"]
            + (["-c", f"{self.folder}/users.toml"] if self.arguments.users else []),
            stdout=log, stderr=log,
        )

    async def wait_ready(self, at):
        def ask():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.admin[at]}/readyz", timeout=2) as answer:
                    return answer.status == 200
            except OSError:
                return False

        while not await asyncio.to_thread(ask):
            await asyncio.sleep(0.1)

    async def load(self):
        """Publishes for all clients, spread over each tenth of a second."""
        due, step = time.monotonic(), self.arguments.rate / 10
        owed = 0.0
        while not self.over:
            owed += step
            for _ in range(int(owed)):
                for client in self.clients:
                    client.publish()
            owed -= int(owed)
            due += 0.1
            await asyncio.sleep(max(0, due - time.monotonic()))

    async def run(self):
        self.start_bus()
        if self.arguments.users:
            self.write_users()
        self.start_brokers()
        for at in range(self.arguments.nodes):
            self.start(at)
        for at in range(self.arguments.nodes):
            await self.wait_ready(at)
        self.clients = [Client(number, self) for number in range(self.arguments.clients)]
        lives = []
        for client in self.clients:
            lives.append(asyncio.create_task(client.live()))
            if len(lives) % 50 == 0:
                await asyncio.sleep(0.05)
        while self.ready < len(self.clients):
            await asyncio.sleep(0.05)
        load = asyncio.create_task(self.load())
        await asyncio.sleep(self.arguments.pause)
        for at in range(self.arguments.nodes):
            began = time.monotonic()
            self.stopping = at
            self.spans.append(Span())
            self.nodes[at].send_signal(signal.SIGTERM)
            await asyncio.to_thread(self.nodes[at].wait)
            self.start(at)
            await self.wait_ready(at)
            print(f"node {at}: {time.monotonic() - began:.1f} s until it is ready again", flush=True)
            await asyncio.sleep(self.arguments.pause)
        await asyncio.sleep(self.arguments.settle + self.arguments.pause)
        load.cancel()
        await asyncio.sleep(3)
        self.over = True
        for task in lives:
            task.cancel()
        self.report()

    def report(self):
        away = sorted(time for client in self.clients for time in client.away)
        sent = sum(client.sent for client in self.clients)
        got = sum(len(client.got) for client in self.clients)
        at = lambda part: round(away[min(len(away) - 1, int(len(away) * part))], 3) if away else 0
        print(json.dumps({
            "disconnects per client": round(sum(client.losses for client in self.clients) / len(self.clients), 3),
            "expected by the order of restarts": round(expected_losses(self.arguments.nodes), 3),
            "of them at other nodes than the stopped one": self.foreign,
            "at most": max(client.losses for client in self.clients),
            "away, s": {"median": at(0.5), "p99": at(0.99), "longest": at(1)},
            "clients away after each stop, s, and CPU of the rig meanwhile, s": [span.lengths() for span in self.spans[1:]],
            "failed attempts": dict(self.attempts),
            "sent": sent, "lost": sent - got, "lost, %": round(100 * (sent - got) / sent, 4),
            "twice": sum(client.twice for client in self.clients),
            "unanswered": sum(len(client.unanswered) for client in self.clients),
        }))


def main():
    random.seed(1)
    parser = argparse.ArgumentParser()
    parser.add_argument("tidegate")
    for name, usual in [("clients", 30), ("nodes", 3), ("qos", 0), ("settle", 8), ("brokers", 0)]:
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--users", action="store_true")
    parser.add_argument("--rate", type=float, default=10)
    parser.add_argument("--pause", type=float, default=2)
    world = World(parser.parse_args())
    try:
        asyncio.run(world.run())
    finally:
        for process in [process for process in [*world.nodes, *world.brokers, world.nats] if process]:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
