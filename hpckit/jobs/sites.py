"""Sites and templates as they are found: which exist, which file won, what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpckit.core.document import Tree, parse_toml
from hpckit.core.errors import ConfigError, StorageFailed
from hpckit.core.late import Late
from hpckit.core.values import dataclass

if TYPE_CHECKING:
    import hashlib

    from hpckit.core.files import FileResources
    from hpckit.spec.job import JobSpec
    from hpckit.spec.site import SiteSpec
else:
    hashlib = Late("hashlib")

PACKAGED_PREFIX = "hpckit/"
"""`hpckit/base.sbatch.j2` is always hpckit's own, so that a file of the same name can extend it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSite:
    """A site and its files: `path` won, `shadowed` have the same name and lost.

    `tree` is what the winning file says. When that is wrong `error` is set, and `tree` is None.
    """

    name: str
    path: Path
    shadowed: tuple[Path, ...]
    tree: Tree | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """Template texts by name; `own` are the files of those whose text is not hpckit's."""

    texts: Mapping[str, str]
    own: Mapping[str, Path]

    def own_digest(self, used: Sequence[str]) -> str | None:
        """SHA-256 over those texts among `used` that are not hpckit's; None without any."""
        own = sorted(self.own.keys() & set(used))
        if not own:
            return None
        text = "\0".join(f"{name}\0{self.texts[name]}" for name in own)
        return hashlib.sha256(text.encode()).hexdigest()


def load_site(resources: FileResources, name: str | None) -> SiteSpec:
    """The site called `name`; None is the generic one. Raises ConfigError with the nearest name."""
    from hpckit.spec.site import NO_SITE, generic_site

    if name is None or name == NO_SITE:
        return generic_site()
    files = resources.site_files()
    if name not in files:
        import difflib

        if name.endswith(".toml"):
            file = Path(name)
            raise ConfigError(
                f"a site is named, not its file: {name!r}",
                hint=f"--site-dir {file.parent} --site {file.stem}",
            )
        near = difflib.get_close_matches(name, files, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(
            f"no such site: {name!r}",
            hint=f"{hint}available: {', '.join(sorted(files))} (hpckit sites list)",
        )
    return _read(resources, name, files[name][0])


def _read(resources: FileResources, name: str, path: Path) -> SiteSpec:
    """Return the site in a file. Raises ConfigError and StorageFailed."""
    from hpckit.spec.merge import parse_site_file

    return parse_site_file(resources.read(path), str(path), name, _refuse_launch)


def _refuse_launch(spec: JobSpec) -> None:
    from hpckit.spec.job import LaunchRequest

    if spec.launch != LaunchRequest():
        from hpckit.script.launchers.registry import refuse_launch  # slow to import

        refuse_launch(spec)


def site_of_cluster(resources: FileResources, cluster: str) -> str | None:
    """The site whose file names this ClusterName, one's own before hpckit's; None for several."""
    found: dict[bool, list[str]] = {True: [], False: []}
    for name, paths in resources.site_files().items():
        try:
            # Most name another: only those that may be meant are read whole.
            if cluster not in resources.read(paths[0]).lower():
                continue
            named = _read(resources, name, paths[0]).slurm.cluster
        except (ConfigError, StorageFailed):
            continue
        if named is not None and named.lower() == cluster:
            found[resources.is_packaged(paths[0])].append(name)
    names = found[False] or found[True]
    return names[0] if len(names) == 1 else None


def list_sites(resources: FileResources) -> tuple[FoundSite, ...]:
    """Every site that can be named, sorted by name, also those whose file is wrong.

    hpckit's own files are not checked here: its tests did, and it takes half of the time.
    """
    found = []
    for name, paths in sorted(resources.site_files().items()):
        tree, wrong = None, None
        try:
            tree = parse_toml(resources.read(paths[0]), str(paths[0]))
            if not resources.is_packaged(paths[0]):
                _read(resources, name, paths[0])
        except (ConfigError, StorageFailed) as error:
            tree, wrong = None, str(error)
        found.append(
            FoundSite(name=name, path=paths[0], shadowed=tuple(paths[1:]), tree=tree, error=wrong)
        )
    return tuple(found)


def load_templates(resources: FileResources) -> Templates:
    """All template texts; hpckit's own stay reachable under PACKAGED_PREFIX."""
    texts: dict[str, str] = {}
    own: dict[str, Path] = {}
    for name, paths in sorted(resources.template_files.items()):
        texts[name] = resources.read(paths[0])
        packaged = [path for path in paths if resources.is_packaged(path)]
        if packaged:
            texts[PACKAGED_PREFIX + name] = resources.read(packaged[0])
        if not resources.is_packaged(paths[0]):
            own[name] = paths[0]
    return Templates(texts=texts, own=own)
