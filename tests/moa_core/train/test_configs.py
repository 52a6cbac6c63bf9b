"""accelerate reads the configs that come with the program, and they suit this training."""

from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file

FOLDER = Path(__file__).parents[3] / "configs"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("ddp", "MULTI_GPU"), ("fsdp", "FSDP")],
)
def test_accelerate_reads_it(name: str, kind: str) -> None:
    config = load_config_from_file(str(FOLDER / f"{name}.yaml"))
    assert config.distributed_type == kind and config.mixed_precision == "bf16"


def test_they_are_as_training_needs_them() -> None:
    fsdp = load_config_from_file(str(FOLDER / "fsdp.yaml")).fsdp_config
    assert fsdp["fsdp_version"] == 2 and fsdp["fsdp_auto_wrap_policy"] == "NO_WRAP"
