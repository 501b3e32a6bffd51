"""The files that the packages of an operating system install."""
from . import manual
from .release import ROOT

CONFIGURATION = "etc/tidegate/tidegate.toml"
BASH = "usr/share/bash-completion/completions/tidegate"
FISH = "usr/share/fish/vendor_completions.d/tidegate.fish"


def lay_out(release, root, places):
    """Writes the files below a directory. `places` has those whose place depends on the system: `unit`, `zsh`, `license`."""
    place(root / "usr/bin/tidegate", release.binary.read_bytes(), 0o755)
    place(root / places["unit"], (ROOT / "deploy/systemd/tidegate.service").read_bytes())
    place(root / CONFIGURATION, (ROOT / "deploy/debian/tidegate.toml").read_bytes())
    for shell, path in {"bash": BASH, "zsh": places["zsh"], "fish": FISH}.items():
        place(root / path, release.answer("completions", shell).encode())
    for name, page in manual.pages(release).items():
        place(root / "usr/share/man/man1" / name, page)
    place(root / places["license"], (ROOT / "LICENSE").read_bytes())
    fix_directories(root)


def place(path, data, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def fix_directories(root):
    """Modes must not depend on the umask of the build."""
    for directory in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        directory.chmod(0o755)
