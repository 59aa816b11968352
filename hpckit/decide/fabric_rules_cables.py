"""What is odd about a fabric's cables: missing, uneven, or not reaching a switch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hpckit.core.findings import Evidence
from hpckit.decide.fabric_rule import FabricView, are, hosts, listed, switches
from hpckit.decide.finding_rule import have, most_common, named
from hpckit.decide.uplinks import Bundle, Pair, are_of_one_kind
from hpckit.model.fabric import EndKind
from hpckit.model.hostlist import natural_order
from hpckit.model.words import counted

_HALF: Final = 0.5


def cables_missing(view: FabricView) -> Iterator[Evidence]:
    """Rule `cables-missing`: one finding for the switches of a level that are cabled alike."""
    by_level: defaultdict[int, list[int]] = defaultdict(list)
    for at, bundle in enumerate(view.bundles):
        if bundle.missing:
            by_level[bundle.level].append(at)
    for level, places in by_level.items():
        pairs = sorted(
            (pair for at in places for pair in view.bundles[at].missing),
            key=lambda pair: (natural_order(pair.lower), natural_order(pair.upper)),
        )
        alike = [bundle for bundle in view.bundles if bundle.level == level]
        cables = sum(bundle.cables for bundle in alike)
        expected = sum(bundle.expected for bundle in alike)
        between = f"{counted(len(pairs), 'pair')} of switches"
        upwards = f"cables from {f'level {level}' if level else 'leaves'} upwards"
        yield Evidence(
            _subject_of(pairs, upwards),
            f"{cables} of {expected} {upwards} are up:"
            f" {are(expected - cables, 'cable')} missing over {between}:"
            f" {listed([_pair_words(pair) for pair in pairs])}",
        )


def uplinks_uneven(view: FabricView) -> Iterator[Evidence]:
    """Rule `uplinks-uneven`: cables that lead to other switches than they do elsewhere."""
    for bundle in view.bundles:
        if bundle.uneven:
            lowers = dict.fromkeys(pair.lower for pair in bundle.uneven)
            yield Evidence(
                named(lowers),
                f"cables lead elsewhere than those of the {switches(len(bundle.lowers))} that are"
                f" cabled alike: {listed([_pair_words(pair) for pair in bundle.uneven])}",
            )
        for upper, cables, usual in bundle.weak:
            yield Evidence(
                upper,
                f"{counted(cables, 'cable')} lead to it from below, and {usual} to each of most"
                f" others of the {len(bundle.uppers)}",
            )


def uplinks_fewer(view: FabricView) -> Iterator[Evidence]:
    """Rule `uplinks-fewer`: a whole pod or plane with fewer cables upwards than most others."""
    for bundle in view.bundles:
        alike = [
            one
            for one in view.bundles
            if one.level == bundle.level and are_of_one_kind(one, bundle)
        ]
        cables = _each(bundle)
        usual = most_common(map(_each, alike))
        if usual is not None and cables < usual:
            yield Evidence(
                named(bundle.lowers),
                f"{switches(len(bundle.lowers))} of level {bundle.level}"
                f" {have(len(bundle.lowers))} {counted(cables, 'cable')} upwards each, and {usual}"
                f" those of most of the {len(alike)} sets that are cabled alike: a switch above may"
                " be absent",
            )


def _each(bundle: Bundle) -> int:
    """How many cables upwards each switch of a bundle should have."""
    return bundle.expected // len(bundle.lowers)


def _pair_words(pair: Pair) -> str:
    return f"{pair.lower}–{pair.upper} {pair.cables} of {pair.expected}"


def _subject_of(pairs: Sequence[Pair], many: str) -> str:
    """What all pairs have in common."""
    if len(pairs) == 1:
        return f"{pairs[0].lower}–{pairs[0].upper}"
    for ends in ({pair.lower for pair in pairs}, {pair.upper for pair in pairs}):
        if len(ends) == 1:
            return ends.pop()
    return many


def switch_isolated(view: FabricView) -> Iterator[Evidence]:
    """Rule `switch-isolated`: no cable to another switch, where most of its like have some."""
    linked = {end for link in view.topology.links for end in (link.lower, link.upper)}
    others = [leaf for leaf in view.leaves if leaf in linked]
    for switch in view.topology.switches:
        alone = switch.name not in linked
        if alone and others and len(others) > _HALF * len(view.leaves):
            nodes = _nodes_on(view, [switch.name])
            yield Evidence(
                switch.name,
                f"no cable leads from it to another switch, as from {len(others)} others;"
                f" {counted(len(nodes), 'node')} {have(len(nodes))} a NIC there",
            )


def fabric_parted(view: FabricView) -> Iterator[Evidence]:
    """Rule `fabric-parted`: switches that reach the rest neither by cables nor through nodes.

    Planes are no such parts: the same nodes hang on each.
    """
    linked = {end for link in view.topology.links for end in (link.lower, link.upper)}
    parts = [part for part in view.parts if not linked or linked.intersection(part)]
    together = _by_nodes([(part, _nodes_on(view, part)) for part in parts])
    biggest = max(together, key=lambda one: (len(one[1]), len(one[0])), default=None)
    for part in together:
        if part is not biggest and biggest is not None:
            names, nodes = part
            yield Evidence(
                named(names),
                f"{switches(len(names))} with {counted(len(nodes), 'node')}"
                f" {have(len(names))} no cable to the other {switches(len(biggest[0]))}"
                f" with {counted(len(biggest[1]), 'node')}"
                + (f": {hosts(nodes)}" if nodes else ""),
            )


def _nodes_on(view: FabricView, names: Iterable[str]) -> set[str]:
    return {
        port.node
        for name in names
        for port in view.ends.get(name, ())
        if port.node is not None and port.kind is EndKind.COMPUTE
    }


def _by_nodes(parts: list[tuple[tuple[str, ...], set[str]]]) -> list[tuple[list[str], set[str]]]:
    """Parts joined where half of the nodes of one hang on the other too."""
    found: list[tuple[list[str], set[str]]] = []
    for part, nodes in sorted(parts, key=lambda one: -len(one[1])):
        same = (
            one
            for one in found
            if nodes and len(nodes & one[1]) >= _HALF * min(len(nodes), len(one[1]))
        )
        names, known = next(same, ([], set[str]()))
        if not names:
            found.append((names, known))
        names.extend(part)
        known.update(nodes)
    return found
