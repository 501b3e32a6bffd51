"""The container image, made without Docker: one layer with the static program, in the layout of OCI's image specification 1.1."""
import hashlib
import json
import pathlib
import tarfile
import time

from .archive import Archive, compress
from .release import LICENSE, PackageError

# The user of the process, and the owner of its data directory. It is not root.
USER = 10001
DATA = "/var/lib/tidegate"
# Certificates of the authorities that the build machine trusts: for TLS towards brokers, buses and identity servers.
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
SECOND = 1_000_000_000
# Healthy is a process that answers; one that reads its store is not to be killed.
# Docker's image specification has this field; others ignore it. Times are nanoseconds.
HEALTH_CHECK = {
    "Test": ["CMD", "/usr/bin/tidegate", "ready", "--alive"],
    "Interval": 15 * SECOND,
    "Timeout": 10 * SECOND,
    "StartPeriod": 60 * SECOND,
    "Retries": 3,
}
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
# The words of the image specification for processors [Go, GOARCH].
PLATFORMS = {
    "x86_64": {"architecture": "amd64"},
    "aarch64": {"architecture": "arm64"},
    "armv7": {"architecture": "arm", "variant": "v7"},
    "riscv64": {"architecture": "riscv64"},
}


class Blobs:
    """The content of an image, each part under its digest."""

    def __init__(self):
        self.files = {}

    def add(self, kind, data):
        """Adds a part; returns the descriptor that refers to it."""
        digest = hashlib.sha256(data).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = data
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def write(release, out):
    if not release.is_static:
        raise PackageError("an image has no C library: it needs a static program, as ./package builds it")
    blobs, layer = Blobs(), layer_of(release)
    layers = [blobs.add(LAYER, compress(layer, release.level))]
    config = blobs.add(CONFIG, encode(config_of(release, layer)))
    manifest = blobs.add(MANIFEST, encode({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}))
    file = out / f"tidegate-{release.version}-{release.machine}.oci.tar"
    pack(release, blobs, manifest, file)
    join(release, out)
    return file


def pack(release, blobs, descriptor, file):
    """Writes an image with its name, or an index of images."""
    name = {"org.opencontainers.image.ref.name": release.version, "io.containerd.image.name": f"docker.io/library/tidegate:{release.version}"}
    archive = Archive(release.time)
    archive.add("oci-layout", encode({"imageLayoutVersion": "1.0.0"}))
    archive.add("index.json", encode({"schemaVersion": 2, "manifests": [{**descriptor, "annotations": name}]}))
    for path, data in sorted(blobs.files.items()):
        archive.add(path, data)
    file.write_bytes(archive.finish())


def join(release, out):
    """One image for all processors whose images of this version are there, if there are several."""
    names = [f"tidegate-{release.version}-{machine}.oci.tar" for machine in sorted(PLATFORMS)]
    singles = [out / name for name in names if (out / name).exists()]
    if len(singles) < 2:
        return
    blobs, manifests = Blobs(), []
    for single in singles:
        with tarfile.open(single) as opened:
            read = {entry.name: opened.extractfile(entry).read() for entry in opened}
        blobs.files |= {path: data for path, data in read.items() if path.startswith("blobs/")}
        (manifest,) = json.loads(read["index.json"])["manifests"]
        config = json.loads(read[blob_of(json.loads(read[blob_of(manifest)])["config"])])
        del manifest["annotations"]
        manifests.append({**manifest, "platform": {key: config[key] for key in ("architecture", "os", "variant") if key in config}})
    index = blobs.add(INDEX, encode({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}))
    pack(release, blobs, index, out / f"tidegate-{release.version}.oci.tar")


def blob_of(descriptor):
    return "blobs/" + descriptor["digest"].replace(":", "/")


def layer_of(release):
    archive = Archive(release.time)
    for directory in ["etc", "etc/ssl", "etc/ssl/certs", "usr", "usr/bin", "var", "var/lib"]:
        archive.add_directory(directory)
    authorities = pathlib.Path(AUTHORITIES)
    if not authorities.is_file():
        raise PackageError(f"{AUTHORITIES} is missing: install the package ca-certificates")
    archive.add(AUTHORITIES[1:], authorities.read_bytes())
    archive.add("usr/bin/tidegate", release.binary.read_bytes(), 0o755)
    archive.add_directory("tmp", 0o1777)
    archive.add_directory(DATA[1:], 0o700, USER)
    return archive.finish()


def config_of(release, layer):
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(release.time))
    return {
        "created": created,
        **PLATFORMS[release.machine],
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "WorkingDir": DATA,
            "Entrypoint": ["/usr/bin/tidegate"],
            "Env": ["PATH=/usr/bin"],
            "ExposedPorts": {"1883/tcp": {}, "18083/tcp": {}},
            "Healthcheck": HEALTH_CHECK,
            "Labels": {"org.opencontainers.image.licenses": LICENSE, "org.opencontainers.image.version": release.version},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": created, "created_by": "./package"}],
    }


def encode(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
