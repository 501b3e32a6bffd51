"""A pipeline into topics of its own broker and into a history: kill -9 of the broker."""

import json
import unittest

from pipelines import PipelineCase


class IntoTopics(PipelineCase):
    def test_no_acknowledged_message_is_lost_by_kill_9(self):
        lines, past = self.folder / "lines.ndjson", self.folder / "past"
        self.config.write_text(
            '[[sink]]\nname = "here"\nkind = "topic"\ntopic = "seen"\nretry_min = "10ms"\n'
            f'[[sink]]\nname = "past"\nkind = "history"\npath = "{past}"\n'
            f'[[sink]]\nname = "lines"\npath = "{lines}"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\nto = ["here", "past"]\n'
            "sql = \"SELECT payload.temp AS temp FROM 'plant/+/temp'\"\n"
            '[[pipeline]]\nname = "next"\nfrom = ["seen"]\nto = ["lines"]\n',
            encoding="utf-8",
        )
        acknowledged = self.kill_again_and_again(rounds=3)
        broker = self.broker()
        self.wait_for_all(broker, ["hot", "next"])
        of_file = {json.loads(line)["payload"]["temp"] for line in lines.read_text(encoding="utf-8").splitlines()}
        self.assertEqual(acknowledged - of_file, set(), "the second pipeline takes what the first has published")
        segments = [file.read_text(encoding="utf-8").splitlines() for file in sorted(past.glob("*/*.ndjson"))]
        of_history = {json.loads(json.loads(line)["payload"])["temp"] for lines in segments for line in lines}
        self.assertEqual(acknowledged - of_history, set())


if __name__ == "__main__":
    unittest.main()
