"""Pipelines into a real PostgreSQL: tables, upserts, an outage of the server, kill -9 of the broker."""

import glob
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
import unittest

from broker import BINARY, free_ports
from pipelines import PipelineCase

INITDB = shutil.which("initdb") or next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))), None)


class Postgres:
    """A server of its own; it may be away for a while."""

    def __init__(self, test):
        folder = tempfile.TemporaryDirectory(prefix="tidegate-e2e-", ignore_cleanup_errors=True)
        test.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.programs = pathlib.Path(INITDB).resolve().parent
        self.port = free_ports(1)[0]
        # The server refuses to run as root.
        self.user = "nobody" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        if os.getuid() == 0:
            shutil.chown(self.folder, "nobody")
        self.process = None
        self._run("initdb", "-D", self.folder / "data", "-U", "hub", "-A", "trust", "--no-sync")
        test.addCleanup(self.stop)

    def _command(self, program, *arguments):
        command = [str(self.programs / program), *map(str, arguments)]
        return command if os.getuid() else ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *command]

    def _run(self, program, *arguments):
        done = subprocess.run(self._command(program, *arguments), capture_output=True, text=True, cwd="/", check=False)
        if done.returncode:
            raise AssertionError(f"{program}: {done.stderr}")
        return done.stdout

    def encrypt(self, certificate, key):
        """Has the server speak TLS, and take no other connection over TCP."""
        for source, name in ((certificate, "server.crt"), (key, "server.key")):
            target = self.folder / "data" / name
            shutil.copy(source, target)
            target.chmod(0o600)
            if os.getuid() == 0:
                shutil.chown(target, self.user)
        with open(self.folder / "data" / "postgresql.conf", "a", encoding="utf-8") as settings:
            settings.write("ssl = on\n")
        hba = self.folder / "data" / "pg_hba.conf"
        hba.write_text("local all all trust\nhostssl all all all trust\n", encoding="utf-8")

    def start(self):
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        log = self.folder / "log"
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-l", log, "-o", options, "start")
        self.process = True

    def stop(self):
        if self.process:
            self._run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")
            self.process = None

    @property
    def url(self):
        return f"postgres://hub@127.0.0.1:{self.port}/postgres"

    def ask(self, query):
        """The rows of an answer, as lists of texts."""
        out = self._run("psql", "-h", self.folder, "-p", self.port, "-U", "hub", "-d", "postgres", "-qAtc", query)
        return [line.split("|") for line in out.splitlines()]


@unittest.skipUnless(INITDB, "there is no PostgreSQL here")
class IntoPostgres(PipelineCase):
    def setUp(self):
        super().setUp()
        self.postgres = Postgres(self)
        self.dead = self.folder / "dead.ndjson"
        self.config.write_text(
            f'[[sink]]\nname = "db"\nkind = "postgres"\nurl = "{self.postgres.url}"\ntable = "readings"\n'
            f'retry_min = "50ms"\nretry_max = "200ms"\n'
            f'[[sink]]\nname = "dead"\nkind = "file"\npath = "{self.dead}"\n'
            '[[pipeline]]\nname = "hot"\nfrom = ["plant/+/temp"]\ndead_letter = "dead"\n'
            "sql = \"SELECT payload.temp AS temp, payload.note AS note, topic, clientid, timestamp"
            " FROM 'plant/+/temp' WHERE payload.temp IS NOT NULL\"\n"
            'to = ["db"]\n',
            encoding="utf-8",
        )

    def test_rows_have_the_fields_of_the_statement(self):
        self.postgres.start()
        broker = self.broker()
        self.publish(broker, [{"temp": 31.5}, {"temp": 30, "note": {"a": 1}}, {"other": 1}])
        status = self.wait(broker, lambda it: it["in"] == 3 and it["waiting"] == 0)
        self.assertEqual((status["out"], status["filtered"], status["failed"]), (2, 1, 0))
        rows = self.postgres.ask("SELECT temp, note, topic, clientid FROM readings ORDER BY temp DESC")
        self.assertEqual(rows, [["31.5", "", "plant/a/temp", "pump-7"], ["30", '{"a": 1}', "plant/a/temp", "pump-7"]])
        ids = self.postgres.ask("SELECT message_id FROM readings")
        self.assertTrue(all(len(row[0]) > 16 for row in ids), ids)

    def test_a_value_that_does_not_fit_is_a_dead_letter(self):
        self.postgres.start()
        broker = self.broker()
        self.publish(broker, [{"temp": 1}])
        self.wait(broker, lambda it: it["out"] == 1)
        self.publish(broker, [{"temp": 2}, {"temp": "hot"}, {"temp": 3}])
        self.wait(broker, lambda it: it["out"] == 3 and it["failed"] == 1 and it["waiting"] == 0)
        self.assertEqual(self.postgres.ask("SELECT temp FROM readings ORDER BY temp"), [["1"], ["2"], ["3"]])
        letter = json.loads(self.dead.read_text(encoding="utf-8"))
        self.assertEqual(letter["temp"], "hot")
        self.assertIn("invalid input syntax", letter["dead_letter_reason"])

    def test_a_row_that_a_trigger_refuses_is_a_dead_letter(self):
        self.postgres.start()
        self.postgres.ask(
            "CREATE TABLE readings (message_id text PRIMARY KEY, temp integer);"
            "CREATE FUNCTION check_temp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF NEW.temp > 100 THEN RAISE EXCEPTION 'no such temperature'; END IF; RETURN NEW; END $$;"
            "CREATE TRIGGER check_temp BEFORE INSERT ON readings FOR EACH ROW EXECUTE FUNCTION check_temp()"
        )
        broker = self.broker()
        self.publish(broker, [{"temp": 1}, {"temp": 101}, {"temp": 2}])
        self.wait(broker, lambda it: it["out"] == 2 and it["failed"] == 1 and it["waiting"] == 0)
        self.assertEqual(self.postgres.ask("SELECT temp FROM readings ORDER BY temp"), [["1"], ["2"]])
        self.assertIn("no such temperature", json.loads(self.dead.read_text(encoding="utf-8"))["dead_letter_reason"])

    def test_a_table_of_ones_own_is_used_as_it_is(self):
        self.postgres.start()
        self.postgres.ask("CREATE TABLE readings (message_id text PRIMARY KEY, temp integer, topic varchar, added timestamptz DEFAULT now())")
        broker = self.broker()
        self.publish(broker, [{"temp": 7}])
        self.wait(broker, lambda it: it["out"] == 1)
        self.assertEqual(self.postgres.ask("SELECT temp, clientid, added IS NOT NULL FROM readings"), [["7", "pump-7", "t"]])

    def test_a_user_who_may_only_write_rows_stops_at_no_row(self):
        """Since version 15 users may make no tables in `public`."""
        self.postgres.start()
        self.postgres.ask(
            "CREATE TABLE readings (message_id text PRIMARY KEY, temp float); CREATE ROLE writer LOGIN;"
            "GRANT SELECT, INSERT, UPDATE ON readings TO writer"
        )
        text = self.config.read_text(encoding="utf-8").replace("postgres://hub@", "postgres://writer@")
        self.config.write_text(text.replace(", topic, clientid, timestamp", ""), encoding="utf-8")
        broker = self.broker()
        self.publish(broker, [{"temp": 1}, {"temp": 2, "note": "new"}, {"temp": 3}])
        self.wait(broker, lambda it: (it["out"], it["failed"], it["waiting"]) == (2, 1, 0))
        self.assertEqual(self.postgres.ask("SELECT temp FROM readings ORDER BY temp"), [["1"], ["3"]])
        self.assertIn("no column for `note`", json.loads(self.dead.read_text(encoding="utf-8"))["dead_letter_reason"])

    def test_rows_come_over_tls_where_the_certificate_is_right(self):
        for name in ("ours", "other"):
            subprocess.run([BINARY, "cert", "dev", "--out", self.folder / name], check=True, capture_output=True)
        self.postgres.encrypt(self.folder / "ours" / "server.pem", self.folder / "ours" / "server.key")
        self.postgres.start()
        plain = self.config.read_text(encoding="utf-8")

        def trusting(name):
            url = f'url = "{self.postgres.url}?sslmode=require"\nca = "{self.folder}/{name}/ca.pem"'
            self.config.write_text(plain.replace(f'url = "{self.postgres.url}"', url), encoding="utf-8")

        trusting("other")
        broker = self.broker()
        self.publish(broker, [{"temp": 7}])
        status = self.wait(broker, lambda it: it["state"] == "retrying")
        self.assertIn("certificate", status["error"])
        broker.kill()
        trusting("ours")
        broker = self.broker()
        self.wait(broker, lambda it: it["out"] == 1)
        self.assertEqual(self.postgres.ask("SELECT temp FROM readings"), [["7"]])

    def test_each_message_is_there_once_after_an_outage_and_kill_9(self):
        broker = self.broker()
        self.publish(broker, [{"temp": number} for number in range(200)])
        status = self.wait(broker, lambda it: it["state"] == "retrying" and it["waiting"] == 200)
        self.assertIn("db: ", status["error"])
        broker.kill()
        self.postgres.start()
        broker = self.broker()
        self.publish(broker, [{"temp": number} for number in range(200, 400)])
        self.wait(broker, lambda it: it["out"] >= 100)
        self.postgres.stop()
        self.publish(broker, [{"temp": number} for number in range(400, 600)])
        broker.kill()
        self.postgres.start()
        broker = self.broker()
        self.wait(broker, lambda it: it["state"] == "running" and it["waiting"] == 0)
        counted = self.postgres.ask("SELECT count(*), count(DISTINCT temp), min(temp), max(temp) FROM readings")
        self.assertEqual(counted, [["600", "600", "0", "599"]])

    def test_each_message_is_there_once_after_kill_9_of_both(self):
        self.postgres.start()
        acknowledged = self.kill_again_and_again(server=self.postgres)
        numbers = [int(row[0]) for row in self.postgres.ask("SELECT temp FROM readings")]
        self.assertEqual(acknowledged - set(numbers), set())
        self.assertEqual(len(numbers), len(set(numbers)))


if __name__ == "__main__":
    unittest.main()
