"""HTTP beside MQTT: curl and urllib publish, read and subscribe; Paho is at the other side."""

import base64
import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
import unittest
import urllib.error
import urllib.request

from broker import MOSQUITTO, PATIENCE
from configured import ConfiguredBroker, paho_listener, tidegate
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
max_packet_size = "64KiB"
allowed_origins = ["https://shop.example"]
[[listener]]
name = "tenant-web"
address = "http://127.0.0.1:0"
[[listener]]
name = "tls-web"
address = "https://127.0.0.1:0"
certificate = "FOLDER/server.pem"
key = "FOLDER/server.key"
[[auth]]
file = "FOLDER/users"
[access]
rules_file = "FOLDER/rules.toml"
[[tenant]]
name = "other"
listeners = ["tenant-web"]
[[tenant]]
name = "named"
sni = ["named.example"]
"""

RULES = """
[[rule]]
allow = true
topics = ["free/#"]
[[rule]]
allow = true
users = ["ann"]
listeners = ["web"]
topics = ["web/#"]
"""


class HttpBroker(ConfiguredBroker):
    """A broker with users, rules, a tenant and three listeners for HTTP."""

    config_text, rules_text, users = CONFIG, RULES, ("ann", "bob", "carl")

    def prepare(self):
        tidegate("cert", "dev", "--out", self.root)

    def _wait_until_ready(self):
        super()._wait_until_ready()
        ready = self.output.wait(lambda line: " ready: " in line)[0]
        self.web, self.tenant_web, self.tls_web = re.findall(r"(?<!=)(https?://\S+)", ready)


def ask(url, user="ann", body=None, method=None, **headers):
    """The status, the headers and the body of an answer."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if user:
        headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:{user[::-1]}".encode()).decode()
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    if body is not None:
        request.add_header("Content-Type", headers.get("Content-Type", "text/plain"))
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


@unittest.skipIf(MOSQUITTO, "HTTP is ours")
class Http(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = HttpBroker()

    @classmethod
    def tearDownClass(cls):
        cls.broker.close()

    def listen(self, topic):
        """Messages of a topic, as Paho gets them."""
        return paho_listener(self, self.broker, topic, "bob", "bob")

    def stream(self, path, host=None):
        """A stream of events, after its head."""
        host = host or self.broker.web
        connection = http.client.HTTPConnection(host.removeprefix("http://"), timeout=PATIENCE)
        self.addCleanup(connection.close)
        token = base64.b64encode(b"ann:nna").decode()
        connection.request("GET", path, headers={"Accept": "text/event-stream", "Authorization": f"Basic {token}"})
        answer = connection.getresponse()
        self.addCleanup(answer.close)
        self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "text/event-stream"))
        return answer

    def event(self, stream):
        """The data of the next event."""
        while True:
            line = stream.readline().decode()
            self.assertTrue(line, "the stream has ended")
            if line.startswith("data: "):
                return json.loads(line.removeprefix("data: "))

    def test_what_curl_posts_reaches_mqtt_with_all_its_properties(self):
        if not shutil.which("curl"):
            self.fail("there is no curl here")
        _, messages = self.listen("free/curl")
        url = f"{self.broker.web}/topics/free/curl?qos=1&expiry=600&response_topic=free%2Fanswer&correlation_data=AQI%3D"
        command = ["curl", "-sS", "-u", "ann:nna", "--data-binary", '{"n":1}', "-H", "Content-Type: application/json"]
        done = subprocess.run([*command, "-H", "X-MQTT-User-Unit: C", url], capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(done.stdout), {"reason_code": 0, "reason": "success"})
        message = messages.get(timeout=PATIENCE)
        self.assertEqual((message.payload, message.qos, message.retain), (b'{"n":1}', 1, False))
        properties = message.properties
        self.assertEqual(properties.ContentType, "application/json")
        self.assertEqual(properties.ResponseTopic, "free/answer")
        self.assertEqual(properties.CorrelationData, b"\x01\x02")
        self.assertEqual(properties.UserProperty, [("unit", "C")])
        self.assertTrue(0 < properties.MessageExpiryInterval <= 600)

    def test_answers_say_what_the_broker_has_decided(self):
        web = self.broker.web
        status, _, body = ask(f"{web}/topics/free/none", body=b"x")
        self.assertEqual((status, json.loads(body)["reason_code"]), (200, 16), body)
        self.assertEqual(ask(f"{web}/topics/free/none?qos=0", body=b"x")[0], 202)
        status, _, body = ask(f"{web}/topics/forbidden", body=b"x")
        self.assertEqual((status, json.loads(body)["reason_code"]), (403, 135), body)
        status, headers, body = ask(f"{web}/topics/free/none", user=None, body=b"x")
        self.assertEqual((status, "Basic" in headers["WWW-Authenticate"]), (401, True), body)
        self.assertEqual(ask(f"{web}/topics/free/none", user="eve", body=b"x")[0], 401)
        for path in ("free/%23", "free/none?qos=3", "free/none?nonsense=1", "%ff"):
            self.assertEqual(ask(f"{web}/topics/{path}", body=b"x")[0], 400, path)
        self.assertEqual(ask(f"{web}/topics/free/none", body=b"x" * 70_000)[0], 413)
        self.assertEqual(ask(f"{web}/topics/free/none", method="DELETE")[0], 405)
        self.assertEqual(ask(f"{web}/elsewhere")[0], 404)

    def test_a_retained_value_is_read_with_its_tag(self):
        client, _ = self.listen("free/unused")
        properties = Properties(PacketTypes.PUBLISH)
        properties.ContentType = "text/plain"
        properties.UserProperty = ("unit", "C")
        client.publish("free/value", b"21", qos=1, retain=True, properties=properties).wait_for_publish(PATIENCE)
        url = f"{self.broker.web}/topics/free/value"
        status, headers, body = ask(url)
        self.assertEqual((status, body, headers["Content-Type"]), (200, b"21", "text/plain"))
        self.assertEqual((headers["X-MQTT-User-unit"], headers["X-MQTT-QoS"]), ("C", "1"))
        self.assertEqual((headers["X-Content-Type-Options"], headers["Content-Disposition"]), ("nosniff", "attachment"))
        self.assertEqual(ask(url, If_None_Match=headers["ETag"])[0], 304)
        self.assertEqual(ask(f"{url}?retain=true", body=b"22")[0], 200)
        self.assertEqual(ask(url, If_None_Match=headers["ETag"])[::2], (200, b"22"))
        self.assertEqual(ask(f"{self.broker.web}/topics/free/nothing")[0], 404)
        self.assertEqual(ask(f"{self.broker.web}/topics/forbidden")[0], 403)

    def test_events_have_retained_and_new_messages(self):
        client, _ = self.listen("free/unused")
        client.publish("free/events/old", b"old", qos=1, retain=True).wait_for_publish(PATIENCE)
        stream = self.stream("/topics/free/events/%23")
        first = self.event(stream)
        self.assertEqual((first["topic"], first["payload"], first["retain"]), ("free/events/old", "old", True))
        client.publish("free/events/new", b"one\ntwo", qos=1).wait_for_publish(PATIENCE)
        second = self.event(stream)
        self.assertEqual((second["payload"], second["qos"], second["retain"]), ("one\ntwo", 1, False))
        self.assertEqual(ask(f"{self.broker.web}/topics/free/events/b", body=b"\xff")[0], 200)
        self.assertEqual(self.event(stream)["payload_base64"], "/w==")
        refused = ask(f"{self.broker.web}/topics/forbidden/%23", Accept="text/event-stream")
        self.assertEqual(refused[0], 403, refused)

    def test_a_batch_is_answered_message_by_message(self):
        _, messages = self.listen("free/batch/#")
        batch = [
            {"topic": "free/batch/a", "payload": {"n": 1}},
            {"topic": "forbidden", "payload": "x"},
            {"topic": "free/batch/b", "payload_base64": "AP8=", "user_properties": {"k": "v"}},
        ]
        status, _, body = ask(f"{self.broker.web}/topics", body=json.dumps(batch).encode())
        self.assertEqual((status, [one["status"] for one in json.loads(body)]), (207, [200, 403, 200]), body)
        payloads = [messages.get(timeout=PATIENCE).payload for _ in range(2)]
        self.assertEqual(payloads, [b'{"n":1}', b"\x00\xff"])
        status, _, body = ask(f"{self.broker.web}/topics", body=b'[{"topic": "free/x"}, {}]')
        self.assertEqual(status, 400)
        self.assertIn(b"message 1", body)

    def test_pages_of_named_origins_alone_may_use_it(self):
        url = f"{self.broker.web}/topics/free/page"
        asked = ask(url, user=None, method="OPTIONS", Origin="https://shop.example", Access_Control_Request_Headers="x-mqtt-qos")
        self.assertEqual(asked[0], 204)
        self.assertEqual(asked[1]["Access-Control-Allow-Headers"], "x-mqtt-qos")
        status, headers, _ = ask(url, body=b"x", Origin="https://shop.example")
        self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (200, "https://shop.example"))
        self.assertEqual(ask(url, body=b"x", Origin="https://evil.example")[0], 403)
        self.assertEqual(ask(url, Sec_Fetch_Site="cross-site")[0], 403)
        self.assertEqual(ask(url, Host="evil.example")[0], 403)

    def test_tenants_and_rules_of_listeners_hold_for_http(self):
        _, messages = self.listen("free/tenants")
        self.assertEqual(ask(f"{self.broker.tenant_web}/topics/free/tenants?retain=true", body=b"theirs")[0], 200)
        self.assertEqual(ask(f"{self.broker.tenant_web}/topics/free/tenants")[2], b"theirs")
        self.assertEqual(ask(f"{self.broker.web}/topics/free/tenants")[0], 404)
        self.assertEqual(ask(f"{self.broker.web}/topics/free/tenants", body=b"ours")[0], 200)
        self.assertEqual(messages.get(timeout=PATIENCE).payload, b"ours")
        self.assertEqual(ask(f"{self.broker.web}/topics/web/x?retain=true", body=b"1")[0], 200)
        self.assertEqual(ask(f"{self.broker.web}/topics/web/x")[0], 200)
        self.assertEqual(ask(f"{self.broker.web}/topics/web/x", user="bob")[0], 403)
        self.assertEqual(ask(f"{self.broker.tenant_web}/topics/web/x")[0], 403)

    def test_it_speaks_tls(self):
        context = ssl.create_default_context(cafile=str(self.broker.root / "ca.pem"))
        request = urllib.request.Request(f"{self.broker.tls_web}/topics/free/tls", data=b"x", method="POST")
        request.add_header("Authorization", "Basic " + base64.b64encode(b"ann:nna").decode())
        with urllib.request.urlopen(request, timeout=PATIENCE, context=context) as answer:
            self.assertEqual(answer.status, 200)

    def test_the_server_name_of_tls_leads_to_a_tenant(self):
        context = ssl.create_default_context(cafile=str(self.broker.root / "ca.pem"))
        context.check_hostname = False
        host, port = self.broker.tls_web.removeprefix("https://").split(":")
        token = base64.b64encode(b"ann:nna").decode()

        def request(method, name, body=None):
            head = f"{method} /topics/free/sni?retain=true HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n"
            head += f"Authorization: Basic {token}\r\nContent-Length: {len(body or b'')}\r\n\r\n"
            with socket.create_connection((host, int(port)), PATIENCE) as plain:
                with context.wrap_socket(plain, server_hostname=name) as stream:
                    stream.sendall(head.encode() + (body or b""))
                    answer = http.client.HTTPResponse(stream)
                    answer.begin()
                    return answer.status, answer.read()

        self.assertEqual(request("POST", "named.example", b"theirs")[0], 200)
        self.assertEqual(request("GET", "named.example"), (200, b"theirs"))
        self.assertEqual(request("GET", "localhost")[0], 404)

    def test_requests_of_one_connection_share_a_session_that_why_knows(self):
        connection = http.client.HTTPConnection(self.broker.web.removeprefix("http://"), timeout=PATIENCE)
        self.addCleanup(connection.close)
        headers = {"Authorization": "Basic " + base64.b64encode(b"carl:lrac").decode()}
        for status, topic in ((200, "free/a"), (403, "forbidden/why"), (200, "free/b")):
            connection.request("POST", f"/topics/{topic}", body=b"x", headers=headers)
            answer = connection.getresponse()
            answer.read()
            self.assertEqual(answer.status, status)
        admin = f"http://127.0.0.1:{self.broker.admin_port}/api/v1"
        clients = json.loads(ask(f"{admin}/clients?limit=1000", user=None)[2])["clients"]
        ours = [one["client"] for one in clients if one["user"] == "carl"]
        self.assertEqual(len(ours), 1, clients)
        self.assertTrue(ours[0].startswith("http-"), ours)
        events = ask(f"{admin}/why?client={ours[0]}", user=None)[2]
        self.assertIn(b"not_authorized", events)


if __name__ == "__main__":
    unittest.main()
