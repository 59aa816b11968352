"""What runs inside a job: the standard library and a few pure modules, shipped as one zipapp.

Every rank of a job starts here, so these modules import as little as they can: `argparse`,
`subprocess`, `pathlib`, `re`, `typing`, `contextlib` and `logging` each cost more than the work.
"""

from __future__ import annotations
