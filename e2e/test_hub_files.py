"""A pipeline into files: of Parquet, read by Arrow, and with each record once, through kill -9 of the broker."""

import collections
import json
import unittest

from pipelines import PipelineCase
from pyarrow import parquet


class IntoFiles(PipelineCase):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"
        self.config.write_text(
            f'[[sink]]\nname = "archive"\nkind = "file"\npath = "{self.out}/readings.parquet"\nformat = "parquet"\n'
            'rotate_size = "4KiB"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\nto = ["archive"]\n'
            "sql = \"SELECT payload.temp AS temp, payload.note AS note, payload.ok AS ok, payload.any AS any, topic"
            " FROM 'plant/+/temp'\"\n",
            encoding="utf-8",
        )

    def test_each_acknowledged_message_is_in_a_file_after_kill_9(self):
        acknowledged = self.kill_again_and_again(rounds=3)
        broker = self.broker()
        # A batch that makes a file larger than it may be: the next batch finishes it.
        rows = [{"temp": 0.5, "note": "ä" * 5000, "ok": True, "any": 1}, {"temp": 1, "ok": False, "any": [{"a": None}]}]
        for row in rows:
            self.publish(broker, [row])
            self.wait(broker, lambda it: it["waiting"] == 0)
        self.publish(broker, [{"temp": 2}])
        self.wait(broker, lambda it: it["waiting"] == 0)
        files = sorted(self.out.glob("readings-*.parquet"))
        tables = [parquet.read_table(file) for file in files]
        numbers = [number for table in tables for number in table["temp"].to_pylist()]
        # The last rows are in a file that is not finished.
        with open(self.out / "readings.parquet.ndjson", encoding="utf-8") as lines:
            self.assertIn('"temp":2,', lines.read())
        self.assertEqual(acknowledged - set(numbers), set())
        last = [row for table in tables for row in table.to_pylist() if row["ok"] is not None or row["note"]]
        # `any` is a column of numbers in a file that has no other kind of value there, and of JSON in others.
        for row in last:
            row["any"] = str(row["any"])
        self.assertIn({"temp": 0.5, "note": "ä" * 5000, "ok": True, "any": "1", "topic": "plant/a/temp"}, last)
        kinds = {name: str(kind) for table in tables for name, kind in zip(table.schema.names, table.schema.types)}
        self.assertEqual((kinds["ok"], kinds["topic"]), ("bool", "string"))
        self.assertEqual(list(self.out.glob("*.unfinished")), [])


class IntoFilesOnce(PipelineCase):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"
        self.config.write_text(
            f'[[sink]]\nname = "archive"\nkind = "file"\npath = "{self.out}/readings.ndjson"\nexactly_once = true\n'
            'rotate_size = "2KiB"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\nto = ["archive"]\n'
            "sql = \"SELECT payload.temp AS temp FROM 'plant/+/temp'\"\n",
            encoding="utf-8",
        )

    def test_each_acknowledged_message_is_in_a_file_once_after_kill_9(self):
        acknowledged = self.kill_again_and_again(rounds=10)
        files = sorted(self.out.glob("*.ndjson"))
        self.assertGreater(len(files), 2)
        lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
        counts = collections.Counter(json.loads(line)["temp"] for line in lines)
        self.assertEqual(acknowledged - set(counts), set())
        self.assertEqual([number for number, count in counts.items() if count > 1], [])


if __name__ == "__main__":
    unittest.main()
