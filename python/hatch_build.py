"""Build hooks: the program memopt, its version, its licences and the platform of a wheel.

The sources of the program are the repository around this folder or, in a source distribution, the folder ``go``.
Environment variables:

    MEMOPT_BINARY  a program that was built before from these sources, to be carried in place of a new one
    GOOS, GOARCH   another platform than this one, as for the go command
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# Tags of wheels by GOOS. Go 1.26 needs macOS 12. On Linux the program finds the loader, libc, libdl and libpthread of
# glibc at its start and asks for no version of their symbols, so glibc 2.17 and later will do, and musl will not;
# a program built with cgo, from MEMOPT_BINARY, is for systems like the one that built it.
SYSTEMS = {"linux": "manylinux_2_17_{0}.manylinux2014_{0}", "darwin": "macosx_12_0_{0}", "windows": "win_{0}"}
MACHINES = {
    "linux": {"amd64": "x86_64", "arm64": "aarch64"},
    "darwin": {"amd64": "x86_64", "arm64": "arm64"},
    "windows": {"amd64": "amd64", "arm64": "arm64"},
}

# The licences of parts of the program that are no Go modules.
VENDORED = {"uPlot": "view/webpage/assets/uplot/LICENSE"}

LICENCE = re.compile(r"(licen[cs]e|copying|notice|patents)([.-].*)?", re.IGNORECASE)
RULE = "\n" + 80 * "=" + "\n"


class MetadataHook(MetadataHookInterface):
    """Gives the distribution the program's version, and writes the licence files that the metadata names."""

    def update(self, metadata: dict[str, Any]) -> None:
        program = Program.built(Path(self.root))
        metadata["version"] = python_version(program.version)
        program.write_licences()


class BuildHook(BuildHookInterface[Any]):
    """Puts the program into a wheel, and its sources into a source distribution."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        program = Program.built(Path(self.root))
        if self.target_name == "sdist":
            (program.root / "VERSION").write_text(program.version + "\n", encoding="utf-8")
            build_data["force_include"][str(program.root / "VERSION")] = "VERSION"
            for path in program.needed():
                build_data["force_include"][str(program.sources / path)] = f"go/{path}"
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform(program.system, program.machine, program.cgo)}"
        build_data["artifacts"].append("/src/memopt/bin/*")


class Program:
    """The program memopt in the folder of the package.

    Attributes:
        root: the folder of pyproject.toml.
        sources: the folder of go.mod.
        version: the version that the program prints, such as "v1.2.3".
        system, machine: GOOS and GOARCH.
        cgo: whether it was built with cgo.
    """

    _built: ClassVar[dict[Path, Program]] = {}

    @classmethod
    def built(cls, root: Path) -> Program:
        """The program of a folder, which is built once in a process."""
        if root not in cls._built:
            cls._built[root] = cls(root)
        return cls._built[root]

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sources = root / "go" if (root / "go").is_dir() else root.parent
        if not (self.sources / "cmd" / "memopt").is_dir():
            raise SystemExit(f"{root}: no Go sources of memopt in {self.sources}; build in a checkout of the "
                             "repository, or from a source distribution")
        path = self._build()
        recorded = json.loads(self.go("version", "-m", "-json", str(path)))
        if recorded["Path"] != "memopt/cmd/memopt":
            raise SystemExit(f"MEMOPT_BINARY is the program {recorded['Path']}, wanted memopt/cmd/memopt")
        settings = {s["Key"]: s.get("Value", "") for s in recorded["Settings"]}
        self.system, self.machine = settings["GOOS"], settings["GOARCH"]
        self.cgo = settings.get("CGO_ENABLED") != "0"
        self.version = self._release() or recorded["Main"].get("Version", "(devel)").replace("(devel)", "devel")

    def _build(self) -> Path:
        ready = os.environ.get("MEMOPT_BINARY")
        if ready and not Path(ready).is_file():
            raise SystemExit(f"MEMOPT_BINARY={ready}: no such file; wanted the program memopt")
        folder = self.root / "src" / "memopt" / "bin"
        folder.mkdir(exist_ok=True)
        windows = ready.endswith(".exe") if ready else self.go("env", "GOOS").strip() == "windows"
        path, other = folder / "memopt", folder / "memopt.exe"
        if windows:
            path, other = other, path
        other.unlink(missing_ok=True)
        if ready:
            path.unlink(missing_ok=True)  # it may be running
            shutil.copy(ready, path)
        else:
            release = self._release()
            link = "-s -w" + (f" -X memopt.release={release}" if release else "")
            self.go("build", "-trimpath", f"-ldflags={link}", "-o", str(path), "./cmd/memopt")
        path.chmod(0o755)
        return path

    def _release(self) -> str:
        """The version that a source distribution was made of; "" in a checkout, where the go command finds it."""
        if self.sources == self.root.parent:
            return ""
        return (self.root / "VERSION").read_text(encoding="utf-8").strip()

    def go(self, *arguments: str, **environment: str) -> str:
        """Runs the go command in the sources and returns the text on its standard output."""
        env = {**os.environ, "CGO_ENABLED": "0", **environment}
        try:
            done = subprocess.run(["go", *arguments], cwd=self.sources, env=env, check=False, capture_output=True,
                                  encoding="utf-8")
        except FileNotFoundError:
            raise SystemExit("memopt is built with Go 1.26 or later, and there is no go command on PATH; install Go, "
                             "or a wheel of memopt for this platform") from None
        if done.returncode != 0:
            raise SystemExit(f"go {' '.join(arguments)}:\n{done.stderr}")
        return done.stdout

    def packages(self, system: str, machine: str) -> Iterator[dict[str, Any]]:
        """The Go packages in the program for a platform, as ``go list -json`` describes them."""
        text = self.go("list", "-deps", "-json", "./cmd/memopt", GOOS=system, GOARCH=machine)
        decoder, at = json.JSONDecoder(), 0
        while at < len(text):
            package, at = decoder.raw_decode(text, at)
            at += 1  # the line break behind it
            yield package

    def needed(self) -> list[str]:
        """The files that a build for any platform reads, relative to the sources."""
        lists = ("GoFiles", "IgnoredGoFiles", "SFiles", "HFiles", "IgnoredOtherFiles", "EmbedFiles")
        found = {"go.mod", "go.sum", "LICENSE", *VENDORED.values()}
        for system, machines in MACHINES.items():
            for machine in machines:
                for p in self.packages(system, machine):
                    if p.get("Module", {}).get("Path") != "memopt":
                        continue
                    folder = Path(p["Dir"]).relative_to(self.sources)
                    found.update((folder / n).as_posix() for key in lists for n in p.get(key, ())
                                 if not n.endswith("_test.go"))
        return sorted(found)

    def write_licences(self) -> None:
        """Writes LICENSE, and THIRD_PARTY: the licences of all code in the program that is not memopt's."""
        shutil.copyfile(self.sources / "LICENSE", self.root / "LICENSE")
        texts: dict[str, dict[Path, str]] = {}
        for p in self.packages(self.system, self.machine):
            module = p.get("Module", {})
            if module.get("Path") == "memopt":
                continue
            if p.get("Standard"):
                texts.setdefault("Go's standard library", {}).update(licences(Path(p["Root"]), Path(p["Root"])))
            else:
                texts.setdefault(f"{module['Path']} {module['Version']}", {}).update(
                    licences(Path(p["Dir"]), Path(module["Dir"])))
        for name, file in VENDORED.items():
            texts[name] = {self.sources / file: (self.sources / file).read_text(encoding="utf-8")}
        without = [name for name, files in texts.items() if not files]
        if without:
            raise SystemExit(f"no licence found of {', '.join(without)}, which the program has in it")
        parts = ["The program memopt has code of others in it, under these licences.\n"]
        for name, files in sorted(texts.items()):
            parts += [RULE, name, RULE, *("\n" + text.strip() + "\n" for _, text in sorted(files.items()))]
        (self.root / "THIRD_PARTY").write_text("".join(parts), encoding="utf-8")


def licences(folder: Path, top: Path) -> dict[Path, str]:
    """The licence files of a folder and of those around it, up to top."""
    found = {}
    while True:
        for f in folder.iterdir():
            if f.is_file() and LICENCE.fullmatch(f.name):
                found[f] = f.read_text(encoding="utf-8", errors="replace")
        if folder == top:
            return found
        folder = folder.parent


def platform(system: str, machine: str, cgo: bool = False) -> str:
    """The platform tag of a wheel with a program for GOOS and GOARCH."""
    try:
        form = "linux_{0}" if cgo and system == "linux" else SYSTEMS[system]
        return form.format(MACHINES[system][machine])
    except KeyError:
        raise SystemExit(f"no wheels are made for GOOS={system} GOARCH={machine}; "
                         "wanted linux, darwin or windows, and amd64 or arm64") from None


def python_version(version: str) -> str:
    """A version of Go in the form of PEP 440.

    >>> python_version("v1.2.3-rc.1")
    '1.2.3rc1'
    >>> python_version("v1.2.4-0.20260102030405-0123456789ab+dirty")
    '1.2.4.dev20260102030405+0123456789ab.dirty'
    >>> python_version("devel")
    '0.0.0.dev0'
    """
    if version == "devel":
        return "0.0.0.dev0"
    base, _, build = version.partition("+")
    pattern = (r"v(?P<release>\d+\.\d+\.\d+)(-(?P<kind>alpha|beta|rc)\.?(?P<number>\d+))?"
               r"([.-](0\.)?(?P<time>\d{14})-(?P<revision>[0-9a-f]{12}))?")
    m = re.fullmatch(pattern, base)
    if m is None:
        raise SystemExit(f"the version {version} has no form in Python; wanted one like v1.2.3 or v1.2.3-rc.1")
    local = [part for part in (m["revision"], build) if part]
    return (m["release"] + (m["kind"] or "").replace("alpha", "a").replace("beta", "b") + (m["number"] or "")
            + (f".dev{m['time']}" if m["time"] else "") + ("+" + ".".join(local) if local else ""))
