"""Train with JAX. Batches are ``jax.Array`` of one shape, so the step is compiled only once.

    python jax_train.py [DATASET]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TypeAlias

import jax
import jax.numpy as jnp

import shardpack as sp
import tiny

Parameters: TypeAlias = dict[str, jax.Array]


def loss_of(parameters: Parameters, pixels: jax.Array, label: jax.Array) -> jax.Array:
    """Return the loss of a small model: filters of 5 × 5 pixels, a mean over the picture, and a linear layer."""
    x = pixels.astype(jnp.float32) / 127.5 - 1
    axes = ("NHWC", "HWIO", "NHWC")
    x = jax.lax.conv_general_dilated(x, parameters["filters"], (2, 2), "VALID", dimension_numbers=axes)
    logits = jax.nn.relu(x).mean((1, 2)) @ parameters["weights"] + parameters["bias"]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), label[:, None], 1).mean()


@jax.jit
def step(parameters: Parameters, pixels: jax.Array, label: jax.Array) -> tuple[Parameters, jax.Array]:
    loss, gradients = jax.value_and_grad(loss_of)(parameters, pixels, label)
    return jax.tree.map(lambda value, gradient: value - 0.5 * gradient, parameters, gradients), loss


def main(dataset: sp.Dataset) -> None:
    classes = len(dataset.classes or [])
    one, two = jax.random.split(jax.random.key(0))
    parameters = {
        "filters": 0.2 * jax.random.normal(one, (5, 5, 3, 16)),
        "weights": 0.2 * jax.random.normal(two, (16, classes)),
        "bias": jnp.zeros(classes),
    }
    with sp.Loader(dataset, 10, image="rrc64", to="jax") as loader:
        for epoch in range(12):
            losses = []
            for batch in loader:
                parameters, loss = step(parameters, batch["image"], batch["label"])
                losses.append(loss)
            if epoch % 4 == 3 or epoch == 0:
                print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}")
        print(f"pixels: {batch['image'].dtype} {batch['image'].shape} on {batch['image'].device}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.photos(Path(folder) / "photos"))
