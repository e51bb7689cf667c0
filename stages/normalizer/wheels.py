"""Model files inside Python wheels: fetched once at a pinned version, checked, then offline."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from stages.errors import InputError


@dataclass(frozen=True, slots=True)
class Wheel:
    """A file (`member`) in a wheel. `platform` is a wheel tag, for wheels that aren't universal."""

    package: str
    version: str
    sha256: str
    member: str
    platform: str = ""

    def __str__(self) -> str:
        return f"{self.package}=={self.version}"


def fetch_member(wheel: Wheel, cache_dir: Path, target: Path) -> None:
    """Puts the wheel's member at `target`; downloads the wheel only if the cache lacks it.

    Raises:
        InputError: the wheel can't be downloaded, has another digest, or lacks the member.
    """
    folder = cache_dir / "wheels" / wheel.sha256[:16]
    found = sorted(folder.glob("*.whl")) if folder.is_dir() else []
    path = found[0] if found else _download(wheel, folder)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != wheel.sha256:
        path.unlink()
        raise InputError(
            f"wheel {path.name} has sha256 {digest}, the registry says {wheel.sha256}",
            where=f"wheel {wheel}",
            hint="the damaged copy was removed: try again; if it recurs, the registry entry is "
            "wrong or the package was replaced",
        )
    _extract(wheel, path, target)


def _download(wheel: Wheel, folder: Path) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
               "--only-binary=:all:", str(wheel)]  # fmt: skip
    if wheel.platform:
        command += ["--platform", wheel.platform]
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".download-") as partial:
        done = subprocess.run(
            [*command, "--dest", partial], capture_output=True, text=True, check=False
        )
        files = sorted(Path(partial).glob("*.whl"))
        if done.returncode or not files:
            raise InputError(
                f"wheel {wheel} can't be downloaded: {_last_error(done.stderr)}",
                where=f"wheel {wheel}",
                hint=f"check the network, or put the wheel file into {folder}",
            )
        folder.mkdir(exist_ok=True)
        return Path(shutil.move(files[0], folder / files[0].name))


def _extract(wheel: Wheel, path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    try:
        with (
            zipfile.ZipFile(path) as archive,
            archive.open(wheel.member) as source,
            partial.open("wb") as stream,
        ):
            shutil.copyfileobj(source, stream)
        partial.replace(target)
    except KeyError as error:
        with zipfile.ZipFile(path) as archive:
            models = [name for name in archive.namelist() if name.endswith(".onnx")]
        raise InputError(
            f"wheel {wheel} holds no file {wheel.member!r}",
            where=f"wheel {wheel}",
            hint=f"its models: {', '.join(models) or 'none'}",
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def _last_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["pip gave no reason"])[-1]
