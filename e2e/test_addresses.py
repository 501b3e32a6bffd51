"""Mobile nodes and their addresses as Paho sees them, who may speak to many, and the programs of docs/applications.md."""

import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import unittest

from broker import MOSQUITTO, PATIENCE, ROOT, Broker, Lines
from paho_client import MQTT_3_1_1, Client, properties

EXAMPLES = ROOT / "examples" / "applications"

RULES = """
[[rule]]
allow = true
users = ["operator"]
topics = ["ctx/#"]

[[rule]]
allow = true
users = ["application"]
actions = ["publish"]
topics = ["ctx/to/node/#", "ctx/to/app/#"]

[[rule]]
allow = true
users = ["application"]
actions = ["subscribe"]
topics = ["ctx/to/app/#"]

[[rule]]
allow = true
users = ["node"]
actions = ["publish"]
topics = ["ctx/to/app/#"]
"""


def try_publish(client, topic, payload, qos):
    """Publishes and gives the reason code of the acknowledgement."""
    codes = queue.Queue()
    client.paho.on_publish = lambda _client, _data, _id, code, _properties: codes.put(code.value)
    client.paho.publish(topic, payload, qos=qos)
    return codes.get(timeout=PATIENCE)


def start(rules=None, more=()):
    """A broker with addresses; with rules, clients have to say who they are."""
    folder = tempfile.TemporaryDirectory(prefix="tidegate-e2e-")
    settings = ["--set", "addresses.enabled=true", *more]
    if rules is None:
        settings += ["--set", "addresses.guarded=false"]
    else:
        place = pathlib.Path(folder.name)
        (place / "rules.toml").write_text(rules, encoding="utf-8")
        # Mosquitto's format without hashes is not one: each password is hashed by the tool.
        for user in ("operator", "application", "node"):
            subprocess.run(
                [os.environ.get("TIDEGATE", str(ROOT / "target" / "release" / "tidegate")), "passwd", "-b",
                 *([] if (place / "passwords").exists() else ["-c"]), str(place / "passwords"), user, "secret"],
                check=True, capture_output=True, timeout=PATIENCE,
            )
        (place / "broker.toml").write_text(
            f"[[auth]]\nkind = 'password-file'\nfile = '{place}/passwords'\n[access]\nrules_file = '{place}/rules.toml'\n",
            encoding="utf-8",
        )
        settings += ["--config", str(place / "broker.toml")]
    return folder, Broker(*settings)


@unittest.skipIf(MOSQUITTO, "Mosquitto has no addresses")
class Addresses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder, cls.broker = start()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.addClassCleanup(cls.broker.close)

    def client(self, *arguments, **named):
        client = Client(self.broker, *arguments, **named)
        self.addCleanup(client.leave)
        return client

    def receipts(self, client, number):
        return [json.loads(message.payload) for message in client.receive(number)]

    def test_a_node_is_reached_without_subscribing_and_its_sender_is_told(self):
        for qos in (0, 1, 2):
            node = self.client(f"node-{qos}", version=MQTT_3_1_1)
            sender = self.client(f"sender-{qos}")
            asks = properties("PUBLISH", UserProperty=("receipt", "delivered"), CorrelationData=b"12")
            sender.publish(f"ctx/to/node/node-{qos}/route", b"north", qos=qos, properties=asks)
            message, = node.receive()
            self.assertEqual((message.topic, message.payload, message.qos), (f"ctx/to/node/node-{qos}/route", b"north", qos))
            told, = sender.receive()
            self.assertEqual(told.properties.CorrelationData, b"12")
            receipt = json.loads(told.payload)
            self.assertEqual((receipt["receipt"], receipt["node"]), ("delivered", f"node-{qos}"))

    def test_an_absent_node_gets_what_was_sent_once_and_in_order(self):
        sender = self.client("waiting-sender")
        node = self.client("wanderer", version=MQTT_3_1_1)
        node.leave()
        asks = properties("PUBLISH", UserProperty=("receipt", "all"))
        for number in range(20):
            sender.publish("ctx/to/node/wanderer", str(number), qos=number // 10 + 1, properties=asks)
        self.assertEqual({receipt["receipt"] for receipt in self.receipts(sender, 20)}, {"stored"})
        back = self.client("wanderer", version=MQTT_3_1_1)
        self.assertEqual([int(message.payload) for message in back.receive(20)], list(range(20)))
        self.assertEqual({receipt["receipt"] for receipt in self.receipts(sender, 20)}, {"delivered"})

    def test_what_has_expired_is_not_delivered_and_its_sender_is_told(self):
        sender = self.client("hurried-sender")
        node = self.client("late-node")
        node.leave()
        asks = properties("PUBLISH", UserProperty=("receipt", "delivered"), MessageExpiryInterval=1)
        sender.publish("ctx/to/node/late-node", b"stale", qos=1, properties=asks)
        sender.publish("ctx/to/node/late-node", b"fresh", qos=1)
        self.assertEqual([receipt["receipt"] for receipt in self.receipts(sender, 1)], ["expired"])
        back = self.client("late-node")
        self.assertEqual([message.payload for message in back.receive()], [b"fresh"])

    def test_everybody_gets_a_broadcast_and_its_sender_the_counts(self):
        nodes = [self.client(f"listener-{number}") for number in range(3)]
        sender = self.client("announcer")
        asks = properties("PUBLISH", UserProperty=("receipt", "delivered"))
        sender.publish("ctx/to/all/news", b"hello", qos=1, properties=asks)
        for node in nodes:
            self.assertEqual([message.payload for message in node.receive()], [b"hello"])
        # The announcer is a node, too: it gets its own message, and counts until all four are among them.
        delivered = 0
        while delivered < 4:
            message, = sender.receive()
            if message.topic.startswith("ctx/receipts/"):
                delivered = json.loads(message.payload)["delivered"]

    def test_the_programs_of_the_documentation_give_jobs(self):
        python = ([sys.executable, str(EXAMPLES / "dispatch.py"), "127.0.0.1", str(self.broker.port)], None)
        # Modules are found from where a file is.
        copy = ROOT / "e2e" / "mqttjs" / "dispatch-of-the-documentation.mjs"
        copy.write_text((EXAMPLES / "dispatch.mjs").read_text(encoding="utf-8"), encoding="utf-8")
        self.addCleanup(copy.unlink)
        node = (["node", str(copy), self.broker.url], ROOT / "e2e")
        for number, (command, folder) in enumerate((python, node)):
            with subprocess.Popen(
                command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
            ) as program:
                try:
                    said = Lines(program.stdout, program.stderr)
                    said.wait(lambda line: line == "ready")
                    truck = self.client(f"truck-{number}", version=MQTT_3_1_1)
                    truck.publish(f"ctx/to/app/dispatch/truck-{number}", b"free", qos=1)
                    message, = truck.receive()
                    self.assertEqual((message.topic, message.payload), (f"ctx/to/node/truck-{number}/job", b"load timber"))
                    said.wait(lambda line: line == f"truck-{number} says free")
                    said.wait(lambda line: line.startswith("receipt ") and '"delivered"' in line)
                finally:
                    program.kill()

    def test_the_node_and_the_sender_of_the_example_hear_of_each_other(self):
        example = ROOT / "examples" / "addresses" / "receipt.py"
        program = example.read_text(encoding="utf-8").replace("1883", str(self.broker.port))
        done = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("ctx/to/node/truck-7/route b'north'\n", done.stdout)
        self.assertIn('"receipt":"delivered"', done.stdout)

    def test_the_page_links_the_programs(self):
        page = (ROOT / "docs" / "applications.md").read_text(encoding="utf-8")
        for name in ("dispatch.py", "dispatch.mjs", "Dispatch.java"):
            self.assertIn(f"(../examples/applications/{name})", page)


@unittest.skipIf(MOSQUITTO, "Mosquitto has no addresses")
class Groups(unittest.TestCase):
    """A broker that is a gateway, with a definer that is a client, and rules of contexts."""

    def setUp(self):
        more = ["--set", "context.enabled=true", "--set", "context.topics=vehicle/{node}/position",
                "--set", f"context.groups={ROOT / 'examples' / 'context' / 'groups-city.toml'}"]
        self.folder, self.broker = start(more=more)
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(self.broker.close)

    def client(self, *arguments, **named):
        client = Client(self.broker, *arguments, **named)
        self.addCleanup(client.leave)
        return client

    def counts(self, sender, topic, payload, until, **asks):
        """Sends a message to many and gives the first counts of it for which `until` holds, or the last ones."""
        asks = properties("PUBLISH", UserProperty=("receipt", "all"), CorrelationData=payload, **asks)
        sender.publish(topic, payload, qos=1, properties=asks)
        while True:
            told, = sender.receive()
            receipt = json.loads(told.payload) if told.topic.startswith("ctx/receipts/") else {}
            if told.properties.CorrelationData == payload and receipt.get("receipt") == "counts":
                if until(receipt) or receipt["final"]:
                    return receipt

    def until_members(self, sender, group, members):
        """Waits until so many nodes are in a group: what is sent to it before goes to fewer."""
        number = 0
        while True:
            number += 1
            counts = self.counts(sender, f"ctx/to/group/{group}/probe", b"probe %d" % number, lambda _: True, MessageExpiryInterval=1)
            if counts["members"] == members:
                return

    def payloads_but_probes(self, client, number):
        got = []
        while len(got) < number:
            message, = client.receive()
            if not message.topic.endswith("/probe"):
                got.append(message.payload)
        return got

    def test_a_groupcast_reaches_its_members_and_its_sender_is_told_how_many(self):
        here = [self.client(f"crew-{number}") for number in range(2)]
        away, _ = self.client("crew-2", version=MQTT_3_1_1), self.client("stranger")
        sender, definer = self.client("chief"), self.client("definer")
        crew = {"definer": "mine", "members": {f"crew-{number}": ["crew"] for number in range(3)}}
        definer.publish("ctx/GroupAdvertisement/mine", json.dumps(crew), qos=1)
        self.until_members(sender, "crew", 3)
        away.leave()
        counts = self.counts(sender, "ctx/to/group/crew/job", b"short", lambda it: it["delivered"] == 2, MessageExpiryInterval=1)
        self.assertEqual((counts["members"], counts["delivered"], counts["stored"]), (3, 2, 1), counts)
        # Counts come after a second at the earliest, so the first message has expired by the time of the second one's.
        counts = self.counts(sender, "ctx/to/group/crew/job", b"long", lambda it: it["delivered"] == 2)
        self.assertEqual((counts["members"], counts["delivered"], counts["stored"]), (3, 2, 1), counts)
        for client in here:
            self.assertEqual(self.payloads_but_probes(client, 2), [b"short", b"long"])
        back = self.client("crew-2", version=MQTT_3_1_1)
        self.assertEqual(self.payloads_but_probes(back, 1), [b"long"])
        # Who has left the group is sent nothing more.
        crew["members"].pop("crew-1")
        definer.publish("ctx/GroupAdvertisement/mine", json.dumps(crew), qos=1)
        self.until_members(sender, "crew", 2)
        sender.publish("ctx/to/group/crew/job", b"fewer", qos=1)
        sender.publish("ctx/to/all/job", b"all", qos=1)
        self.assertEqual(self.payloads_but_probes(here[0], 2), [b"fewer", b"all"])
        self.assertEqual(self.payloads_but_probes(here[1], 1), [b"all"])

    def test_what_nodes_publish_anyway_puts_them_into_groups(self):
        truck, sender = self.client("truck-7"), self.client("dispatcher")
        self.client("telematics").publish("vehicle/truck-7/position", json.dumps({"kind": "ambulance"}), qos=1)
        self.until_members(sender, "ambulances", 1)
        sender.publish("ctx/to/group/ambulances/job", b"hurry", qos=1)
        self.assertEqual(self.payloads_but_probes(truck, 1), [b"hurry"])


@unittest.skipIf(MOSQUITTO, "Mosquitto has no addresses")
class Rights(unittest.TestCase):
    def test_only_those_whom_a_rule_allows_it_speak_to_many_or_read_what_others_get(self):
        folder, broker = start(RULES)
        self.addCleanup(folder.cleanup)
        self.addCleanup(broker.close)

        def client(user, name):
            made = Client(broker, name, user=user)
            self.addCleanup(made.leave)
            return made

        node, other = client("node", "n"), client("node", "other")
        application, operator = client("application", "app"), client("operator", "op")
        self.assertEqual(try_publish(operator, "ctx/to/all/news", b"all", qos=1), 0)
        for who in (node, other, application, operator):
            self.assertEqual([message.payload for message in who.receive()], [b"all"])
        for who in (node, application):
            self.assertEqual(try_publish(who, "ctx/to/all/news", b"forged", qos=1), 0x87)
            self.assertEqual(try_publish(who, "ctx/to/group/g/news", b"forged", qos=1), 0x87)
        # The operator is heard: there is just nobody in that group.
        self.assertEqual(try_publish(operator, "ctx/to/group/g/news", b"said", qos=1) & 0x80, 0)
        self.assertEqual(try_publish(node, "ctx/to/node/other", b"forged", qos=1), 0x87)
        self.assertEqual(try_publish(application, "ctx/to/node/n", b"job", qos=1), 0)
        self.assertEqual([message.payload for message in node.receive()], [b"job"])
        self.assertEqual(try_publish(node, "ctx/to/app/dispatch", b"well", qos=1) & 0x80, 0)
        # Reading along: the application may not, the operator may.
        self.assertGreaterEqual(application.subscribe("ctx/to/node/#", qos=1)[0], 0x80)
        self.assertLess(operator.subscribe("ctx/to/node/#", qos=1)[0], 0x80)
        self.assertEqual(try_publish(application, "ctx/to/node/n", b"again", qos=1), 0)
        self.assertEqual([message.payload for message in node.receive()], [b"again"])
        self.assertEqual([message.payload for message in operator.receive()], [b"again"])
        # Nobody else got anything, nor the forged ones: what comes next is the next broadcast.
        self.assertEqual(try_publish(operator, "ctx/to/all", b"end", qos=1), 0)
        for who in (node, other, application, operator):
            self.assertEqual([message.payload for message in who.receive()], [b"end"])


if __name__ == "__main__":
    unittest.main()
