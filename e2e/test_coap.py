"""CoAP beside MQTT: libcoap's client and aiocoap publish, read and observe; Paho and urllib are at the other side."""

import asyncio
import json
import re
import subprocess
import tempfile
import unittest
import urllib.request

import aiocoap
from broker import MOSQUITTO, PATIENCE
from configured import ConfiguredBroker, paho_listener
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

CONFIG = """
[[listener]]
address = "127.0.0.1:0"
allow_anonymous = true
[[listener]]
address = "ws://127.0.0.1:0/mqtt"
[[listener]]
name = "web"
address = "http://127.0.0.1:0"
[[listener]]
name = "sensors"
address = "coap://127.0.0.1:0"
max_packet_size = "64KiB"
[[listener]]
name = "tenant-sensors"
address = "coap://127.0.0.1:0"
[[auth]]
file = "FOLDER/users"
[access]
rules_file = "FOLDER/rules.toml"
[[tenant]]
name = "other"
listeners = ["tenant-sensors"]
"""

RULES = """
[[rule]]
allow = true
topics = ["free/#"]
[[rule]]
allow = true
users = ["ann"]
listeners = ["sensors"]
topics = ["ann/#"]
"""

ANN = "username=ann&password=nna"
BLOCK = 1024


class CoapBroker(ConfiguredBroker):
    """A broker with users, rules, a tenant and two listeners for CoAP."""

    config_text, rules_text, users = CONFIG, RULES, ("ann", "bob")

    def _wait_until_ready(self):
        super()._wait_until_ready()
        ready = self.output.wait(lambda line: " ready: " in line)[0]
        self.sensors, self.tenant_sensors = re.findall(r"coap://\S+", ready)
        self.web = re.search(r"(?<!=)http://\S+", ready)[0]


@unittest.skipIf(MOSQUITTO, "CoAP is ours")
class Coap(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = CoapBroker()

    @classmethod
    def tearDownClass(cls):
        cls.broker.close()

    async def asyncSetUp(self):
        self.context = await aiocoap.Context.create_client_context()

    async def asyncTearDown(self):
        await self.context.shutdown()

    async def ask(self, path, method=aiocoap.GET, payload=b"", host=None, query=ANN, **options):
        """The answer to a request by aiocoap."""
        message = aiocoap.Message(code=method, payload=payload, uri=f"{host or self.broker.sensors}/topics/{path}")
        message.opt.uri_query = tuple(part for part in query.split("&") if part)
        for name, value in options.items():
            setattr(message.opt, name, value)
        return await asyncio.wait_for(self.context.request(message).response, PATIENCE)

    def libcoap(self, *arguments):
        """What libcoap's client prints."""
        command = ["coap-client-notls", "-B", str(PATIENCE), *arguments]
        return subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE).stdout

    def listen(self, topic):
        """Messages of a topic, as Paho gets them."""
        return paho_listener(self, self.broker, topic, "bob", "bob")

    def web(self, path, body=None, **headers):
        """The status and the body of an answer over HTTP."""
        request = urllib.request.Request(f"{self.broker.web}{path}", data=body, headers=headers)
        request.add_header("Authorization", "Basic YW5uOm5uYQ==")
        request.add_header("Content-Type", "text/plain")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read()

    def test_libcoap_publishes_and_reads(self):
        _, messages = self.listen("free/libcoap")
        url = f"{self.broker.sensors}/topics/free/libcoap?{ANN}"
        self.libcoap("-m", "put", "-t", "json", "-e", '{"n":1}', f"{url}&retain=true&user.unit=C&expiry=600")
        message = messages.get(timeout=PATIENCE)
        self.assertEqual((message.payload, message.qos), (b'{"n":1}', 1))
        self.assertEqual(message.properties.ContentType, "application/json")
        self.assertEqual(message.properties.UserProperty, [("unit", "C")])
        self.assertTrue(0 < message.properties.MessageExpiryInterval <= 600)
        self.assertEqual(self.libcoap("-m", "get", url).strip(), b'{"n":1}')
        self.libcoap("-N", "-m", "post", "-e", "once", url)
        message = messages.get(timeout=PATIENCE)
        self.assertEqual((message.payload, message.qos), (b"once", 0))
        self.assertIn(b"</topics>", self.libcoap("-m", "get", f"{self.broker.sensors}/.well-known/core"))

    def test_libcoap_observes(self):
        client, _ = self.listen("free/unused")
        client.publish("free/observed", b"old", qos=1, retain=True).wait_for_publish(PATIENCE)
        url = f"{self.broker.sensors}/topics/free/observed?{ANN}"
        command = ["stdbuf", "-o0", "coap-client-notls", "-s", str(PATIENCE), "-B", str(PATIENCE), "-m", "get", url]
        observer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(observer.wait)
        self.addCleanup(observer.kill)
        self.addCleanup(observer.stdout.close)
        self.assertEqual(observer.stdout.read(3), b"old")
        for payload in (b"one", b"two"):
            client.publish("free/observed", payload, qos=1).wait_for_publish(PATIENCE)
        seen = b""
        while b"two" not in seen:
            part = observer.stdout.read(1)
            self.assertTrue(part, f"the client has ended after {seen}")
            seen += part
        self.assertLess(seen.index(b"one"), seen.index(b"two"))

    def test_libcoap_sends_and_fetches_blocks(self):
        _, messages = self.listen("free/blocks")
        body = bytes(range(32, 127)) * 100
        with tempfile.NamedTemporaryFile() as file:
            file.write(body)
            file.flush()
            url = f"{self.broker.sensors}/topics/free/blocks?{ANN}&retain=true"
            self.libcoap("-m", "put", "-b", "256", "-f", file.name, url)
        self.assertEqual(messages.get(timeout=PATIENCE).payload, body)
        self.assertEqual(self.libcoap("-m", "get", "-b", "512", url.removesuffix("&retain=true")).rstrip(b"\n"), body)

    async def test_answers_say_what_the_broker_has_decided(self):
        code = aiocoap.numbers.codes.Code
        refused = await self.ask("forbidden", aiocoap.PUT, b"x")
        self.assertEqual((refused.code, refused.payload), (code.FORBIDDEN, b"the access rules do not allow it"))
        self.assertEqual((await self.ask("forbidden")).code, code.FORBIDDEN)
        self.assertEqual((await self.ask("free/x", aiocoap.PUT, b"x", query="")).code, code.UNAUTHORIZED)
        self.assertEqual((await self.ask("free/x", query="username=ann&password=no")).code, code.UNAUTHORIZED)
        self.assertEqual((await self.ask("free/nothing")).code, code.NOT_FOUND)
        self.assertEqual((await self.ask("free/x", aiocoap.DELETE)).code, code.METHOD_NOT_ALLOWED)
        self.assertEqual((await self.ask("free/x", query=f"{ANN}&qso=1")).code, code.BAD_REQUEST)
        self.assertEqual((await self.ask("free/x", aiocoap.POST, b"x" * 70_000)).code, code.REQUEST_ENTITY_TOO_LARGE)

    async def test_a_retained_value_is_read_with_its_tag(self):
        client, _ = self.listen("free/unused")
        properties = Properties(PacketTypes.PUBLISH)
        properties.ContentType = "application/cbor"
        properties.MessageExpiryInterval = 500
        client.publish("free/value", b"\x01", qos=1, retain=True, properties=properties).wait_for_publish(PATIENCE)
        answer = await self.ask("free/value")
        self.assertEqual((answer.payload, int(answer.opt.content_format)), (b"\x01", 60))
        self.assertTrue(0 < answer.opt.max_age <= 500)
        known = await self.ask("free/value", etags=[answer.opt.etag])
        self.assertEqual((known.code, known.payload), (aiocoap.VALID, b""))
        other = await self.ask("free/value", accept=50)
        self.assertEqual(other.code, aiocoap.NOT_ACCEPTABLE)

    async def test_aiocoap_observes_with_all_fields(self):
        client, _ = self.listen("free/unused")
        message = aiocoap.Message(code=aiocoap.GET, uri=f"{self.broker.sensors}/topics/free/all/%23", observe=0)
        message.opt.uri_query = (*ANN.split("&"), "event=true")
        request = self.context.request(message)
        first = await asyncio.wait_for(request.response, PATIENCE)
        self.assertEqual((first.code, first.payload), (aiocoap.CONTENT, b""))
        notifications = aiter(request.observation)
        properties = Properties(PacketTypes.PUBLISH)
        properties.ResponseTopic = "free/answer"
        properties.CorrelationData = b"\x01\x02"
        properties.UserProperty = ("unit", "C")
        client.publish("free/all/a", b"21", qos=1, properties=properties).wait_for_publish(PATIENCE)
        event = json.loads((await asyncio.wait_for(anext(notifications), PATIENCE)).payload)
        self.assertEqual((event["topic"], event["payload"], event["qos"]), ("free/all/a", "21", 1))
        self.assertEqual((event["response_topic"], event["correlation_data"]), ("free/answer", "AQI="))
        self.assertEqual(event["user_properties"], [["unit", "C"]])
        body = b"x" * (3 * BLOCK)
        client.publish("free/all/b", body, qos=1).wait_for_publish(PATIENCE)
        event = json.loads((await asyncio.wait_for(anext(notifications), PATIENCE)).payload)
        self.assertEqual(event["payload"].encode(), body, "a notification in blocks")
        request.observation.cancel()

    async def test_messages_pass_between_coap_and_http(self):
        answer = await self.ask("free/pair", aiocoap.PUT, b"in by CoAP", query=f"{ANN}&retain=true")
        self.assertEqual(answer.code, aiocoap.CHANGED)
        self.assertEqual(self.web("/topics/free/pair"), (200, b"in by CoAP"))
        self.assertEqual(self.web("/topics/free/pair?retain=true", b"in by HTTP")[0], 200)
        self.assertEqual((await self.ask("free/pair")).payload, b"in by HTTP")

    async def test_metrics_count_requests_and_datagrams(self):
        await self.ask("free/counted", aiocoap.PUT, b"x")
        await self.ask("forbidden/counted", aiocoap.PUT, b"x")
        url = f"http://127.0.0.1:{self.broker.admin_port}/metrics"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            metrics = answer.read().decode()
        counted = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line.startswith("tidegate_coap_"))
        for outcome in ("answered", "refused"):
            self.assertGreaterEqual(int(counted[f'tidegate_coap_requests_total{{method="publish",outcome="{outcome}"}}']), 1)
        self.assertGreaterEqual(int(counted['tidegate_coap_datagrams_total{direction="received"}']), 2)

    async def test_users_rules_and_tenants_hold_for_coap(self):
        _, messages = self.listen("free/tenants")
        other = self.broker.tenant_sensors
        theirs = await self.ask("free/tenants", aiocoap.PUT, b"theirs", host=other, query=f"{ANN}&retain=true")
        self.assertEqual(theirs.code, aiocoap.CHANGED)
        self.assertEqual((await self.ask("free/tenants", host=other)).payload, b"theirs")
        self.assertEqual((await self.ask("free/tenants")).code, aiocoap.NOT_FOUND)
        self.assertEqual((await self.ask("free/tenants", aiocoap.PUT, b"ours")).code, aiocoap.CHANGED)
        self.assertEqual(messages.get(timeout=PATIENCE).payload, b"ours")
        self.assertEqual((await self.ask("ann/x", aiocoap.PUT, b"1", query=f"{ANN}&retain")).code, aiocoap.CHANGED)
        self.assertEqual((await self.ask("ann/x")).code, aiocoap.CONTENT)
        self.assertEqual((await self.ask("ann/x", query="username=bob&password=bob")).code, aiocoap.FORBIDDEN)
        self.assertEqual((await self.ask("ann/x", host=other)).code, aiocoap.FORBIDDEN)

    async def test_requests_of_a_client_share_a_session_that_why_knows(self):
        query = "username=bob&password=bob"
        for topic in ("free/a", "forbidden/why", "free/b"):
            await self.ask(topic, aiocoap.PUT, b"x", query=query)
        admin = f"http://127.0.0.1:{self.broker.admin_port}/api/v1"
        with urllib.request.urlopen(f"{admin}/clients?limit=1000", timeout=PATIENCE) as answer:
            clients = json.load(answer)["clients"]
        named = [one["client"] for one in clients if one["user"] == "bob" and one["client"].startswith("coap-")]
        events = []
        for client in named:
            with urllib.request.urlopen(f"{admin}/why?client={client}", timeout=PATIENCE) as answer:
                events.append(answer.read())
        self.assertEqual(sum(b"not_authorized" in one for one in events), 1, events)


if __name__ == "__main__":
    unittest.main()
