"""The formula of Homebrew on Linux: it installs the program of the .tar.gz."""
import hashlib

from . import archive
from .release import LICENSE, SUMMARY, PackageError

# Homebrew's words for processors; it serves no others.
PROCESSORS = {"x86_64": "x86_64", "aarch64": "arm64"}

FORMULA = """\
class Tidegate < Formula
  desc "{summary}"
  url "{url}"
  version "{version}"
  sha256 "{sha256}"
  license "{license}"

  depends_on arch: :{processor}
  depends_on :linux

  def install
    bin.install "tidegate"
    generate_completions_from_executable(bin/"tidegate", "completions")
  end

  service do
    run [opt_bin/"tidegate", "--data", var/"tidegate"]
    keep_alive true
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/tidegate --version")
  end
end
"""


def is_possible(release):
    """Whether Homebrew serves the processor of a program."""
    return release.machine in PROCESSORS


def write(release, out):
    """The formula names the .tar.gz of the same directory by its address and its checksum."""
    if not is_possible(release):
        raise PackageError(f"Homebrew has no {release.machine}; it serves {', '.join(PROCESSORS)}")
    packed = archive.write(release, out)
    base = release.base_url or out.resolve().as_uri()
    file = out / "tidegate.rb"
    file.write_text(
        FORMULA.format(
            summary=SUMMARY,
            url=f"{base.rstrip('/')}/{packed.name}",
            version=release.version,
            sha256=hashlib.sha256(packed.read_bytes()).hexdigest(),
            license=LICENSE,
            processor=PROCESSORS[release.machine],
        )
    )
    return file
