"""The formula of Homebrew on Linux: it installs the program of the .tar.gz for each processor."""
import dataclasses
import hashlib

from . import archive
from .release import LICENSE, SUMMARY, PackageError

# Homebrew's words for processors, and its blocks for them; it serves no others.
PROCESSORS = {"aarch64": ("arm64", "on_arm"), "x86_64": ("x86_64", "on_intel")}

FORMULA = """\
class Tidegate < Formula
  desc "{summary}"
  version "{version}"
  license "{license}"

{only}  depends_on :linux

{places}
  def install
    bin.install "tidegate"
    generate_completions_from_executable(bin/"tidegate", "completions")
  end

  def post_install
    (var/"tidegate").mkpath
  end

  service do
    run [opt_bin/"tidegate", "--data", var/"tidegate"]
    keep_alive true
    working_dir var/"tidegate"
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/tidegate --version")
  end
end
"""

# Homebrew takes the first of several processors alone, so a formula for all of them names none.
ONLY = """\
  depends_on arch: :{processor}
"""

PLACE = """\
  {block} do
    url "{url}"
    sha256 "{sha256}"
  end
"""


def is_possible(release):
    """Whether Homebrew serves the processor of a program."""
    return release.machine in PROCESSORS


def write(release, out):
    """The formula names each .tar.gz of this version in the directory by its address and its checksum."""
    if not is_possible(release):
        raise PackageError(f"Homebrew has no {release.machine}; it serves {', '.join(PROCESSORS)}")
    archive.write(release, out)
    base = (release.base_url or out.resolve().as_uri()).rstrip("/")
    places, named = {}, []
    for machine, (processor, block) in PROCESSORS.items():
        packed = out / archive.name_of(dataclasses.replace(release, machine=machine))
        if packed.exists():
            sha256 = hashlib.sha256(packed.read_bytes()).hexdigest()
            named.append(packed.name)
            places[processor] = PLACE.format(block=block, url=f"{base}/{packed.name}", sha256=sha256)
    only = ONLY.format(processor=next(iter(places))) if len(places) == 1 else ""
    file = out / "tidegate.rb"
    file.write_text(FORMULA.format(summary=SUMMARY, version=release.version, license=LICENSE, only=only, places="\n".join(places.values())))
    print(f"{file} names {', '.join(named)}", flush=True)
    return file
