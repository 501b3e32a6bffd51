"""mosquitto_pub, mosquitto_sub and mosquitto_rr, as people use them in a terminal."""

import signal
import subprocess
import unittest

from broker import PATIENCE, BrokerTest, Lines

VERSIONS = ("mqttv31", "mqttv311", "mqttv5")


class Subscriber:
    """A mosquitto_sub that has its SUBACK."""

    def __init__(self, test, *arguments, show="%t %q %r %p", output=None):
        command = ["stdbuf", "-oL", "mosquitto_sub", "-d", "-p", str(test.broker.port), "-F", f"MESSAGE {show}", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.output = output or Lines()
        before = sum(map(self.is_subscribed, self.output.lines))
        self.thread = self.output.follow(self.process.stdout)
        test.addCleanup(self.end, signal.SIGKILL)
        self.output.wait(self.is_subscribed, before + 1)

    @staticmethod
    def is_subscribed(line):
        return line.startswith("Subscribed (mid")

    def messages(self, number):
        """The next messages, as `show` prints them."""
        lines = self.output.wait(lambda line: line.startswith("MESSAGE "), number)
        return [line.removeprefix("MESSAGE ") for line in lines]

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(PATIENCE)
        self.thread.join(PATIENCE)


class MosquittoClients(BrokerTest):
    def publish(self, *arguments, lines=None):
        command = ["mosquitto_pub", "-p", str(self.broker.port), *arguments]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_retained_message_is_kept_replaced_and_deleted(self):
        topic = self.name()
        self.publish("-t", topic, "-r", "-m", "old")
        self.publish("-t", topic, "-r", "-q", "1", "-m", "new")
        self.assertEqual(Subscriber(self, "-t", topic, "-q", "2").messages(1), [f"{topic} 1 1 new"])
        self.publish("-t", topic, "-r", "-n")
        subscriber = Subscriber(self, "-t", topic)
        self.publish("-t", topic, "-m", "live")
        self.assertEqual(subscriber.messages(1), [f"{topic} 0 0 live"])

    def test_will_is_published_when_its_client_is_killed(self):
        for version in VERSIONS:
            with self.subTest(version):
                topic = self.name(version)
                watcher = Subscriber(self, "-V", version, "-t", topic, "-q", "1")
                will = ("--will-topic", topic, "--will-payload", "gone", "--will-qos", "1")
                Subscriber(self, "-V", version, "-t", self.name("other"), *will).end(signal.SIGKILL)
                self.assertEqual(watcher.messages(1), [f"{topic} 1 0 gone"])

    def test_shared_subscription_deals_each_message_to_one_member(self):
        topic, number, together = self.name(), 60, Lines()
        group = ("-V", "mqttv5", "-t", f"$share/team/{topic}", "-q", "1")
        for member in "abc":
            Subscriber(self, *group, show=f"{member} %p", output=together)
        witness = Subscriber(self, "-t", topic, "-q", "1", show="%p")
        numbers = [str(n) for n in range(number)]
        self.publish("-t", topic, "-q", "1", "-l", lines="\n".join(numbers) + "\n")
        self.assertEqual(witness.messages(number), numbers)
        dealt = [line.split() for line in together.wait(lambda line: line.startswith("MESSAGE "), number)]
        self.assertEqual(sorted((payload for _, _, payload in dealt), key=int), numbers)
        self.assertEqual({member for _, member, _ in dealt}, set("abc"))

    def test_session_keeps_messages_while_its_client_is_away(self):
        for version in ("mqttv311", "mqttv5"):
            with self.subTest(version):
                topic, client = self.name(version), self.name(version)
                keep = ("-V", version, "-c", "-i", client, "-t", topic, "-q", "1")
                Subscriber(self, *keep).end()
                self.publish("-t", topic, "-q", "1", "-l", lines="a\nb\nc\n")
                self.assertEqual(Subscriber(self, *keep, show="%p").messages(3), ["a", "b", "c"])

    def test_properties_of_mqtt_5_pass_through(self):
        topic = self.name()
        subscriber = Subscriber(
            self, "-V", "mqttv5", "-t", topic, "-D", "subscribe", "subscription-identifier", "7",
            show="%C|%D|%E|%F|%R|%S|%P|%p",
        )
        properties = (
            ("content-type", "text/plain"), ("correlation-data", "c1"), ("message-expiry-interval", "3600"),
            ("payload-format-indicator", "1"), ("response-topic", "reply/here"),
            ("user-property", "b", "1"), ("user-property", "a", "2"),
        )
        flags = [part for property in properties for part in ("-D", "publish", *property)]
        self.publish("-V", "mqttv5", "-t", topic, "-m", "hello", *flags)
        content, correlation, expiry, payload_format, response, identifier, users, payload = (
            subscriber.messages(1)[0].split("|")
        )
        self.assertEqual((content, correlation, payload_format, response), ("text/plain", "c1", "1", "reply/here"))
        self.assertEqual((identifier, users, payload), ("7", "b:1 a:2", "hello"))
        self.assertIn(int(expiry), range(3590, 3601))

    def test_request_and_response(self):
        topic = self.name()
        responder = Subscriber(self, "-V", "mqttv5", "-t", topic, show="%R|%D")
        command = ["mosquitto_rr", "-p", str(self.broker.port), "-V", "mqttv5", "-t", topic, "-e", self.name("reply"),
                   "-m", "how deep?", "-D", "publish", "correlation-data", "n1", "-W", str(PATIENCE)]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as request:
            reply_to, correlation = responder.messages(1)[0].split("|")
            self.assertEqual(correlation, "n1")
            self.publish("-V", "mqttv5", "-t", reply_to, "-m", "two metres")
            self.assertEqual(request.communicate(timeout=PATIENCE)[0], "two metres\n")

    def test_system_topics_answer(self):
        version = Subscriber(self, "-t", "$SYS/broker/version", show="%p").messages(1)
        self.assertRegex(version[0], r"^\w+ version \d+\.\d+\.\d+")


def round_trip(version, qos):
    def test(self):
        topic = self.name("/level")
        subscriber = Subscriber(self, "-V", version, "-t", self.name("/+"), "-q", str(qos))
        self.publish("-V", version, "-t", topic, "-q", str(qos), "-m", "über die Tide")
        self.publish("-V", version, "-t", topic, "-q", str(qos), "-m", "x" * 100_000)
        received = [line.split(" ", 3) for line in subscriber.messages(2)]
        self.assertEqual([line[:3] for line in received], [[topic, str(qos), "0"]] * 2)
        self.assertEqual([line[3] for line in received], ["über die Tide", "x" * 100_000])

    return test


for each_version in VERSIONS:
    for each_qos in (0, 1, 2):
        setattr(MosquittoClients, f"test_round_trip_{each_version}_qos_{each_qos}", round_trip(each_version, each_qos))

if __name__ == "__main__":
    unittest.main()
