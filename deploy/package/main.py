"""Builds the packages of Tidegate. Started by ./package; needs Python 3.9 or later, Cargo, Git and dpkg-deb."""
import argparse
import hashlib
import os
import pathlib
import sys

from tidegate_packages import archive, debian, homebrew, image, npm, rpm, sbom, toolchain, wheel
from tidegate_packages.release import PackageError, Release

# The kinds of packages that there are of a lean program: those that boards install.
LEAN_KINDS = ["tar", "deb"]
KINDS = {"tar": archive.write, "deb": debian.write, "rpm": rpm.write, "wheel": wheel.write, "npm": npm.write, "image": image.write, "brew": homebrew.write, "sbom": sbom.write}

HELP = """\
examples:
  ./package                          build the broker, then every package
  ./package deb                      only the Debian package
  ./package --profile release        build faster, with less optimisation
  ./package --target armv7-unknown-linux-musleabihf
                                     packages for a Raspberry Pi 2
  ./package --lean                   a small program for boards: tidegate-lean
  ./package --binary FILE            package a program that was built before

The same commit and toolchain give the same bytes: times come from the commit, entries are sorted, owners are root.
"""


def arguments():
    parser = argparse.ArgumentParser(prog="./package", description="Build packages of Tidegate, for this machine or another processor.", epilog=HELP,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"what to build: {', '.join(KINDS)} [default: all]")
    parser.add_argument("--profile", help="the profile of Cargo that builds the broker [default: dist, or lean with --lean]")
    parser.add_argument("--lean", action="store_true", help="a small program without the default features of Cargo: docs/packages.md lists them")
    parser.add_argument("--target", choices=sorted(toolchain.TARGETS), metavar="TARGET", help=f"the target: {', '.join(toolchain.TARGETS)} [default: this machine's]")
    parser.add_argument("--binary", type=pathlib.Path, metavar="FILE", help="package this program instead of building one")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("target/dist"), metavar="DIR", help="where packages go [default: target/dist]")
    parser.add_argument("--base-url", default="", metavar="URL", help="where the .tar.gz will be, for the formula of Homebrew, which is made by default only with it")
    parser.add_argument("--fast", action="store_true", help="compress little: for trying, not for publishing")
    options = parser.parse_args()
    unknown = [kind for kind in options.kinds if kind not in KINDS]
    if unknown:
        parser.error(f"no kind of package is called {unknown[0]}; there are: {', '.join(KINDS)}")
    if options.lean:
        options.kinds = options.kinds or LEAN_KINDS
        beyond = [kind for kind in options.kinds if kind not in LEAN_KINDS]
        if beyond:
            parser.error(f"there is no lean {beyond[0]}; there are: {', '.join(LEAN_KINDS)}")
    options.profile = options.profile or ("lean" if options.lean else "dist")
    return options


def possible_kinds(release):
    """Every kind, but for the RPM where its tool is missing, and the formula without an address or for a processor that Homebrew does not serve."""
    left_out = {}
    if not rpm.is_possible():
        left_out["rpm"] = "rpmbuild is not installed"
    if not homebrew.is_possible(release):
        left_out["brew"] = f"Homebrew has no {release.machine}"
    elif not release.base_url:
        left_out["brew"] = "--base-url does not say where the archive will be"
    for kind, why in left_out.items():
        print(f"{kind}: left out, since {why}", file=sys.stderr)
    return [kind for kind in KINDS if kind not in left_out]


def write_sums(out):
    """Checksums of everything in the directory, in the form that `sha256sum --check` reads."""
    # Hidden files are Cargo's: its profile `dist` has the same directory.
    files = sorted(file for file in out.iterdir() if file.is_file() and file.name != "SHA256SUMS" and not file.name.startswith("."))
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (out / "SHA256SUMS").write_text("".join(lines))


def main():
    options = arguments()
    target = options.target or ""
    if not options.binary:
        chain = toolchain.find(options.target)
        options.binary, target = chain.build(options.profile, options.lean), chain.target
    release = Release.of(options.binary, 1 if options.fast else 9, target, options.lean, options.base_url)
    # Every archive takes its times from this, dpkg-deb too.
    os.environ["SOURCE_DATE_EPOCH"] = str(release.time)
    options.out.mkdir(parents=True, exist_ok=True)
    for kind in options.kinds or possible_kinds(release):
        file = KINDS[kind](release, options.out)
        print(f"{file}  {file.stat().st_size / 1e6:.1f} MB", flush=True)
    write_sums(options.out)
    print(options.out / "SHA256SUMS")


if __name__ == "__main__":
    try:
        main()
    except PackageError as error:
        sys.exit(f"error: {error}")
