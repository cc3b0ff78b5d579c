"""Rivals are installed for the comparison alone: below the user's cache folder, each by itself, never in our lock files.

A rival is either Python packages in an environment of their own, or Debian packages unpacked into a folder (nothing is
installed into the system). An installed program of that name is taken as it is. Installed once, kept for the next run.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

INSTALL_SECONDS = 600


class NotInstalled(Exception):
    """A rival cannot be had here; the message says why."""


@dataclass(frozen=True)
class Program:
    """A rival's program, and the environment that it needs besides ours."""

    path: Path
    env: dict[str, str]


def cache_folder() -> Path:
    """Where rivals are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "headrace" / "bench"


def from_python(program: str, *requirements: str) -> Program:
    """The program out of these packages."""
    folder = cache_folder() / program
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _run(sys.executable, "-m", "venv", str(folder))
        _run(*_installer(folder), *requirements)
        (folder / ".complete").touch()
    return Program(folder / "bin" / program, {"VIRTUAL_ENV": str(folder)})


def _installer(folder: Path) -> list[str]:
    """uv where there is one, since pip takes minutes where it takes seconds."""
    python, uv = str(folder / "bin" / "python"), Path(sys.executable).with_name("uv")
    if uv.exists():
        return [str(uv), "pip", "install", "--quiet", "--system-certs", "--python", python]
    return [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def from_debian(program: str, *packages: str) -> Program:
    """The program as it is installed, else out of these packages with the libraries that they bring."""
    if found := shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"):
        return Program(Path(found), {})
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise NotInstalled("it is not installed, and this is no Debian to take its package from")
    folder = cache_folder() / program
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _run("apt-get", "download", "-q", *packages, cwd=folder)
        for package in folder.glob("*.deb"):
            _run("dpkg", "-x", str(package), str(folder / "root"))
        (folder / ".complete").touch()
    libraries = ":".join(str(each) for each in (folder / "root" / "usr" / "lib").glob("*-linux-*"))
    return Program(folder / "root" / "usr" / "sbin" / program, {"LD_LIBRARY_PATH": libraries})


def _run(*command: str, cwd: Path | None = None) -> None:
    print(f"  ({' '.join(Path(part).name if part.startswith('/') else part for part in command)})", flush=True)
    try:
        subprocess.run(command, cwd=cwd, check=True, capture_output=True, timeout=INSTALL_SECONDS, text=True)
    except subprocess.CalledProcessError as error:
        words = (error.stderr or error.stdout or "").strip().splitlines()
        raise NotInstalled(words[-1][:200] if words else str(error)) from error
    except (subprocess.TimeoutExpired, OSError) as error:
        raise NotInstalled(str(error)[:200]) from error
