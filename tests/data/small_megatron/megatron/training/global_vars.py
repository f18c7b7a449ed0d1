"""Store the program's arguments for all its modules."""

_GLOBAL_ARGS = None


def set_global_variables(args):
    global _GLOBAL_ARGS  # noqa: PLW0603  (as Megatron does)
    _build_tokenizer(args)
    _GLOBAL_ARGS = args


def _build_tokenizer(args):
    raise OSError("no vocabulary here")
