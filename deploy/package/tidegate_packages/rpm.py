"""The RPM package, built by rpmbuild of the files that the Debian package has."""
import pathlib
import shutil
import tempfile

from .layout import lay_out
from .release import ROOT, SUMMARY, PackageError, run

PLACES = {
    "unit": "usr/lib/systemd/system/tidegate.service",
    "zsh": "usr/share/zsh/site-functions/_tidegate",
    "license": "usr/share/licenses/tidegate/LICENSE",
}
# Names of machines, where they are other ones than the kernel's.
ARCHITECTURES = {"armv7": "armv7hl"}


def is_possible():
    return shutil.which("rpmbuild") is not None


def write(release, out):
    if not is_possible():
        raise PackageError("rpmbuild is not installed (Debian: the package rpm, Fedora: rpm-build)")
    architecture = ARCHITECTURES.get(release.machine, release.machine)
    with tempfile.TemporaryDirectory() as scratch:
        root, top = pathlib.Path(scratch) / "root", pathlib.Path(scratch) / "top"
        lay_out(release, root, PLACES)
        macros = {
            "_topdir": top,
            "tidegate_root": root,
            "tidegate_version": release.version.replace("-", "~"),
            "tidegate_summary": SUMMARY,
            "tidegate_needs_libraries": "no" if release.is_static else "yes",
            "tidegate_level": release.level,
        }
        defined = [part for name, value in macros.items() for part in ("--define", f"{name} {value}")]
        run("rpmbuild", "-bb", "--quiet", "--target", f"{architecture}-linux", *defined, str(ROOT / "deploy/rpm/tidegate.spec"))
        (built,) = top.glob("RPMS/*/*.rpm")
        file = out / built.name
        shutil.copyfile(built, file)
    return file
