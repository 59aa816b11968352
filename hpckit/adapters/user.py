"""Who runs this process, by the password database."""

from __future__ import annotations

import os
import pwd


def user_name() -> str | None:
    """The name of this process's user; None where the password database has none for its number."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None


def account_home() -> str | None:
    """The home folder of the account, which HOME need not be; None where it is not known."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None
