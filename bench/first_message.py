#!/usr/bin/env python3
"""How long it takes from nothing to the first delivered message: by a package, or from source.

    ./package wheel npm tar deb
    bench/first_message.py target/dist/*.whl target/dist/*.tgz target/dist/*.tar.gz target/dist/*.deb
    bench/first_message.py source

A package is installed into an empty directory by pip, npm or tar, a Debian package by dpkg into a copy of this machine (as root), which keeps
nothing. `source` clones this repository, and builds it with README's first command in
a target directory of its own and, with --empty-registry, with a copy of Cargo's configuration that holds no downloaded crates. Then the broker
starts, `tidegate sub` subscribes, `tidegate pub` publishes, and the message has to arrive. Prints the seconds of each part, and the processor
time of a build. Exits with 1 when a package takes more than 60 s or `source` more than 6 min in all: run it on a machine that does nothing else.
"""
import argparse
import contextlib
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# From source, a build on a slow machine.
PATIENCE = 3600
# Seconds from nothing to the first message.
PACKAGE_LIMIT, SOURCE_LIMIT = 60, 360


def run(*command, **options):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE, **options)


def processor_seconds():
    """Processor time of all processes that this one has started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def install_wheel(file, folder):
    run(sys.executable, "-m", "venv", folder / "venv")
    run(folder / "venv/bin/pip", "install", "-q", "--no-index", "--no-deps", file)
    return [folder / "venv/bin/tidegate"]


def install_npm(file, folder):
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, file)
    return [folder / "node_modules/.bin/tidegate"]


def install_archive(file, folder):
    run("tar", "-xzf", file, "-C", folder)
    return [next(path for path in folder.rglob("tidegate") if path.is_file() and os.access(path, os.X_OK))]


def install_deb(file, folder, undo):
    """Installs into a copy of this machine, whose changes are in memory."""
    for options, source, place in (("tmpfs", "none", folder), ("overlay", "overlay", folder / "root")):
        place.mkdir(exist_ok=True)
        added = []
        if options == "overlay":
            for name in ("upper", "work"):
                (folder / name).mkdir()
            added = ["-o", f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work"]
        run("mount", "-t", options, *added, source, place)
        undo.callback(run, "umount", "--lazy", place)
    for kind, source, place in (("proc", "none", "proc"), (None, "/dev", "dev")):
        run("mount", *(["-t", kind] if kind else ["--bind"]), source, folder / "root" / place)
        undo.callback(run, "umount", "--lazy", folder / "root" / place)
    shutil.copy(file, folder / "root/tidegate.deb")
    in_copy = ["chroot", folder / "root"]
    run(*in_copy, "dpkg", "--install", "/tidegate.deb")
    return [*in_copy, "tidegate"]


def build_source(folder, empty_registry):
    clone = folder / "tidegate"
    run("git", "clone", "-q", "--no-local", ROOT, clone)
    environment = dict(os.environ)
    environment.pop("CARGO_TARGET_DIR", None)
    if empty_registry:
        home = folder / "cargo"
        home.mkdir()
        known = pathlib.Path(environment.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
        for name in ("config.toml", "config"):
            if (known / name).exists():
                shutil.copy(known / name, home)
        environment["CARGO_HOME"] = str(home)
    run("cargo", "build", "--release", "--locked", cwd=clone, env=environment)
    return [clone / "target/release/tidegate"]


def deliver(program):
    """Seconds until a message that was published has arrived."""
    began = time.monotonic()
    broker = subprocess.Popen([*program, "--listen", "127.0.0.1:0", "--admin", "off", "--log", "warn"], stdout=subprocess.PIPE, text=True)
    try:
        ready = broker.stdout.readline()
        port = ready.split("mqtt://127.0.0.1:")[1].split()[0]
        # Retained, so that it arrives whichever of the two connects first.
        reader = subprocess.Popen([*program, "sub", "-p", port, "-t", "first", "-C", "1"], stdout=subprocess.PIPE, text=True)
        run(*program, "pub", "-p", port, "-t", "first", "-m", "message", "-r", "-q", "1")
        arrived, _ = reader.communicate(timeout=60)
        if arrived.strip() != "message":
            sys.exit(f"the message did not arrive: {arrived!r}")
        return time.monotonic() - began
    finally:
        broker.terminate()
        broker.wait(60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="a wheel, an npm package, an archive, a Debian package, or `source`")
    parser.add_argument("--empty-registry", action="store_true", help="download the crates, too")
    arguments = parser.parse_args()
    over = False
    for what in arguments.what:
        with tempfile.TemporaryDirectory(prefix="tidegate-first-") as name, contextlib.ExitStack() as undo:
            folder = pathlib.Path(name)
            began, used = time.monotonic(), processor_seconds()
            file = pathlib.Path(what).resolve()
            if what == "source":
                program = build_source(folder, arguments.empty_registry)
            elif what.endswith(".whl"):
                program = install_wheel(file, folder)
            elif what.endswith(".tgz"):
                program = install_npm(file, folder)
            elif what.endswith(".tar.gz"):
                program = install_archive(file, folder)
            elif what.endswith(".deb"):
                program = install_deb(file, folder, undo)
            else:
                parser.error(f"{what} is neither a wheel, an npm package, an archive, a Debian package nor `source`")
            installed, used = time.monotonic() - began, processor_seconds() - used
            delivered = deliver(program)
            limit = SOURCE_LIMIT if what == "source" else PACKAGE_LIMIT
            late = installed + delivered > limit
            over |= late
            print(f"{file.name}: {installed:.1f} s to install ({used:.0f} s of processor time), {delivered:.2f} s to the first message, "
                  f"{installed + delivered:.1f} s in all, {'over' if late else 'within'} {limit} s", flush=True)
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
