"""The Python wheel: `pip install` puts the program on the path of an environment [PEP 427]."""
import base64
import hashlib
import time
import zipfile

from .release import LICENSE, ROOT, SUMMARY


def write(release, out):
    # A static program needs no C library, so it runs under every one that pip knows of.
    platforms = "manylinux2014_{0}.musllinux_1_1_{0}" if release.is_static else "linux_{0}"
    tag = f"py3-none-{platforms.format(release.machine)}"
    name = f"tidegate-{release.version}"
    files = {
        f"{name}.data/scripts/tidegate": (release.binary.read_bytes(), 0o755),
        f"{name}.dist-info/METADATA": (metadata(release).encode(), 0o644),
        f"{name}.dist-info/WHEEL": (wheel(tag).encode(), 0o644),
        f"{name}.dist-info/licenses/LICENSE": ((ROOT / "LICENSE").read_bytes(), 0o644),
    }
    record = f"{name}.dist-info/RECORD"
    rows = [f"{path},{digest(data)},{len(data)}\n" for path, (data, _) in files.items()]
    files[record] = ("".join([*rows, f"{record},,\n"]).encode(), 0o644)
    file = out / f"{name}-{tag}.whl"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, (data, mode) in files.items():
            entry = zipfile.ZipInfo(path, time.gmtime(release.time)[:6])
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            # The level of the archive is not that of an entry with its own description.
            archive.writestr(entry, data, compresslevel=release.level)
    return file


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def metadata(release):
    return f"Metadata-Version: 2.4\nName: tidegate\nVersion: {release.version}\nSummary: {SUMMARY}\nLicense-Expression: {LICENSE}\nLicense-File: LICENSE\n"


def wheel(tag):
    python, abi, platforms = tag.split("-")
    tags = "".join(f"Tag: {python}-{abi}-{platform}\n" for platform in platforms.split("."))
    return f"Wheel-Version: 1.0\nGenerator: tidegate\nRoot-Is-Purelib: false\n{tags}"
