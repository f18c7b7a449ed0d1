"""Record the command line options that installed programs accept, for `make record`.

The options of the project's own programs, and of transformers' TrainingArguments, are read from
their parsers. The options that run_clm.py of transformers' examples adds are in no package, so they
are listed here, as in run_clm.py of transformers 4.57. For programs that are not installed,
record_options_of_source.py reads the source.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any

from orchestrator.workloads import gpt, hf_gpt

RECORDS = Path(__file__).parent.parent / "orchestrator" / "frameworks" / "known_options"
REPOSITORY = "https://github.com/huggingface/transformers"
RUN_CLM = "examples/pytorch/language-modeling/run_clm.py"
# Name to type, of ModelArguments and DataTrainingArguments; a bool is a flag, as in the others.
RUN_CLM_OPTIONS: dict[str, type] = {
    "model_name_or_path": str,
    "model_type": str,
    "config_overrides": str,
    "config_name": str,
    "tokenizer_name": str,
    "cache_dir": str,
    "use_fast_tokenizer": bool,
    "model_revision": str,
    "token": str,
    "trust_remote_code": bool,
    "dtype": str,
    "dataset_name": str,
    "dataset_config_name": str,
    "train_file": str,
    "validation_file": str,
    "max_train_samples": int,
    "max_eval_samples": int,
    "streaming": bool,
    "block_size": int,
    "overwrite_cache": bool,
    "validation_split_percentage": int,
    "preprocessing_num_workers": int,
    "keep_linebreaks": bool,
}
_TYPES: Mapping[Any, str] = {int: "int", float: "float"}


def options(parser: argparse.ArgumentParser) -> dict[str, dict[str, Any]]:
    """Return the options that an argument parser accepts, in the form of a record of options."""
    return {
        option: dict(_takes(action))
        for action in parser._actions  # noqa: SLF001  (argparse has no public way to ask)
        if not isinstance(action, argparse._HelpAction)  # noqa: SLF001
        for option in action.option_strings
    }


def _takes(action: argparse.Action) -> dict[str, Any]:
    takes: dict[str, Any] = {}
    if action.nargs is not None:
        takes["values"] = action.nargs
    # A type function that also checks, such as `positive`, converts to an integer.
    converts = int if getattr(action.type, "__name__", "") == "positive" else action.type
    if converts in _TYPES:
        takes["type"] = _TYPES[converts]
    if action.choices is not None and action.nargs != "?":
        takes["choices"] = [getattr(choice, "value", choice) for choice in action.choices]
    # If an option has several spellings, the user may give any of them.
    if action.required and len(action.option_strings) == 1:
        takes["required"] = True
    return takes


def own(program: str, parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Return the record of options of a program in `orchestrator/workloads`."""
    return {
        "program": f"{program} of teralog",
        "source": f"orchestrator/workloads/{program}",
        "options": options(parser),
    }


def run_clm() -> dict[str, Any]:
    """Return the record of options of run_clm.py.

    The options of TrainingArguments are those of the installed version of transformers.
    """
    from transformers import HfArgumentParser, TrainingArguments, __version__

    added = make_dataclass(
        "RunClmArguments",
        [(name, kind, field(default=None)) for name, kind in RUN_CLM_OPTIONS.items()],
    )
    return {
        "program": f"run_clm.py of transformers 4.57, with transformers {__version__}",
        "source": f"{REPOSITORY}/blob/main/{RUN_CLM}",
        "options": options(HfArgumentParser((added, TrainingArguments))),
    }


PROGRAMS: dict[str, Callable[[], dict[str, Any]]] = {
    "gpt": lambda: own("gpt.py", gpt.gpt_parser()),
    "hf-gpt": lambda: own("hf_gpt.py", hf_gpt.hf_gpt_parser()),
    "hf-run-clm": run_clm,
}


def main() -> None:
    """Rewrite the records of options."""
    for name, record in PROGRAMS.items():
        path = RECORDS / f"{name}.json"
        path.write_text(json.dumps(record(), indent=1) + "\n", encoding="utf-8")
        print(f"wrote {path.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
