"""Which compiler builds a target, and how it is called.

rustup's own where it has the target or can get it. Else a compiler of the machine whose standard library is there as source (on Debian the
packages of APT_PACKAGES): the library is then built, too. Zig is the C compiler and linker of targets with musl.
"""
import os
import pathlib
import re
import shutil
import subprocess
import venv

from .release import ROOT, PackageError, run

# Rust's names of targets, and Zig's.
TARGETS = {
    "x86_64-unknown-linux-musl": "x86_64-linux-musl",
    "aarch64-unknown-linux-musl": "aarch64-linux-musl",
    "armv7-unknown-linux-musleabihf": "arm-linux-musleabihf",
    "riscv64gc-unknown-linux-musl": "riscv64-linux-musl",
}
APT_PACKAGES = ["rustc-web", "cargo-web", "rust-web-src"]
MINIMUM_RUST = (1, 90)
ZIG_VERSION = "0.17.1"
TOOLS = ROOT / "target/tools"


class Toolchain:
    """How Cargo is called for a target: the command, what is added to it, and its environment."""

    def __init__(self, target, cargo="cargo", builds_library=False, environment=None):
        self.target = target
        self.cargo = cargo
        # Which of the two a program needs depends on its profile.
        self.added = ["-Zbuild-std=std,panic_unwind,panic_abort"] if builds_library else []
        self.environment = {**(environment or {})}
        flags = ["-C target-feature=+crt-static", f"--remap-path-prefix={ROOT}=/tidegate"]
        if target in TARGETS:
            name = target.replace("-", "_")
            compiler = str(ROOT / "deploy/package/zig-cc")
            self.environment |= {
                "ZIG": str(zig()),
                "ZIG_TARGET": TARGETS[target],
                f"CC_{name}": compiler,
                f"AR_{name}": "ar",
                f"CARGO_TARGET_{name.upper()}_LINKER": compiler,
            }
            flags.append("-C link-self-contained=no")
        # Without a target, the flags would reach build scripts and macros, which cannot be static.
        self.environment["RUSTFLAGS"] = " ".join(flags)

    def build(self, profile, lean=False):
        """Builds the broker, without what a lean one leaves out; returns the program."""
        # Another compiler has a directory of its own, so that neither builds everything anew after the other.
        directory = ROOT / "target" / ("packages" if self.added else "")
        command = [self.cargo, "build", "--locked", "--profile", profile, "--target", self.target, "-p", "tidegate", *self.added]
        if lean:
            command.append("--no-default-features")
        environment = {**os.environ, **self.environment, "CARGO_TARGET_DIR": str(directory)}
        if profile == "lean":
            # Its panics abort, so that nothing reads the tables of unwinding but a backtrace.
            environment["RUSTFLAGS"] += " -C force-unwind-tables=no"
            if self.target in TARGETS:
                environment["RUSTFLAGS"] += f" -C link-arg=-Wl,-T,{ROOT / 'deploy/package/no-unwind-tables.ld'}"
        if subprocess.run(command, cwd=ROOT, env=environment).returncode != 0:
            raise PackageError(f"`{' '.join(command)}` failed")
        return directory / self.target / {"dev": "debug"}.get(profile, profile) / "tidegate"


def find(target):
    """The toolchain for a target, or for this machine's own."""
    host = re.search(r"host: (\S+)", run("rustc", "-vV")).group(1)
    wanted = target or host.replace("-gnu", "-musl")
    if has_target(wanted):
        return Toolchain(wanted)
    compiler = compiler_with_source()
    if compiler:
        cargo, rustc = compiler
        return Toolchain(wanted, cargo, builds_library=True, environment={"RUSTC": rustc, "RUSTC_BOOTSTRAP": "1"})
    if target:
        raise PackageError(f"no compiler for {target}: install it with `rustup target add {target}`, or on Debian {' '.join(APT_PACKAGES)}")
    print(f"no compiler for {wanted}: building a static program for {host}", flush=True)
    return Toolchain(host)


def has_target(target):
    """Whether the compiler on the path has the library of a target; asks rustup for it when it has not."""
    library = pathlib.Path(run("rustc", "--print", "sysroot").strip()) / "lib/rustlib" / target
    if not library.is_dir() and shutil.which("rustup"):
        subprocess.run(["rustup", "target", "add", target], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return library.is_dir()


def compiler_with_source():
    """Cargo and rustc of the machine with the source of their library; installs Debian's where it may."""
    if not source_of("/usr/bin/rustc") and shutil.which("apt-get"):
        install_debian()
    for cargo, rustc in [("cargo", "rustc"), ("/usr/bin/cargo", "/usr/bin/rustc")]:
        if shutil.which(cargo) and source_of(rustc):
            return cargo, rustc
    return None


def source_of(rustc):
    """Whether a compiler is new enough and has the source of its library."""
    if not shutil.which(rustc):
        return False
    version = tuple(int(part) for part in re.search(r"rustc (\d+)\.(\d+)", run(rustc, "--version")).groups())
    library = pathlib.Path(run(rustc, "--print", "sysroot").strip()) / "lib/rustlib/src/rust/library/Cargo.lock"
    return version >= MINIMUM_RUST and library.is_file()


def install_debian():
    """Installs Debian's compiler where it is new enough and this process may."""
    candidate = re.search(r"Candidate: (\d+)\.(\d+)", run("apt-cache", "policy", APT_PACKAGES[0]))
    if not candidate or tuple(map(int, candidate.groups())) < MINIMUM_RUST:
        return
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    print(f"installing {' '.join(APT_PACKAGES)}", flush=True)
    command = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "--no-install-recommends", *APT_PACKAGES]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def zig():
    """The Zig that this version of the packages is built with, from PyPI."""
    place = TOOLS / f"zig-{ZIG_VERSION}"
    found = list(place.glob("lib/python*/site-packages/ziglang/zig"))
    if not found:
        print(f"installing Zig {ZIG_VERSION}", flush=True)
        venv.create(place, with_pip=True, clear=True)
        run(str(place / "bin/pip"), "install", "-q", f"ziglang=={ZIG_VERSION}")
        found = list(place.glob("lib/python*/site-packages/ziglang/zig"))
    if not found:
        raise PackageError(f"Zig {ZIG_VERSION} was installed to {place} and is not there; remove the directory and try again")
    return found[0]
