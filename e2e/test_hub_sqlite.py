"""A pipeline into a file of SQLite, read by the SQLite of Python: kill -9 of the broker, and poison messages."""

import json
import sqlite3
import unittest

from pipelines import PipelineCase


class IntoSqlite(PipelineCase):
    def setUp(self):
        super().setUp()
        self.database, self.dead = self.folder / "out" / "readings.db", self.folder / "dead.ndjson"
        self.config.write_text(
            f'[[sink]]\nname = "db"\nkind = "sqlite"\npath = "{self.database}"\ntable = "readings"\n'
            'retry_min = "50ms"\nretry_max = "200ms"\n'
            f'[[sink]]\nname = "dead"\nkind = "file"\npath = "{self.dead}"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\nto = ["db"]\ndead_letter = "dead"\n'
            "sql = \"SELECT payload.temp AS temp, topic, clientid FROM 'plant/+/temp'\"\n",
            encoding="utf-8",
        )

    def ask(self, query):
        connection = sqlite3.connect(self.database)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    def test_each_message_is_there_once_after_kill_9(self):
        acknowledged = self.kill_again_and_again()
        rows = [temp for (temp,) in self.ask("SELECT temp FROM readings")]
        self.assertEqual(acknowledged - set(rows), set())
        self.assertEqual(len(rows), len(set(rows)))
        self.assertEqual(self.ask("SELECT DISTINCT topic, clientid FROM readings"), [("plant/a/temp", "pump-7")])
        self.assertEqual(self.ask("PRAGMA integrity_check"), [("ok",)])

    def test_a_row_that_the_table_refuses_is_a_dead_letter(self):
        self.database.parent.mkdir()
        connection = sqlite3.connect(self.database)
        connection.execute("CREATE TABLE readings (message_id TEXT PRIMARY KEY, temp INTEGER) STRICT")
        connection.close()
        broker = self.broker()
        self.publish(broker, [{"temp": 1}, {"temp": "hot"}, {"temp": 3}])
        self.wait(broker, lambda it: it["out"] == 2 and it["failed"] == 1 and it["waiting"] == 0)
        self.assertEqual(self.ask("SELECT temp FROM readings ORDER BY temp"), [(1,), (3,)])
        letter = json.loads(self.dead.read_text(encoding="utf-8"))
        self.assertEqual(letter["temp"], "hot")
        self.assertIn("cannot store TEXT value in INTEGER column", letter["dead_letter_reason"])


if __name__ == "__main__":
    unittest.main()
