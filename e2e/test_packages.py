"""What `./package` writes, installed by the tools that people install it with."""

import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import types
import unittest

from broker import BINARY, PATIENCE, ROOT, free_ports

# A shell in a copy of this machine: what it writes goes to a file system in memory and is gone with it.
IN_A_COPY = """
set -e
mount -t tmpfs none {scratch}
mkdir {scratch}/upper {scratch}/work {scratch}/root
mount -t overlay overlay -o lowerdir=/,upperdir={scratch}/upper,workdir={scratch}/work {scratch}/root
cp {package} {scratch}/root/tidegate.{kind}
mount -t proc none {scratch}/root/proc
mount --bind /dev {scratch}/root/dev
exec chroot {scratch}/root sh -e
"""

# The service in a systemd of its own: in namespaces, and in a copy of the machine. Its units are those of the package and
# targets that need nothing, so that no service of this machine starts there.
UNDER_SYSTEMD = """
set -e
ip link set lo up
mount --make-rprivate /
mount -t tmpfs none {scratch}
mkdir {scratch}/upper {scratch}/work {scratch}/root
mount -t overlay overlay -o lowerdir=/,upperdir={scratch}/upper,workdir={scratch}/work {scratch}/root
cd {scratch}/root
cp {package} tidegate.deb
mkdir -p shared units
mount --bind {shared} shared
mount -t proc none proc
mount -t tmpfs none run
mount -t tmpfs none tmp
mount -t sysfs none sys
if [ -d /sys/fs/cgroup/systemd ]; then
    mount -t tmpfs none sys/fs/cgroup
    mkdir sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
else
    mount -t cgroup2 none sys/fs/cgroup
fi
mount --rbind /dev dev
mount --bind shared/console dev/console
chroot . dpkg --install /tidegate.deb
cp lib/systemd/system/tidegate.service lib/systemd/system/exit.target lib/systemd/system/systemd-exit.service units
for target in sysinit basic network-online multi-user shutdown umount final; do
    printf '[Unit]\\nDefaultDependencies=no\\n' > units/$target.target
done
printf '[Unit]\\nDefaultDependencies=no\\n[Service]\\nType=oneshot\\nExecStart=/bin/sh /shared/story\\nStandardOutput=file:/shared/said\\nStandardError=inherit\\n' > units/story.service
exec chroot . env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=tidegate SYSTEMD_UNIT_PATH=/units \\
    /lib/systemd/systemd --system --unit=story.service --show-status=no --log-target=console
"""

# Start, publish, reload, be upgraded while it runs, die and be started again, stop. Each line that is awaited below names what succeeded.
LIFE_UNDER_SYSTEMD = """
systemctl start tidegate && systemctl show tidegate -p StatusText
tidegate pub -t kept -m value -r -q 1 && echo published
systemctl reload tidegate && echo reloaded
before=$(systemctl show tidegate -p MainPID --value)
dpkg --install /tidegate.deb >/dev/null
test $(systemctl show tidegate -p MainPID --value) != $before && tidegate sub -t kept -C 1 -W 60 && echo upgraded
kill -9 $(systemctl show tidegate -p MainPID --value)
until tidegate sub -t kept -C 1 -W 5 2>/dev/null; do :; done
systemctl show tidegate -p NRestarts
ps -o user= -p $(systemctl show tidegate -p MainPID --value)
readlink /proc/$(systemctl show tidegate -p MainPID --value)/cwd
systemctl stop tidegate && systemctl show tidegate -p ActiveState,Result
systemctl exit
"""

# Install, serve as the package's own user, upgrade over a changed configuration, remove, purge.
LIFE_OF_A_PACKAGE = """
dpkg --install /tidegate.deb >/dev/null
tidegate config check /etc/tidegate/tidegate.toml
stat -c '%U %a' /var/lib/tidegate
setpriv --reuid tidegate --regid tidegate --clear-groups tidegate --config /etc/tidegate/tidegate.toml --listen 127.0.0.1:0 --admin off >/tmp/ready 2>/tmp/log &
until grep -q ready /tmp/ready; do kill -0 $! || { cat /tmp/log; exit 1; }; done
kill $!
wait $! || exit 1
ls /var/lib/tidegate | grep -q .
echo '# mine' >> /etc/tidegate/tidegate.toml
dpkg --install /tidegate.deb >/dev/null
tail -n 1 /etc/tidegate/tidegate.toml
dpkg --remove tidegate >/dev/null
test ! -e /usr/bin/tidegate && test -e /etc/tidegate/tidegate.toml && test -e /var/lib/tidegate
echo removed
dpkg --purge tidegate >/dev/null
test ! -e /etc/tidegate/tidegate.toml && test ! -e /var/lib/tidegate && ! getent passwd tidegate
echo purged
"""

# The same for the RPM. This machine has no packages of RPM, so nothing that it needs is looked for.
LIFE_OF_AN_RPM = """
rpm --install --nodeps /tidegate.rpm
tidegate config check /etc/tidegate/tidegate.toml
stat -c '%U %a' /var/lib/tidegate
setpriv --reuid tidegate --regid tidegate --clear-groups tidegate --config /etc/tidegate/tidegate.toml --listen 127.0.0.1:0 --admin off >/tmp/ready 2>/tmp/log &
until grep -q ready /tmp/ready; do kill -0 $! || { cat /tmp/log; exit 1; }; done
kill $!
wait $! || exit 1
echo '# mine' >> /etc/tidegate/tidegate.toml
rpm --upgrade --nodeps --replacepkgs /tidegate.rpm
tail -n 1 /etc/tidegate/tidegate.toml
zcat /usr/share/man/man1/tidegate-store-backup.1.gz | head -n 1
rpm --erase --nodeps tidegate
test ! -e /usr/bin/tidegate && test -e /etc/tidegate/tidegate.toml.rpmsave && test -e /var/lib/tidegate
echo removed
"""

# As much of Homebrew as the formula asks for: it fetches the archive, checks it, installs into a prefix, and enters the
# directory of the service. Of several processors, it takes the first alone.
HOMEBREW = """
require "digest"
require "pathname"
require "shellwords"
class Pathname
  def install(name) = (mkpath; FileUtils.cp(name, self / name))
end
require "fileutils"
MACHINES = { arm64: "aarch64", x86_64: "x86_64" }
class Service
  attr_reader :directory
  def run(command) = nil
  def keep_alive(value) = nil
  def working_dir(path) = (@directory = path)
  def opt_bin = Pathname(ARGV[1]) / "bin"
  def var = Pathname(ARGV[1]) / "var"
end
class Formula
  class << self
    def keep(*names) = names.each { |name| define_singleton_method(name) { |value = nil| value ? (@kept ||= {})[name] = value : @kept[name] } }
    def depends_on(what)
      return unless what.is_a?(Hash) && what.key?(:arch)
      processor = [*what[:arch]].first
      raise "the formula is for #{processor} alone" unless MACHINES.fetch(processor) == ARGV[2]
    end
    def service(&block) = (@service = block)
    def directory_of_service = Service.new.tap { |service| service.instance_eval(&@service) }.directory
    def test(&block) = define_method(:try, &block)
    attr_reader :kept
  end
  keep :desc, :url, :version, :sha256, :license
  class << self
    def on_intel = (yield if ARGV[2] == "x86_64")
    def on_arm = (yield if ARGV[2] == "aarch64")
  end
  def bin = Pathname(ARGV[1]) / "bin"
  def var = Pathname(ARGV[1]) / "var"
  def version = self.class.kept[:version]
  def generate_completions_from_executable(program, *arguments)
    %w[bash zsh fish].each { |shell| shell_output(Shellwords.join([program.to_s, *arguments, shell])) }
  end
  def shell_output(command) = `#{command}`.tap { raise command unless $?.success? }
  def assert_match(part, text) = (raise text unless text.include?(part))
end
load ARGV[0]
kept = Tidegate.kept
Pathname(ARGV[1]).mkpath
archive = kept[:url].delete_prefix("file://")
raise "another archive" unless Digest::SHA256.file(archive).hexdigest == kept[:sha256]
system("tar", "xf", archive, "-C", ARGV[1], "--strip-components=1", exception: true)
formula = Tidegate.new
Dir.chdir(ARGV[1]) { formula.install }
formula.post_install
Dir.chdir(Tidegate.directory_of_service) { puts "entered" }
formula.try
puts "tested"
"""

# As much of nixpkgs as the flake asks for, and a machine with the module: nixpkgs itself is in no package registry.
NIXPKGS = """{ outputs = { self }:
  let build = { legacyPackages.rustPlatform.buildRustPackage = arguments: arguments // { outPath = "/built"; }; };
  in {
    lib.genAttrs = names: make: builtins.listToAttrs (map (name: { inherit name; value = make name; }) names);
    legacyPackages.x86_64-linux = build.legacyPackages;
    legacyPackages.aarch64-linux = build.legacyPackages;
  };
}"""
MODULE = """module {
  config.services.tidegate = { enable = true; configFile = "/own.toml"; };
  pkgs.system = "x86_64-linux";
  lib = { mkIf = condition: value: if condition then value else { }; mkEnableOption = name: name; mkOption = option: option; types.path = null; };
}"""


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE * 5, **options)


def remove_groups(group):
    """Removes a control group without processes, and those below it."""
    for below in sorted(group.rglob("*"), reverse=True):
        if below.is_dir():
            below.rmdir()
    group.rmdir()


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="tidegate-packages-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        # Packing takes as long as the program is large: the names of its symbols go first.
        cls.program = cls.folder / "tidegate"
        subprocess.run(["strip", "-o", cls.program, BINARY], check=True)
        cls.version = run(cls.program, "--version").stdout
        cls.out = cls.folder / "dist"
        cls.out.mkdir()
        # Cargo has such a file where packages go: its profile is also called `dist`.
        (cls.out / ".cargo-lock").touch()
        cls.package(cls.out, "tar", "deb", "rpm", "wheel", "npm", "sbom")

    @classmethod
    def package(cls, out, *kinds):
        done = run(ROOT / "package", "--fast", "--binary", cls.program, "--out", out, *kinds)
        assert done.returncode == 0, done.stderr

    def only(self, pattern):
        (file,) = self.out.glob(pattern)
        return file

    def test_checksums_hold(self):
        done = run("sha256sum", "--check", "SHA256SUMS", cwd=self.out)
        self.assertEqual((done.returncode, done.stdout.count(": OK\n")), (0, 6), done.stdout)

    def test_the_same_program_gives_the_same_bytes(self):
        again = self.folder / "again"
        self.package(again, "deb", "rpm", "tar", "npm")
        for file in again.glob("tidegate*"):
            self.assertEqual(file.read_bytes(), (self.out / file.name).read_bytes(), file.name)

    def test_pip_installs_the_wheel(self):
        place = self.folder / "environment"
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        done = run(place / "bin" / "pip", "install", "--no-index", "--quiet", self.only("*.whl"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(run(place / "bin" / "tidegate", "--version").stdout, self.version)

    def test_npm_installs_the_package(self):
        place = self.folder / "node"
        place.mkdir()
        done = run("npm", "install", "--offline", "--no-audit", "--no-fund", "--prefix", place, self.only("*.tgz"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(run(place / "node_modules" / ".bin" / "tidegate", "--version").stdout, self.version)

    def live(self, kind, life):
        """Plays the life of a package in a copy of this machine."""
        scratch = self.folder / f"copy-{kind}"
        scratch.mkdir()
        enter = IN_A_COPY.format(scratch=scratch, package=self.only(f"*.{kind}"), kind=kind)
        done = run("unshare", "--mount", "sh", "-c", enter, input=life)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("dpkg"), "needs root and dpkg")
    def test_dpkg_installs_upgrades_removes_and_purges(self):
        said = self.live("deb", LIFE_OF_A_PACKAGE)
        for line in ["tidegate 700", "# mine", "removed", "purged"]:
            self.assertIn(f"{line}\n", said)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_rpm_installs_upgrades_and_removes(self):
        said = self.live("rpm", LIFE_OF_AN_RPM)
        for line in ["tidegate 700", "# mine", "removed"]:
            self.assertIn(f"{line}\n", said)
        self.assertIn('.TH TIDEGATE-STORE-BACKUP 1 "" "Tidegate', said)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd")
    def test_the_service_has_few_rights(self):
        # Tenths of the points that systemd gives from 0 (nothing is allowed) to 10; the largest part of these is the network.
        done = run("systemd-analyze", "security", "--offline=true", "--threshold=20", ROOT / "deploy/systemd/tidegate.service")
        self.assertEqual(done.returncode, 0, done.stdout)

    @unittest.skipUnless(os.geteuid() == 0 and pathlib.Path("/lib/systemd/systemd").exists(), "needs root and systemd")
    def test_the_service_lives_under_systemd(self):
        shared, scratch = self.folder / "shared", self.folder / "systemd"
        shared.mkdir()
        scratch.mkdir()
        (shared / "console").touch()
        (shared / "story").write_text(LIFE_UNDER_SYSTEMD)
        enter = UNDER_SYSTEMD.format(scratch=scratch, shared=shared, package=self.only("*.deb"))
        # The new systemd needs a control group that it can divide.
        groups = pathlib.Path("/sys/fs/cgroup/systemd")
        group = (groups if groups.is_dir() else groups.parent) / f"tidegate-packages-{os.getpid()}"
        group.mkdir()
        self.addCleanup(remove_groups, group)
        own = ["unshare", "--pid", "--mount", "--uts", "--ipc", "--net", "--cgroup", "--fork", "--kill-child", "sh", "-c", enter]
        done = run("sh", "-c", 'echo $$ > "$0"/cgroup.procs; exec "$@"', group, *own)
        said = (shared / "said").read_text() if (shared / "said").exists() else ""
        for line in ["published", "reloaded", "value", "upgraded", "NRestarts=1", "tidegate", "/var/lib/tidegate", "Result=success", "ActiveState=inactive"]:
            self.assertIn(f"{line}\n", said, done.stdout + done.stderr + (shared / "console").read_text())
        self.assertIn("StatusText=tidegate", said)

    def test_a_manual_page_shows_the_help_text_as_it_stands(self):
        sys.path.insert(0, str(ROOT / "deploy/package"))
        from tidegate_packages import manual

        self.assertEqual(manual.escape(".a -b \\n"), "\\&.a \\-b \\en")
        names = ["tidegate", "tidegate-store", "tidegate-store-check"]
        page = manual.page(types.SimpleNamespace(version="1.0"), "tidegate-store", "Check it\nnow\n\nUsage: x", names)
        self.assertIn("tidegate\\-store \\- Check it now\n", page)
        self.assertTrue(page.endswith(".SH SEE ALSO\ntidegate\\-store\\-check(1)\n"), page)

    def test_the_health_check_of_an_image_follows_the_broker(self):
        config = self.config_of_an_image()
        self.assertIn("18083/tcp", config["ExposedPorts"])
        kind, program, *arguments = config["Healthcheck"]["Test"]
        self.assertEqual((kind, program), ("CMD", config["Entrypoint"][0]))
        for time in ("Interval", "Timeout", "StartPeriod"):
            self.assertGreaterEqual(config["Healthcheck"][time], 1_000_000_000, "Docker counts nanoseconds")
        # A container whose admin listener was asked for others, with a token.
        token = self.folder / "token"
        token.write_text("0123456789abcdef0123\n")
        (port,) = free_ports(1)
        asked = {**os.environ, "TIDEGATE__ADMIN__ADDRESS": f"0.0.0.0:{port}", "TIDEGATE__ADMIN__TOKEN_FILE": str(token)}
        command = [self.program, "--listen", "127.0.0.1:0"]
        with subprocess.Popen(command, env=asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as broker:
            try:
                self.assertIn("ready", broker.stdout.readline())
                healthy = run(self.program, *arguments, env=asked)
            finally:
                broker.terminate()
        self.assertEqual((healthy.returncode, healthy.stdout), (0, "alive\n"), healthy.stderr)
        self.assertEqual(run(self.program, *arguments, env=asked).returncode, 1)
        off = run(self.program, *arguments, env={**asked, "TIDEGATE__ADMIN__ADDRESS": "off"})
        self.assertEqual(off.returncode, 0, "a container without an admin listener is not unhealthy: " + off.stderr)

    def image(self, out, machine):
        """An image of a program that is only said to be static, and for this machine."""
        sys.path.insert(0, str(ROOT / "deploy/package"))
        from tidegate_packages import image

        program = pathlib.Path(shutil.which("true"))
        return image.write(types.SimpleNamespace(is_static=True, level=1, time=0, version="1.0", machine=machine, binary=program), out)

    def config_of_an_image(self):
        """What is run in a container."""
        with tarfile.open(self.image(self.folder, "x86_64")) as archive:
            def read(path):
                return json.load(archive.extractfile(path))

            def blob(descriptor):
                return read("blobs/" + descriptor["digest"].replace(":", "/"))

            return blob(blob(read("index.json")["manifests"][0])["config"])["config"]

    def test_images_of_several_processors_are_one_index(self):
        out = self.folder / "images"
        out.mkdir()
        platforms = {"x86_64": ("amd64", None), "armv7": ("arm", "v7"), "riscv64": ("riscv64", None)}
        for machine in platforms:
            self.image(out, machine)
        with tarfile.open(out / "tidegate-1.0.oci.tar") as archive:
            def read(path):
                return archive.extractfile(path).read()

            def blob(descriptor):
                data = read("blobs/" + descriptor["digest"].replace(":", "/"))
                self.assertEqual((len(data), f"sha256:{hashlib.sha256(data).hexdigest()}"), (descriptor["size"], descriptor["digest"]))
                return data

            (index,) = json.loads(read("index.json"))["manifests"]
            manifests = json.loads(blob(index))["manifests"]
            for manifest in manifests:
                content = json.loads(blob(manifest))
                config = json.loads(blob(content["config"]))
                self.assertEqual(config["architecture"], manifest["platform"]["architecture"])
                for layer in content["layers"]:
                    blob(layer)
        found = {(one["platform"]["architecture"], one["platform"].get("variant")) for one in manifests}
        self.assertEqual(found, set(platforms.values()))

    @unittest.skipUnless(shutil.which("ruby"), "the formula was NOT tried: ./test e2e installs ruby")
    def test_the_formula_installs_the_program_of_the_archive(self):
        out = self.folder / "brew"
        self.package(out, "brew")
        prefix = self.folder / "cellar"
        # An archive for the other processor, which the formula names, too.
        (own,) = out.glob("*.tar.gz")
        machine = platform.machine()
        foreign = {"x86_64": "aarch64", "aarch64": "x86_64"}[machine]
        alone = (out / "tidegate.rb").read_text()
        self.assertIn("depends_on arch: :" + {"x86_64": "x86_64", "aarch64": "arm64"}[machine], alone)
        refused = run("ruby", "-e", HOMEBREW, out / "tidegate.rb", prefix, foreign)
        self.assertIn("alone", refused.stderr, "the formula has no archive for this processor")
        other = out / own.name.replace(machine, foreign)
        other.write_bytes(b"other")
        self.package(out, "brew")
        formula = (out / "tidegate.rb").read_text()
        self.assertNotIn("depends_on arch", formula)
        for file in (own, other):
            self.assertIn(f'/{file.name}"\n    sha256 "{hashlib.sha256(file.read_bytes()).hexdigest()}"', formula)
        done = run("ruby", "-e", HOMEBREW, out / "tidegate.rb", prefix, machine)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(run(prefix / "bin" / "tidegate", "--version").stdout, self.version)
        for line in ("entered\n", "tested\n"):
            self.assertIn(line, done.stdout)
        elsewhere = self.folder / "elsewhere"
        done = run(ROOT / "package", "--fast", "--binary", self.program, "--out", elsewhere, "--base-url", "https://example.com/v1/", "brew")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('url "https://example.com/v1/tidegate-', (elsewhere / "tidegate.rb").read_text())

    @unittest.skipUnless(shutil.which("nix"), "the flake was NOT tried: ./test e2e installs nix")
    def test_the_flake_names_this_version_and_its_service(self):
        place = self.folder / "nix"
        for name in ["flake.nix", "Cargo.toml", "Cargo.lock", "deploy/debian/tidegate.toml"]:
            target = place / "tidegate" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
        (place / "nixpkgs").mkdir()
        (place / "nixpkgs/flake.nix").write_text(NIXPKGS)
        places = {f"NIX_{name}_DIR": str(place / name.lower()) for name in ["STORE", "STATE", "LOG", "CONF"]}

        def evaluate(attribute, function):
            done = run(
                "nix", "--extra-experimental-features", "nix-command flakes", "eval", "--offline", "--no-write-lock-file", "--json",
                "--override-input", "nixpkgs", f"path:{place}/nixpkgs", f"path:{place}/tidegate#{attribute}", "--apply", function,
                env={**os.environ, **places, "HOME": str(place)},
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)

        for system in ["x86_64-linux", "aarch64-linux"]:
            self.assertEqual("tidegate " + evaluate(f"packages.{system}.default", "package: package.version"), self.version.strip())
        settings = f"module: with ({MODULE}).config.systemd.services.tidegate.serviceConfig; [ ExecStart WorkingDirectory ]"
        command, directory = evaluate("nixosModules.default", settings)
        self.assertEqual(command, "/built/bin/tidegate --config /own.toml")
        self.assertEqual(directory, "%S/tidegate", "a relative path of the configuration has to be writable")

    def test_an_image_of_a_program_that_needs_a_c_library_is_refused(self):
        done = run(ROOT / "package", "--binary", self.program, "--out", self.folder / "none", "image")
        self.assertEqual(done.returncode, 1)
        self.assertIn("it needs a static program", done.stderr)

    def test_an_unknown_target_is_answered_by_those_that_exist(self):
        done = run(ROOT / "package", "--target", "mips-unknown-linux-gnu")
        self.assertEqual(done.returncode, 2)
        self.assertIn("armv7-unknown-linux-musleabihf", done.stderr)

    def test_zig_is_not_given_what_it_refuses(self):
        for given, kept in {"-m64": "", "--target=arm": "", "-march=rv64gc": "", "-O2": "-O2", "-static-pie": "-static-pie"}.items():
            shown = run(ROOT / "deploy/package/zig-cc", given, env={**os.environ, "ZIG": shutil.which("echo"), "ZIG_TARGET": "arm-linux"})
            self.assertEqual(shown.stdout.strip(), f"cc -target arm-linux {kept}".strip())

    def test_an_unknown_kind_is_answered_by_those_that_exist(self):
        done = run(ROOT / "package", "snap")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there are: tar, deb, rpm, wheel, npm, image, brew, sbom", done.stderr)


if __name__ == "__main__":
    unittest.main()
