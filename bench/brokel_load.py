"""The load of the Brokel study: publishers that share the records of a taxi trace, and subscribers that hold each topic once (BRK-35, 36).

Clients of MQTT 3.1.1 with sessions that outlive their connections, all in one event loop, so that one clock times every message. A
publisher has at most a window of messages under way that nobody has received yet; that is what a request and its answer are in the study.
"""
import asyncio
import struct
import sys
import time
from array import array

from mqtt_wire import packet, text

PUMP_SECONDS = 0.005  # how often publishers are looked at
GIVE_UP_SECONDS = 5.0  # a message at QoS 0 that has not come by then does not hold its publisher up any longer
RECONNECT_SECONDS = 0.05


def read_length(data, at):
    """The remaining length that begins at `at`, and where the body begins after the first byte; `None` when it is cut off."""
    length = shift = 0
    for position in range(at, min(at + 4, len(data))):
        length |= (data[position] & 0x7F) << shift
        shift += 7
        if not data[position] & 0x80:
            return length, position - at + 2
    return None, 0


def read_records(lines, size=0):
    """Topic and body of each record: the taxi's number, and location and timestamp (BRK-45), filled up with spaces to `size` bytes.
    Records that are alike count once."""
    records = {}
    for line in lines:
        taxi, timestamp, point = line.strip().split(";")
        latitude, longitude = point[len("POINT("):-1].split(" ")
        records[f"taxi/{taxi}".encode(), f"{latitude} {longitude} {timestamp}".ljust(size).encode()] = len(records)
    return records


class Client(asyncio.Protocol):
    """Connects, and connects again for as long as it is wanted."""

    def __init__(self, name, endpoints, turn=0):
        self.name, self.endpoints, self.turn = name.encode(), endpoints, turn
        self.transport, self.buffer, self.out = None, b"", bytearray()
        self.online, self.wanted, self.lost, self.sessions_lost = asyncio.Event(), True, 0, 0
        self.received = set()  # packet ids at QoS 2 between PUBLISH and PUBREL
        self.connected_before = False
        self.address = None

    async def connect(self):
        loop = asyncio.get_running_loop()
        while self.wanted:
            addresses = self.endpoints()
            self.address = addresses[self.turn % len(addresses)]
            try:
                await loop.create_connection(lambda: self, *self.address)
                return
            except OSError:
                self.turn += 1
                await asyncio.sleep(RECONNECT_SECONDS)

    def connection_made(self, transport):
        self.transport, self.buffer = transport, b""
        self.out.clear()
        # Level 4, no flags: the session stays. No keep-alive.
        transport.write(packet(0x10, text(b"MQTT") + bytes([4, 0, 0, 0]) + text(self.name)))

    def connection_lost(self, _error):
        self.online.clear()
        self.transport = None
        if self.wanted:
            self.lost += 1
            asyncio.get_running_loop().call_later(RECONNECT_SECONDS, lambda: asyncio.ensure_future(self.connect()))

    def close(self):
        self.wanted = False
        if self.transport:
            self.transport.write(b"\xe0\0")
            self.transport.close()

    def data_received(self, data):
        data = self.buffer + data if self.buffer else data
        at, end = 0, len(data)
        while end - at >= 2:
            length, head = data[at + 1], 2
            if length & 0x80:
                length, head = read_length(data, at + 1)
                if length is None:
                    break
            if end - at < head + length:
                break
            self.take(data[at], data[at + head:at + head + length])
            at += head + length
        self.buffer = data[at:]
        self.flush()

    def flush(self):
        if self.out and self.transport:
            self.transport.write(bytes(self.out))
            self.out.clear()

    def take(self, first, body):
        kind = first >> 4
        if kind == 3:
            self.publish(first, body)
        elif kind == 2:
            if body[1]:
                sys.exit(f"{self.name.decode()}: the connection is refused with code {body[1]}")
            if self.connected_before and not body[0] & 1:
                self.sessions_lost += 1
            self.begin(bool(body[0] & 1))
            self.connected_before = True
        elif kind == 6:
            self.received.discard(body)
            self.out += b"\x70\x02" + body
        else:
            self.acknowledged(kind, body)

    def publish(self, first, body):
        size = body[0] << 8 | body[1]
        topic, at, qos = body[2:2 + size], 2 + size, first >> 1 & 3
        if qos:
            identifier = body[at:at + 2]
            at += 2
            self.out += (b"\x40\x02" if qos == 1 else b"\x50\x02") + identifier
            if qos == 2:
                if identifier in self.received:
                    return
                self.received.add(identifier)
        self.message(topic, body[at:])

    def begin(self, _present):
        self.online.set()

    def acknowledged(self, _kind, _body):
        pass

    def message(self, _topic, _payload):
        pass


class Subscriber(Client):
    """Holds some topics at the given QoS."""

    def __init__(self, name, endpoints, turn, topics, qos, deliver):
        super().__init__(name, endpoints, turn)
        self.topics, self.qos, self.message, self.subscribed = topics, qos, deliver, asyncio.Event()

    def begin(self, present):
        if present:
            super().begin(present)
        elif self.topics:
            self.out += packet(0x82, b"\0\1" + b"".join(text(topic) + bytes([self.qos]) for topic in self.topics))

    def acknowledged(self, kind, _body):
        if kind == 9:
            self.online.set()
            self.subscribed.set()


class Publisher(Client):
    """Publishes its share of the records, with what is not acknowledged kept over connections."""

    def __init__(self, name, endpoints, turn, share, qos, window):
        super().__init__(name, endpoints, turn)
        self.share, self.next, self.qos, self.window = share, 0, qos, window
        self.open = 0  # published and not received by anybody
        self.tokens, self.identifier = 0.0, 0
        self.inflight, self.moving = {}, False

    def move(self):
        """Leaves for the next endpoint, as a client would whose connection has ended, once all is acknowledged."""
        self.moving = False
        self.turn += 1
        self.transport.write(b"\xe0\0")
        self.transport.close()

    def begin(self, _present):
        for identifier, kept in self.inflight.items():
            # None: PUBREC has come, and PUBREL is due.
            self.out += b"\x62\x02" + identifier if kept is None else bytes([kept[0] | 8]) + kept[1:]
        self.online.set()

    def send(self, topic, payload):
        self.open += 1
        self.tokens -= 1
        if not self.qos:
            self.out += packet(0x30, text(topic) + payload)
            return
        self.identifier = self.identifier % 65535 + 1
        identifier = struct.pack(">H", self.identifier)
        kept = packet(0x30 | self.qos << 1, text(topic) + identifier + payload)
        self.inflight[identifier] = kept
        self.out += kept

    def acknowledged(self, kind, body):
        if kind == 5:
            self.inflight[body] = None
            self.out += b"\x62\x02" + body
        elif kind in (4, 7):
            self.inflight.pop(body, None)


class Load:
    """All clients, and what came of every record."""

    def __init__(self, records, endpoints, options):
        self.records, self.options = records, options
        self.items = list(records)
        self.count = len(self.items)
        self.sent_at = array("d", bytes(8 * self.count))
        self.latency = array("d", [-1.0] * self.count)
        self.copies = bytearray(self.count)
        self.given_up = bytearray(self.count)
        self.deliveries = array("d")
        self.delivered = self.duplicates = self.strangers = self.resent = 0
        topics = sorted({topic for topic, _ in self.items})
        many, prefix = options["clients"], options.get("prefix", "")
        self.publishers = [
            Publisher(f"{prefix}publisher-{n}", endpoints, n, range(n, self.count, many), options["qos"], options["window"])
            for n in range(many)
        ]
        self.subscribers = [
            Subscriber(f"{prefix}subscriber-{n}", endpoints, n, topics[n::many], options["qos"], self.deliver)
            for n in range(many)
        ]

    def deliver(self, topic, payload):
        index = self.records.get((topic, payload))
        if index is None:
            self.strangers += 1
            return
        self.copies[index] = min(255, self.copies[index] + 1)
        if self.copies[index] > 1:
            self.duplicates += 1
            return
        now = time.time()
        self.latency[index] = now - self.sent_at[index]
        self.deliveries.append(now)
        self.delivered += 1
        if not self.given_up[index]:
            self.publishers[index % len(self.publishers)].open -= 1

    async def connect(self):
        clients = self.subscribers + self.publishers
        await asyncio.gather(*(client.connect() for client in clients))
        waits = [client.subscribed.wait() for client in self.subscribers if client.topics]
        await asyncio.wait_for(asyncio.gather(*waits, *(client.online.wait() for client in self.publishers)), 120)

    def pump(self, seconds):
        """Lets every publisher send what its rate and its window allow. Returns how many are not done."""
        rate, busy = self.options["rate"], 0
        if self.options["fall"] and self.delivered >= self.options["fall"][0] * self.count:
            rate = self.options["fall"][1]
        each = rate / len(self.publishers)
        for publisher in self.publishers:
            share, left = publisher.share, len(publisher.share) - publisher.next
            if not left:
                continue
            busy += 1
            publisher.tokens = min(publisher.tokens + each * seconds, publisher.window)
            if publisher.moving and publisher.transport and not publisher.inflight:
                publisher.move()
                continue
            if publisher.moving or not publisher.online.is_set():
                continue
            now = time.time()
            for _ in range(min(left, int(publisher.tokens), publisher.window - publisher.open)):
                index = share[publisher.next]
                publisher.next += 1
                self.sent_at[index] = now
                publisher.send(*self.items[index])
            publisher.flush()
        return busy

    def give_up(self, since):
        """At QoS 0 nobody waits for ever."""
        for index in range(self.count):
            if self.sent_at[index] and not self.copies[index] and not self.given_up[index] and self.sent_at[index] < since:
                self.given_up[index] = 1
                self.publishers[index % len(self.publishers)].open -= 1

    async def run(self):
        """Publishes everything, and waits until all has come or nothing comes any more."""
        self.began = last = looked = progress = time.time()
        before = 0
        while self.delivered < self.count:
            await asyncio.sleep(self.options.get("pump", PUMP_SECONDS))
            now = time.time()
            busy = self.pump(now - last)
            last = now
            if self.delivered != before:
                before, progress = self.delivered, now
            if self.options["qos"] == 0 and now - looked > 1:
                self.give_up(now - GIVE_UP_SECONDS)
                looked = now
            if (not busy and now - progress > self.options["settle"]) or now - progress > 120 or now - self.began > self.options["limit"]:
                break
        # Copies that are still under way count as duplicates.
        await asyncio.sleep(self.options["linger"])

    def close(self):
        for client in self.publishers + self.subscribers:
            client.close()

    def lost(self):
        """Records that were published and never received."""
        return [index for index in range(self.count) if self.sent_at[index] and not self.copies[index]]

    def gap(self, at, within=30.0):
        """The longest time without any delivery, and the longest wait of a message, around an event at `at`."""
        times = [time for time in self.deliveries if at - 1 <= time <= at + within]
        gap = max((b - a for a, b in zip(times, times[1:])), default=None)
        waits = [
            self.latency[index] for index in range(self.count)
            if self.latency[index] >= 0 and self.sent_at[index] <= at + within and self.sent_at[index] + self.latency[index] >= at
        ]
        return gap, max(waits, default=None)

    def result(self):
        waits = sorted(latency for latency in self.latency if latency >= 0)
        end = self.deliveries[-1] if self.deliveries else self.began
        seconds = end - self.began
        clients = self.publishers + self.subscribers
        return {
            "began": self.began, "time_s": seconds, "messages": self.count, "delivered": self.delivered,
            "mps": self.delivered / seconds if seconds else 0.0, "lost": len(self.lost()),
            "not_sent": sum(1 for at in self.sent_at if not at), "duplicates": self.duplicates, "strangers": self.strangers,
            "reconnects": sum(client.lost for client in clients), "sessions_lost": sum(client.sessions_lost for client in self.subscribers),
            "latency_p50_ms": 1000 * waits[len(waits) // 2] if waits else None,
            "latency_p99_ms": 1000 * waits[len(waits) * 99 // 100] if waits else None,
            "latency_max_ms": 1000 * waits[-1] if waits else None,
            "per_second": self.per_second(end),
        }

    def per_second(self, end):
        buckets = [0] * (int(end - self.began) + 1)
        for at in self.deliveries:
            buckets[int(at - self.began)] += 1
        return buckets
