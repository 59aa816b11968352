"""What a user may use: associations and QOS with their limits, and what is in use of them now."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from hpckit.core.late import regex
from hpckit.core.units import parse_slurm_mem_bytes, slurm_mem_mib_ceil
from hpckit.core.values import dataclass
from hpckit.slurm.text import Place, of_cluster, value

_TOOL: Final = "scontrol show assoc_mgr"
_HEADING: Final = "Current Association Manager state"
_KEY = regex(r"(?:^| )([A-Z][A-Za-z/]*)=")
_AMOUNT = regex(r"(\d{1,18}|N)(?:\((\d{1,18})(?:\.\d+)?\))?", re.ASCII)
_USER = regex(r"(.*)\((\d+)\)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Amount:
    """A limit, None where there is none, and what is in use of it, None where that is not counted.

    Of a TRES memory is in MiB; of minutes the unit is TRES × minutes.
    """

    limit: int | None
    used: int | None = None


Amounts = Mapping[str, Amount]
"""Limits by TRES name, such as `gres/gpu`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an association or a QOS allows, in Slurm's words; a key that is not there is no limit.

    `tres` has `GrpTRES`, `GrpTRESMins`, `GrpTRESRunMins`, `MaxTRESPJ`, `MaxTRESPN`,
    `MaxTRESMinsPJ`, `MinTRESPJ` and, for this user and account, `MaxTRESPU`, `MaxTRESPA`;
    `counts` has `GrpJobs`, `GrpSubmitJobs`, `MaxJobs`, `MaxSubmitJobs`, their `PU` and `PA`, and
    in minutes `MaxWallPJ` and `GrpWall`.
    """

    tres: Mapping[str, Amounts] = field(default_factory=dict)
    counts: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """What a user, or an account where `user` is None, may have."""

    account: str
    user: str | None
    partition: str | None
    parent: str | None
    is_default: bool
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRules:
    """The associations of one user, all accounts by name, and the QOS by name."""

    own: tuple[Association, ...] = ()
    accounts: Mapping[str, Association] = field(default_factory=dict)
    qos: Mapping[str, Limits] = field(default_factory=dict)
    default_account: str | None = None

    def chain(self, account: str | None, partition: str) -> tuple[Association, ...]:
        """Return the user's association and the accounts above it, the nearest first.

        None of them where the user has no such association. Source: assoc_mgr.c: that of the
        partition counts before the one of all.
        """
        account = account or self.default_account
        own = [one for one in self.own if one.account == account]
        nearest = [one for one in own if one.partition == partition]
        nearest += [one for one in own if one.partition is None]
        if not nearest or account is None:
            return ()
        names = self.lineage(account)
        return (nearest[0], *(self.accounts[name] for name in names if name in self.accounts))

    def lineage(self, account: str) -> tuple[str, ...]:
        """Return the account and those above it, the nearest first."""
        names = [account]
        while (known := self.accounts.get(names[-1])) and known.parent not in (None, *names):
            names.append(str(known.parent))
        return tuple(names)


def assoc_mgr_argv(user: str, cluster: str | None) -> tuple[str, ...]:
    """The question: this user's associations, those of all accounts, and all QOS, with their use.

    slurmctld answers it from memory; under PrivateData=usage it leaves out what is not the user's.
    Source: scontrol(1), "show assoc_mgr"; assoc_mgr.c, `_assoc_passes_filter`.
    """
    return (
        *("scontrol", "--oneliner", *of_cluster(cluster), "show", "assoc_mgr"),
        *(f"users={user}", "flags=users,assoc,qos"),
    )


def parse_assoc_mgr(text: str, user: str, account: str | None = None) -> AccountRules:
    """The answer to `assoc_mgr_argv`; of a QOS what this user and this account use of it.

    Without an account the user's default one. Raises ParseError for a text that is none.
    """
    associations: list[Association] = []
    qos: dict[str, Limits] = {}
    default = None
    lines = text.split("\n")
    if lines[0].strip() != _HEADING:
        raise Place(_TOOL, 1, lines[0]).refuse(
            "not the output of scontrol show assoc_mgr", _HEADING
        )
    for line_no, line in enumerate(lines[1:], start=2):
        place = Place(_TOOL, line_no, line)
        if line.startswith("UserName="):
            words = _words(line)
            if words["UserName"].partition("(")[0] == user:
                default = value(words.get("DefAccount", ""))
        elif line.startswith("ClusterName="):
            associations.append(_association(line, place))
        elif line.startswith("QOS="):
            name, limits = _qos(line, place, user, account or default)
            qos[name] = limits
    own = tuple(one for one in associations if one.user)
    return AccountRules(
        own=own,
        accounts={one.account: one for one in associations if one.user is None},
        qos=qos,
        default_account=default or next((one.account for one in own if one.is_default), None),
    )


def _words(line: str) -> dict[str, str]:
    """The keys of a line with their values, the first of two alike."""
    said: dict[str, str] = {}
    matches = list(_KEY.finditer(line))
    for match, end in zip(
        matches, [*(after.start() for after in matches[1:]), len(line)], strict=True
    ):
        said.setdefault(match[1], line[match.end() : end].strip())
    return said


def _association(line: str, place: Place) -> Association:
    words = _words(line.partition(" Comment=")[0])
    if "Account" not in words or "UserName" not in words:
        raise place.refuse("not an association", "ClusterName=… Account=… UserName=…")
    user = _USER.fullmatch(words["UserName"])
    parent = _USER.fullmatch(words.get("ParentAccount", ""))
    return Association(
        account=words["Account"],
        user=user[1] if user else None,
        partition=value(words.get("Partition", "")),
        parent=parent[1] if parent else None,
        is_default=words.get("DefAssoc") == "Yes",
        limits=_limits(words, place),
    )


_ACCOUNTS: Final = " Account Limits="
_USERS: Final = " User Limits="
_HOLDER = regex(r"(\S+?)=\{([^}]*)\}")


def _qos(line: str, place: Place, user: str, account: str | None) -> tuple[str, Limits]:
    head, _, rest = line.partition(_ACCOUNTS)
    accounts, _, users = rest.partition(_USERS)
    words = _words(head)
    name = _USER.fullmatch(words["QOS"])
    if name is None:
        raise place.refuse("not a QOS", "QOS=normal(1)")
    limits = _limits(words, place)
    tres, counts = dict(limits.tres), dict(limits.counts)
    for holders, own in ((accounts, account), (users, user)):
        for holder, said in _HOLDER.findall(holders):
            if re.sub(r"\(\d+\)$", "", holder) == own:
                used = _limits(_words(said), place)
                tres.update(used.tres)
                counts.update(used.counts)
    return name[1], Limits(tres=tres, counts=counts)


_COUNTS: Final = (
    "GrpJobs", "GrpSubmitJobs", "GrpWall", "MaxJobs", "MaxSubmitJobs", "MaxWallPJ",
    "MaxJobsPU", "MaxSubmitJobsPU", "MaxJobsPA", "MaxSubmitJobsPA",
)  # fmt: skip
_TRES: Final = (
    "GrpTRES", "GrpTRESMins", "GrpTRESRunMins", "MaxTRESPJ", "MaxTRESPN", "MaxTRESMinsPJ",
    "MinTRESPJ", "MaxTRESPU", "MaxTRESPA",
)  # fmt: skip


def _limits(words: Mapping[str, str], place: Place) -> Limits:
    counts = {key: amount for key in _COUNTS for amount in _amounts(words.get(key, ""), place)}
    tres = {key: dict(_tres(words.get(key, ""), place)) for key in _TRES}
    return Limits(tres={key: amounts for key, amounts in tres.items() if amounts}, counts=counts)


def _amounts(text: str, place: Place) -> Iterator[Amount]:
    if not text:
        return
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise place.refuse(f"{text!r} is not a limit", "a number, N or 4(2)")
    amount = _amount(match)
    if amount.limit is not None:
        yield amount


def _amount(match: Sequence[str | None] | re.Match[str]) -> Amount:
    limit, used = match[1], match[2]
    return Amount(None if limit in (None, "N") else int(limit), None if used is None else int(used))


def _tres(text: str, place: Place) -> Iterator[tuple[str, Amount]]:
    """Yield the limits of `cpu=N(4),mem=2048(0),gres/gpu=8(2)`, those that are none left out."""
    for part in filter(None, text.split(",")):
        name, _, said = part.rpartition("=")
        match = _AMOUNT.fullmatch(said)
        if not name or match is None:
            raise place.refuse(f"{part!r} is not a TRES limit", "cpu=64(8)")
        amount = _amount(match)
        if amount.limit is not None:
            yield name, amount


# --- sacctmgr: which QOS an association may use, and limits that nobody has used yet -------------

_OWN_FIELDS: Final = ("Account", "Partition", "QOS", "DefaultQOS")
_QOS_FIELDS: Final = {
    "Name": "", "Flags": "", "MaxTRESPU": "MaxTRESPU", "MaxTRESPA": "MaxTRESPA",
    "MaxJobsPU": "MaxJobsPU", "MaxJobsPA": "MaxJobsPA", "MaxSubmitJobsPU": "MaxSubmitJobsPU",
    "MaxSubmitJobsPA": "MaxSubmitJobsPA",
}  # fmt: skip
"""sacctmgr's column → the key of Limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnQos:
    """The QOS that a user's association may use, of one partition or of all."""

    account: str
    partition: str | None
    qos: tuple[str, ...]
    default_qos: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownQos:
    """What the accounts say of a user's QOS and of all QOS, at `seen_s` (seconds since the epoch).

    `limits` are those for one user and for one account, which slurmctld shows of those alone that
    have used the QOS; `flags` by QOS are sacctmgr's words, such as DenyOnLimit.
    """

    seen_s: float
    own: tuple[OwnQos, ...] = ()
    limits: Mapping[str, Limits] = field(default_factory=dict)
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def own_qos(self, account: str | None, partition: str) -> OwnQos | None:
        """Return what the user's association with the account may use; None without one."""
        same = [one for one in self.own if one.account == account]
        nearest = [one for one in same if one.partition == partition]
        nearest += [one for one in same if one.partition is None]
        return nearest[0] if nearest else None


def own_qos_argv(user: str, cluster: str | None) -> tuple[str, ...]:
    """The question to slurmdbd: the QOS of each association of this user on a cluster."""
    where = (f"user={user}", *(() if cluster is None else (f"cluster={cluster}",)))
    return (
        *("sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "associations", "where"),
        *(*where, f"format={','.join(_OWN_FIELDS)}"),
    )


def qos_argv() -> tuple[str, ...]:
    """The question to slurmdbd: the limits of every QOS for one user and one account."""
    return (
        *("sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "qos"),
        f"format={','.join(_QOS_FIELDS)}",
    )


def parse_own_qos(text: str) -> tuple[OwnQos, ...]:
    """The answer to `own_qos_argv`. Raises ParseError."""
    return tuple(
        OwnQos(
            account=fields[0],
            partition=value(fields[1]),
            qos=tuple(name for name in fields[2].split(",") if name),
            default_qos=value(fields[3]),
        )
        for _, fields in _piped(text, len(_OWN_FIELDS))
    )


def parse_qos(text: str) -> tuple[dict[str, Limits], dict[str, tuple[str, ...]]]:
    """The answer to `qos_argv`: limits and flags by QOS; memory in MiB. Raises ParseError."""
    limits: dict[str, Limits] = {}
    flags: dict[str, tuple[str, ...]] = {}
    for place, fields in _piped(text, len(_QOS_FIELDS)):
        said = dict(zip(_QOS_FIELDS, fields, strict=True))
        tres = {key: dict(_written_tres(said[key], place)) for key in ("MaxTRESPU", "MaxTRESPA")}
        counts = {
            key: Amount(int(said[column]))
            for column, key in _QOS_FIELDS.items()
            if key and key not in tres and said[column].isdecimal()
        }
        name = said["Name"]
        limits[name] = Limits(tres={key: one for key, one in tres.items() if one}, counts=counts)
        flags[name] = tuple(flag for flag in said["Flags"].split(",") if flag)
    return limits, flags


def _piped(text: str, count: int) -> Iterator[tuple[Place, list[str]]]:
    for line_no, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        place, fields = Place("sacctmgr", line_no, line), line.split("|")
        if len(fields) != count:
            raise place.refuse("not an sacctmgr line", f"{count} fields separated by |")
        yield place, fields


def _written_tres(text: str, place: Place) -> Iterator[tuple[str, Amount]]:
    """Yield the limits of `cpu=64,gres/gpu=8,mem=100G`."""
    for part in filter(None, text.split(",")):
        name, _, said = part.rpartition("=")
        try:
            number = _mib(said) if name == "mem" else int(said)
        except ValueError as error:
            raise place.refuse(f"{part!r} is not a TRES limit", "cpu=64") from error
        yield name, Amount(number)


def _mib(text: str) -> int:
    return slurm_mem_mib_ceil(parse_slurm_mem_bytes(text))


def with_unused(rules: AccountRules, known: KnownQos) -> AccountRules:
    """Return the rules with the limits of QOS of which this user, or account, has used nothing."""
    qos = dict(rules.qos)
    for name, limits in known.limits.items():
        seen = qos.get(name, Limits())
        tres = {
            key: {**{one: Amount(amount.limit, 0) for one, amount in amounts.items()},
                  **seen.tres.get(key, {})}
            for key, amounts in limits.tres.items()
        }  # fmt: skip
        counts = {key: Amount(amount.limit, 0) for key, amount in limits.counts.items()}
        qos[name] = Limits(tres={**seen.tres, **tres}, counts={**counts, **seen.counts})
    return replace(rules, qos=qos)
