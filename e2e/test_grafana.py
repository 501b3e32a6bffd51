"""The board for Grafana, read by the types of Grafana's foundation SDK."""

import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from broker import ROOT

BOARD = ROOT / "deploy" / "monitoring" / "grafana.json"
# The first run fetches and compiles the SDK.
PATIENCE = 600


@unittest.skipUnless(shutil.which("go"), "the SDK is in Go")
class GrafanaBoard(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tidegate-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program = self.folder / "check"
        source = ROOT / "e2e" / "grafana"
        try:
            fetched = subprocess.run(
                ["go", "mod", "download"], cwd=source, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            self.skipTest("the SDK is not fetched in time")
        if fetched.returncode != 0:
            is_network = any(word in fetched.stderr for word in ("dial tcp", "lookup ", "proxy", "connection"))
            self.assertTrue(is_network, fetched.stderr)
            self.skipTest(f"the SDK cannot be fetched: {fetched.stderr.strip()}")
        command = ["go", "build", "-o", self.program, "."]
        subprocess.run(command, cwd=source, check=True, timeout=PATIENCE)

    def check(self, board):
        """Whether the SDK accepts a board, and its words."""
        file = self.folder / "board.json"
        file.write_text(json.dumps(board), encoding="utf-8")
        done = subprocess.run([self.program, file], capture_output=True, text=True, timeout=PATIENCE, check=False)
        return done.returncode == 0, done.stdout + done.stderr

    def test_the_board_is_of_the_types_of_grafana(self):
        def board():
            return json.loads(BOARD.read_text(encoding="utf-8"))

        is_right, said = self.check(board())
        self.assertTrue(is_right, said)
        self.assertIn(f"{len(board()['panels'])} panels", said)
        query, options, version = board(), board(), board()
        query["panels"][0]["targets"][0]["exprr"] = "up"
        options["panels"][0]["options"] = {"colorModes": "none"}
        version["schemaVersion"] = "39"
        for wrong, part in [(query, "exprr"), (options, "colorModes"), (version, "schemaVersion")]:
            is_right, said = self.check(wrong)
            self.assertFalse(is_right)
            self.assertIn(part, said)


if __name__ == "__main__":
    unittest.main()
