"""Archives whose bytes depend on their entries alone, and the .tar.gz."""
import gzip
import io
import tarfile

from .release import ROOT

DOCUMENTS = ["LICENSE", "README.md", "CHANGELOG.md"]


class Archive:
    """A tar archive in memory. Owners are root; every time is that of the release."""

    def __init__(self, time):
        self._time = time
        self._bytes = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._bytes, mode="w", format=tarfile.PAX_FORMAT)

    def add(self, name, data, mode=0o644):
        """Adds a file."""
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.mtime = len(data), mode, self._time
        self._tar.addfile(entry, io.BytesIO(data))

    def add_directory(self, name, mode=0o755, owner=0):
        """Adds a directory; `owner` is the number of its user and group."""
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.mtime, entry.uid, entry.gid = tarfile.DIRTYPE, mode, self._time, owner, owner
        self._tar.addfile(entry)

    def finish(self):
        """The archive; nothing can be added afterwards."""
        self._tar.close()
        return self._bytes.getvalue()


def compress(data, level):
    """gzip without a name and a time."""
    return gzip.compress(data, compresslevel=level, mtime=0)


def name_of(release):
    """The name of the .tar.gz."""
    return f"{release.name}-{release.version}-{release.triple}.tar.gz"


def write(release, out):
    """The program with its licence, its service and its completions, in one directory."""
    name = name_of(release).removesuffix(".tar.gz")
    archive = Archive(release.time)
    archive.add(f"{name}/tidegate", release.binary.read_bytes(), 0o755)
    archive.add(f"{name}/tidegate.service", (ROOT / "deploy/systemd/tidegate.service").read_bytes())
    for document in DOCUMENTS:
        archive.add(f"{name}/{document}", (ROOT / document).read_bytes())
    file = out / name_of(release)
    file.write_bytes(compress(archive.finish(), release.level))
    return file
