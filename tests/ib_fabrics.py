"""Fabrics made up for tests, written as ibnetdiscover writes them; each can be given a defect."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hpckit.core.findings import Finding
from hpckit.fabric.ibnetdiscover import parse_ibnetdiscover
from hpckit.fabric.rules import fabric_findings
from hpckit.fabric.topology import ClusterTopology

SWITCH_PORTS = 129
_SWITCH_GUID = 0x2C5EAB0300000000
_HOST_GUID = 0xE09D730300000000


@dataclass(frozen=True)
class Hca:
    """A port of a host and where it hangs."""

    node: str
    nic: str
    switch: str
    port: int
    speed: str = "4xNDR"
    description: str | None = None

    @property
    def words(self) -> str:
        """The node description."""
        return self.description or f"{self.node} {self.nic}"


@dataclass(frozen=True)
class Wire:
    """A cable between two switches."""

    lower: str
    lower_port: int
    upper: str
    upper_port: int
    speed: str = "4xNDR"


@dataclass
class MadeFabric:
    """Switches by name, cables and hosts; changed by a test before it is written."""

    switches: list[str] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    hcas: list[Hca] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)

    def port(self, switch: str) -> int:
        """The next free port of a switch."""
        self.used[switch] = self.used.get(switch, 0) + 1
        return self.used[switch]

    def wire(self, lower: str, upper: str, cables: int = 1, speed: str = "4xNDR") -> None:
        """Join two switches."""
        for _ in range(cables):
            self.wires.append(Wire(lower, self.port(lower), upper, self.port(upper), speed))

    def host(
        self,
        node: str,
        nic: str,
        switch: str,
        description: str | None = None,
        speed: str = "4xNDR",
    ) -> None:
        """Hang a NIC on a switch."""
        port = self.port(switch)
        self.hcas.append(Hca(node, nic, switch, port, speed, description))

    def leaf_below_spines(self, name: str, cables: int, speed: str = "4xNDR") -> None:
        """Add a leaf that leads to each spine by so many cables."""
        for top in [one for one in self.switches if one.startswith("spine")]:
            self.wire(name, top, cables, speed)
        self.switches.append(name)

    def change(self, which: Callable[[Hca], bool], **values: object) -> None:
        """Change the ports of hosts that a test names."""
        self.hcas = [
            dataclasses.replace(one, **values) if which(one) else one  # type: ignore[arg-type]
            for one in self.hcas
        ]

    def hang(self, node: str, nic: str) -> Hca:
        """The port of a node's NIC."""
        return next(one for one in self.hcas if (one.node, one.nic) == (node, nic))

    def exchange(self, one: Hca, other: Hca) -> None:
        """Swap the cables of two NICs."""
        at = {one: other, other: one}
        self.hcas = [
            dataclasses.replace(hca, switch=at[hca].switch, port=at[hca].port) if hca in at else hca
            for hca in self.hcas
        ]

    def without_switch(self, name: str) -> None:
        """Take a switch away with all that hangs on it."""
        self.switches.remove(name)
        self.wires = [one for one in self.wires if name not in (one.lower, one.upper)]
        self.hcas = [one for one in self.hcas if one.switch != name]

    def found(self, slurm: list[str] | None = None) -> list[tuple[str, str]]:
        """The rule and subject of each finding, beside Slurm's nodes where there are any."""
        return [(one.rule, one.subject) for one in fabric_findings(self.topology(), slurm)]

    def only(self, slurm: list[str] | None = None) -> Finding:
        """The one finding there is."""
        (one,) = fabric_findings(self.topology(), slurm)
        return one

    def text(self) -> str:
        """What ibnetdiscover would print."""
        return "\n".join(_lines(self)) + "\n"

    def topology(self) -> ClusterTopology:
        """What is read from that."""
        return parse_ibnetdiscover(self.text(), "made")


def _lines(made: MadeFabric) -> Iterator[str]:
    guids = {name: _SWITCH_GUID + at for at, name in enumerate(made.switches)}
    hosts = {one: _HOST_GUID + at for at, one in enumerate(made.hcas)}
    seen = {name: f'"MF0;{name}:MQM9700/U1"' for name in made.switches}
    yield "#"
    yield "# Topology file: generated on Thu Jan  1 00:00:00 1970"
    yield "#"
    by_switch: dict[str, list[tuple[int, str]]] = {name: [] for name in made.switches}
    for one, guid in hosts.items():
        words = f'"H-{guid:016x}"[1]({guid:x}) \t\t# "{one.words}" lid 7 {one.speed}'
        by_switch[one.switch].append((one.port, words))
    for wire in made.wires:
        for near, port, far, far_port in (
            (wire.lower, wire.lower_port, wire.upper, wire.upper_port),
            (wire.upper, wire.upper_port, wire.lower, wire.lower_port),
        ):
            words = f'"S-{guids[far]:016x}"[{far_port}]\t\t# {seen[far]} lid 9 {wire.speed}'
            by_switch[near].append((port, words))
    for name, guid in guids.items():
        yield from ("", "vendid=0x2c9", "devid=0xd2f2", f"sysimgguid=0x{guid:x}")
        yield f"switchguid=0x{guid:x}({guid:x})"
        place = f'Switch\t{SWITCH_PORTS} "S-{guid:016x}"'
        yield f"{place}\t\t# {seen[name]} enhanced port 0 lid 9 lmc 0"
        yield from (f"[{port}]\t{words}" for port, words in sorted(by_switch[name]))
    for one, guid in hosts.items():
        yield from ("", "vendid=0x2c9", "devid=0x1021", f"sysimgguid=0x{guid:x}")
        yield f"caguid=0x{guid:x}"
        yield f'Ca\t1 "H-{guid:016x}"\t\t# "{one.words}"'
        far = f'"S-{guids[one.switch]:016x}"[{one.port}]'
        yield f"[1]({guid:x}) \t{far}\t\t# lid 7 lmc 0 {seen[one.switch]} lid 9 {one.speed}"


def leaf(rail: int, rack: int) -> str:
    """The name of a leaf."""
    return f"leaf-{rail + 1:02d}-{rack + 1:02d}"


def node(rack: int, at: int) -> str:
    """The name of a node."""
    return f"n{rack + 1:02d}-c{at + 1:02d}"


def two_tier(
    rails: int = 4, racks: int = 4, nodes: int = 8, spines: int = 4, cables: int = 2
) -> MadeFabric:
    """Each rack has a leaf a rail, each leaf leads to each spine by so many cables."""
    made = MadeFabric()
    made.switches = [leaf(rail, rack) for rack in range(racks) for rail in range(rails)]
    tops = [f"spine-{at + 1:02d}" for at in range(spines)]
    _hang_nodes(made, rails, racks, nodes)
    for name in list(made.switches):
        for top in tops:
            made.wire(name, top, cables)
    made.switches += tops
    return made


def three_tier(
    pods: int = 3,
    rails: int = 2,
    racks: int = 2,
    nodes: int = 4,
    spines: int = 3,
    *,
    cores: int = 2,
) -> MadeFabric:
    """Pods of racks with spines of their own; the n-th spine of each pod leads to its own cores."""
    made = MadeFabric()
    _hang_nodes(made, rails, pods * racks, nodes)
    made.switches = [leaf(rail, rack) for rack in range(pods * racks) for rail in range(rails)]
    middles, tops = [], []
    for at in range(spines):
        group = [f"core-{at + 1}-{core + 1}" for core in range(cores)]
        tops += group
        for pod in range(pods):
            middle = f"spine-{pod + 1}-{at + 1}"
            middles.append(middle)
            for rack in range(pod * racks, (pod + 1) * racks):
                for rail in range(rails):
                    made.wire(leaf(rail, rack), middle)
            for top in group:
                made.wire(middle, top, 2)
    made.switches += middles + tops
    return made


def with_storage(leaves: int = 2, cables: int = 1, speed: str = "4xHDR") -> MadeFabric:
    """Each node has one NIC more, on leaves for storage that have fewer cables upwards."""
    made = two_tier()
    names = [f"storage-{at + 1:02d}" for at in range(leaves)]
    for name in names:
        made.leaf_below_spines(name, cables)
    for at, node in enumerate(dict.fromkeys(one.node for one in made.hcas)):
        made.host(node, "mlx5_4", names[at % leaves], speed=speed)
    return made


def with_cpu_leaves(leaves: int = 1, cables: int = 1) -> MadeFabric:
    """CPU nodes with half of a port each hang on leaves of their own, with fewer cables upwards."""
    made = two_tier()
    for at in range(leaves):
        made.leaf_below_spines(f"leaf-cpu-{at + 1:02d}", cables)
        for node in range(8):
            made.host(f"cpu{8 * at + node:02d}", "mlx5_0", f"leaf-cpu-{at + 1:02d}", speed="2xNDR")
    return made


def with_island(kind: str = "a") -> MadeFabric:
    """The last rack and its leaves are of an older generation, on the same spines."""
    made = two_tier()
    old = {leaf(rail, 3) for rail in range(4)}
    made.wires = [
        dataclasses.replace(one, speed="4xHDR") if one.lower in old else one for one in made.wires
    ]
    made.hcas = [
        dataclasses.replace(one, speed="4xHDR", node=kind + one.node[1:])
        if one.switch in old
        else one
        for one in made.hcas
    ]
    return made


def with_cpu_pod(pods: int = 3) -> MadeFabric:
    """The last pod of three tiers is of CPU nodes, its spines with half the cables upwards."""
    made = three_tier(pods)
    racks = {f"n{2 * pods + at:02d}" for at in (-1, 0)}
    made.hcas = [
        dataclasses.replace(one, node=f"cpu{one.node[1:]}") if one.node[:3] in racks else one
        for one in made.hcas
    ]
    seen: set[tuple[str, str]] = set()
    for one in [wire for wire in made.wires if wire.lower.startswith(f"spine-{pods}-")]:
        if (one.lower, one.upper) not in seen:
            seen.add((one.lower, one.upper))
            made.wires.remove(one)
    return made


def _hang_nodes(made: MadeFabric, rails: int, racks: int, nodes: int) -> None:
    for rack in range(racks):
        for at in range(nodes):
            for rail in range(rails):
                made.host(node(rack, at), f"mlx5_{rail}", leaf(rail, rack))
