"""Restarts the nodes of a cluster in turn under load, and counts what clients notice.

    bench/rolling.py TIDEGATE [--clients 30] [--rate 10] [--qos 0] [--nodes 3] [--brokers 0] [--users]
                     [--choice random] [--spare]

Each client has a lasting session of MQTT 3.1.1, subscribes to a topic of its own, and publishes numbered messages to the
topic of the next client, all in turn and at an even rate. A client that loses its connection connects to another node at
once, and again every 20 ms: to a random one, or with `--choice least` to the running one with the fewest clients, as a
balancer of least connections leads it. One thread on `epoll` is all clients, so that times are less those of the rig.
The bus is a NATS server. RATE is in messages per second and client. Nodes are restarted until each is ready again, with
PAUSE seconds between them; SETTLE is their cluster.settle, so that shares are evened out under load. With BROKERS the nodes
are orchestrators of one shard in front of so many brokers, which are not restarted. With --users each client has a user of
its own in a password file of all nodes, with the cheapest hash that the broker takes (PBKDF2, 1 round).

The order of the restarts and the node of each reconnect give the expected number of disconnects, which is printed beside
the counted one: for 3 nodes and random ones 1/3 + 1/2 + 3/4. Clients of the first node have no restarted one to go to, so
that no choice gives less than 4/3. With --spare one more node is started first, and the last one is not started again.
"""

import argparse
import base64
import collections
import hashlib
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import urllib.request

from mqtt_wire import free_ports, packet, text


PASSWORD = b"rolling"
# Seconds before another attempt to connect, and for an attempt.
RETRY, PATIENCE = 0.02, 5
EDGES = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
# Seconds between two shares of the load.
STEP = 0.01


def expected_losses(nodes, spare, least):
    """Disconnects per client, if each stop ends the connections of its node, which go to the others: in equal parts, or in
    many small ones, each to the node that has least."""
    shares, losses, parts = [1 / nodes] * nodes + [0] * spare, 0, 1000
    for stopped in range(nodes):
        lost, shares[stopped] = shares[stopped], 0
        losses += lost
        others = [at for at in range(nodes + spare) if at != stopped]
        for part in range(parts):
            at = min(others, key=shares.__getitem__) if least else others[part % len(others)]
            shares[at] += lost / parts
    return losses


class Client:
    """A client on a socket without waits. Its socket reports edges, so each event is read to the end."""

    def __init__(self, number, world):
        self.number, self.world = number, world
        self.node = number % world.arguments.nodes
        world.load[self.node] += 1
        self.losses, self.away, self.lost_at = 0, [], None
        self.sent, self.unanswered, self.got, self.twice = 0, {}, set(), 0
        self.socket, self.asked, self.connected, self.input = None, False, False, b""
        self.next_id, self.deadline = 0, 0.0
        self.topic = text(b"to/%d" % number)
        name = text(b"client-%d" % number)
        flags, proof = (0xC0, name + text(PASSWORD)) if world.arguments.users else (0, b"")
        self.greeting = packet(0x10, text(b"MQTT") + bytes([4, flags, 0, 0x3C]) + name + proof)

    def connect(self):
        self.asked, self.input, self.deadline = False, b"", time.monotonic() + PATIENCE
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect_ex(("127.0.0.1", self.world.ports[self.node]))
        self.world.watch(self)

    def send(self, data):
        try:
            self.socket.sendall(data)
        except BlockingIOError as error:
            raise ConnectionError("it does not read") from error

    def on_event(self, event):
        try:
            if not self.asked:
                # The event says that the connection is established, or refused.
                self.send(self.greeting)
                self.asked = True
            if event & ~select.EPOLLOUT:
                self.read(ends=event & ~(select.EPOLLIN | select.EPOLLOUT))
        except BlockingIOError:
            pass
        except OSError as error:
            self.lose(error.strerror or str(error))

    def read(self, ends):
        """Reads what has come; to its end if the node has closed the connection, as no other edge says so."""
        while True:
            part = self.socket.recv(1 << 16)
            if not part:
                raise ConnectionError("closed before CONNACK")
            self.input += part
            self.input = self.input[self.take_packets() :]
            if len(part) < 1 << 16 and not ends:
                return

    def take_packets(self):
        """Takes all whole packets of the input, which are short, and returns where they end."""
        at, answers = 0, b""
        while len(self.input) >= at + 2 and len(self.input) >= at + 2 + self.input[at + 1]:
            first, body = self.input[at], self.input[at + 2 : at + 2 + self.input[at + 1]]
            at += 2 + len(body)
            if first >> 4 == 3:
                answers += self.take_message(first, body)
            elif first >> 4 == 4:
                self.unanswered.pop(struct.unpack(">H", body)[0], None)
            elif first >> 4 == 9:
                self.world.ready += 1
            elif first >> 4 == 2:
                self.take_answer(body)
        if answers:
            self.send(answers)
        return at

    def take_answer(self, body):
        """CONNACK: the client is back. It subscribes for a new session, and repeats what was not acknowledged."""
        if body[1] != 0:
            raise ConnectionError(f"CONNACK {body[1]}")
        self.connected = True
        if self.lost_at is not None:
            self.away.append(time.monotonic() - self.lost_at)
            self.lost_at = None
            self.world.spans[-1].end()
        if not body[0] & 1:
            self.send(packet(0x82, b"\0\1" + self.topic + bytes([self.world.qos])))
        if self.unanswered:
            again = 0x30 | self.world.qos << 1 | 8
            self.send(b"".join(packet(again, body) for body in self.unanswered.values()))

    def take_message(self, first, body):
        at, answer = 2 + struct.unpack(">H", body[:2])[0], b""
        if first & 6:
            answer = b"\x40\x02" + body[at : at + 2]
            at += 2
        number = int(body[at:].split()[0])
        if number in self.got:
            self.twice += 1
        self.got.add(number)
        return answer

    def lose(self, outcome):
        """The connection has ended or was not made. A client that was connected tries again at once."""
        was_connected, self.connected = self.connected, False
        self.socket.close()
        if was_connected:
            self.losses += 1
            self.world.foreign += self.node != self.world.stopping
            self.lost_at = time.monotonic()
            self.world.spans[-1].begin()
        else:
            self.world.attempts[outcome] += 1
        self.node = self.world.choose(self.node)
        self.world.retries.append((time.monotonic() + (0 if was_connected else RETRY), self))

    def publish(self):
        """A client that is away publishes at QoS 1 when it is back; at QoS 0 it would not."""
        if len(self.unanswered) > 60_000 or not self.connected and self.world.qos == 0:
            return
        body = self.world.clients[(self.number + 1) % len(self.world.clients)].topic
        if self.world.qos:
            self.next_id = self.next_id % 65_535 + 1
            body += struct.pack(">H", self.next_id)
        body += b"%d " % self.sent + b"x" * 40
        self.sent += 1
        if self.world.qos:
            self.unanswered[self.next_id] = body
        if self.connected:
            try:
                self.send(packet(0x30 | self.world.qos << 1, body))
            except OSError as error:
                self.lose(error.strerror or str(error))


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
        self.ready = 0
        # The node that is stopped or was stopped last, and losses of connections to other nodes.
        self.stopping, self.foreign = None, 0
        self.spans = [Span()]
        # Attempts to connect that failed, by their outcomes, and clients that connect again, with the time.
        self.attempts, self.retries = collections.Counter(), collections.deque()
        self.poll, self.of_socket = select.epoll(), {}
        self.due, self.owed, self.next_publisher, self.next_look = None, 0.0, 0, 0.0
        self.folder = tempfile.mkdtemp(prefix="rolling-")
        nodes = arguments.nodes + arguments.spare
        self.bus, *ports = free_ports(1 + 2 * nodes + arguments.brokers)
        self.ports, self.admin = ports[:nodes], ports[nodes : 2 * nodes]
        self.nodes = [None] * nodes
        # How many clients are at each node or go there, and which nodes are ready, as a balancer knows it.
        self.load, self.running = [0] * nodes, set()
        self.clients, self.nats = [], None
        self.brokers, self.broker_ports = [], ports[2 * nodes :]

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

    def choose(self, left):
        """The node that a client goes to which has left another one."""
        least = self.arguments.choice == "least" and self.running
        chosen = min(self.running, key=self.load.__getitem__) if least else random.randrange(len(self.ports))
        self.load[left] -= 1
        self.load[chosen] += 1
        return chosen

    def watch(self, client):
        self.of_socket[client.socket.fileno()] = client
        self.poll.register(client.socket, EDGES)

    def serve(self):
        """One turn: connects clients that are due, publishes, and handles events."""
        now = time.monotonic()
        for _ in range(len(self.retries)):
            at, client = self.retries.popleft()
            if at > now:
                self.retries.append((at, client))
            else:
                client.connect()
        if self.due is not None and now >= self.due:
            self.publish(now)
        if now >= self.next_look:
            self.next_look = now + 1
            self.drop_late(now)
        for descriptor, event in self.poll.poll(STEP / 2):
            client = self.of_socket[descriptor]
            if client.socket.fileno() == descriptor:
                client.on_event(event)

    def publish(self, now):
        """Publishes for the clients in turn, the same number in each step."""
        self.owed += self.arguments.rate * len(self.clients) * STEP * max(1, (now - self.due) // STEP + 1)
        self.due += STEP * max(1, (now - self.due) // STEP + 1)
        for _ in range(int(self.owed)):
            self.clients[self.next_publisher].publish()
            self.next_publisher = (self.next_publisher + 1) % len(self.clients)
        self.owed -= int(self.owed)

    def serve_until(self, is_over, seconds=None):
        """Serves until something is so, or for a time."""
        end = None if seconds is None else time.monotonic() + seconds
        while not is_over() and (end is None or time.monotonic() < end):
            self.serve()

    def pause(self, seconds):
        self.serve_until(lambda: False, seconds)

    def wait_ready(self, at):
        """Serves while a thread asks for the readiness of a node."""
        def ask():
            while True:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{self.admin[at]}/readyz", timeout=2) as answer:
                        if answer.status == 200:
                            return
                except OSError:
                    pass
                time.sleep(0.1)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        self.serve_until(lambda: not asking.is_alive())
        self.running.add(at)

    def drop_late(self, now):
        """Gives up attempts to connect that take too long."""
        for client in self.clients:
            if client.socket and client.socket.fileno() >= 0 and not client.connected and client.deadline < now:
                client.lose("no answer")

    def run(self):
        self.start_bus()
        if self.arguments.users:
            self.write_users()
        self.start_brokers()
        for at in range(self.arguments.nodes):
            self.start(at)
        for at in range(self.arguments.nodes):
            self.wait_ready(at)
        self.clients = [Client(number, self) for number in range(self.arguments.clients)]
        for number, client in enumerate(self.clients):
            client.connect()
            if number % 50 == 0:
                self.pause(0.05)
        self.serve_until(lambda: self.ready >= len(self.clients))
        self.due = time.monotonic()
        self.pause(self.arguments.pause)
        if self.arguments.spare:
            self.start(self.arguments.nodes)
            self.wait_ready(self.arguments.nodes)
        for at in range(self.arguments.nodes):
            self.restart(at, returns=at + 1 < self.arguments.nodes or not self.arguments.spare)
            self.pause(self.arguments.pause)
        self.pause(self.arguments.settle + self.arguments.pause)
        self.due = None
        self.pause(3)
        self.report()

    def restart(self, at, returns):
        began = time.monotonic()
        self.stopping = at
        self.running.discard(at)
        self.spans.append(Span())
        self.nodes[at].send_signal(signal.SIGTERM)
        self.serve_until(lambda: self.nodes[at].poll() is not None)
        if not returns:
            return
        self.start(at)
        self.wait_ready(at)
        print(f"node {at}: {time.monotonic() - began:.1f} s until it is ready again", flush=True)

    def expected(self):
        return expected_losses(self.arguments.nodes, self.arguments.spare, self.arguments.choice == "least")

    def report(self):
        away = sorted(time for client in self.clients for time in client.away)
        sent = sum(client.sent for client in self.clients)
        got = sum(len(client.got) for client in self.clients)
        at = lambda part: round(away[min(len(away) - 1, int(len(away) * part))], 3) if away else 0
        print(json.dumps({
            "disconnects per client": round(sum(client.losses for client in self.clients) / len(self.clients), 3),
            "expected by the order of restarts": round(self.expected(), 3),
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
    parser.add_argument("--spare", action="store_true")
    parser.add_argument("--choice", choices=["random", "least"], default="random")
    parser.add_argument("--rate", type=float, default=10)
    parser.add_argument("--pause", type=float, default=2)
    world = World(parser.parse_args())
    try:
        world.run()
    finally:
        for process in [process for process in [*world.nodes, *world.brokers, world.nats] if process]:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
