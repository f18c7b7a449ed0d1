"""What a program accepts is read off its argument parser's source, without running it."""

import pytest
from record_options_of_source import options

PARSER = """
def _add(parser, group):
    group.add_argument("--num-layers", type=int, default=None, help="Layers.")
    group.add_argument('--lr', type=float, required=True)
    group.add_argument('--fp16', action='store_true')
    group.add_argument('--no-fusion', action='store_false', dest='fusion')
    group.add_argument('--data-path', nargs='*', default=None)
    group.add_argument('--topk', nargs='+', type=int, default=[])
    group.add_argument('--level', type=int, choices=range(0, 3))
    group.add_argument('--style', type=str, choices=['a', 'b', None])
    group.add_argument('--backend', type=lambda name: Backend[name], choices=list(Backend))
    group.add_argument('--save-interval', '--persistent-save-interval', type=int)
    group.add_argument('--reset', action=argparse.BooleanOptionalAction, type=bool)
    group.add_argument('prompt')
"""

ACCEPTED = {
    "a number": ("--num-layers", {"type": "int"}),
    "what is needed": ("--lr", {"type": "float", "required": True}),
    "a flag": ("--fp16", {"values": 0}),
    "a flag that switches off": ("--no-fusion", {"values": 0}),
    "any number of texts": ("--data-path", {"values": "*"}),
    "some numbers": ("--topk", {"values": "+", "type": "int"}),
    "a range to choose from": ("--level", {"type": "int", "choices": [0, 1, 2]}),
    "words to choose from": ("--style", {"type": "str", "choices": ["a", "b"]}),
    "what is computed is left open": ("--backend", {}),
    "another name": ("--persistent-save-interval", {"type": "int"}),
    "a flag that can be negated": ("--no-reset", {"values": 0}),
}


@pytest.mark.parametrize(("option", "takes"), ACCEPTED.values(), ids=ACCEPTED)
def test_an_option_takes_what_its_call_says(option: str, takes: dict[str, object]):
    assert options(PARSER)[option] == takes


def test_only_options_are_recorded():
    assert all(name.startswith("--") for name in options(PARSER))


def test_deepspeed_s_own_options_are_added_where_it_is_asked_for_them():
    found = options("parser = deepspeed.add_config_arguments(parser)")
    assert found["--deepspeed"] == {"values": 0}
    assert found["--deepspeed_config"] == {}
