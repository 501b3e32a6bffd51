"""What tests of pipelines into real servers share: a broker with a pipeline, a publisher, and its books."""

import collections
import json
import os
import pathlib
import random
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

from broker import MOSQUITTO, PATIENCE, Broker
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion


# How many times the rounds of each test with kill -9 are played. With more than once, the moments of the kills are others in
# each run.
KILLS = int(os.environ.get("E2E_KILLS", "1"))


@unittest.skipIf(MOSQUITTO, "pipelines are ours")
class PipelineCase(unittest.TestCase):
    """A test with a broker whose pipeline `hot` is configured in the file `config`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tidegate-e2e-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / "hub.toml"

    def broker(self):
        """Starts a broker on the data of the one before."""
        broker = Broker("--config", str(self.config), "--data", str(self.folder / "data"))
        self.addCleanup(broker.close)
        return broker

    def publish(self, broker, payloads, topic="plant/a/temp"):
        """Publishes at QoS 1 and waits for the acknowledgement of each."""
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id="pump-7", protocol=paho.MQTTv5)
        client.max_queued_messages_set(0)
        client.connect("127.0.0.1", broker.port)
        client.loop_start()
        for sent in [client.publish(topic, json.dumps(payload), qos=1) for payload in payloads]:
            sent.wait_for_publish(PATIENCE)
            self.assertTrue(sent.is_published())
        client.disconnect()
        client.loop_stop()

    def wait(self, broker, wanted):
        """What the hub says of the pipeline, once that is so."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with urllib.request.urlopen(f"http://127.0.0.1:{broker.admin_port}/api/v1/hub", timeout=PATIENCE) as answer:
                status = json.load(answer)["hot"]
            if wanted(status):
                return status
            self.assertLess(time.monotonic(), deadline, status)

    def wait_for_all(self, broker, names):
        """Waits until no message waits for these pipelines."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with urllib.request.urlopen(f"http://127.0.0.1:{broker.admin_port}/api/v1/hub", timeout=PATIENCE) as answer:
                status = json.load(answer)
            if all(status[name]["state"] == "running" and status[name]["waiting"] == 0 for name in names):
                return
            self.assertLess(time.monotonic(), deadline, status)

    def kill_again_and_again(self, rounds=4, server=None):
        """Publishes numbers while the broker is killed, and returns the numbers that were acknowledged, after all have
        left the last broker. `server` is that of a sink: in every second round it is killed before the broker."""
        seed = 7
        if KILLS > 1:
            seed = random.randrange(1 << 32)
            print(f"{self.id()}: {rounds * KILLS} kills of seed {seed}", file=sys.stderr)
        chance, acknowledged, number = random.Random(seed), set(), 0
        for place in range(rounds * KILLS):
            broker, books = self.broker(), Books(number)
            books.start(broker.port)
            # It dies with some messages acknowledged and others under way.
            count = chance.randrange(50, 400)
            books.wait(count)
            strikes = server and place % 2
            if strikes:
                server.stop()
                books.wait(count + 50)
            broker.kill()
            if strikes:
                server.start()
            number = books.stop()
            acknowledged |= books.acknowledged
        broker = self.broker()
        self.wait(broker, lambda it: it["state"] == "running" and it["waiting"] == 0)
        broker.kill()
        return acknowledged


class Books:
    """A publisher of numbers that writes down which ones were acknowledged."""

    WINDOW = 100

    def __init__(self, first):
        self.next = first
        # The numbers sent with a packet identifier, in order, and how many of them were acknowledged: an identifier is
        # used again after its acknowledgement.
        self.sent, self.confirmed, self.count = collections.defaultdict(list), collections.Counter(), 0
        self.room, self.changed, self.stopped = threading.Semaphore(self.WINDOW), threading.Condition(), False
        # A client that came back would send numbers again, which were other messages.
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id="pump-7", protocol=paho.MQTTv5, reconnect_on_failure=False)
        self.client.max_queued_messages_set(0)
        self.client.on_publish = self._on_publish
        self.client.on_disconnect = self._on_disconnect
        self.ended = False
        self.thread = threading.Thread(target=self._publish, daemon=True)

    def _on_publish(self, _client, _data, mid, reason, _properties):
        if not reason.is_failure:
            with self.changed:
                self.confirmed[mid] += 1
                self.count += 1
                self.changed.notify_all()
        self.room.release()

    def _on_disconnect(self, *_):
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def _publish(self):
        # No lock is held here: the client calls back with locks of its own.
        while self.room.acquire() and not self.stopped:  # pylint: disable=consider-using-with
            sent = self.client.publish("plant/a/temp", json.dumps({"temp": self.next}), qos=1)
            self.sent[sent.mid].append(self.next)
            self.next += 1

    def start(self, port):
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        self.thread.start()

    def wait(self, number):
        """Waits until so many are acknowledged."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.count >= number, PATIENCE):
                raise AssertionError(f"{self.count} of {number} messages were acknowledged")

    def wait_or_end(self, number):
        """Waits until so many are acknowledged, or the connection has ended."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.ended or self.count >= number, 4 * PATIENCE):
                raise AssertionError(f"{self.count} of {number} messages were acknowledged")

    def stop(self):
        """Ends the publisher and returns the next number."""
        self.stopped = True
        self.room.release()
        self.thread.join(PATIENCE)
        self.client.disconnect()
        self.client.loop_stop()
        return self.next

    @property
    def acknowledged(self):
        """The numbers that the broker has acknowledged."""
        return {number for mid, count in self.confirmed.items() for number in self.sent[mid][:count]}
