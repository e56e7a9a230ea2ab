"""Single figures of the state are those of the whole status."""

from pathlib import Path

from helix_assets.ask.status import count_sessions, last_sweep_number, raw_cache_bytes, read_status
from helix_assets_tests.home import Memory, conversation


def test_single_figures_are_those_of_the_whole_status(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    assert (count_sessions(memory.store), last_sweep_number(memory.store)) == (0, 0)
    memory.write("s", *conversation(2))
    memory.sweep()
    whole = read_status(memory.store)
    assert whole.last_sweep is not None
    assert last_sweep_number(memory.store) == whole.last_sweep.id
    assert raw_cache_bytes(memory.store) == whole.usage.raw_bytes > 0
    assert count_sessions(memory.store) == sum(agent.sessions for agent in whole.agents) == 1
    memory.close()
