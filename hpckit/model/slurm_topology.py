"""What Slurm takes in a topology file, for those who read one and those who write one.

Sources: topology.conf(5); switch_record.c.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST_SWITCH_NAME: Final = 64
"""Characters: a longer one ends slurmctld."""

LINK_SPEED: Final = re.compile(r"\d{1,10}[km]?|0x[0-9a-f]{1,8}|unlimited|infinite", re.ASCII | re.I)
"""The value of LinkSpeed="""
