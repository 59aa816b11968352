"""Where in a job folder the accounts lie, and what the lines of a ledger are called.

`account/[array-<task>/]restart-<n>/` holds what one incarnation of the job left:
`rank-<n>.ledger`, lines of JSON by each rank's entry, and `node-<name>.samples`, blocks by each
node's sampler (hpckit.model.samples). docs/reference/account-files.md describes both.
"""

from __future__ import annotations

import re
from typing import Final

LEDGER_SCHEMA: Final = "hpckit.ledger/1"
ACCOUNT_FOLDER: Final = "account"

_RESTART = re.compile(r"restart-(\d{1,9})", re.ASCII)
_ARRAY = re.compile(r"array-(\d{1,9})", re.ASCII)
_LEDGER = re.compile(r"rank-(\d{1,9})\.ledger", re.ASCII)
_SAMPLES = re.compile(r"node-([A-Za-z0-9_.-]{1,255})\.samples", re.ASCII)


def account_folder(restart: str, array_task: str = "") -> str:
    """The folder of one incarnation, below the job folder; what is no number counts as absent."""
    number = restart if restart.isascii() and restart.isdigit() else "0"
    task = f"array-{array_task}/" if array_task.isascii() and array_task.isdigit() else ""
    return f"{ACCOUNT_FOLDER}/{task}restart-{number}"


def ledger_file(rank: int) -> str:
    """The name of a rank's ledger."""
    return f"rank-{rank}.ledger"


def samples_file(node: str) -> str:
    """The name of a node's samples; characters that a file name should not have become `_`."""
    return f"node-{re.sub(r'[^A-Za-z0-9_.-]', '_', node)[:255]}.samples"


def restart_of(folder_name: str) -> int | None:
    """The incarnation whose folder is called so, None for any other folder."""
    return _number(_RESTART, folder_name)


def array_task_of(folder_name: str) -> int | None:
    """The array task whose folder is called so."""
    return _number(_ARRAY, folder_name)


def rank_of(file_name: str) -> int | None:
    """The rank whose ledger is called so."""
    return _number(_LEDGER, file_name)


def node_of(file_name: str) -> str | None:
    """The node whose samples are called so."""
    match = _SAMPLES.fullmatch(file_name)
    return match[1] if match else None


def _number(pattern: re.Pattern[str], name: str) -> int | None:
    match = pattern.fullmatch(name)
    return int(match[1]) if match else None
