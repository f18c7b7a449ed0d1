"""Check with DeepSpeed's own classes whether it accepts the configuration of a run, without a GPU.

The command is `python ask_deepspeed.py ORDER.json`. ORDER.json describes the runs to check; the
last line of the output is JSON with the result for each run. DeepSpeed parses the configuration,
makes its engine for a model of two small layers on the CPU, and takes one step. The process group
has as many ranks as the run, but the other ranks are fake. So DeepSpeed itself makes the checks
that it would make before the first real step. Checks that need a GPU, or the user's model or data,
are left out. Functions that compute nothing replace DeepSpeed's kernels.
"""

from __future__ import annotations

import copy
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

if __package__:
    from . import asking
else:
    import asking  # type: ignore[import-not-found, no-redef, unused-ignore]

# Sections that depend on the user's model or data, or that start other programs. DeepSpeed parses
# them, and the engine is made without them.
_NOT_FOR_THE_ENGINE = {
    "tensor_parallel": "depends on the model's layers",
    "expert_parallel": "depends on the model's layers",
    "hybrid_engine": "depends on the model's layers",
    "data_efficiency": "depends on the data",
    "compile": "compiles the model",
    "flops_profiler": "runs the model",
    "autotuning": "starts trainings",
    "tensorboard": "writes files",
    "csv_monitor": "writes files",
    "wandb": "needs the network",
    "comet": "needs the network",
}
# For each section, its name in deepspeed/monitor/utils.py.
_MONITORS = {"tensorboard": "tb", "wandb": "wandb", "comet": "comet"}
_NVME = "zero_optimization.{}.device"
_OFFLOADED = ("offload_optimizer", "offload_param")
# Errors about this machine rather than about the configuration.
_OF_THE_MACHINE = re.compile(
    r"cuda|\bgpus?\b|\bcpu\b|not implemented for|triton|compil|no module named|native kernel",
    re.IGNORECASE,
)
# Without the stage, DeepSpeed refuses almost nothing; without the other keys, it refuses
# everything. Neither shows that the removed key is the cause.
_SELECTORS = (
    "zero_optimization.stage",
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "optimizer.type",
)
_LOADED_LATE = (
    "torch._dynamo",
    "deepspeed.ops.adam",
    "deepspeed.ops.lamb",
    "deepspeed.ops.lion",
    "deepspeed.runtime.zero.muon.muon_optimizer",
    "deepspeed.runtime.zero.stage_1_and_2",
    "deepspeed.runtime.zero.stage3",
)
_WIDTH = 16
_ARCHITECTURES = "TORCH_CUDA_ARCH_LIST"

# The keys that lead to a value, and the value.
Leaf = tuple[tuple[str, ...], Any]


class _NeedsGpuError(Exception):
    """Raised if DeepSpeed calls a kernel that works only on a GPU."""


def _ask(order: asking.ProgramOrder) -> asking.ProgramAnswer:
    """Return what DeepSpeed refuses in the configuration of a run."""
    if order.deepspeed_config is None:
        raise asking.CannotAskError("the run has no DeepSpeed configuration")
    config = deepspeed_settings(order.deepspeed_config)
    be_a_rank(order)
    return config_answer(config, order)


def config_answer(config: Mapping[str, Any], order: asking.ProgramOrder) -> asking.ProgramAnswer:
    """Return what DeepSpeed refuses in the configuration of a run, and what could not be checked.

    Call `be_a_rank` first. If the run uses GPUs, the answer also contains whether DeepSpeed can
    read the architectures of GPUs for which it compiles its kernels.
    """
    import deepspeed

    answer = asking.ProgramAnswer(asked=[f"DeepSpeed {deepspeed.__version__}: DeepSpeedConfig"])
    engine = _has_fake_ranks()
    if engine:
        answer.asked.append(
            f"DeepSpeed {deepspeed.__version__}: deepspeed.initialize and one step of a small model"
        )
        answer.not_asked = list(_not_asked(config))
    else:
        answer.not_asked.append(
            "deepspeed.initialize was not checked, because this version of torch cannot simulate "
            "other ranks"
        )
    answer.not_asked.append("DeepSpeed's GPU kernels were not checked, because they need a GPU")
    answered: list[dict[str, Any]] = []

    def refused(leaves: Sequence[Leaf]) -> list[asking.ProgramRefusal]:
        answered.append(
            asking.in_another_process(
                lambda: _refusals(
                    _with_types(with_leaves(leaves), config), order.world_size, engine
                )
            )
        )
        return [asking.ProgramRefusal(*refusal) for refusal in answered[-1]["refusals"]]

    problems = asking.problems_of(leaves_of(config), refused, dotted, last=_SELECTORS)
    answer.problems = list(problems)
    if order.has_gpus:
        answer.problems += _architecture_refusals()
    answer.not_asked += sorted({line for reply in answered for line in reply["not_asked"]})
    return answer


def _with_types(some: dict[str, Any], whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without the sections that lost their key `type`.

    whole: the original configuration. some: the same configuration after keys were removed.

    The search for the cause of a refusal removes keys one by one. If a section, e.g. the
    optimizer, loses its `type`, DeepSpeed refuses the section for a new reason, which would
    hide the cause. So the whole section is removed.
    """

    def is_kept(key: str, section: Any) -> bool:
        given = whole.get(key)
        had_type = isinstance(given, Mapping) and "type" in given
        return not had_type or (isinstance(section, Mapping) and "type" in section)

    return {key: section for key, section in some.items() if is_kept(key, section)}


def load() -> None:
    """Import torch and DeepSpeed for the CPU, and modules that DeepSpeed itself imports only later.

    Raises ImportError if this Python lacks torch or DeepSpeed.
    """
    os.environ.update(CUDA_VISIBLE_DEVICES="", DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1")
    import torch

    torch.set_num_threads(1)
    import_module("deepspeed")
    for module in _LOADED_LATE:
        with suppress(Exception):
            import_module(module)


def be_a_rank(order: asking.ProgramOrder) -> None:
    """Make this process rank 0 of a process group with the run's world size; other ranks are fake.

    If torch is too old for fake ranks, no process group is made. Raises CannotAskError if this
    Python has no torch or DeepSpeed.
    """
    os.environ.update(
        RANK="0",
        LOCAL_RANK="0",
        WORLD_SIZE=str(order.world_size),
        LOCAL_WORLD_SIZE=str(order.gpus_per_node),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT="29500",
    )
    try:
        load()
    except ImportError as error:
        raise asking.CannotAskError(
            f"{sys.executable} cannot import the packages of the program: {asking.words(error)}"
        ) from error
    _make_fake_ranks(order.world_size)
    _replace_kernels()
    if _has_fake_ranks():
        import_module("deepspeed").init_distributed(auto_mpi_discovery=False)


def deepspeed_settings(path: str) -> dict[str, Any]:
    """Return the DeepSpeed configuration in a JSON file.

    Raises CannotAskError if the file cannot be read as a JSON object.
    """
    try:
        return dict(json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise asking.CannotAskError(f"{path}: cannot be read as JSON: {error}") from error


def _make_fake_ranks(world_size: int) -> None:
    import torch.distributed

    try:
        from torch.testing._internal.distributed.fake_pg import FakeStore
    except ImportError:
        return
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group(
            "fake", rank=0, world_size=world_size, store=FakeStore()
        )


def _has_fake_ranks() -> bool:
    import torch.distributed

    return bool(torch.distributed.is_initialized())


class _Kernels:
    """Replaces a compiled extension of DeepSpeed; its functions compute nothing.

    A function that does not belong to an optimizer raises _NeedsGpuError if it is called.
    """

    def __init__(self, builder: str) -> None:
        self._builder = builder

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def kernel(*values: Any, **named: Any) -> None:
            if not re.search(
                "adam|lion|lamb|adagrad|undefined", f"{self._builder} {name}", re.IGNORECASE
            ):
                raise _NeedsGpuError(f"{name} of {self._builder}")

        return kernel


def _replace_kernels() -> None:
    """Replace DeepSpeed's compiled extensions by functions that compute nothing.

    Also make DeepSpeed accept fp16 and bf16 on this machine. The run itself uses GPUs, and
    `teralog plan` checks whether these GPUs support fp16 and bf16.
    """
    from deepspeed.ops.op_builder import builder

    builder.OpBuilder.load = lambda self, verbose=True: _Kernels(type(self).__name__)
    builder.OpBuilder.jit_load = builder.OpBuilder.load
    # The CPU's own communication; the run communicates between GPUs instead.
    with suppress(ImportError):
        communication: Any = import_module("deepspeed.comm.torch")
        communication.build_shm_op = lambda: None
    from deepspeed.accelerator import get_accelerator

    kind = type(get_accelerator())
    # `teralog plan` reports whether the run's GPUs have these types.
    kind.is_fp16_supported = lambda self: True
    kind.is_bf16_supported = lambda self: True


def _architecture_refusals() -> Iterator[asking.ProgramRefusal]:
    """Yield a refusal if DeepSpeed cannot read the variable TORCH_CUDA_ARCH_LIST.

    The variable names the architectures of GPUs for which kernels are compiled. torch accepts e.g.
    `9.0a`, but DeepSpeed 0.19 stops with a ValueError when it compiles its first kernel. Without
    the variable, DeepSpeed looks for GPUs instead; this cannot be checked without a GPU.
    """
    from deepspeed.ops.op_builder.fused_adam import FusedAdamBuilder

    given = os.environ.get(_ARCHITECTURES, "")
    if not given.strip():
        return
    builder = FusedAdamBuilder()
    builder.jit_mode = True
    try:
        builder.compute_capability_args()
    except ValueError as error:
        yield asking.ProgramRefusal(
            f"DeepSpeed cannot read {given!r}: {asking.words(error)}; write only numbers, e.g. "
            f"{_ARCHITECTURES}=9.0",
            _ARCHITECTURES,
        )
    except Exception:  # noqa: BLE001  (older versions ignore the variable, and look for GPUs)
        return


def _refusals(config: dict[str, Any], world_size: int, engine: bool) -> dict[str, Any]:
    """Return what DeepSpeed refuses in a configuration: a JSON object with two keys.

    refusals: for each refusal, its message and the refused key. not_asked: what could not be
    checked on this machine, and why.

    If the argument `engine` is true, also makes DeepSpeed's engine and takes one step.
    """
    refused: list[asking.ProgramRefusal] = []
    not_asked: list[str] = []
    try:
        _parse(config, world_size)
        _find_monitors(config)
        if engine:
            _take_a_step(_for_the_engine(config))
    except _NeedsGpuError as error:
        not_asked.append(f"the kernel {error} was not checked, because it needs a GPU")
    except BaseException as error:  # noqa: BLE001  (DeepSpeed raises anything)
        refused = list(_refusals_in(error, config))
        if not refused:
            reason = asking.words(error)
            not_asked.append(
                f"some checks of DeepSpeed were not made, because they fail without a GPU: {reason}"
            )
    return {
        "refusals": [(refusal.message, refusal.argument) for refusal in refused],
        "not_asked": not_asked,
    }


def _refusals_in(
    error: BaseException, config: Mapping[str, Any]
) -> Iterator[asking.ProgramRefusal]:
    """Yield the refusals that an exception of DeepSpeed states about a configuration.

    Yields nothing if the exception is about this machine, e.g. because it has no GPU.
    """
    details = getattr(error, "errors", None)
    if callable(details) and hasattr(error, "title"):  # pydantic's ValidationError
        for detail in details():
            where = _place(tuple(map(str, detail["loc"])), str(error.title), config)
            given = "" if where is None else f" (got {detail['input']!r})"
            yield asking.ProgramRefusal(f"{error.title}: {detail['msg']}{given}", where)
        return
    message = asking.words(error)
    of_the_config = any(asking.names_argument(dotted(leaf), message) for leaf in leaves_of(config))
    if isinstance(error, MemoryError) or (_OF_THE_MACHINE.search(message) and not of_the_config):
        return
    if isinstance(error, TypeError | KeyError | AttributeError | SystemExit):
        message = f"{type(error).__name__}: {message}"
    yield asking.ProgramRefusal(message)


def _place(where: tuple[str, ...], title: str, config: Mapping[str, Any]) -> str | None:
    """Return the dotted path of the key about which pydantic raised an error; None if unknown.

    where: the path of the key within its section, as pydantic reports it. title: the name of
    the class that describes the section, e.g. DeepSpeedZeroConfig. The class's name contains
    words of the section's name, and so shows which section is meant.
    """
    paths = [path for path, _ in leaves_of(config)]
    candidates = [
        path
        for path in paths
        if any(path[at : at + len(where)] == where for at in range(len(path)))
        or path[-1] == where[-1]
    ]
    if not candidates:
        return None

    def alike(path: Any) -> int:
        words = "".join(path[:-1]).replace("_", "").lower()
        return sum(part in words for part in re.findall("[A-Z][a-z0-9]+", title.lower().title()))

    exact = [path for path in candidates if path[-len(where) :] == where]
    return ".".join(max(exact or candidates, key=alike))


def _parse(config: dict[str, Any], world_size: int) -> None:
    from deepspeed.runtime.config import DeepSpeedConfig

    taken = copy.deepcopy(config)
    if _has_fake_ranks():
        DeepSpeedConfig(taken)
        return

    class Unit:
        """The object from which DeepSpeed reads the data-parallel and model-parallel sizes."""

        get_data_parallel_world_size = staticmethod(lambda: world_size)
        get_model_parallel_world_size = staticmethod(lambda: 1)

    DeepSpeedConfig(taken, Unit())


def _find_monitors(config: Mapping[str, Any]) -> None:
    """Raise RuntimeError if an enabled monitor, e.g. wandb, needs a package that is missing."""
    from deepspeed.monitor import utils

    for section, name in _MONITORS.items():
        given, check = config.get(section), getattr(utils, f"check_{name}_availability", None)
        if check is not None and isinstance(given, Mapping) and given.get("enabled") is True:
            try:
                check()
            except ImportError as error:
                raise RuntimeError(f"{section}.enabled: {asking.words(error)}") from error


def _for_the_engine(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without the sections that a small model on the CPU cannot check.

    Examples are sections that depend on the user's model or data. Offloading to NVMe is replaced by
    offloading to the CPU.
    """
    taken = {key: value for key, value in config.items() if key not in _NOT_FOR_THE_ENGINE}
    taken = copy.deepcopy(taken)
    zero = taken.get("zero_optimization")
    for part in _OFFLOADED:
        section = zero.get(part) if isinstance(zero, dict) else None
        if isinstance(section, dict) and section.get("device") == "nvme":
            section["device"] = "cpu"
    return taken


def _not_asked(config: Mapping[str, Any]) -> Iterator[str]:
    for section, why in _NOT_FOR_THE_ENGINE.items():
        if section in config:
            yield (
                f"the values in the DeepSpeed section `{section}` were not checked, but only its "
                f"keys, because the section {why}"
            )
    leaves = {dotted(leaf): leaf[1] for leaf in leaves_of(config)}
    for part in _OFFLOADED:
        if leaves.get(_NVME.format(part)) == "nvme":
            yield f"`{part}`: the device nvme was not checked; the device cpu was checked instead"


def _take_a_step(config: dict[str, Any]) -> None:
    """Make DeepSpeed's engine for a small model, and take one step of the engine's optimizer."""
    import deepspeed
    import torch

    layers = (torch.nn.Linear(_WIDTH, _WIDTH), torch.nn.Linear(_WIDTH, _WIDTH))
    model = torch.nn.Sequential(*layers)
    own = {} if "optimizer" in config else {"optimizer": _optimizer(model, config)}
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config, **own
    )
    engine.set_gradient_accumulation_boundary(is_boundary=True)
    dtype = next(engine.module.parameters()).dtype
    output = engine(torch.ones(1, _WIDTH, dtype=dtype))
    # The loss is small, so that no loss scale makes it overflow: DeepSpeed would skip the step.
    engine.backward(output.float().sum() * 1e-6)
    engine.step()


def _optimizer(model: Any, config: Mapping[str, Any]) -> Any:
    """Return an optimizer for a model whose DeepSpeed configuration has no section `optimizer`.

    In this case, programs usually make AdamW of torch, or DeepSpeedCPUAdam if the configuration
    offloads the optimizer. This function does the same.
    """
    import torch

    zero = config.get("zero_optimization")
    if isinstance(zero, dict) and zero.get("offload_optimizer"):
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        return DeepSpeedCPUAdam(model.parameters(), lr=1e-4)
    return torch.optim.AdamW(model.parameters(), lr=1e-4)


def leaves_of(config: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[Leaf]:
    """Return the leaves of a configuration: each key that contains no other keys, with its value.

    A leaf is a pair: the path of the key, and its value.
    """
    leaves: list[Leaf] = []
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            leaves += leaves_of(value, (*path, str(key)))
        else:
            leaves.append(((*path, str(key)), value))
    return leaves


def with_leaves(leaves: Sequence[Leaf]) -> dict[str, Any]:
    """Return the configuration that consists of these leaves.

    leaves: pairs of a key's path and its value, in the form of `leaves_of`.
    """
    config: dict[str, Any] = {}
    for path, value in leaves:
        section = config
        for key in path[:-1]:
            section = section.setdefault(key, {})
        section[path[-1]] = value
    return config


def dotted(leaf: Leaf) -> str:
    """Return the path of a leaf (a path and a value) with dots, e.g. `zero_optimization.stage`."""
    return ".".join(leaf[0])


if __name__ == "__main__":
    asking.answer_orders(_ask, lambda _: load())
