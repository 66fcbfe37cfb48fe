"""The state of a loader, as it comes back: from JSON, from a checkpoint of PyTorch, from another program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardpack import _shardpack
from shardpack._options import State


def checked(state: Mapping[str, Any], generation: int) -> State:
    """A state for a dataset of this generation, as the compiled loader takes it.

    Raises
    ------
    UsageError
        It is of another generation.
    ValueError
        It is not a state of a loader.
    """
    names = ("fingerprint", "seed", "epoch", "samples_consumed")
    if not isinstance(state, Mapping):
        hint = "\nhint: json.loads makes the dict of its text" if isinstance(state, (str, bytes)) else ""
        raise ValueError(f"state of a loader: expected a dict, found {type(state).__name__}{hint}")
    saved = state.get("generation", 1)
    unit = state.get("unit", "samples")
    state = {name: value for name, value in state.items() if name not in ("generation", "unit")}
    if set(state) != set(names):
        raise ValueError(f"state of a loader: expected {', '.join(names)}, found {', '.join(map(str, state)) or 'nothing'}")
    bits = {"seed": 64, "epoch": 32, "samples_consumed": 64}
    for name, value in state.items():
        fits = isinstance(value, str) if name == "fingerprint" else type(value) is int and 0 <= value < 1 << bits[name]
        if not fits:
            expected = "text" if name == "fingerprint" else f"an integer of {bits[name]} bits"
            raise ValueError(f"state of a loader: {name}: expected {expected}, found {value!r}")
    if not isinstance(unit, str):
        raise ValueError(f"state of a loader: unit: expected text, found {unit!r}")
    if saved != generation:
        raise _shardpack.UsageError(
            f"generation of the state: expected {generation}, as of the dataset, found {saved}\n"
            f"hint: the order of an epoch belongs to a generation: open Dataset(path, generation={saved}) to end this "
            "epoch, and the newest one for the next, with a loader that begins there"
        )
    return state["fingerprint"], state["seed"], state["epoch"], state["samples_consumed"], unit
