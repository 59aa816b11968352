"""Who runs this process."""

from __future__ import annotations

import getpass

import pytest

from hpckit.core.files import user_name


def test_the_user_is_told_without_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is that of the password database, whatever USER and LOGNAME say."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    known = getpass.getuser()
    monkeypatch.setenv("USER", "somebody-else")
    assert user_name() == known
