"""Sample files with any damage, in any pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hpckit.account.samples import SampleReader
from hpckit.core.errors import ParseError
from tests.fakes.sample_file import pieces_of, sample_file

WHOLE = sample_file(60, gpus=2)  # long enough for runs of equal blocks
damage = st.lists(
    st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 300), st.binary(max_size=60)), max_size=4
)


@given(damage, st.integers(1, 400))
def test_damage_never_breaks_reading(damage: list[tuple[int, int, bytes]], piece: int) -> None:
    """Every byte is a block's or lost, and pieces of any size give the same."""
    data = WHOLE
    for at, gone, new in damage:
        data = data[:at] + new + data[at + gone :]
    outcomes: list[object] = []
    for size in (piece, len(data) + 1):
        reader = SampleReader(pieces_of(data, size))
        try:
            rows = sum(len(chunk.gpu) + len(chunk.host) for chunk in reader)
        except ParseError as error:
            outcomes.append(str(error)[:40])
        else:
            outcomes.append((rows, reader.condition))
            assert 0 <= reader.condition.lost_bytes <= len(data)
    assert outcomes[0] == outcomes[1]
