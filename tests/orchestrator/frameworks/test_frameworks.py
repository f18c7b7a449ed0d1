"""Rules that every framework in the table `FRAMEWORKS` must follow.

A framework that is added to the table is tested without a change of this module.
"""

import ast
import dataclasses
import functools
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from fixture_types import RunOf
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from orchestrator.common.errors import UserError
from orchestrator.common.validation import field_problems, field_types
from orchestrator.frameworks.arguments import known_program
from orchestrator.frameworks.base import Framework
from orchestrator.frameworks.launchers import LAUNCHERS
from orchestrator.frameworks.table import FRAMEWORKS, framework
from orchestrator.run.model import sizes
from parsers.records import RunTotals
from parsers.scan.reader import TableFormat, read_records
from parsers.steps.merge import merged_steps

ROOT = Path(__file__).parents[3]
LOGS = ROOT / "tests" / "data" / "logs"
# Files outside of frameworks/ that contain a framework's name, and why they do.
MAY_NAME_A_FRAMEWORK = {
    "campaign/parameters.py": "`deepspeed` is a parameter of several frameworks, too",
    "campaign/starter.py": "the first campaign of a new user names a framework",
    "markdown/meaning/columns.py": "a word in column titles of tables that people wrote",
    "model/convention_names.py": "ways to count FLOPs have the names of the programs that count so",
    "model/megatron_arguments.py": "a Python module of Megatron is an argument",
}

every_framework = pytest.mark.parametrize("entry", FRAMEWORKS.values(), ids=FRAMEWORKS)


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Generate values that fit the JSON schema of an option."""
    if "anyOf" in schema:  # None is also possible, by leaving the option out
        return fitting(next(choice for choice in schema["anyOf"] if choice != {"type": "null"}))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "boolean":
            return st.booleans()
        case "integer":
            least = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
            most = schema.get("maximum", schema.get("exclusiveMaximum", least + 4) - 1)
            return st.integers(least, most)
        case "number":
            low = schema.get("minimum", schema.get("exclusiveMinimum", 0.0))
            high = schema.get("maximum", schema.get("exclusiveMaximum", low + 1.0))
            return st.sampled_from([low + part * (high - low) for part in (0.25, 0.5)])
        # Numbers among arguments have become text before a run is created.
        case "string" | ["string", "number"]:
            return st.sampled_from(schema.get("examples", ["train.py", "two words", "--flag"]))
        case "array":
            return st.lists(fitting(schema["items"]), max_size=2)
        case "object":
            words = st.sampled_from(["fp16", "zero_optimization", "stage", "enabled"])
            return st.dictionaries(words, st.booleans() | st.dictionaries(words, st.integers(0, 3)))
    raise NotImplementedError(schema)


@functools.cache
def options(framework_name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Generate values for options of a framework; its required options are always included."""
    entry = FRAMEWORKS[framework_name]
    needed, free = {}, {}
    for field in dataclasses.fields(entry.options):
        values = fitting(TypeAdapter(field_types(entry.options)[field.name]).json_schema())
        required = field.default is dataclasses.MISSING
        required &= field.default_factory is dataclasses.MISSING
        (needed if required else free)[field.name] = values
    return st.fixed_dictionaries(needed, optional=free)


common = st.fixed_dictionaries(
    {},
    optional={
        "precision": st.sampled_from(["fp32", "bf16", "fp16"]),
        "gpus_per_node": st.integers(1, 4),
        "tensor_parallel_size": st.integers(1, 4),
        "pipeline_parallel_size": st.integers(1, 3),
        "context_parallel_size": st.integers(1, 2),
        "num_layers": st.integers(1, 4),
        "hidden_size": st.sampled_from([8, 60]),
        "num_microbatches": st.integers(1, 3),
        "activation_checkpointing": st.booleans(),
    },
)


@st.composite
def choices(draw: st.DrawFn) -> dict[str, Any]:
    """Generate parameters of a run of any framework, as a campaign file may give them."""
    name = draw(st.sampled_from([*FRAMEWORKS]))
    return {"framework": name, **draw(common), **draw(options(name))}


@every_framework
def test_a_framework_is_found_by_its_name(entry: Framework):
    """The key in the table of frameworks is the name in the campaign file."""
    assert FRAMEWORKS[entry.name] is entry
    assert framework(entry.name) is entry


def test_an_unknown_framework_is_refused_with_the_nearest_name():
    """The message about an unknown framework names the nearest one, or all if no name is near."""
    with pytest.raises(UserError, match="there is no framework 'deepsped'; did you mean 'deepspee"):
        framework("deepsped")
    with pytest.raises(
        UserError,
        match=r"there is no framework 'x'; choose one of "
        ".*deepspeed.*gpt",
    ):
        framework("x")


@every_framework
def test_options_are_frozen_and_each_is_described(entry: Framework):
    """The options of a framework are fields of a frozen dataclass.

    Each option has a type and a description.
    """
    assert entry.options.__dataclass_params__.frozen
    for name, annotation in field_types(entry.options).items():
        schema = TypeAdapter(annotation).json_schema()
        assert schema["description"].endswith("."), name


@every_framework
def test_an_option_left_out_has_a_value_that_fits(entry: Framework):
    """The default of an option is a valid value, or None if the option is absent by default."""
    for field in dataclasses.fields(entry.options):
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if default is not dataclasses.MISSING and default is not None:
            assert not list(field_problems(field.name, entry.options, field.name, default))


@every_framework
def test_description_is_one_line(entry: Framework):
    """The description of a framework is one line, because a table in the docs shows it."""
    assert entry.description == entry.description.strip(" .")
    assert entry.description.isprintable()
    assert "|" not in entry.description


@every_framework
def test_options_that_label_a_run_are_options(entry: Framework):
    """Each option in a framework's `labelled_by` is one of the framework's own options.

    A run's label shows the values of these options without the options' names.
    """
    assert set(entry.labelled_by) <= set(field_types(entry.options))


@every_framework
def test_the_template_ships_with_the_package(entry: Framework):
    """The template of every framework's script ships with the package."""
    assert (files("slurm_templates") / entry.start.template).is_file()


@every_framework
def test_a_log_can_be_read(entry: Framework):
    """Each log format has anchors, and accepts any line without an exception."""
    assert entry.log.formats
    for log_format in entry.log.formats:
        assert log_format.anchors
        for anchor in log_format.anchors:
            assert b"\n" not in anchor
            if isinstance(log_format, TableFormat):
                continue
            assert list(log_format.parse(0, f"x {anchor.decode()} \x00 nan")) == []


@every_framework
def test_a_sample_log_shows_how_fast_the_run_was(entry: Framework):
    """In a framework's sample log, every step has its seconds or its samples per second.

    A log with fewer than three steps must contain the samples per second of the whole run.
    """
    log = LOGS / f"{entry.name}.log"
    records = list(read_records(log, entry.log.formats, complete=True))
    steps = merged_steps(records).steps()
    assert all(step.step_seconds or step.samples_per_second for step in steps)
    assert len(steps) > 2 or any(
        total.samples_per_second for total in records if isinstance(total, RunTotals)
    )


@every_framework
def test_columns_have_titles_and_names_of_their_own(entry: Framework):
    """No two columns of a framework's report have the same title or the same name."""
    assert len({column.title for column in entry.report.chosen}) == len(entry.report.chosen)
    assert len({column.name for column in entry.report.chosen}) == len(entry.report.chosen)
    assert all(column.title and column.name.isidentifier() for column in entry.report.chosen)


@every_framework
def test_the_vocabulary_is_padded_to_a_multiple_of_one_or_more(entry: Framework):
    """A framework pads the vocabulary to a multiple of a number that is at least 1.

    With 1, there is no padding.
    """
    assert entry.model.vocab_size_multiple >= 1


@given(choices())
def test_problems_are_sentences(run_of: RunOf, values: dict[str, Any]):
    """For any options, each problem is one line, and no line is repeated."""
    run = run_of(**values)
    problems = list(FRAMEWORKS[run.framework].checks.problems(run))
    assert all(problem == problem.strip() and problem.isprintable() for problem in problems)
    assert all(" " in problem for problem in problems)
    assert len(set(problems)) == len(problems)


@given(choices())
def test_warnings_are_sentences_too(run_of: RunOf, values: dict[str, Any]):
    """For any options, each warning is one line, and no line is repeated."""
    run = run_of(**values)
    warnings = list(FRAMEWORKS[run.framework].checks.warnings(run))
    assert all(" " in warning and warning.isprintable() for warning in warnings)
    assert len(set(warnings)) == len(warnings)


@every_framework
def test_the_options_that_are_paths_are_options(entry: Framework):
    """Each name in a framework's `start.paths` is the name of one of its options.

    The values of these options are paths. Each file that a run opens has one of them as the
    beginning of its path.
    """
    names = field_types(entry.options)
    assert set(entry.start.paths) <= set(names)
    for path in entry.start.files({name: f"/{name}" for name in entry.start.paths}):
        assert path.startswith(tuple(f"/{name}" for name in entry.start.paths))


@given(choices())
def test_launcher_is_in_the_table(run_of: RunOf, values: dict[str, Any]):
    """The launcher of any run is in the table `LAUNCHERS`.

    The campaign file chooses the launcher, or the framework has only one.
    """
    assert run_of(**values).options.launcher in LAUNCHERS


@given(choices())
def test_a_program_s_options_are_recorded(run_of: RunOf, values: dict[str, Any]):
    """Every framework has a record of its program's options, except for users' own scripts."""
    run = run_of(**values)
    program = FRAMEWORKS[run.framework].start.program(run)
    assert program is None or known_program(program)["options"]


@given(choices())
def test_configuration_files_are_json(run_of: RunOf, values: dict[str, Any]):
    """The name of a run's configuration file has no folder, and its content is valid JSON."""
    run = run_of(**values)
    for name, content in FRAMEWORKS[run.framework].start.config_files(run).items():
        assert "/" not in name
        assert json.loads(json.dumps(content, allow_nan=False)) == content


@given(choices())
def test_cells_are_text_or_numbers(run_of: RunOf, values: dict[str, Any]):
    """A cell of a framework's report is text, a number or None, never a list or a mapping."""
    run = run_of(**values)
    for column in FRAMEWORKS[run.framework].report.chosen:
        cell = column.value(run)
        assert cell is None or isinstance(cell, str | int | float)


@given(choices())
def test_every_option_is_among_the_sizes_of_a_run(run_of: RunOf, values: dict[str, Any]):
    """`sizes` returns the sizes of a run, together with all options of its framework.

    These values can be used in `exclude` rules, and are in run.json and `plan --json`.
    """
    run = run_of(**values)
    named = sizes(run)
    for name, value in dataclasses.asdict(run.options).items():
        assert named[name] == value == values.get(name, value)


@pytest.mark.parametrize("name", ["gpt", "hf_deepspeed", "colossalai_gpt", "oneflow_gpt"])
def test_the_message_names_what_the_program_cannot_split(run_of: RunOf, name: str) -> None:
    """A message names what a program cannot split over ranks: sequences or layers."""
    given = {"framework": name, "gpus_per_node": 2}
    if name in {"colossalai_gpt", "oneflow_gpt"}:
        given["source"] = "s"
    if name == "oneflow_gpt":
        given["dataset"] = "d"
    for option, what in (
        ("context_parallel_size", "sequences: context_parallel_size=2 must be 1"),
        (
            "tensor_parallel_size",
            "layers: tensor_parallel_size=2 and pipeline_parallel_size=1 must both be 1",
        ),
    ):
        run = run_of(**given, **{option: 2})
        problems = [
            problem
            for problem in FRAMEWORKS[name].checks.problems(run)
            if " cannot split " in problem
        ]
        assert problems == [f"framework {name} cannot split {what}"]


def strings(path: Path) -> list[str]:
    """Return the string literals of a module, except its docstrings."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
    ]


def test_only_the_package_of_frameworks_names_them() -> None:
    """Code outside orchestrator/frameworks/ contains no framework's name, with listed exceptions.

    So a new framework needs no change there. The programs in workloads/ are not checked: they name
    Python packages.
    """
    name = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, FRAMEWORKS))})(?![\w-])")
    package = ROOT / "orchestrator"
    paths = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    naming = {
        path
        for path, file in paths.items()
        if not path.startswith(("frameworks/", "workloads/"))
        and any(map(name.search, strings(file)))
    }
    assert naming == set(MAY_NAME_A_FRAMEWORK)
