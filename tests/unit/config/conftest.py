from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from lastcall.config import load as loading
from lastcall.config.faults import ConfigError

Write = Callable[[str], Path]
Lines = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def default_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for /etc/lastcall/lastcall.toml, and is not there until a test writes it."""
    file = tmp_path / "etc" / "lastcall.toml"
    monkeypatch.setattr(loading, "DEFAULT_FILE", file)
    return file


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str) -> Path:
        file = tmp_path / "lastcall.toml"
        file.write_text(text)
        return file

    return write_file


@pytest.fixture
def fault_lines(write: Write) -> Lines:
    """Loads what is wrong, and returns the lines with the file's folder left out."""

    def lines(
        text: str = "", environ: Mapping[str, str] | None = None, overrides: Sequence[str] = ()
    ) -> list[str]:
        file = write(text)
        with pytest.raises(ConfigError) as caught:
            loading.load(file, environ or {}, overrides)
        return str(caught.value).replace(f"{file.parent}/", "").splitlines()

    return lines
