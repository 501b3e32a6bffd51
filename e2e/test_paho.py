"""Paho for Python, as most scripts use it: MQTT 3.1.1 and 5, over TCP, WebSocket and a Unix socket."""

import unittest

from broker import MOSQUITTO, BrokerTest
from paho_client import MQTT_3_1_1, MQTT_5, Client, properties
from paho.mqtt.subscribeoptions import SubscribeOptions

VERSIONS = {"3_1_1": MQTT_3_1_1, "5": MQTT_5}


class Paho(BrokerTest):
    def client(self, *arguments, **named):
        client = Client(self.broker, *arguments, **named)
        self.addCleanup(client.leave)
        return client

    def test_queued_messages_wait_for_a_session_that_is_resumed(self):
        for name, version in VERSIONS.items():
            with self.subTest(name):
                topic, expiry = self.name(name), 3600 if version == MQTT_5 else None
                first = self.client(topic, version=version, clean=False, expiry=expiry)
                self.assertFalse(first.flags.session_present)
                first.subscribe(topic, qos=2)
                first.leave()
                sender = self.client(version=version)
                for number in range(200):
                    sender.publish(topic, str(number), qos=1 + number // 100)
                again = self.client(topic, version=version, clean=False, expiry=expiry)
                self.assertTrue(again.flags.session_present)
                self.assertEqual(again.payloads(200), [str(number) for number in range(200)])

    def test_will_follows_a_lost_connection_and_not_a_farewell(self):
        for name, version in VERSIONS.items():
            with self.subTest(name):
                topic = self.name(name)
                watcher = self.client(version=version)
                watcher.subscribe(topic, qos=1)
                will = {"topic": topic, "qos": 1, "payload": "gone"}
                self.client(version=version, will=will | {"payload": "polite"}).leave()
                Client(self.broker, version=version, will=will).vanish()
                self.assertEqual(watcher.payloads(), ["gone"])

    def test_request_and_response_with_their_properties(self):
        topic, reply = self.name("/request"), self.name("/reply")
        server, client = self.client(), self.client()
        server.subscribe(topic, qos=1)
        client.subscribe(reply, qos=1)
        asked = properties("PUBLISH", ResponseTopic=reply, CorrelationData=b"\x00\xff", ContentType="text/plain",
                           PayloadFormatIndicator=1, MessageExpiryInterval=300,
                           UserProperty=[("trace", "2"), ("trace", "1"), ("a", "")])
        client.publish(topic, "height?", qos=1, properties=asked)
        request = server.receive()[0].properties
        self.assertEqual(request.UserProperty, [("trace", "2"), ("trace", "1"), ("a", "")])
        self.assertEqual((request.ContentType, request.PayloadFormatIndicator), ("text/plain", 1))
        self.assertIn(request.MessageExpiryInterval, range(290, 301))
        answer = properties("PUBLISH", CorrelationData=request.CorrelationData)
        server.publish(request.ResponseTopic, "2 m", qos=1, properties=answer)
        response = client.receive()[0]
        self.assertEqual((response.payload, response.properties.CorrelationData), (b"2 m", b"\x00\xff"))

    def test_subscription_options_of_mqtt_5(self):
        topic = self.name()
        sender, client = self.client(), self.client()
        sender.publish(topic, "kept", qos=1, retain=True)
        quiet = SubscribeOptions(qos=1, noLocal=True, retainAsPublished=True, retainHandling=2)
        client.subscribe(topic, options=quiet, properties=properties("SUBSCRIBE", SubscriptionIdentifier=5))
        client.publish(topic, "own", qos=1)
        sender.publish(topic, "other", qos=1, retain=True)
        message = client.receive()[0]
        self.assertEqual((message.payload, message.retain), (b"other", True))
        self.assertEqual(message.properties.SubscriptionIdentifier, [5])

    @unittest.skipIf(MOSQUITTO, "Mosquitto 2.0 closes the older connection without a word")
    def test_newer_connection_takes_the_client_id_over(self):
        older = self.client(self.name())
        newer = self.client(self.name())
        code, from_server = older.end()
        self.assertEqual((code.value, from_server), (0x8E, True))
        newer.subscribe(self.name("/topic"))
        newer.publish(self.name("/topic"), "still here")
        self.assertEqual(newer.payloads(), ["still here"])

    def test_every_transport_meets_every_other(self):
        clients = [self.client(version=version, transport=transport)
                   for version in VERSIONS.values() for transport in ("tcp", "websockets", "unix")]
        topic = self.name()
        for client in clients:
            self.assertEqual(client.subscribe(topic, qos=2), [2])
        large = "tide " * 20_000
        for client in clients:
            client.publish(topic, large, qos=2)
        for client in clients:
            self.assertEqual(client.payloads(len(clients)), [large] * len(clients))

    def test_retained_messages_of_many_topics_arrive_once_each(self):
        number, prefix = 5000, self.name()
        sender = self.client()
        sent = [sender.paho.publish(f"{prefix}/{n % 50}/{n}", str(n), qos=1, retain=True) for n in range(number)]
        for message in sent:
            message.wait_for_publish(20)
        for version in VERSIONS.values():
            client = self.client(version=version)
            client.subscribe(f"{prefix}/#", qos=1)
            received = client.receive(number)
            self.assertTrue(all(message.retain for message in received))
            expected = {f"{prefix}/{n % 50}/{n}": str(n).encode() for n in range(number)}
            self.assertEqual({message.topic: message.payload for message in received}, expected)


def burst(version, qos):
    def test(self):
        topic, number = self.name(), 1000
        receiver, sender = self.client(version=version), self.client(version=version)
        self.assertEqual(receiver.subscribe(topic, qos=qos), [qos])
        sent = [sender.paho.publish(topic, str(n), qos=qos) for n in range(number)]
        for message in sent:
            message.wait_for_publish(20)
        self.assertEqual(receiver.payloads(number), [str(n) for n in range(number)])

    return test


for each_name, each_version in VERSIONS.items():
    for each_qos in (0, 1, 2):
        setattr(Paho, f"test_burst_in_order_{each_name}_qos_{each_qos}", burst(each_version, each_qos))

if __name__ == "__main__":
    unittest.main()
