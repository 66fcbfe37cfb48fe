"""Tests loaders inside training frameworks: resuming within an epoch, and ranks that are known only later."""

from __future__ import annotations

import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> sp.Dataset:
    """Writes 60 samples with a vector."""
    out = tmp_path_factory.mktemp("frameworks") / "vectors"
    with sp.Writer(out) as writer:
        for number in range(60):
            writer.write({"x": np.full(4, number, np.float32)}, key=f"{number:02}")
    return sp.Dataset(out)


class Killed(Exception):
    """Simulates a kill by ending a run at once."""


def test_lightning_goes_on_in_the_middle_of_an_epoch(dataset: sp.Dataset, tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")
    import torch

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
            self.steps: list[tuple[int, int]] = []
            self.seen: dict[int, list[str]] = {}

        def training_step(self, batch: sp.Batch, number: int) -> Any:
            self.steps.append((self.current_epoch, number))
            self.seen.setdefault(self.current_epoch, []).extend(batch.sample_keys)
            return self.layer(batch["x"]).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 1e-9)

    class Save(lightning.Callback):  # type: ignore[misc, name-defined]
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 9:
                trainer.save_checkpoint(tmp_path / "middle.ckpt")
                raise Killed

    def fit(model: Model, checkpoint: Path | None, **options: Any) -> None:
        trainer = lightning.Trainer(
            accelerator="cpu", devices=1, logger=False, enable_progress_bar=False, enable_model_summary=False,
            enable_checkpointing=False, default_root_dir=tmp_path, **options,
        )  # fmt: skip
        with sp.Loader(dataset, 10, to="torch") as loader, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer.fit(model, loader, ckpt_path=checkpoint)

    first, second = Model(), Model()
    with pytest.raises(Killed):
        fit(first, None, max_epochs=3, callbacks=[Save()])
    assert len(first.steps) == 9, "three in the second epoch"
    fit(second, tmp_path / "middle.ckpt", max_epochs=3)
    assert second.steps == [(1, 3), (1, 4), (1, 5), *((2, step) for step in range(6))]
    assert sorted(first.seen[1] + second.seen[1]) == sorted(dataset.keys)
    assert sorted(second.seen[2]) == sorted(dataset.keys)


def test_accelerate_and_lightning_find_the_batch_size(dataset: sp.Dataset) -> None:
    utils = pytest.importorskip("lightning.pytorch.utilities.data")
    accelerate = pytest.importorskip("accelerate")
    import torch

    with sp.Loader(dataset, 10, to="torch", threads=1) as loader:
        assert utils.extract_batch_size(next(iter(loader))) == 10
        prepared = accelerate.Accelerator(cpu=True).prepare(
            torch.utils.data.DataLoader(sp.torch.IterableDataset(loader), batch_size=None)
        )
        seen: list[float] = []
        for batch in prepared:
            assert isinstance(batch, sp.Batch) and batch["x"].shape == (10, 4) and list(batch.keys()) == ["x"]
            seen += batch["x"][:, 0].tolist()
            # Accelerate splits batches and makes new ones without keys and mask.
            with pytest.raises(AttributeError, match="sample_keys is not available.*\nhint: iterate over the Loader directly"):
                batch.sample_keys
    assert sorted(seen) == list(range(60))


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_framework_that_is_not_installed_is_named_with_its_extra(
    dataset: sp.Dataset, monkeypatch: pytest.MonkeyPatch, name: Any
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=rf"`{name}`.*\nhint: pip install shardpack\[{name}\]"):
        sp.Loader(dataset, 5, to=name)


def late(rank: int, dataset: sp.Dataset, folder: Path) -> None:
    """Runs a rank that creates its loader before the process group."""
    import torch.distributed as dist

    loader = sp.Loader(dataset, 5, threads=1)
    assert (len(loader), loader.world_size) == (12, 1)
    # This copy behaves like a loader from the process that starts the ranks.
    travelled = pickle.loads(pickle.dumps(loader))
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    assert (len(loader), loader.rank, loader.world_size) == (6, rank, 2)
    assert (len(travelled), travelled.rank, travelled.world_size) == (6, rank, 2)
    keys = [key for batch in loader for key in batch.sample_keys]
    (folder / f"{rank}.txt").write_text("\n".join(keys))
    loader.close()
    dist.destroy_process_group()


def test_a_loader_made_before_the_process_group_finds_its_rank(dataset: sp.Dataset, tmp_path: Path) -> None:
    from torch.multiprocessing.spawn import spawn

    spawn(late, (dataset, tmp_path), 2)
    shares = [(tmp_path / f"{rank}.txt").read_text().split() for rank in range(2)]
    assert [len(share) for share in shares] == [30, 30]
    assert sorted(shares[0] + shares[1]) == sorted(dataset.keys)
