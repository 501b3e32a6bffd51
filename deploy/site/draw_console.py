#!/usr/bin/env python3
"""Draws docs/pictures/console-light.png and console-dark.png: the console of a broker that has had work for a minute.

    deploy/site/draw_console.py target/release/tidegate

It needs Chromium, and speaks its debugging protocol over a pipe. Everything runs on loopback, at ports that the system chooses.
"""
import base64
import contextlib
import math
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

from browser import Browser

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs/pictures"
# The part of the page that is drawn, CSS pixels: three rows of cards and the chart.
WIDTH, HEIGHT = 860, 720
CHART_HAS_A_MINUTE = """new Promise(done => {
  const span = document.getElementById("span");
  const look = () => { if (span.textContent.includes("min")) done(); };
  new MutationObserver(look).observe(span, {childList: true});
  look();
})"""
PAGE_IS_LOADED = "new Promise(done => document.readyState == 'complete' ? done() : addEventListener('load', done))"


def feed(program, port, end):
    """Publishes a wave of messages: 20 to 60 in a second."""
    publisher = subprocess.Popen([program, "pub", "-p", port, "-i", "gateway-7", "-t", "city/truck-1/position", "-q", "1", "-l"], stdin=subprocess.PIPE)
    began = time.monotonic()
    while not end.wait(1 / (40 + 20 * math.sin((time.monotonic() - began) / 7))):
        publisher.stdin.write(b'{"lat": -22.98, "lon": -43.23, "speed": 41}\n')
        publisher.stdin.flush()
    publisher.stdin.close()
    publisher.wait()


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    end = threading.Event()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as undo:
        broker = subprocess.Popen([program, "--data", f"{folder}/data", "-l", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log", "warn"], stdout=subprocess.PIPE, text=True)
        undo.callback(broker.wait)
        undo.callback(broker.terminate)
        ready = broker.stdout.readline()
        port, admin = ready.split("mqtt://127.0.0.1:")[1].split()[0], ready.split("admin=")[1].split()[0]
        for client, filter in [("dashboard", "city/#"), ("truck-1", "city/truck-1/#"), ("archive", "city/+/position")]:
            subscriber = subprocess.Popen([program, "sub", "-p", port, "-V", "5", "-i", client, "-t", filter, "-q", "1"], stdout=subprocess.DEVNULL)
            undo.callback(subscriber.wait)
            undo.callback(subscriber.terminate)
        feeder = threading.Thread(target=feed, args=(program, port, end))
        feeder.start()
        undo.callback(feeder.join)
        undo.callback(end.set)
        browser = Browser(f"{folder}/profile")
        undo.callback(browser.close)
        browser.screen(WIDTH, HEIGHT)
        browser.call("Page.navigate", url=f"{admin}/")
        browser.ask(f"{PAGE_IS_LOADED}.then(() => {CHART_HAS_A_MINUTE})")
        for scheme in ("light", "dark"):
            browser.scheme(scheme)
            picture = base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"])
            (FOLDER / f"console-{scheme}.png").write_bytes(picture)
            print(f"console-{scheme}.png: {len(picture) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
