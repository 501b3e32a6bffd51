"""Customers: API keys, queues, WebSockets and HTTP/2 of the HTTP listener, as curl, requests, httpx and websockets use them."""

import hashlib
import hmac
import http.server
import json
import queue
import re
import shutil
import socket
import subprocess
import threading
import unittest

import h2.connection
import h2.events
import httpx
import requests
from broker import MOSQUITTO, PATIENCE, Lines
from configured import ConfiguredBroker, paho_listener, tidegate
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

CONFIG = """
[[listener]]
address = "127.0.0.1:0"
[[listener]]
name = "web"
address = "http://127.0.0.1:0"
allowed_origins = ["https://shop.example"]
[[listener]]
name = "tls-web"
address = "https://127.0.0.1:0"
certificate = "FOLDER/server.pem"
key = "FOLDER/server.key"
[[auth]]
kind = "api-key"
file = "FOLDER/keys"
[access]
rules_file = "FOLDER/rules.toml"
[[tenant]]
name = "acme"
users = ["acme", "acme-*"]
[[tenant]]
name = "bolt"
users = ["bolt"]
[[sink]]
name = "hook"
kind = "http"
url = "http://127.0.0.1:PORT/hook"
secret_file = "FOLDER/secret"
retry_min = "10ms"
[[sink]]
name = "past"
kind = "history"
path = "FOLDER/past"
[[pipeline]]
name = "acme-hook"
tenant = "acme"
from = ["free/hook"]
to = ["hook"]
dead_letter_topic = "free/dead"
[[pipeline]]
name = "acme-past"
tenant = "acme"
from = ["free/past/#", "private/past"]
to = ["past"]
"""

RULES = """
[[rule]]
allow = true
topics = ["free/#"]
"""


class Hook(http.server.BaseHTTPRequestHandler):
    """A web hook of a customer: it fails first, then takes signed batches and refuses bad ones."""

    def do_POST(self):
        """Takes a batch."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        expected = "sha256=" + hmac.new(b"shared", body, hashlib.sha256).hexdigest()
        server = self.server
        if not server.failed:
            server.failed, status = True, 503
        elif not hmac.compare_digest(self.headers["X-Tidegate-Signature"], expected):
            status = 401
        elif any(record["payload"] == {"bad": True} for record in json.loads(body)):
            status = 422
        else:
            status = 200
            server.taken.put(json.loads(body))
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Says nothing."""


class CustomersBroker(ConfiguredBroker):
    """A broker with two customers and listeners for MQTT, HTTP and HTTPS."""

    config_text, rules_text = CONFIG, RULES

    def prepare(self):
        tidegate("cert", "dev", "--out", self.root)
        self.keys = {user: tidegate("key", "add", self.root / "keys", user) for user in ("acme", "acme-2", "bolt")}
        (self.root / "secret").write_text("shared\n", encoding="utf-8")
        self.hook = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        self.hook.taken, self.hook.failed = queue.Queue(), False
        threading.Thread(target=self.hook.serve_forever, daemon=True).start()
        text = self.config.read_text(encoding="utf-8")
        self.config.write_text(text.replace("PORT", str(self.hook.server_port)), encoding="utf-8")

    def _tidegate(self, arguments):
        return super()._tidegate(["--data", str(self.root / "data"), *arguments])

    def _wait_until_ready(self):
        ready = self.output.wait(lambda line: " ready: " in line)[0]
        self.port = int(re.search(r"mqtt://127\.0\.0\.1:(\d+)", ready)[1])
        self.admin_port = int(re.search(r"admin=http://127\.0\.0\.1:(\d+)", ready)[1])
        self.web, self.tls_web = re.findall(r"(?<!=)(https?://\S+)", ready)

    def restart_after_kill(self):
        """Kills the process and starts it again with the same data."""
        self.kill()
        self.output.all()
        self.errors.all()
        self.process = subprocess.Popen(self._tidegate(()), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.output, self.errors = Lines(self.process.stdout), Lines(self.process.stderr)
        self._wait_until_ready()

    def close(self):
        super().close()
        self.hook.shutdown()
        self.hook.server_close()


@unittest.skipIf(MOSQUITTO, "customers are ours")
class Customers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = CustomersBroker()

    @classmethod
    def tearDownClass(cls):
        cls.broker.close()

    def session(self, user="acme"):
        """A session of requests with the key of a user."""
        session = requests.Session()
        session.headers["Authorization"] = f"Bearer {self.broker.keys[user]}"
        self.addCleanup(session.close)
        return session

    def publish(self, topic, payload, user="acme", **query):
        answer = self.session(user).post(f"{self.broker.web}/topics/{topic}", data=payload, params=query, timeout=PATIENCE)
        self.assertEqual(answer.status_code, 200, answer.text)

    def test_a_key_lets_its_user_in_over_http_and_mqtt(self):
        _, messages = paho_listener(self, self.broker, "free/key", "acme", self.broker.keys["acme"])
        self.publish("free/key", "x")
        self.assertEqual(messages.get(timeout=PATIENCE).payload, b"x")
        wrong = requests.get(f"{self.broker.web}/topics/free/key", headers={"Authorization": "Bearer tg.acme.1.x"}, timeout=PATIENCE)
        self.assertEqual(wrong.status_code, 401)

    def test_a_queue_keeps_messages_until_they_are_acknowledged(self):
        session, url = self.session(), f"{self.broker.web}/queue/orders"
        ask = lambda method, **query: session.request(method, url, params=query, timeout=PATIENCE)
        self.assertEqual(ask("GET").status_code, 404)
        self.assertEqual(ask("PUT", filter="free/orders/#").status_code, 200)
        for number in range(3):
            self.publish(f"free/orders/{number}", str(number))
        self.publish("free/orders/0", "of another customer", user="bolt")

        def page(**query):
            found = ask("GET", wait="30s", **query)
            self.assertEqual(found.status_code, 200, found.text)
            return found.json()["cursor"], [one["payload"] for one in found.json()["messages"]]

        self.assertEqual(page(max=1)[1], ["0"])
        cursor, messages = page(max=1)
        self.assertEqual(messages, ["0"], "it was not acknowledged")
        self.assertEqual(page(max=1, ack=cursor)[1], ["1"])
        self.broker.restart_after_kill()
        url = f"{self.broker.web}/queue/orders"
        messages = []
        cursor = None
        while "2" not in messages:
            cursor, more = page(**({"ack": cursor} if cursor else {}))
            messages += more
        # The broker may not have stored the last acknowledgement when it was killed: at least once.
        self.assertIn(messages, (["1", "2"], ["0", "1", "2"]))
        self.assertEqual(ask("POST", ack="1-1").status_code, 409)
        self.assertEqual(ask("POST", ack=cursor).status_code, 200)
        self.assertEqual(ask("GET", wait="0").json()["messages"], [])
        other = self.session("acme-2").get(url, timeout=PATIENCE)
        self.assertEqual(other.status_code, 404, "another user of the customer has other queues")
        self.assertEqual(ask("DELETE").status_code, 204)
        self.assertEqual(ask("GET").status_code, 404)
        self.assertEqual(ask("PUT", filter="forbidden/#").status_code, 403)
        self.assertEqual(ask("GET").status_code, 404, "a queue without a right is not kept")

    def test_a_later_request_ends_the_wait_of_an_earlier_one(self):
        url = f"{self.broker.web}/queue/waits"
        self.assertEqual(self.session().put(url, params={"filter": "free/waits"}, timeout=PATIENCE).status_code, 200)
        answers = []
        waits = threading.Thread(target=lambda: answers.append(self.session().get(url, params={"wait": "60s"}, timeout=PATIENCE)))
        waits.start()
        while waits.is_alive():
            self.session().get(url, params={"wait": "0"}, timeout=PATIENCE)
        self.assertEqual(answers[0].json()["messages"], [])

    def test_a_websocket_brings_messages_that_are_acknowledged(self):
        url = self.broker.web.replace("http", "ws") + "/subscribe"
        bearer = {"Authorization": f"Bearer {self.broker.keys['acme']}"}
        with connect(f"{url}?filter=free/socket/%23&queue=socket", additional_headers=bearer, open_timeout=PATIENCE) as opened:
            for payload in ("a", "b"):
                self.publish("free/socket/x", payload)
            messages = [json.loads(opened.recv(timeout=PATIENCE)) for _ in range(2)]
            self.assertEqual([(one["id"], one["payload"]) for one in messages], [(1, "a"), (2, "b")])
            opened.send(json.dumps({"ack": 1}))
        with connect(f"{url}?queue=socket", additional_headers=bearer, open_timeout=PATIENCE) as opened:
            again = json.loads(opened.recv(timeout=PATIENCE))
            self.assertEqual(again["payload"], "b", "it was not acknowledged")
            opened.send("nonsense")
            with self.assertRaises(ConnectionClosed) as closed:
                opened.recv(timeout=PATIENCE)
            self.assertEqual(closed.exception.rcvd.code, 1008)
        page = [f"bearer.{self.broker.keys['bolt']}", "tidegate"]
        with connect(f"{url}?filter=free/socket/%23&ack=auto", subprotocols=page, origin="https://shop.example", open_timeout=PATIENCE) as opened:
            self.assertEqual(opened.subprotocol, "tidegate")
            self.publish("free/socket/x", "c", user="bolt")
            self.assertEqual(json.loads(opened.recv(timeout=PATIENCE))["payload"], "c")
        refused = requests.get(url.replace("ws", "http"), headers=bearer, params={"filter": "free/#"}, timeout=PATIENCE)
        self.assertEqual(refused.status_code, 400)

    def test_curl_and_httpx_speak_http_2(self):
        if not shutil.which("curl"):
            self.fail("there is no curl here")
        key = ["-H", f"Authorization: Bearer {self.broker.keys['acme']}"]
        for how in (["--http2-prior-knowledge", f"{self.broker.web}/topics/free/h2"], ["--http2", "-k", f"{self.broker.tls_web}/topics/free/h2"]):
            command = ["curl", "-sS", "-w", " %{http_version} %{http_code}", *key, "-d", "x", *how]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            self.assertTrue(done.stdout.endswith(" 2 200"), done.stdout)
        with httpx.Client(http2=True, verify=False, timeout=PATIENCE, headers={"Authorization": f"Bearer {self.broker.keys['acme']}"}) as client:
            url = f"{self.broker.tls_web}/topics/free/h2/value"
            posted = client.post(url, params={"retain": "true"}, content=b"21", headers={"Content-Type": "text/plain"})
            self.assertEqual((posted.http_version, posted.status_code), ("HTTP/2", 200))
            read = client.get(url)
            self.assertEqual((read.content, read.headers["content-type"]), (b"21", "text/plain"))
            self.assertEqual(client.get(url, headers={"If-None-Match": read.headers["etag"]}).status_code, 304)
            with client.stream("GET", f"{self.broker.tls_web}/topics/free/h2/value", headers={"Accept": "text/event-stream"}) as events:
                line = next(line for line in events.iter_lines() if line.startswith("data: "))
                self.assertEqual(json.loads(line.removeprefix("data: "))["payload"], "21")
        evil = ["--http2-prior-knowledge", "-H", "Host: evil.example", f"{self.broker.web}/topics/free/h2"]
        done = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", *key, *evil], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "403", "the host of HTTP/2 is checked")

    def test_resets_of_http_2_end_the_connection(self):
        host, port = self.broker.web.removeprefix("http://").split(":")
        head = [(":method", "GET"), (":scheme", "http"), (":path", "/topics/free/h2"), (":authority", f"{host}:{port}")]
        client = h2.connection.H2Connection()
        client.initiate_connection()
        with socket.create_connection((host, int(port)), PATIENCE) as stream:
            for _ in range(1_000):
                number = client.get_next_available_stream_id()
                client.send_headers(number, head, end_stream=True)
                client.reset_stream(number)
            events = []
            try:
                stream.sendall(client.data_to_send())
                while data := stream.recv(65_536):
                    events += client.receive_data(data)
            except ConnectionError:
                return
            ends = [event for event in events if isinstance(event, h2.events.ConnectionTerminated)]
            self.assertEqual(len(ends), 1, "the connection ends with GOAWAY")

    def test_a_retained_message_is_waited_for(self):
        session, url = self.session(), f"{self.broker.web}/topics/free/watched"
        self.assertEqual(session.get(url, params={"wait": "10ms"}, timeout=PATIENCE).status_code, 404)
        self.publish("free/watched", "1", retain="true")
        first = session.get(url, params={"wait": "60s"}, timeout=PATIENCE)
        self.assertEqual(first.text, "1")
        known = {"If-None-Match": first.headers["ETag"]}
        self.assertEqual(session.get(url, params={"wait": "10ms"}, headers=known, timeout=PATIENCE).status_code, 304)
        answers = []
        ask = lambda: answers.append(session.get(url, params={"wait": "60s"}, headers=known, timeout=PATIENCE))
        waits = threading.Thread(target=ask)
        waits.start()
        self.publish("free/watched", "not retained")
        self.publish("free/watched", "2", retain="true", qos=2)
        waits.join()
        self.assertEqual((answers[0].status_code, answers[0].text), (200, "2"))
        again = session.get(url, headers={"If-None-Match": answers[0].headers["ETag"]}, timeout=PATIENCE)
        self.assertEqual(again.status_code, 304, "the tag of a message that came is that of the one that is read")

    def test_a_page_may_read_every_header_and_use_queues(self):
        origin = {"Origin": "https://shop.example"}
        preflight = {"Access-Control-Request-Method": "DELETE", "Access-Control-Request-Headers": "authorization"}
        url = f"{self.broker.web}/queue/page"
        allowed = requests.options(url, headers=origin | preflight, timeout=PATIENCE)
        self.assertEqual(allowed.status_code, 204)
        self.assertIn("DELETE", allowed.headers["Access-Control-Allow-Methods"])
        self.assertEqual(allowed.headers["Access-Control-Allow-Headers"], "authorization")
        answer = self.session().get(url, headers=origin, timeout=PATIENCE)
        self.assertEqual((answer.status_code, answer.headers["Access-Control-Expose-Headers"]), (404, "*"))
        evil = self.session().get(url, headers={"Origin": "https://evil.example"}, timeout=PATIENCE)
        self.assertEqual(evil.status_code, 403)

    def test_a_signed_web_hook_gets_the_messages_of_its_tenant(self):
        session, url = self.session(), f"{self.broker.web}/queue/dead"
        self.assertEqual(session.put(url, params={"filter": "free/dead"}, timeout=PATIENCE).status_code, 200)
        self.publish("free/hook", '{"n":0}', user="bolt")
        for payload in ('{"n":1}', '{"bad":true}', '{"n":2}'):
            self.publish("free/hook", payload)
        taken = []
        while len(taken) < 2:
            taken += self.broker.hook.taken.get(timeout=PATIENCE)
        self.assertEqual([record["payload"] for record in taken], [{"n": 1}, {"n": 2}])
        dead = session.get(url, params={"wait": "60s"}, timeout=PATIENCE).json()["messages"]
        self.assertEqual((len(dead), dead[0]["topic"]), (1, "free/dead"))
        usage = json.loads(tidegate("meter", "--json", "--admin", f"127.0.0.1:{self.broker.admin_port}"))
        deliveries = {one["tenant"]: one["sink_deliveries"] for one in usage}
        self.assertGreaterEqual(deliveries["acme"], 2)
        self.assertEqual(deliveries.get("default", 0), 0)

    def test_the_history_has_what_the_rights_allow(self):
        for payload in ("a", "b", "c"):
            self.publish("free/past/x", payload)
        self.publish("free/past/x", "of another customer", user="bolt")

        def past(user="acme", **query):
            return self.session(user).get(f"{self.broker.web}/history", params=query, timeout=PATIENCE)

        while len(past().json()["messages"]) < 3:
            pass
        self.assertEqual([one["payload"] for one in past(limit=2).json()["messages"]], ["b", "c"])
        first = past(filter="free/past/+", limit=1, **{"from": "1h"}).json()["messages"]
        self.assertEqual([(one["topic"], one["payload"]) for one in first], [("free/past/x", "a")])
        self.assertEqual(past(filter="free/none").json()["messages"], [])
        self.assertEqual(past(user="bolt").status_code, 404)
        self.assertEqual(past(limit=0).status_code, 400)
        metrics = requests.get(f"http://127.0.0.1:{self.broker.admin_port}/metrics", timeout=PATIENCE).text
        counted = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line.startswith("tidegate_http_"))
        self.assertGreaterEqual(int(counted['tidegate_http_requests_total{route="history",outcome="refused"}']), 2)
        self.assertGreaterEqual(int(counted['tidegate_http_messages_sent_total{way="history"}']), 6)
        self.assertGreater(int(counted["tidegate_http_body_bytes_total"]), 0)

    def test_a_revoked_key_ends_with_the_reload(self):
        keys, admin = self.broker.root / "keys", f"127.0.0.1:{self.broker.admin_port}"
        key = tidegate("key", "add", keys, "acme-late")
        tidegate("reload", "--admin", admin)
        bearer = {"Authorization": f"Bearer {key}"}
        with requests.Session() as session:
            session.headers.update(bearer)
            url = f"{self.broker.web}/topics/free/late"
            self.assertEqual(session.post(url, data="x", timeout=PATIENCE).status_code, 200)
            tidegate("key", "revoke", keys, key.split(".")[2])
            tidegate("reload", "--admin", admin)
            self.assertEqual(session.post(url, data="x", timeout=PATIENCE).status_code, 401)


if __name__ == "__main__":
    unittest.main()
