"""What the README tells a newcomer to paste, pasted."""

import re
import subprocess
import sys
import unittest

from broker import PATIENCE, ROOT, BrokerTest


def block(language):
    """The first block of the README in a language."""
    return re.search(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1]


class Readme(BrokerTest):
    def paste(self, command, text):
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_session_with_mosquitto_clients(self):
        port = f"-p {self.broker.port}"
        session = re.sub(r"\b(mosquitto_(?:pub|sub))", rf"\1 {port}", block("sh"))
        self.assertEqual(self.paste(["bash", "-e"], session), "harbour/gate open\n" * 2)

    def test_session_with_python(self):
        session = block("python").replace("1883", str(self.broker.port))
        self.assertIn("harbour/level 2.10 m\n", self.paste([sys.executable, "-"], session))


if __name__ == "__main__":
    unittest.main()
