"""A message that enters by one protocol leaves by every other one, with the properties that docs/hub.md says of both."""

import asyncio
import base64
import contextlib
import http.client
import json
import queue
import re
import socket
import subprocess
import threading
import time
import unittest
import urllib.request

import aiocoap
from broker import MOSQUITTO, PATIENCE, ROOT, Broker, free_ports
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from pipelines import PipelineCase
from test_hub_kafka import JAVA, LIBRARIES, Kafka
from test_hub_nats import NATS, Nats
from websockets.sync.client import connect

COLUMNS = ["content type", "expiry", "response topic", "correlation data", "user properties"]
# CoAP has no number for it.
CONTENT_TYPE, EXPIRY, RESPONSE_TOPIC, CORRELATION, USER = "text/x-pairs", 1000, "answers/1", b"\x00c7", ("unit", "C")
ENCODED = base64.b64encode(CORRELATION).decode()

# The ways in and out, each with its row of the table.
WAYS_IN = {
    "mqtt-5": "MQTT 5", "mqtt-3": "MQTT 3", "websocket": "MQTT 5", "http": "HTTP", "coap": "CoAP", "hook": "HTTP",
    "nats": "NATS", "kafka": "Kafka",
}
WAYS_OUT = {
    "mqtt-5": "MQTT 5", "mqtt-3": "MQTT 3", "websocket": "MQTT 5", "sse": "HTTP", "http-websocket": "HTTP", "coap": "CoAP",
    "nats": "NATS", "kafka": "Kafka",
}


def table():
    """The columns with an entry for each row of the table on the page."""
    text = (ROOT / "docs" / "hub.md").read_text(encoding="utf-8").split("## Properties of messages\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0][1:] == COLUMNS, cells[0]
    return {row[0]: {column for column, cell in zip(COLUMNS, row[1:]) if cell} for row in cells[2:]}


def row_of(rows, name):
    """The row that begins with a name, which may be a link."""
    found = [columns for label, columns in rows.items() if label.lstrip("[").startswith(name)]
    assert len(found) == 1, (name, list(rows))
    return found[0]


def kept(content_type=None, expiry=None, response_topic=None, correlation=None, users=()):
    """The columns whose property a message still has, with the value that was sent."""
    found = {
        "content type": content_type == CONTENT_TYPE,
        "expiry": expiry is not None and 0 < int(expiry) <= EXPIRY,
        "response topic": response_topic == RESPONSE_TOPIC,
        "correlation data": correlation == CORRELATION,
        "user properties": USER in [tuple(pair) for pair in users],
    }
    return {column for column, is_kept in found.items() if is_kept}


def of_event(event):
    """The columns of a message as HTTP and CoAP show it."""
    data = event.get("correlation_data")
    return event["payload"], kept(
        event.get("content_type"), event.get("expiry"), event.get("response_topic"), data and base64.b64decode(data),
        event.get("user_properties") or (),
    )


def of_headers(headers, prefix):
    """The columns of a message with headers of Kafka or NATS."""
    headers = {name.lower().replace("-", "_"): value for name, value in headers.items()}
    data, at = headers.get(f"{prefix}_correlation_data"), headers.get(f"{prefix}_expires_at")
    return kept(
        headers.get("content_type"), at and (int(at) - time.time() * 1000) / 1000 + 1, headers.get(f"{prefix}_response_topic"),
        data and base64.b64decode(data), [(name, value) for name, value in headers.items()],
    )


class PairsBroker(Broker):
    """A broker with listeners of all protocols."""

    def _tidegate(self, arguments):
        more = [part for address in ("http://127.0.0.1:0", "coap://127.0.0.1:0") for part in ("--listen", address)]
        return super()._tidegate([*more, *arguments])

    def _wait_until_ready(self):
        super()._wait_until_ready()
        ready = self.output.wait(lambda line: " ready: " in line)[0]
        self.web = re.search(r"(?<!=)http://\S+", ready)[0]
        self.sensors = re.search(r"coap://\S+", ready)[0]


def in_background(work):
    threading.Thread(target=work, daemon=True).start()


@unittest.skipIf(MOSQUITTO, "the other protocols are ours")
@unittest.skipUnless(NATS, "there is no NATS server here")
class Pairs(PipelineCase):
    def setUp(self):
        super().setUp()
        self.nats = Nats(self, self.folder)
        self.nats.start()
        self.kafka = Kafka(self, self.folder) if JAVA and LIBRARIES.is_dir() else None
        self.hook = free_ports(1)[0]
        text = (
            '[[sink]]\nname = "here"\nkind = "topic"\n'
            f'[[sink]]\nname = "nats"\nkind = "nats"\nurl = "nats://127.0.0.1:{self.nats.port}"\nstream = "OUT"\nsubject = "out"\n'
            f'[[source]]\nname = "nats"\nkind = "nats"\nurl = "nats://127.0.0.1:{self.nats.port}"\nsubject = "in.>"\n'
            f'[[source]]\nname = "hook"\nkind = "http"\nlisten = "127.0.0.1:{self.hook}"\n'
            '[[pipeline]]\nname = "hot"\nsource = "nats"\ntopic = "\'pairs/nats\'"\nto = ["here"]\n'
            '[[pipeline]]\nname = "of-hook"\nsource = "hook"\nto = ["here"]\n'
            '[[pipeline]]\nname = "to-nats"\nfrom = ["pairs/#"]\nto = ["nats"]\n'
        )
        if self.kafka:
            self.kafka.start()
            url = f'url = "kafka://127.0.0.1:{self.kafka.port}"\n'
            self.kafka.run("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", f"127.0.0.1:{self.kafka.port}",
                           "--create", "--topic", "in", "--partitions", "1")
            text += (
                f'[[sink]]\nname = "kafka"\nkind = "kafka"\ntopic = "out"\n{url}'
                f'[[source]]\nname = "kafka"\nkind = "kafka"\ntopic = "in"\n{url}'
                '[[pipeline]]\nname = "of-kafka"\nsource = "kafka"\ntopic = "\'pairs/kafka\'"\nto = ["here"]\n'
                '[[pipeline]]\nname = "to-kafka"\nfrom = ["pairs/#"]\nto = ["kafka"]\n'
            )
        self.config.write_text(text, encoding="utf-8")
        self.broker = PairsBroker("--config", str(self.config), "--data", str(self.folder / "data"))
        self.addCleanup(self.broker.close)
        self.seen = queue.Queue()

    # The ways out: each puts its name, the payload and the columns that the message has.

    def listen_mqtt(self, name, protocol, transport="tcp"):
        ready = queue.Queue()
        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=protocol, transport=transport)

        def take(_client, _data, message):
            it = getattr(message, "properties", None)
            columns = set() if it is None else kept(
                getattr(it, "ContentType", None), getattr(it, "MessageExpiryInterval", None), getattr(it, "ResponseTopic", None),
                getattr(it, "CorrelationData", None), getattr(it, "UserProperty", ()),
            )
            self.seen.put((name, message.payload.decode(), columns))

        client.on_message = take
        client.on_subscribe = lambda *_: ready.put(True)
        self.connect(client, transport)
        client.subscribe("pairs/#", qos=1)
        ready.get(timeout=PATIENCE)

    def connect(self, client, transport):
        client.ws_set_options("/mqtt")
        client.connect("127.0.0.1", self.broker.port if transport == "tcp" else self.broker.websocket_port)
        client.loop_start()
        self.addCleanup(client.loop_stop)
        self.addCleanup(client.disconnect)

    def listen_sse(self):
        request = urllib.request.Request(f"{self.broker.web}/topics/pairs/%23", headers={"Accept": "text/event-stream"})
        answer = urllib.request.urlopen(request, timeout=PATIENCE)  # pylint: disable=consider-using-with

        def work():
            # The broker ends the stream.
            with answer, contextlib.suppress(OSError, http.client.HTTPException):
                for line in answer:
                    if line.startswith(b"data:"):
                        self.seen.put(("sse", *of_event(json.loads(line.removeprefix(b"data:")))))

        in_background(work)

    def listen_http_websocket(self):
        url = self.broker.web.replace("http", "ws", 1)
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        socket_of_http = stack.enter_context(connect(f"{url}/subscribe?filter=pairs/%23&ack=auto", open_timeout=PATIENCE))
        in_background(lambda: [self.seen.put(("http-websocket", *of_event(json.loads(text)))) for text in socket_of_http])

    def listen_coap(self):
        ready = queue.Queue()

        async def observe():
            context = await aiocoap.Context.create_client_context()
            message = aiocoap.Message(code=aiocoap.GET, uri=f"{self.broker.sensors}/topics/pairs/%23", observe=0)
            message.opt.uri_query = ("event=true",)
            request = context.request(message)
            await request.response
            ready.put(True)
            async for answer in request.observation:
                self.seen.put(("coap", *of_event(json.loads(answer.payload))))

        in_background(lambda: asyncio.run(observe()))
        ready.get(timeout=PATIENCE)

    def nats_client(self):
        client = socket.create_connection(("127.0.0.1", self.nats.port), PATIENCE)
        self.addCleanup(client.close)
        client.sendall(b'CONNECT {"verbose":false,"headers":true}\r\n')
        return client

    def listen_nats(self):
        client = self.nats_client()
        lines = client.makefile("rb")
        client.sendall(b"SUB out.> 1\r\nPING\r\n")
        while lines.readline() != b"PONG\r\n":
            pass

        def work():
            for line in lines:
                if not line.startswith(b"HMSG"):
                    continue
                head, whole = map(int, line.split()[-2:])
                message = lines.read(whole)
                pairs = [text.split(": ", 1) for text in message[:head].decode().split("\r\n") if ": " in text]
                self.seen.put(("nats", message[head:].decode(), of_headers(dict(pairs), "mqtt")))

        in_background(work)

    def read_kafka(self, count):
        """The messages at Kafka, read after the others."""
        def has_all(lines):
            return len(lines) >= count

        deadline = time.monotonic() + PATIENCE
        while True:
            lines = self.kafka.run("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server",
                                   f"127.0.0.1:{self.kafka.port}", "--topic", "out", "--from-beginning", "--timeout-ms", "10000",
                                   "--property", "print.headers=true").splitlines()
            lines = [line for line in lines if "\t" in line]
            if has_all(lines) or time.monotonic() > deadline:
                break
        for line in lines:
            headers, payload = line.rsplit("\t", 1)
            pairs = [pair.split(":", 1) for pair in headers.split(",")]
            self.seen.put(("kafka", payload, of_headers(dict(pairs), "mqtt")))

    # The ways in: each publishes its own name.

    def publish_mqtt(self, name, protocol, transport="tcp"):
        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=protocol, transport=transport)
        self.connect(client, transport)
        properties = None
        if protocol == paho.MQTTv5:
            properties = Properties(PacketTypes.PUBLISH)
            properties.ContentType, properties.MessageExpiryInterval = CONTENT_TYPE, EXPIRY
            properties.ResponseTopic, properties.CorrelationData = RESPONSE_TOPIC, CORRELATION
            properties.UserProperty = USER
        sent = client.publish(f"pairs/{name}", name, qos=1, properties=properties)
        sent.wait_for_publish(PATIENCE)
        self.assertTrue(sent.is_published())

    def post(self, url, name):
        headers = {
            "Content-Type": CONTENT_TYPE, "X-MQTT-Expiry": str(EXPIRY), "X-MQTT-Response-Topic": RESPONSE_TOPIC,
            "X-MQTT-Correlation-Data": ENCODED, f"X-MQTT-User-{USER[0]}": USER[1],
        }
        request = urllib.request.Request(f"{url}/pairs/{name}", data=name.encode(), headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            self.assertEqual(answer.status, 200)

    def put_coap(self):
        async def put():
            context = await aiocoap.Context.create_client_context()
            message = aiocoap.Message(code=aiocoap.PUT, payload=b"coap", uri=f"{self.broker.sensors}/topics/pairs/coap")
            message.opt.uri_query = (
                f"content_type={CONTENT_TYPE}", f"expiry={EXPIRY}", f"response_topic={RESPONSE_TOPIC}",
                f"correlation_data={ENCODED}", f"user.{USER[0]}={USER[1]}",
            )
            answer = await asyncio.wait_for(context.request(message).response, PATIENCE)
            await context.shutdown()
            return answer

        self.assertTrue(asyncio.run(put()).code.is_successful())

    def publish_nats(self):
        at = int(time.time() * 1000) + EXPIRY * 1000
        headers = (
            f"NATS/1.0\r\nContent-Type: {CONTENT_TYPE}\r\nMqtt-Expires-At: {at}\r\nMqtt-Response-Topic: {RESPONSE_TOPIC}\r\n"
            f"Mqtt-Correlation-Data: {ENCODED}\r\n{USER[0]}: {USER[1]}\r\n\r\n"
        ).encode()
        self.nats_client().sendall(f"HPUB in.x {len(headers)} {len(headers) + 4}\r\n".encode() + headers + b"nats\r\n")

    def produce_kafka(self):
        at = int(time.time() * 1000) + EXPIRY * 1000
        headers = (
            f"content-type:{CONTENT_TYPE},mqtt_expires_at:{at},mqtt_response_topic:{RESPONSE_TOPIC},"
            f"mqtt_correlation_data:{ENCODED},{USER[0]}:{USER[1]}"
        )
        command = self.kafka.command("org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server",
                                     f"127.0.0.1:{self.kafka.port}", "--topic", "in", "--property", "parse.headers=true")
        subprocess.run(command, input=f"{headers}\tkafka\n", capture_output=True, text=True, check=True)

    def test_each_way_in_leaves_by_each_way_out(self):
        rows = table()
        ways_in = {name for name in WAYS_IN if name != "kafka" or self.kafka}
        ways_out = {name for name in WAYS_OUT if name != "kafka" or self.kafka}
        self.wait_for_all(self.broker, ["hot", "of-hook", "to-nats", *(["of-kafka", "to-kafka"] if self.kafka else [])])
        self.listen_mqtt("mqtt-5", paho.MQTTv5)
        self.listen_mqtt("mqtt-3", paho.MQTTv311)
        self.listen_mqtt("websocket", paho.MQTTv5, "websockets")
        self.listen_sse()
        self.listen_http_websocket()
        self.listen_coap()
        self.listen_nats()
        # Six clients, and the pipelines that read topics.
        self.wait_for_subscriptions(8 if self.kafka else 7)
        self.publish_mqtt("mqtt-5", paho.MQTTv5)
        self.publish_mqtt("mqtt-3", paho.MQTTv311)
        self.publish_mqtt("websocket", paho.MQTTv5, "websockets")
        self.post(f"{self.broker.web}/topics", "http")
        self.post(f"http://127.0.0.1:{self.hook}", "hook")
        self.put_coap()
        self.publish_nats()
        if self.kafka:
            self.produce_kafka()
            self.wait_for_all(self.broker, ["of-kafka", "to-kafka"])
        found = {}
        self.collect(found, ways_in, ways_out - {"kafka"})
        if self.kafka:
            self.read_kafka(len(ways_in))
            self.collect(found, ways_in, {"kafka"})
        for way_in in sorted(ways_in):
            for way_out in sorted(ways_out):
                with self.subTest(way_in=way_in, way_out=way_out):
                    expected = row_of(rows, WAYS_IN[way_in]) & row_of(rows, WAYS_OUT[way_out])
                    self.assertEqual(found[way_in, way_out], expected)

    def wait_for_subscriptions(self, count):
        """Waits until the broker has this number of subscriptions."""
        deadline, line = time.monotonic() + PATIENCE, f'mqtt_subscriptions{{kind="plain"}} {count}'
        while True:
            url = f"http://127.0.0.1:{self.broker.admin_port}/metrics"
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                metrics = answer.read().decode().splitlines()
            if line in metrics:
                return
            found = [text for text in metrics if text.startswith("mqtt_subscriptions")]
            self.assertLess(time.monotonic(), deadline, found)

    def collect(self, found, ways_in, ways_out):
        """Waits until each of these messages has left by each of these ways."""
        missing = {(way_in, way_out) for way_in in ways_in for way_out in ways_out} - set(found)
        deadline = time.monotonic() + PATIENCE
        while missing:
            try:
                way_out, way_in, columns = self.seen.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"these did not come: {sorted(missing)}") from None
            found[way_in, way_out] = columns
            missing.discard((way_in, way_out))


if __name__ == "__main__":
    unittest.main()
