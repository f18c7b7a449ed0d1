"""Expressions of `exclude`: they mean the same as in Python, and cannot run code."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.common.errors import UserError
from orchestrator.common.expressions import MAX_LENGTH, compile_expression

VALUES: dict[str, Any] = {
    "world_size": 8,
    "micro_batch_size": 3,
    "learning_rate": 0.5,
    "strategy": "ddp",
    "precision": "bf16",
    "offload": None,
    "script_args": ["--fast"],
    "activation_checkpointing": True,
}

HOLDS = {
    "world_size == 8": True,
    "world_size != 8": False,
    "world_size > 8": False,
    "world_size >= 8": True,
    "world_size<9": True,
    "  world_size <= 7  ": False,
    "3 < world_size <= 8": True,
    "3 < world_size < 8": False,
    "strategy == 'ddp'": True,
    'strategy in ["zero1", "ddp"]': True,
    'strategy in ("zero1", "zero2")': False,
    'strategy in {"ddp"}': True,
    'strategy not in ["ddp"]': False,
    '"--fast" in script_args': True,
    "strategy == 'ddp' and precision == 'bf16'": True,
    "strategy == 'zero1' or precision == 'bf16'": True,
    "not strategy == 'ddp'": False,
    "activation_checkpointing": True,
    "not activation_checkpointing": False,
    "activation_checkpointing == True": True,
    "world_size % micro_batch_size != 0": True,
    "world_size // micro_batch_size == 2": True,
    "world_size / micro_batch_size > 2.6": True,
    "world_size * micro_batch_size - 4 + 1 == 21": True,
    "-world_size == -8": True,
    "learning_rate == 5e-1": True,
    "world_size == 8.0": True,
    "world_size": True,
    "0": False,
}


@pytest.mark.parametrize("text", HOLDS)
def test_an_expression_has_its_python_meaning(text: str):
    """Comparisons, arithmetic, membership and logic have the meaning that they have in Python."""
    assert compile_expression(text, VALUES)(VALUES) is HOLDS[text]


ABSENT = {
    "offload == None": True,
    "offload != 'cpu'": True,
    "offload > 1": False,
    "offload <= 1": False,
    "not offload > 1": True,
    "offload + 1 > 0": False,
    "-offload < 0": False,
    "offload in ['cpu', None]": True,
    "micro_batch_size / offload == None": True,
    "not offload": True,
}


@pytest.mark.parametrize("text", ABSENT)
def test_an_absent_value_is_neither_large_nor_small(text: str):
    """For ==, != and `in`, a value that a run does not have is None.

    Any other comparison with it, e.g. with > or <=, is false.
    """
    assert compile_expression(text, VALUES)(VALUES) is ABSENT[text]


REFUSED = {
    "": "is not an expression",
    "world_size >": "is not an expression",
    "world_size = 8": "; compare values with ==",
    "world_size > 8; 1": "is not an expression",
    "strategy == ddp": "there is no parameter 'ddp'",
    "wrld_size > 8": "did you mean 'world_size'?",
    "activation_checkpointing == true": "there is no parameter 'true'",
    "__builtins__": "there is no parameter '__builtins__'",
    "exit()": "is not allowed",
    "__import__('os').system('true')": "is not allowed",
    "strategy.upper() == 'DDP'": "is not allowed",
    "strategy.__class__": "is not allowed",
    "().__class__.__bases__": "is not allowed",
    "script_args[0]": "is not allowed",
    "world_size ** 9": "is not allowed",
    "world_size << 9": "is not allowed",
    "~world_size": "is not allowed",
    "+world_size": "is not allowed",
    "lambda: 1": "is not allowed",
    "[x for x in script_args]": "is not allowed",
    "(world_size := 9)": "is not allowed",
    "f'{strategy}'": "is not allowed",
    "{strategy: 1}": "is not allowed",
    "[*script_args]": "is not allowed",
    "1 if world_size else 0": "is not allowed",
    "b'ddp' == strategy": "is not allowed",
    "1j == 1": "is not allowed",
    "...": "is not allowed",
    "strategy is None": "can compare only with == != < <= > >= in and not in",
    "strategy is not None": "can compare only with == != < <= > >= in and not in",
    "world_size > 1\0": "is not an expression",
    "(" * 300 + "1" + ")" * 300: "is not an expression",
    "1" * (MAX_LENGTH + 1): f"the maximum is {MAX_LENGTH} characters",
}


@pytest.mark.parametrize(("text", "says"), REFUSED.items(), ids=[*map(repr, range(len(REFUSED)))])
def test_an_invalid_expression_is_refused_before_any_run_is_made(text: str, says: str):
    """An invalid expression is refused when it is compiled, before teralog uses it on a run.

    Calls, attributes, subscripts and powers count as invalid, so an expression cannot run code.
    """
    with pytest.raises(UserError) as caught:
        compile_expression(text, VALUES)
    assert says in str(caught.value)


UNFIT = {
    "world_size > 'a'": "mixes numbers and texts",
    "strategy * 1000000000 == 'ddp'": "mixes numbers and texts",
    "script_args + script_args == []": "mixes numbers and texts",
    "world_size in 8": "mixes numbers and texts",
    "'dd' in strategy": "mixes numbers and texts",
    "-strategy == 1": "mixes numbers and texts",
    "world_size / 0 > 1": "divides by zero",
    "world_size // 0 > 1": "divides by zero",
    "world_size % 0 == 1": "divides by zero",
    "world_size / (micro_batch_size - 3) > 1": "divides by zero",
    f"{'9' * 400} * 1.5 > 1": "too large",
    f"{'9' * 400} / 3 > 1": "too large",
}


@pytest.mark.parametrize(("text", "says"), UNFIT.items(), ids=[*map(repr, range(len(UNFIT)))])
def test_values_that_do_not_fit_are_a_mistake_of_the_users(text: str, says: str):
    """The message about a value of the wrong type contains the expression."""
    with pytest.raises(UserError) as caught:
        compile_expression(text, VALUES)(VALUES)
    assert says in str(caught.value)
    assert repr(text) in str(caught.value)


def test_a_name_without_a_value_is_absent():
    """A parameter that a run does not have counts as absent, so it equals no number.

    E.g. a run of a framework without ZeRO has no `zero_stage`.
    """
    assert compile_expression("zero_stage == 3", ["zero_stage"])({}) is False


WORDS = (
    "world_size strategy offload script_args 1 0 2.5 1e300 'a' None True ( ) [ ] , + - * / // % ** "
    "== != < <= > >= in not and or . : = lambda if else is __class__ { } ' \" \\ \n"
)
scraps = st.lists(st.sampled_from(WORDS.split(" ")), max_size=25).map(" ".join)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@given(st.text(max_size=60) | scraps, st.fixed_dictionaries(dict.fromkeys(VALUES, anything)))
def test_any_text_is_true_or_false_or_a_users_mistake(text: str, values: dict[str, Any]):
    """Any text with any values gives true, false or a message, never a traceback."""
    try:
        held = compile_expression(text, VALUES)(values)
    except UserError:
        return
    assert isinstance(held, bool)


@pytest.mark.parametrize("depth", [10, 100, 400, 900])
@pytest.mark.parametrize("repeated", ["-", "not ", "(", "[", "1 + ", "1 and ", "1 < "])
def test_deep_nesting_does_not_crash(repeated: str, depth: int):
    """An expression that is too deep for Python gets a message, not a crash."""
    text = (repeated * depth)[: MAX_LENGTH - 1] + "1"
    with contextlib.suppress(UserError):
        compile_expression(text, ())({})


def joined(operators: str) -> st.SearchStrategy[str]:
    """Generate one of these operators, with a space on each side.

    operators: the operators in one text, separated by spaces.
    """
    return st.sampled_from([f" {operator} " for operator in operators.split()])


def grouped(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Generate the parts of an expression as one text, with or without parentheses around it.

    Without parentheses, the result depends on the precedence of the operators.
    """
    return st.builds(
        lambda texts, bare: "".join(texts) if bare else f"({''.join(texts)})",
        st.tuples(*parts),
        st.booleans(),
    )


numbers = st.recursive(
    st.sampled_from(["a", "b", "c"]) | st.integers(0, 99).map(str),
    lambda inner: (
        grouped(inner, joined("+ - * / // %"), inner) | inner.map(lambda operand: f"(-{operand})")
    ),
    max_leaves=6,
)
comparison = joined("== != < <= > >=")
comparisons = grouped(numbers, comparison, numbers) | grouped(
    numbers, comparison, numbers, comparison, numbers
)
conditions = st.recursive(
    comparisons,
    lambda inner: grouped(inner, joined("and or"), inner) | inner.map(lambda c: f"(not {c})"),
    max_leaves=4,
)


@given(conditions, st.fixed_dictionaries(dict.fromkeys("abc", st.integers(-20, 20))))
def test_arithmetic_and_comparisons_agree_with_python(text: str, values: dict[str, int]):
    """An expression gives the same result as Python's `eval`.

    This covers precedence, chained comparisons, and the signs of remainders.
    """
    try:
        expected = bool(eval(text, {"__builtins__": {}}, dict(values)))
    except ZeroDivisionError:
        with pytest.raises(UserError, match="divides by zero"):
            compile_expression(text, values)(values)
    else:
        assert compile_expression(text, values)(values) is expected
