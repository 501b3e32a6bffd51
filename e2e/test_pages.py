"""Pages and pictures in a browser: on a phone, by day and by night."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from broker import BINARY, ROOT

sys.path.insert(0, str(ROOT / "deploy/site"))

from look import Looker


@unittest.skipUnless(shutil.which("chromium"), "needs Chromium")
class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(cls.folder.cleanup)
        cls.looker = Looker(f"{cls.folder.name}/profile")
        cls.addClassCleanup(cls.looker.close)

    def faults_of(self, html):
        file = pathlib.Path(self.folder.name) / "page.html"
        file.write_text(f"<!doctype html><meta name=viewport content='width=device-width'><body>{html}")
        return self.looker.faults(file.as_uri())

    def test_each_kind_of_fault_is_found(self):
        self.assertEqual(self.faults_of("<p>right</p>"), [])
        for html, part in {
            "<div style='width:900px'>wide</div>": "on a phone",
            "<p style='color:#eee'>pale</p>": "contrast",
            "<svg width=300><text x=9 y=30>one label</text><text x=30 y=30>another</text></svg>": "overlap",
            "<script>console.error(1); null.x</script>": "script",
            "<img src='missing.png'>": "console",
        }.items():
            self.assertTrue(any(part in fault for fault in self.faults_of(html)), (html, self.faults_of(html)))

    def test_pictures_of_studies_are_readable_by_day_and_night(self):
        pictures = sorted((ROOT / "docs/brokel").glob("*.svg"))
        self.assertGreater(len(pictures), 20)
        self.assertEqual({file.name: found for file in pictures if (found := self.looker.faults(file.as_uri()))}, {})

    def test_the_console_fits_a_phone_by_day_and_night(self):
        command = [BINARY, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as broker:
            try:
                admin = broker.stdout.readline().split("admin=")[1].split()[0]
                self.assertEqual(self.looker.faults(f"{admin}/"), [])
            finally:
                broker.terminate()


if __name__ == "__main__":
    unittest.main()
