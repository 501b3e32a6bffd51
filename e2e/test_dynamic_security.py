"""Users and rules of Mosquitto's dynamic security plugin: each client may do the same in both brokers."""

import base64
import hashlib
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from broker import BINARY, PATIENCE, Broker, Mosquitto
from paho_client import Client

PLUGIN = pathlib.Path("/usr/lib/x86_64-linux-gnu/mosquitto_dynamic_security.so")
ROUNDS, SALT = 1000, b"salt of tide"


def client(name, *roles, **more):
    secret = hashlib.pbkdf2_hmac("sha512", b"secret", SALT, ROUNDS)
    return {"username": name, "roles": [{"rolename": role} for role in roles], "iterations": ROUNDS,
            "salt": base64.b64encode(SALT).decode(), "password": base64.b64encode(secret).decode(), **more}


def acl(kind, topic, allow=True, priority=0):
    return {"acltype": kind, "topic": topic, "allow": allow, "priority": priority}


SECURITY = {
    "defaultACLAccess": {"publishClientSend": False, "publishClientReceive": True, "subscribe": False, "unsubscribe": True},
    "clients": [
        client("writer", "sensor"),
        client("reader", "reads"),
        client("both"),
        client("bound", "sensor", clientid="bound-1"),
        client("nothing"),
        client("careful", "careful"),
        client("literal", "literal"),
    ],
    "groups": [{"groupname": "operators", "roles": [{"rolename": "reads", "priority": 1}, {"rolename": "sensor", "priority": 2}],
                "clients": [{"username": "both"}]}],
    "roles": [
        {"rolename": "sensor", "acls": [acl("publishClientSend", "plant/#"), acl("publishClientSend", "plant/secret", False, 5)]},
        {"rolename": "reads", "acls": [acl("subscribePattern", "plant/#"), acl("subscribeLiteral", "#")]},
        {"rolename": "literal", "acls": [acl("subscribePattern", "plant/#", priority=9), acl("subscribeLiteral", "plant/a", False)]},
        {"rolename": "careful", "acls": [acl("subscribePattern", "plant/#"), acl("subscribePattern", "plant/secret/#", False, 3)]},
    ],
}
PUBLISHED = ["plant/a", "plant/secret", "other", "plant"]
SUBSCRIBED = ["plant/#", "plant/a", "#", "other", "plant/+/b", "plant/secret/1"]


def rights(broker, user, client_id):
    """What a client may do: the reason codes of its packets."""
    it = Client(broker, client_id, user=user)
    codes = []
    it.paho.on_publish = lambda _client, _data, _id, code, _properties: codes.append(code.is_failure)
    for topic in PUBLISHED:
        it.publish(topic, "x", qos=1)
    subscribed = [it.subscribe(topic, qos=1)[0] >= 0x80 for topic in SUBSCRIBED]
    it.leave()
    return codes, subscribed


@unittest.skipUnless(PLUGIN.exists(), "Mosquitto's plugin is not installed")
class DynamicSecurity(unittest.TestCase):
    def test_each_client_may_do_the_same_in_both(self):
        temporary = tempfile.TemporaryDirectory(prefix="tidegate-security-")
        self.addCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        security = folder / "dynamic-security.json"
        security.write_text(json.dumps(SECURITY, indent=1))
        done = subprocess.run([BINARY, "config", "convert", security, "--output", folder / "ours"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        ours = Broker("--config", str(folder / "ours" / "tidegate.toml"))
        self.addCleanup(ours.close)
        theirs = Mosquitto(folder, f"allow_anonymous false\nplugin {PLUGIN}\nplugin_opt_config_file {security}\n")
        self.addCleanup(theirs.close)
        for user, client_id in (("writer", "w"), ("reader", "r"), ("both", "b"), ("bound", "bound-1"), ("nothing", "n"), ("literal", "l")):
            with self.subTest(user):
                self.assertEqual(rights(ours, user, client_id), rights(theirs, user, client_id))
        # A denied filter denies wider ones, too.
        here, there = rights(ours, "careful", "c"), rights(theirs, "careful", "c")
        self.assertEqual(here[0], there[0])
        self.assertTrue(all(refused or not refused_there for refused, refused_there in zip(here[1], there[1])), (here, there))
        self.assertEqual((here[1][1], here[1][5]), (False, True))

    def test_a_file_of_another_kind_is_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write('{"users": []}')
            file.flush()
            done = subprocess.run([BINARY, "config", "convert", file.name], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 2)
            self.assertIn("this is no dynamic-security.json", done.stderr)


if __name__ == "__main__":
    unittest.main()
