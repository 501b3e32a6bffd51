"""The Debian package: the program, its service, its user and a configuration that survives upgrades."""
import pathlib
import tempfile

from .release import ROOT, SUMMARY, run

# Where the completion script of each shell lies.
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/tidegate",
    "zsh": "usr/share/zsh/vendor-completions/_tidegate",
    "fish": "usr/share/fish/vendor_completions.d/tidegate.fish",
}
CONFIGURATION = "etc/tidegate/tidegate.toml"


def write(release, out):
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch) / "root"
        lay_out(release, root)
        file = out / f"tidegate_{release.version}_{release.debian_architecture}.deb"
        run("dpkg-deb", "--root-owner-group", "-Zxz", f"-z{release.level}", "--build", str(root), str(file.resolve()))
    return file


def lay_out(release, root):
    """Writes the files of the package below a directory."""
    place(root / "usr/bin/tidegate", release.binary.read_bytes(), 0o755)
    for name, path in {"systemd/tidegate.service": "lib/systemd/system/tidegate.service", "debian/tidegate.toml": CONFIGURATION}.items():
        place(root / path, (ROOT / "deploy" / name).read_bytes())
    for shell, path in COMPLETIONS.items():
        place(root / path, release.answer("completions", shell).encode())
    place(root / "usr/share/doc/tidegate/copyright", (ROOT / "LICENSE").read_bytes())
    size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file()) // 1024
    place(root / "DEBIAN/control", control(release, size).encode())
    place(root / "DEBIAN/conffiles", f"/{CONFIGURATION}\n".encode())
    for script in ["postinst", "prerm", "postrm"]:
        place(root / "DEBIAN" / script, (ROOT / "deploy/debian" / script).read_bytes(), 0o755)
    # Modes must not depend on the umask of the build.
    for directory in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        directory.chmod(0o755)


def place(path, data, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def control(release, size):
    """`size` is the installed size in KiB."""
    depends = "passwd" if release.is_static else "passwd, libc6, libgcc-s1"
    return f"""\
Package: tidegate
Version: {release.version}
Architecture: {release.debian_architecture}
Maintainer: The Tidegate developers <tidegate@localhost>
Installed-Size: {size}
Depends: {depends}
Section: net
Priority: optional
Description: {SUMMARY}
 Tidegate serves MQTT 3.1, 3.1.1 and 5.0. With a data directory it keeps what it
 has acknowledged through crashes and power loss.
"""
