"""The program that is packaged, and what every package says of it."""
import dataclasses
import pathlib
import platform
import shutil
import struct
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
SUMMARY = "An MQTT broker for the Internet of Things, in one binary"
LICENSE = "Apache-2.0"
# The parts of a triple that package managers name in their own way.
DEBIAN_NAMES = {"x86_64": "amd64", "aarch64": "arm64", "armv7": "armhf", "riscv64": "riscv64"}
NODE_NAMES = {"x86_64": "x64", "aarch64": "arm64", "armv7": "arm", "riscv64": "riscv64"}
# What QEMU calls a machine, where it is another name.
EMULATORS = {"armv7": "arm"}
MACHINES = {62: "x86_64", 183: "aarch64", 40: "armv7", 243: "riscv64"}
# The type of a program header that names the dynamic linker.
PT_INTERP = 3


class PackageError(Exception):
    """What could not be packaged, and what to do."""


def run(*command, **options):
    """Output of a command; an error says what the command said."""
    try:
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, **options)
    except FileNotFoundError as error:
        raise PackageError(f"{command[0]} is not installed") from error
    except subprocess.CalledProcessError as error:
        raise PackageError(f"`{' '.join(map(str, command))}` failed: {error.stderr.strip()}") from error
    return done.stdout


@dataclasses.dataclass(frozen=True)
class Release:
    """A program with its version."""

    binary: pathlib.Path
    version: str
    machine: str
    is_static: bool
    # True if the program was built for musl.
    is_musl: bool
    # Seconds since 1970 of the commit: the time of every entry in an archive.
    time: int
    # How much archives are compressed, from 1 (fast) to 9 (small).
    level: int
    # True if the program is a small one for boards.
    is_lean: bool = False
    # Where the packages will be fetched from; empty for the directory that they are written to.
    base_url: str = ""

    @classmethod
    def of(cls, binary, level, target="", lean=False, base_url=""):
        """Reads the program; `target` is what it was built for, where that is known."""
        binary = pathlib.Path(binary)
        if not binary.is_file():
            raise PackageError(f"{binary} is no file")
        machine, is_static = read_elf(binary)
        try:
            version = run(*command_of(binary, machine), "--version").split()[-1]
            time = int(run("git", "log", "-1", "--format=%ct"))
        except (IndexError, ValueError) as error:
            raise PackageError(f"{binary} does not answer --version as tidegate does") from error
        return cls(binary, version, machine, is_static, "-musl" in target, time, level, lean, base_url)

    @property
    def name(self):
        """The name of the package."""
        return "tidegate-lean" if self.is_lean else "tidegate"

    @property
    def triple(self):
        """The target of Rust, as file names have it."""
        hard = "eabihf" if self.machine == "armv7" else ""
        return f"{self.machine}-unknown-linux-{'musl' if self.is_musl else 'gnu'}{hard}"

    def answer(self, *arguments):
        """What the program prints."""
        return run(*command_of(self.binary, self.machine), *arguments)

    @property
    def debian_architecture(self):
        return DEBIAN_NAMES[self.machine]

    @property
    def node_architecture(self):
        return NODE_NAMES[self.machine]


def command_of(binary, machine):
    """How a program is started here: by itself, or by QEMU where it is for another processor."""
    program = str(binary.resolve())
    if machine == platform.machine():
        return [program]
    # Debian's packages qemu-user and qemu-user-static name it differently.
    emulator = f"qemu-{EMULATORS.get(machine, machine)}"
    found = shutil.which(f"{emulator}-static") or shutil.which(emulator)
    if not found:
        raise PackageError(f"{binary} is for {machine}, and {emulator} is not installed (Debian: qemu-user-static)")
    return [found, program]


def read_elf(path):
    """The machine of a program, and whether it is static: it names no dynamic linker."""
    data = path.read_bytes()
    if data[:4] != b"\x7fELF" or data[5] != 1:
        raise PackageError(f"{path} is no program for Linux")
    is_64 = data[4] == 2
    machine = MACHINES.get(struct.unpack_from("<H", data, 18)[0])
    if machine is None:
        raise PackageError(f"{path} is for a machine that has no packages")
    offset = struct.unpack_from("<Q", data, 32)[0] if is_64 else struct.unpack_from("<I", data, 28)[0]
    size, count = struct.unpack_from("<HH", data, 54 if is_64 else 42)
    headers = (struct.unpack_from("<I", data, offset + index * size)[0] for index in range(count))
    return machine, PT_INTERP not in headers
