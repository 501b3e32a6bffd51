"""The Debian package: the program, its service, its user and a configuration that survives upgrades."""
import pathlib
import tempfile

from .layout import CONFIGURATION, fix_directories, lay_out, place
from .release import ROOT, SUMMARY, run

PLACES = {
    "unit": "lib/systemd/system/tidegate.service",
    "zsh": "usr/share/zsh/vendor-completions/_tidegate",
    "license": "usr/share/doc/tidegate/copyright",
}


def write(release, out):
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch) / "root"
        lay_out(release, root, PLACES)
        add_control_files(release, root)
        file = out / f"{release.name}_{release.version}_{release.debian_architecture}.deb"
        # For a try, gzip: xz takes ten times as long.
        method = "gzip" if release.level == 1 else "xz"
        run("dpkg-deb", "--root-owner-group", f"-Z{method}", f"-z{release.level}", "--build", str(root), str(file.resolve()))
    return file


def add_control_files(release, root):
    """Writes the description of the package, its scripts and its list of configuration files."""
    size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file()) // 1024
    place(root / "DEBIAN/control", control(release, size).encode())
    place(root / "DEBIAN/conffiles", f"/{CONFIGURATION}\n".encode())
    for script in ["postinst", "prerm", "postrm"]:
        place(root / "DEBIAN" / script, (ROOT / "deploy/debian" / script).read_bytes(), 0o755)
    fix_directories(root)


def control(release, size):
    """`size` is the installed size in KiB."""
    depends = "passwd" if release.is_static else "passwd, libc6, libgcc-s1"
    # Either is the program `tidegate` of a machine.
    other = "tidegate" if release.is_lean else "tidegate-lean"
    return f"""\
Package: {release.name}
Version: {release.version}
Architecture: {release.debian_architecture}
Maintainer: The Tidegate developers <tidegate@localhost>
Installed-Size: {size}
Depends: {depends}
Conflicts: {other}
Replaces: {other}
Section: net
Priority: optional
Description: {SUMMARY}
 Tidegate serves MQTT 3.1, 3.1.1 and 5.0. With a data directory it keeps what it
 has acknowledged through crashes and power loss.
"""
