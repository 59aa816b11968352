"""Texts of topology.conf, and what slurmctld 22.05.8, 24.11.5 and 26.05.5 said of each.

Each was given to a slurmctld alone on the nodes c[1-8] (tests/cluster/test_topology_files.py does
it again).
"""

from __future__ import annotations

from typing import Final

_DEEP = [f"SwitchName=s{i} Switches=s{i + 1}\n" for i in reversed(range(30))]
_TWO = "SwitchName=l Nodes=c[1-4]\nSwitchName=m Nodes=c[5-8]\n"
_BLOCKS = "BlockName=b1 Nodes=c[1-2]\nBlockName=b2 Nodes=c[3-4]\n"

TAKEN: Final = {
    "tree": "SwitchName=a Nodes=c[1-4]\nSwitchName=b Nodes=c[5-8]\nSwitchName=s Switches=a,b\n",
    "parents before children": "SwitchName=s Switches=m\nSwitchName=m Switches=a\n"
    "SwitchName=a Nodes=c[1-8]\n",
    "thirty levels": "SwitchName=s30 Nodes=c[1-8]\n" + "".join(_DEEP),
    "two parents": "SwitchName=l Nodes=c[1-8]\nSwitchName=a Switches=l\nSwitchName=b Switches=l\n",
    "a node on two leaves": "SwitchName=l Nodes=c[1-4]\nSwitchName=m Nodes=c[4-8]\n",
    "two roots": _TWO,
    "names that differ in case": "SwitchName=l Nodes=c[1-4]\nSwitchName=L Nodes=c[5-8]\n",
    "continued": "SwitchName=a \\\n  Nodes=c[1-4],\\\nc[5-8]\n",
    "comments": "  # hi\nSwitchName=a Nodes=c[1-8]#x\n\n",
    "small letters": "switchname=a nodes=c[1-8] linkspeed=3\n",
    "quotes": 'SwitchName="a b" Nodes="c[1-4],c[5-8]"\n',
    "spaces around": "SwitchName = a Nodes = c[1-8]\n",
    "an operator": "SwitchName=a Nodes*=c[1-8]\n",
    "speed without limit": "SwitchName=a Nodes=c[1-8] LinkSpeed=UNLIMITED\n",
    "speed with a suffix": "SwitchName=a Nodes=c[1-8] LinkSpeed=10k\n",
    "nodes twice": "SwitchName=a Nodes=c[1-4] Nodes=c[5-8]\n",
    "a node twice": "SwitchName=a Nodes=c[1-8],c1\n",
    "a child twice": "SwitchName=a Nodes=c[1-8]\nSwitchName=s Switches=a,a\n",
    "a node that Slurm has not": "SwitchName=a Nodes=c[1-9]\n",
    "dots and colons": "SwitchName=switch.1.1 Nodes=c[1-8]\n"
    "SwitchName=x/y:z Switches=switch.1.[1]\n",
    "other letters": "SwitchName=ä Nodes=c[1-8]\nSwitchName=s Switches=ä\n",
    "two brackets": "SwitchName=r1s1 Nodes=c[1-4]\nSwitchName=r2s1 Nodes=c[5-8]\n"
    "SwitchName=s Switches=r[1-2]s[1-1]\n",
    "blocks": _BLOCKS + "BlockSizes=2,4\n",
    "blocks without sizes": _BLOCKS,
    "blocks that share a node": "BlockName=b1 Nodes=c[1-2]\nBlockName=b2 Nodes=c[2-3]\n"
    "BlockSizes=2\n",
    "blocks of two sizes": "BlockName=b1 Nodes=c[1-3]\nBlockName=b2 Nodes=c[4-5]\nBlockSizes=2,4\n",
    "sizes twice": "BlockName=b1 Nodes=c[1-2]\nBlockSizes=2\nBlockSizes=1\n",
}
"""What all three take (blocks: the two that have them)."""

TAKEN_BY_SOME: Final = {
    "text behind a bracket": "SwitchName=a1-x Nodes=c[1-4]\nSwitchName=a2-x Nodes=c[5-8]\n"
    "SwitchName=s Switches=a[1-2]-x\n",
    "a switch without nodes": "SwitchName=l Nodes=c[1-8]\nSwitchName=m\n",
    "a block without nodes": "BlockName=b1 Nodes=c[1-2]\nBlockName=b2\nBlockSizes=2\n",
    "a small block": "BlockName=b1 Nodes=c[1-2]\nBlockName=b2 Nodes=c3\nBlockSizes=2\n",
}
"""What 26.05.5 takes and one before does not."""

REFUSED: Final = {
    "two switches above each other": (
        "SwitchName=a Switches=b\nSwitchName=b Switches=a\nSwitchName=l Nodes=c[1-8]\n",
        1,
        r"switch a is below itself, a loop of 2 switches: a \(line 1\) > b \(line 2\) > a",
    ),
    "three in a ring": (
        "SwitchName=l Nodes=c[1-8]\nSwitchName=top Switches=a\nSwitchName=a Switches=l,b\n"
        "SwitchName=b Switches=x\nSwitchName=x Switches=a,l\n",
        3,
        r"below itself, a loop of 3 .*a \(line 3\) > b \(line 4\) > x \(line 5\) > a \(line 3\)",
    ),
    "its own child": (
        "SwitchName=a Switches=a\nSwitchName=l Nodes=c[1-8]\n", 1, "a is its own child",
    ),
    "no such child": (
        "SwitchName=l Nodes=c[1-8]\nSwitchName=a Switches=x\n",
        2,
        "x, a child of switch a, is not among the 2 switches",
    ),
    "a switch twice": (
        "SwitchName=l Nodes=c[1-4]\n\nSwitchName=l Nodes=c[5-8]\n",
        3,
        "switch l is already on line 1",
    ),
    "nodes and switches": (
        "SwitchName=l Nodes=c[1-4]\nSwitchName=m Nodes=c[5-8] Switches=l\n", 2, "both nodes and",
    ),
    "letters in a range": (
        "SwitchName=leafA Nodes=c[1-8]\nSwitchName=s Switches=leaf[A-B]\n",
        2,
        r"'A-B' in 'leaf\[A-B\]' is not a range",
    ),
    "a list as a name": (
        "SwitchName=leaf[1-2] Nodes=c[1-8]\nSwitchName=s Switches=leaf[1-2]\n",
        2,
        "leaf1, a child",
    ),
    "two on a line": (
        "SwitchName=a Nodes=c[1-4] SwitchName=b Nodes=c[5-8]\n", 1, "unknown key SwitchName",
    ),
    "another key": ("SwitchName=a Nodes=c[1-8] Colour=red\n", 1, "unknown key Colour"),
    "switches and blocks": (_TWO + "BlockSizes=4\n", 3, "line 1 has the other kind"),
    "blocks and switches": (_BLOCKS + "SwitchName=a Nodes=c1\n", 3, "line 1 has the other kind"),
    "a list that goes on": ("SwitchName=a Nodes=c[1-4],\\\n  c[5-8]\n", 1, r"'c\[5-8\]' is not"),
    "speed in words": ("SwitchName=a Nodes=c[1-8] LinkSpeed=fast\n", 1, "LinkSpeed=fast"),
    "a bracket that stays open": ("SwitchName=a Nodes=c[1-8\n", 1, "unmatched bracket"),
    "words": ("SwitchName=a Nodes=c[1-8]\nhello\n", 2, "'hello' is not key=value"),
    "words behind": ("SwitchName=a Nodes=c[1-8] junk\n", 1, "'junk' is not key=value"),
    "no value": ("SwitchName=a Nodes=c[1-8]\nSwitchName=b Nodes=\n", 2, "'Nodes=' is not key"),
    "a name of 65": (f"SwitchName={'a' * 65} Nodes=c[1-8]\n", 1, "has 65 characters"),
    "another file": ("Include other.conf\nSwitchName=a Nodes=c[1-8]\n", 1, "'Include other.conf'"),
    "a block twice": (
        "BlockName=b1 Nodes=c[1-2]\nBlockName=b1 Nodes=c[3-4]\n", 2, "b1 is already on line 1",
    ),
    "the speed of a block": ("BlockName=b1 Nodes=c1 LinkSpeed=1\n", 1, "unknown key LinkSpeed"),
    "sizes 2 and 6": (_BLOCKS + "BlockSizes=2,6\n", 3, "6 is not 2 times a power of two"),
    "sizes that fall": (_BLOCKS + "BlockSizes=4,2\n", 3, "2 is not 4 times a power of two"),
    "a size in words": (_BLOCKS + "BlockSizes=two\n", 3, "'two' is not a positive number"),
    "size 0": (_BLOCKS + "BlockSizes=0\n", 3, "'0' is not a positive number"),
}  # fmt: skip
"""What all of them end on (what is in LATELY: 24.11 and later), the line and the words."""

LATELY: Final = frozenset({"a name of 65", "a bracket that stays open"})
"""What 22.05.8 takes all the same."""
