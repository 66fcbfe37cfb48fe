"""Checks a state that is passed to ``Loader.load_state_dict``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardpack import _shardpack
from shardpack._options import State


def checked(state: Mapping[str, Any], generation: int) -> State:
    """Check a state against the generation of the dataset, and convert it for the compiled loader.

    Raises
    ------
    UsageError
        The state belongs to another generation.
    ValueError
        The value is not a state of a loader.
    """
    names = ("fingerprint", "seed", "epoch", "samples_consumed")
    if not isinstance(state, Mapping):
        hint = "\nhint: parse the text with json.loads" if isinstance(state, (str, bytes)) else ""
        raise ValueError(f"loader state: expected a dict, found {type(state).__name__}{hint}")
    saved = state.get("generation", 1)
    unit = state.get("unit", "samples")
    state = {name: value for name, value in state.items() if name not in ("generation", "unit")}
    if set(state) != set(names):
        raise ValueError(f"loader state: the dict must have the keys {', '.join(names)}, but has {', '.join(map(str, state)) or 'nothing'}")
    bits = {"seed": 64, "epoch": 32, "samples_consumed": 64}
    for name, value in state.items():
        fits = isinstance(value, str) if name == "fingerprint" else type(value) is int and 0 <= value < 1 << bits[name]
        if not fits:
            expected = "a string" if name == "fingerprint" else f"an integer from 0 to 2**{bits[name]} - 1"
            raise ValueError(f"loader state: {name!r} must be {expected}, but is {value!r}")
    if not isinstance(unit, str):
        raise ValueError(f"loader state: 'unit' must be a string, but is {unit!r}")
    if saved != generation:
        raise _shardpack.UsageError(
            f"the state is from generation {saved}, but the dataset is at generation {generation}\n"
            f"hint: to finish the saved epoch, open Dataset(path, generation={saved}); for the next epoch, create a new loader"
        )
    return state["fingerprint"], state["seed"], state["epoch"], state["samples_consumed"], unit
