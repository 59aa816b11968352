"""All that is wrong with a job file at once: each error with its line, and a line to paste."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final

from hpckit.core.document import BOOLEANS, UNKNOWN_KEY, Tree, dataclass_of, field_types, parse_toml
from hpckit.core.errors import ConfigError
from hpckit.core.fields import file_key
from hpckit.core.late import regex
from hpckit.spec.job import JOB_SCHEMA, JobSpec
from hpckit.spec.slurm_options import HABITS, OWNED_BY_SBATCH, instead

_MOST: Final = 20
_NEEDED: Final[Mapping[str, object]] = {
    "schema": JOB_SCHEMA, "name": "x", "command": ["true"]
}  # fmt: skip
"""Keys without which a file is no job, each with a value that is right."""
_HEADER: Final = regex(r"\s*\[+\s*([^\]]+?)\s*\]+\s*(?:#.*)?")
_PAIR: Final = regex(r"\s*([\w.\"'-]+)\s*=")
_TOTALS: Final = {"ntasks": "resources.ntasks_per_node", "gpus": "resources.gpus_per_node"}
"""Options that count all nodes together → the key that counts one."""
_EXPECTED: Final = {
    "time_limit": "a Slurm time",
    **dict.fromkeys(("mem", "mem_per_cpu", "mem_per_gpu"), "a Slurm memory size"),
    **dict.fromkeys(("nodes", "ntasks_per_node", "cpus_per_task", "gpus_per_node"), "whole number"),
}
"""Keys for which other words are common → what an error of theirs says is expected."""
_HABITS: Final = {
    word: key
    for key, words in {
        "environment.set": "env vars variables variable exports export environ "
        "environment_variables",
        "environment.modules": "module load module_load",
        "environment.venv": "virtualenv python_env python_venv",
        "environment.conda": "conda_env mamba",
        "environment.setup": "prologue before pre pre_run prerun commands setup_commands",
        "container.image": "docker_image sif singularity_image docker singularity apptainer",
        "container.mounts": "volumes binds bind_mounts mount",
        "command": "cmd run program exec script entrypoint executable",
        "launch.kind": "launcher",
        "launch": "torchrun mpirun",
        "slurm": "sbatch scheduler",
        "resources": "requirements compute hardware",
        "slurm.requeue": "retry retries restart",
        "tune.env": "nccl_env",
        "parallel.tensor": "tp tensor_parallel tensor_parallel_size tensor_model_parallel_size",
        "parallel.pipeline": "pp pipeline_parallel pipeline_parallel_size",
        "parallel.data": "dp data_parallel data_parallel_size",
        "parallel.context": "cp context_parallel sequence",
        "parallel.expert": "ep expert_parallel experts",
    }.items()
    for word in words.split()
}
"""Words of other tools for what no option of sbatch is → the key or the table."""
_TABLES: Final = {
    "env": "[environment.set] is the table; [tune.env] that of NCCL's variables and the like",
    "envs": "[environment.set] is the table; [tune.env] that of NCCL's variables and the like",
    "stage": "[[stages]]",
    "components": "[[component]]",
    "job": "remove [job]: its keys stand at the top of the file",
}
_LAUNCHERS: Final = {
    **dict.fromkeys(("srun", "none", "python", "python3", "bash", "slurm", "single"), "plain"),
    **dict.fromkeys(("torch", "pytorch", "ddp", "fsdp", "torchrun-hpc", "lightning"), "torchrun"),
    **dict.fromkeys(("mpirun", "mpiexec", "openmpi", "mpich", "intelmpi"), "mpi"),
}
"""What people call a launcher → the kind."""
_KINDS_OF_LAUNCH: Final = ("type", "name", "launcher", "method", "mode", "backend", "with")
_VARIABLES: Final = ("environment.set", "tune.env")
_GPUS: Final = regex(r"(?:gpu[:=])?(?:([A-Za-z][\w.-]*)(?::|$))?([0-9]{1,9})?", re.ASCII)
_TIME: Final = regex(
    r"(?:(\d{1,4}) ?d[a-z]*)? ?(?:(\d{1,4}) ?h[a-z]*)? ?(?:(\d{1,6}) ?(?:m[a-z]*)?)?",
    re.ASCII | re.IGNORECASE,
)
_MOST_HOURS: Final = 72
"""A bare number up to this may be hours, and a larger one seconds."""
_SIZE: Final = regex(r"(\d+) ?([kmgt])", re.ASCII | re.IGNORECASE)
_KEY: Final = regex(r"[a-z_]+(\.[a-z_]+)?")
_EITHER: Final = regex(r"expected only one of (.*)")
_NUMBER: Final = regex(
    r"(?:[0-9]+-)?([0-9]{1,9}(?:\.[0-9]+)?(?:[eE][0-9]+)?)(?: ?(?:node|gpu|cpu|core|rank|task)s?)?",
    re.ASCII | re.IGNORECASE,
)
_COUNT_GPUS: Final = ("gpus-per-node", "gpus", "gres", "gpu-type", "gpus-per-task")
_FIRST_KEYS: Final = {"container": "image", "launch": "kind", "model": "config"}
"""Tables that people give as one text → the key that is meant."""


_DEEPEST: Final = 4
"""More tables in each other than a job file has."""


def all_errors(
    text: str, source: str, first: ConfigError, read: Callable[[Tree], object]
) -> ConfigError:
    """Return the first error of a job file together with all others.

    `read` raises ConfigError for a tree that is no job; each error's key is taken out before the
    next one is looked for. An error that names no key of the file stays alone.
    """
    tree = parse_toml(text, source)
    values = _leaves(tree)
    errors = [first]
    while len(errors) < _MOST and _drop(tree, errors[-1].key or ""):
        try:
            read(tree)
        except ConfigError as error:
            errors.append(error)
        else:
            break
    told = [(wrong, _hint(wrong, values), line_of(text, wrong.key or "")) for wrong in errors]
    told.sort(key=lambda one: one[2] or 0)
    if len(told) == 1:
        wrong, hint, line_no = told[0]
        where = source if line_no is None else f"{source}, line {line_no}"
        return ConfigError(wrong.reason, source=where, key=wrong.key, hint=hint)
    lines = [f"{len(told)} errors"]
    for wrong, hint, line_no in told:
        at = "" if line_no is None else f"line {line_no}: "
        lines.append(f"  {at}{wrong.key or source}: {wrong.reason}")
        lines += [f"    fix: {hint}"] if hint else []
    return ConfigError("\n".join(lines), source=source)


def option_meant(error: ConfigError, options: Mapping[str, tuple[object, str]]) -> str | None:
    """Return an option with what its wrong value stands for, to type; None where that is unclear.

    `options` are those that were typed: key → (value, option).
    """
    key = error.key or ""
    value, option = options.get(key, (None, ""))
    if value is None or error.source != option:
        return None
    if either := _EITHER.search(error.reason):
        names = [f"--{name.replace('_', '-')}" for name in either[1].split(", ")]
        return f"give {' or '.join(names)}, not both"
    if error.reason == UNKNOWN_KEY:
        word = key.rpartition(".")[2].replace("_", "-")
        says = _key_of(word.replace("-", "_"), HABITS.get(word, word))
        wanted = f"--set {shlex.quote(f'{says}={_bare(value)}')}"
        return wanted if says != key and _KEY.fullmatch(says) else None
    right = _meant(key, error.reason, value)
    if option != "--set":
        right = right.strip('"') if isinstance(value, str) else ""
        return f"{option} {right}" if right else None
    bare = right.strip('"') if right.startswith('"') else right
    if not right or bare == value or _is_line(right):
        return None
    return f"--set {shlex.quote(f'{key}={right if bare == _bare(value) else bare}')}"


def _is_line(right: str) -> bool:
    """Return whether it is a key with its value, not a value alone."""
    return " = " in right and right[0] not in "{["


def _bare(value: object) -> str:
    return value if isinstance(value, str) else _toml(value)


def _hint(error: ConfigError, values: Mapping[str, object]) -> str | None:
    """Return the line to paste in place of a wrong one, else the error's own hint."""
    key = re.sub(r"\[\d+\].*", "", error.key or "")
    value = values.get(key)
    if key == "name" and value is None:
        return 'name = "train"'
    if key == "command" and isinstance(value, str):
        return f"command = {json.dumps(_words(value), ensure_ascii=False)}"
    if error.reason == UNKNOWN_KEY or (key == "account" and isinstance(value, str)):
        return _of_unknown(key, value, values.get("resources.nodes")) or error.hint
    if either := _EITHER.search(error.reason):
        return f"give {either[1].replace(', ', ' or ')}, not both"
    if value is not None and (right := _meant(key, error.reason, value)):
        return right if _is_line(right) else f"{key.rpartition('.')[2]} = {right}"
    return error.hint


def _words(command: str) -> list[str]:
    """Return the words of a command as a shell splits them."""
    try:
        return shlex.split(command)
    except ValueError:  # a quote that is not closed
        return command.split()


def _of_unknown(key: str, value: object, nodes: object) -> str:
    """Return what a key that hpckit lacks stands for in Slurm's or other tools' words, or ""."""
    table, _, word = key.rpartition(".")
    word = word if table else word.removeprefix("slurm_")  # submitit's
    if word.isupper() and table in ("tune", "environment"):
        name = "env" if table == "tune" else "set"
        return f"{name} = {{ {word} = {_toml(value)} }}"
    if table == "launch" and word in _KINDS_OF_LAUNCH and isinstance(value, str):
        return f'kind = "{_LAUNCHERS.get(value.lower(), value)}"'
    if key in _TABLES and (key == "env" or isinstance(value, Mapping | list)):
        return _TABLES[key]
    option = HABITS.get(word.replace("_", "-"), word.replace("_", "-"))
    if option in _COUNT_GPUS and isinstance(value, str) and (gpus := _gpus(value)):
        return gpus if table == "resources" else f"{gpus}   under [resources]"
    says = _key_of(word, option) or _spelled(table, word)
    if not says or says == key:
        return ""
    if _KEY.fullmatch(says) is None:
        return instead(says)
    return _moved(says, table, value, _share(option, word, nodes))


def _moved(says: str, table: str, value: object, share: tuple[int, str]) -> str:
    """Return the line of a key with the value that another had, and the table if that is new.

    `share`: what a total is divided by, and a remark.
    """
    if (
        says == "environment.set"
        and isinstance(value, list)
        and "=" not in "".join(map(str, value))
    ):
        says = "environment.pass"  # names alone
    own_table, _, name = says.rpartition(".")
    if isinstance(value, Mapping):
        return f"[{says if says in _VARIABLES or not own_table else own_table}]"
    expected = _expected(says)
    right = _meant(says, f"expected {expected}", value) or _toml(value)
    if right[0] == '"' and expected.startswith("a whole number"):
        right = "N"
    divisor, remark = share
    if right.isdecimal() and not int(right) % divisor:
        right = str(int(right) // divisor)
    line = f"{name} = {right}{remark}" if " = " not in right or right[0] in "[{" else right
    place = f"under [{own_table}]" if own_table else "at the top"
    return line if own_table == table else f"{line}   {place}"


def _share(option: str, word: str, nodes: object) -> tuple[int, str]:
    if option not in _TOTALS:
        return 1, ""
    divisor = nodes if isinstance(nodes, int) and nodes > 0 else 1
    return divisor, f"   (per node; {word} counts all nodes)"


def _expected(key: str) -> str:
    """Return what an error of a key says is expected, and of which type its value is."""
    table, _, name = key.rpartition(".")
    hints = {file_key(field): hint for field, hint in field_types(JobSpec)}
    cls = dataclass_of(hints[table]) if table in hints else None
    if cls is not None:
        hints = {file_key(field): hint for field, hint in field_types(cls)}
    hint = str(hints.get(name, ""))
    kind = next((kind for part, kind in _KINDS.items() if part in hint), "")
    return f"{kind} {_EXPECTED.get(name, '')}"


def _key_of(word: str, option: str) -> str:
    """Return the key of a word: of another tool, of sbatch, or of another table; "" for none."""
    says = _HABITS.get(word.replace("-", "_").lower()) or _TOTALS.get(option)
    says = says or OWNED_BY_SBATCH.get(option, "")
    if says:
        return says
    for field, hint in field_types(JobSpec):
        inner = dataclass_of(hint)
        names = {file_key(one) for one, _ in field_types(inner)} if inner else set()
        if word in names:
            return f"{file_key(field)}.{word}"
        if word == file_key(field) and inner is None:
            return word
    return ""


def _spelled(table: str, word: str) -> str:
    """Return the key of [resources] or [slurm] that is spelled nearly so; "" for none.

    Also "" where the table itself has such a key, which the error then names.
    """
    import difflib

    names = {}
    for field, hint in field_types(JobSpec):
        inner = dataclass_of(hint)
        names[file_key(field)] = [file_key(one) for one, _ in field_types(inner)] if inner else []
    if difflib.get_close_matches(word, names.get(table, ()), n=1, cutoff=0.5):
        return ""
    keys = {name: f"{one}.{name}" for one in ("slurm", "resources") for name in names[one]}
    near = difflib.get_close_matches(word, keys, n=1, cutoff=0.85)
    return keys[near[0]] if near else ""


def _gpus(value: str) -> str:
    """Return the keys of `h100:4`, `gpu:4` or `h100`; "" for another text."""
    match = _GPUS.fullmatch(value)
    if match is None or not any(match.groups()):
        return ""
    lines = [f"gpus_per_node = {match[2]}"] if match[2] else []
    return " and ".join(lines + ([f'gpu_type = "{match[1]}"'] if match[1] else []))


def _meant(key: str, reason: str, value: object) -> str:
    """Return in TOML what a value of a wrong type or form stands for; "" if that is unclear."""
    name, expected = key.rpartition(".")[2], reason.partition("expected ")[2]
    if key == "launch.kind" and (kind := _LAUNCHERS.get(str(value).lower())):
        return f'"{kind}"'
    if name in ("gpus_per_node", "gpu_type") and isinstance(value, str) and (gpus := _gpus(value)):
        return "" if gpus.startswith("gpu_type") and name == "gpu_type" else gpus
    if isinstance(value, str) and (right := _as_meant(reason, value)):
        return right
    if expected.startswith("one of") and "true, false" in expected:
        expected = "true or false"
    kind = next((kind for kind in _TURNS if expected.startswith(kind)), "")
    turn, right_type = _TURNS.get(kind, (None, object))
    if turn is None or isinstance(value, (right_type, Mapping)):
        return ""
    return turn("" if key.count(".") > 1 else name, value)  # that of a variable says nothing


def _as_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return f'"{int(value)}"' if not name else ""
    if isinstance(value, list):
        words = [str(part) for part in value]
        return _toml(words if name in _LISTS else ",".join(words))
    is_amount = name.startswith("mem") or name in ("time_limit", "idle_limit")
    if is_amount and isinstance(value, int | float) and not 0 < value < math.inf:
        return ""
    if isinstance(value, int | float) and name.startswith("mem"):
        return f'"{value}G"' if isinstance(value, int) else f'"{value * 1024:.0f}M"'
    if isinstance(value, int) and name in ("time_limit", "idle_limit"):
        is_hours = value <= _MOST_HOURS
        unit, minutes = ("hours", value * 60) if is_hours else ("seconds", value // 60)
        is_text = f"{minutes // 60}:{minutes % 60:02}:00"
        return f'"{is_text}"   ({value} {unit}; "{value}" is minutes to Slurm)'
    return json.dumps(value.isoformat() if hasattr(value, "isoformat") else str(value))


def _as_list(name: str, value: object) -> str:
    if isinstance(value, Mapping):
        return ""
    if not isinstance(value, str):
        return _toml([str(value)])
    if name in ("command", "args"):
        return _toml(_words(value))
    return _toml([value] if name == "setup" else re.split(r"[ ,]+", value.strip()))


def _as_table(name: str, value: object) -> str:
    """Return the variables of `["A=b"]`; of the name of a table its first key with the value."""
    words = value if isinstance(value, list) else str(value).split(",")
    if name in ("extra", "srun_extra"):
        words = [word if "=" in word else f"{word}=" for word in map(str, words)]
        pairs = [word.lstrip("-").partition("=") for word in words]
        inside = ", ".join(f"{one} = {_toml(text or True)}" for one, _, text in pairs)
        return f"{{ {inside} }}"
    pairs = [str(word).partition("=") for word in words]
    if all(equals and variable for variable, equals, _ in pairs):
        inside = ", ".join(f"{variable} = {_toml(text)}" for variable, _, text in pairs)
        return (
            f"set = {{ {inside} }}   under [environment]"
            if name == "environment"
            else f"{{ {inside} }}"
        )
    first = _FIRST_KEYS.get(name)
    return f"{first} = {_toml(value)}   under [{name}]" if first and isinstance(value, str) else ""


def _as_bool(_name: str, value: object) -> str:
    return BOOLEANS.get(str(value).lower(), "")


def _as_number(_name: str, value: object) -> str:
    match = _NUMBER.fullmatch(str(value))
    return match[1] if match else ""


def _as_whole(name: str, value: object) -> str:
    number = float(_as_number(name, value) or "nan")
    return str(int(number)) if number.is_integer() else ""


_TURNS: Final[Mapping[str, tuple[Callable[[str, object], str], Any]]] = {
    "text": (_as_text, str), "a list": (_as_list, list), "a table": (_as_table, Mapping),
    "true or false": (_as_bool, bool), "a whole number": (_as_whole, int),
    "a number": (_as_number, (int, float)),
}  # fmt: skip
"""What an error says is expected → what turns a value into it, and the type."""
_KINDS: Final = {"tuple": "a list", "Mapping": "a table", "bool": "true or false",
                 "float": "a number", "str": "text", "int": "a whole number"}  # fmt: skip
_LISTS: Final = ("command", "args", "modules", "setup")


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _as_meant(reason: str, value: str) -> str:
    """Return what a text stands for where a number, a time or a size is expected; "" if unclear."""
    if "whole number" in reason and value.isdecimal() and value.isascii():
        return value
    if (
        "a Slurm time" in reason
        and (match := _TIME.fullmatch(value.strip()))
        and any(match.groups())
    ):
        days, hours, minutes = (int(part or 0) for part in match.groups())
        if not hours and not days:
            return f'"{minutes}"'
        return f'"{f"{days}-" if days else ""}{hours:0{2 if days else 1}}:{minutes:02}:00"'
    if "an array such as" in reason and re.fullmatch(r"\d+:\d+", value):
        return json.dumps(value.replace(":", "-"))
    if "a Slurm memory size" in reason and (match := _SIZE.match(value)):
        return f'"{match[1]}{match[2].upper()}"'
    return ""


def line_of(text: str, key: str) -> int | None:
    """Return the line of a TOML text on which a dotted key is set; None where none does so."""
    wanted = re.sub(r"\[\d+\]", "", key)
    table = ""
    for line_no, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.fullmatch(line):
            table = f"{header[1]}."
            if header[1] == wanted:
                return line_no
        elif pair := _PAIR.match(line):
            name = table + pair[1].replace('"', "").replace("'", "")
            if name == wanted or wanted.startswith(f"{name}."):
                return line_no
    return None


def _leaves(tree: Mapping[str, Any], depth: int = _DEEPEST) -> dict[str, object]:
    """Return the values of a tree, and its tables, by their dotted keys."""
    found = dict(tree)
    for name, value in tree.items():
        if isinstance(value, Mapping) and depth:
            inner = _leaves(value, depth - 1)
            found |= {f"{name}.{key}": one for key, one in inner.items()}
    return found


def _drop(tree: Tree, key: str) -> bool:
    """Take a dotted key out of a tree; return whether it was there."""
    *parents, last = re.sub(r"\[\d+\].*", "", key).split(".")
    table: Any = tree
    for parent in parents:
        table = table.get(parent) if isinstance(table, Mapping) else None
    if not isinstance(table, dict):
        return False
    if not parents and last in _NEEDED:
        if table.get(last) == _NEEDED[last]:
            return False
        table[last] = _NEEDED[last]
        return True
    return table.pop(last, None) is not None
