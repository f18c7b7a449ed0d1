"""Count the floating-point operations of a GPT's iteration, by several conventions.

Two programs may print different TFLOPs for the same run, and both may be right, because
they count different things. Some functions here are named after their convention. The exact
conventions leave out embedding look-ups, norms, softmax, GELU and the optimizer. Except in
very small models, these need less than 1 % of the FLOPs together. Approximations such as
`bigscience` start from a number of parameters. They count each of these parameters, also those
of norms, as an element of a matrix.

The product of a matrix of shape (m, k) and a matrix of shape (k, n) costs 2mkn FLOPs. The
backward pass costs twice the forward pass: one product for the gradient of the inputs and
one for the gradient of the weights.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from orchestrator.model.convention_names import CONVENTIONS, Convention
from orchestrator.run.formulas import value
from orchestrator.run.model import Run
from orchestrator.run.shape import ModelShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """The model and the batch of one iteration, from which its FLOPs are counted.

    recomputed: whether each layer runs forward a second time.
    """

    model: ModelShape
    padded_vocab_size: int
    global_batch_size: int
    recomputed: bool = False

    @property
    def symbols(self) -> dict[str, int]:
        """The values of the letters in formulas.

        B: sequences per iteration. P: parameters. N: the parameters that are multiplied with
        tokens. The other letters are those of `ModelShape.symbols`, e.g. l = layers.
        """
        parameters = self.model.parameters(self.padded_vocab_size)
        return {
            "P": parameters,
            "N": parameters - self.model.looked_up_parameters(self.padded_vocab_size),
            "B": self.global_batch_size,
            **self.model.symbols(self.padded_vocab_size),
        }


def flops_by(convention: Convention, iteration: Iteration) -> int | None:
    """Return the FLOPs that a convention counts; None if it cannot count the model."""
    described = iteration.model.described
    if described is not None:
        from orchestrator.model.conventions import count_by_convention

        return count_by_convention(
            convention,
            described.with_vocabulary(iteration.padded_vocab_size),
            sequences=iteration.global_batch_size,
            recomputed=iteration.recomputed,
        ).flops
    formula = formula_by(convention, iteration)
    return None if formula is None else value(formula, iteration.symbols)


def formula_by(convention: Convention, iteration: Iteration) -> str | None:
    """Return a convention's formula as a text, with the letters of `Iteration.symbols`.

    Returns None if the convention has no formula for the model.
    """
    formula = _FORMULAS.get(convention.name)
    return None if formula is None else formula(iteration)


def _exact(model: ModelShape, passes: int, attention: int = 4) -> str:
    """Return the exact formula of an iteration: a text with the letters of `Iteration.symbols`.

    passes: how often a layer is computed; a backward pass counts as two.
    attention: the factor of B·s²·l·h per pass: 4 if all keys count for each query, 2 if only
    the keys before the query count, i.e. half of them.

    The letters are B = sequences per iteration, s = sequence length, l = layers, h = hidden
    size, k = width of all keys, f = width of the MLP, V = padded vocabulary. FLOPs per
    token, layer and pass:
    - 2h² for the query and 2h² for the output;
    - 2hk for the keys and 2hk for the values;
    - 2hf for each matrix of the MLP;
    - 4sh for the scores and their product with the values, if all keys count.
    The head has 2hV per token and pass. It always has three passes, because it is never
    recomputed.
    """
    grouped = model.key_value_width != model.hidden_size
    return " + ".join(
        (
            f"{4 * passes if grouped else 8 * passes}·B·s·l·h²",
            *([f"{4 * passes}·B·s·l·h·k"] if grouped else []),
            f"{(6 if model.gated_mlp else 4) * passes}·B·s·l·h·f",
            f"{attention * passes}·B·s²·l·h",
            "6·B·s·h·V",
        )
    )


@cache
def _bigscience(factor: int) -> str:
    return f"{factor}·2·P·s·B"


def _narayanan(recomputed: bool) -> str:
    passes = 4 if recomputed else 3
    return f"{24 * passes}·B·s·l·h² + {4 * passes}·B·s²·l·h + 6·B·s·h·V"


_FORMULAS: dict[str, Callable[[Iteration], str | None]] = {
    "model": lambda iteration: _exact(iteration.model, passes=3),
    "hardware": lambda iteration: _exact(iteration.model, 4 if iteration.recomputed else 3),
    "narayanan": lambda iteration: (
        _narayanan(iteration.recomputed) if iteration.model.has_gpt2_layers else None
    ),
    "bigscience": lambda iteration: _bigscience(4 if iteration.recomputed else 3),
    "megatron-core": lambda iteration: _exact(iteration.model, passes=3, attention=2),
    "palm": lambda iteration: "6·N·B·s + 12·B·s²·l·h",
}
FORMULA_CONVENTIONS = tuple(CONVENTIONS[name] for name in _FORMULAS)
"""The conventions that have a formula in letters for a GPT or a similar model."""


def bigscience_flops(parameters: int, seq_length: int, global_batch_size: int, factor: int) -> int:
    """Return the FLOPs of an iteration by BigScience's approximation (2021).

    The formula is factor·2·P·s·B. P is the number of parameters, s the sequence length, and B the
    global batch size. `factor` is 3, or 4 if activations are recomputed. The formula counts a
    multiply-add of every parameter for every token, forward once and backward twice. Embeddings
    count as if they were matrices, and the head as if it were recomputed. The products of
    attention, which grow with s², are left out.
    """
    symbols = {"P": parameters, "s": seq_length, "B": global_batch_size}
    return value(_bigscience(factor), symbols)


def narayanan_flops(
    *,
    num_layers: int,
    hidden_size: int,
    padded_vocab_size: int,
    seq_length: int,
    global_batch_size: int,
    recomputed: bool,
) -> int:
    """Return the FLOPs of an iteration by Narayanan et al. 2021 (arXiv 2104.04473), eq. 3.

    The letters are B = global batch size, s = sequence length, l = layers, h = hidden size,
    V = padded vocabulary. Attention is not causal, and the MLP has two matrices 4h wide.

    With recomputation, the FLOPs are 96·B·s·l·h²·(1 + s/(6h) + V/(16lh)). Written as a sum,
    they are 96Bslh² + 16Bs²lh + 6BshV: layers count four times and the head three times.
    Without recomputation, layers count three times: 72·B·s·l·h²·(1 + s/(6h) + V/(12lh)).
    Some programs replace 96 by 72, but do not replace 16 by 12. So they leave out a quarter
    of the head's FLOPs.
    """
    symbols = {
        "l": num_layers,
        "h": hidden_size,
        "V": padded_vocab_size,
        "s": seq_length,
        "B": global_batch_size,
    }
    return value(_narayanan(recomputed), symbols)


def model_flops(run: Run) -> int | None:
    """Return the model FLOPs of an iteration: forward and backward, no recomputation; for MFU.

    The convention is `model`. For layers like those of GPT-2, the result is
    72·B·s·l·h²·(1 + s/(6h) + V/(12lh)). The letters are B = global batch size, s = sequence
    length, l = layers, h = hidden size, V = padded vocabulary. torch's FlopCounterMode
    counts the same FLOPs with the math attention kernel. Returns None if the model or the
    batch is not known.
    """
    return _per_iteration(run, "model")


def hardware_flops(run: Run) -> int | None:
    """Return the hardware FLOPs of an iteration, including recomputation; for HFU and TFLOPs.

    The convention is `hardware`. With activation checkpointing, each layer runs forward
    twice and the head once. Then, for layers like those of GPT-2, the result is equation 3
    of Narayanan et al. 2021. Without activation checkpointing, the result is equal to
    `model_flops`. Returns None if the model or the batch is not known.
    """
    return _per_iteration(run, "hardware")


def tflops_per_gpu(flops: int | None, step_seconds: float | None, world_size: int) -> float | None:
    """Return TFLOPs (10**12 operations) per second and rank; None if a number is missing."""
    if flops is None or not step_seconds:
        return None
    return flops / step_seconds / world_size / 1e12


def utilization(tflops: float | None, peak_tflops: float | None) -> float | None:
    """Return TFLOPs as a fraction of a GPU's peak; None if a number is missing.

    The result is the MFU for model FLOPs, and the HFU for hardware FLOPs.
    """
    return None if tflops is None or not peak_tflops else tflops / peak_tflops


def training_seconds(
    *, tokens: int, parameters: int, world_size: int, tflops_per_gpu: float, recomputed: bool
) -> float:
    """Return the time in seconds to train on `tokens` tokens.

    The formula is 8TP/(nX), or 6TP/(nX) without recomputation (Narayanan et al. 2021, section 5.1).
    T is the number of tokens, P the number of parameters, n the number of GPUs, and X the FLOPs per
    second of each GPU. X must be counted by BigScience's convention, on which the formula is based.
    """
    flops = bigscience_flops(parameters, tokens, 1, 4 if recomputed else 3)
    return flops / (world_size * tflops_per_gpu * 1e12)


def _per_iteration(run: Run, convention: str) -> int | None:
    if run.model is None or run.padded_vocab_size is None or run.batch.global_batch_size is None:
        return None
    iteration = Iteration(
        model=run.model,
        padded_vocab_size=run.padded_vocab_size,
        global_batch_size=run.batch.global_batch_size,
        recomputed=run.training.activation_checkpointing,
    )
    return flops_by(CONVENTIONS[convention], iteration)
