"""A pipeline into a real RabbitMQ: kill -9 of the broker and of RabbitMQ, and an exchange whose messages no queue takes."""

import json
import os
import pathlib
import signal
import subprocess
import unittest

import pika
from broker import PATIENCE, START_PATIENCE, Lines, free_ports
from pipelines import Books, PipelineCase

# The script beside it on the path refuses other users than root and its own.
RABBITMQ = next((path for path in [pathlib.Path("/usr/lib/rabbitmq/bin/rabbitmq-server")] if path.exists()), None)


class RabbitMq:
    """A node of its own, with its own port mapper; it may be away for a while."""

    def __init__(self, test, folder):
        self.folder, self.process = folder, None
        self.port, distribution, mapper = free_ports(3)
        config = folder / "rabbitmq.conf"
        config.write_text(
            f"listeners.tcp.default = 127.0.0.1:{self.port}\nlog.console = true\nlog.console.level = info\nlog.file = false\n"
            "disk_free_limit.absolute = 1MB\nmax_message_size = 100000\n",
            encoding="utf-8",
        )
        (folder / "enabled_plugins").write_text("[].\n", encoding="utf-8")
        self.environment = os.environ | {
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"hub{self.port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_DIST_PORT": str(distribution),
            "ERL_EPMD_PORT": str(mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        test.addCleanup(self._end_mapper)
        test.addCleanup(self.stop)

    def start(self):
        # In a group of its own: the script and what it starts end together.
        self.process = subprocess.Popen([RABBITMQ], env=self.environment, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.STDOUT, start_new_session=True)
        Lines(self.process.stdout).wait(lambda line: "Server startup complete" in line, patience=START_PATIENCE)

    def stop(self):
        """Kills the node with its script."""
        if self.process:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(PATIENCE)
            self.process = None

    def _end_mapper(self):
        subprocess.run(["epmd", "-kill"], env=self.environment, capture_output=True, check=False)

    def channel(self):
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port)).channel()

    def messages(self, queue):
        """Takes the messages of a queue: properties and body of each."""
        channel, taken = self.channel(), []
        while True:
            found, properties, body = channel.basic_get(queue, auto_ack=True)
            if found is None:
                channel.connection.close()
                return taken
            taken.append((properties, body))


@unittest.skipUnless(RABBITMQ, "there is no RabbitMQ here")
class IntoRabbitMq(PipelineCase):
    def setUp(self):
        super().setUp()
        self.rabbitmq = RabbitMq(self, self.folder)
        self.dead = self.folder / "dead.ndjson"

    def configure(self, more):
        self.config.write_text(
            f'[[sink]]\nname = "bus"\nkind = "amqp"\nurl = "amqp://guest:guest@127.0.0.1:{self.rabbitmq.port}/"\n{more}'
            'retry_min = "50ms"\nretry_max = "200ms"\n'
            f'[[sink]]\nname = "dead"\nkind = "file"\npath = "{self.dead}"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\nto = ["bus"]\ndead_letter = "dead"\n'
            "sql = \"SELECT payload.temp AS temp FROM 'plant/+/temp'\"\n",
            encoding="utf-8",
        )

    def test_no_acknowledged_message_is_lost_by_kill_9(self):
        """One node for all of it: it takes seconds to start."""
        self.configure('queue = "readings"\n')
        self.rabbitmq.start()
        acknowledged = self.kill_again_and_again(rounds=3, server=self.rabbitmq)
        first = max(acknowledged) + 10_000
        broker, books = self.broker(), Books(first)
        before = self.wait(broker, lambda it: it["state"] == "running")["out"]
        books.start(broker.port)
        self.wait(broker, lambda it: it["out"] >= before + 100)
        self.rabbitmq.stop()
        self.wait(broker, lambda it: it["state"] == "retrying")
        books.stop()
        self.rabbitmq.start()
        self.publish(broker, [{"temp": "x" * 150_000}])
        self.wait(broker, lambda it: it["state"] == "running" and it["waiting"] == 0 and it["failed"] == 1)
        self.assertIn("message size", json.loads(self.dead.read_text(encoding="utf-8"))["dead_letter_reason"])
        messages = self.rabbitmq.messages("readings")
        numbers = {json.loads(body)["temp"] for _, body in messages}
        self.assertEqual((acknowledged | books.acknowledged) - numbers, set())
        properties = messages[0][0]
        self.assertTrue(properties.message_id.endswith("/hot/bus"))
        self.assertEqual((properties.delivery_mode, properties.headers["mqtt-topic"]), (2, "plant/a/temp"))
        broker.kill()
        self.by_the_exchange()

    def by_the_exchange(self):
        self.configure("")
        broker = self.broker()
        self.publish(broker, [{"temp": 1}])
        status = self.wait(broker, lambda it: it["state"] == "retrying")
        self.assertIn("no queue takes `plant.a.temp` from the exchange `amq.topic`", status["error"])
        channel = self.rabbitmq.channel()
        channel.queue_declare("late", durable=True)
        channel.queue_bind("late", "amq.topic", "plant.*.temp")
        self.wait(broker, lambda it: it["state"] == "running" and it["waiting"] == 0)
        channel.connection.close()
        self.assertIn(b'{"temp":1}', [body for _, body in self.rabbitmq.messages("late")])


if __name__ == "__main__":
    unittest.main()
