"""Count how many parameters of a mixture of experts are on one rank.

With E experts and e expert-parallel ranks, a rank has E/e experts. Each expert is split over e_t
ranks, which may differ from the tensor-parallel size of other layers. The number of ranks with
copies of the same experts is (tensor · context · data) / (e · e_t). So ZeRO divides experts over
fewer ranks than the other parameters.
"""

from dataclasses import dataclass

from orchestrator.run.model import Parallelism
from orchestrator.run.shape import ModelShape


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertPlacement:
    """The experts of a run, and how ranks share them.

    number: how many experts a layer has.
    top_k: how many of them a token uses.
    width: the inner width of one expert.
    layers: for each layer, from the first to the last, whether it has experts.
    shared_width: the width of an MLP that every token also uses; 0 if there is none.
    ranks: over how many ranks the experts are divided.
    tensor_ranks: over how many ranks each expert is split.
    """

    number: int
    top_k: int
    width: int
    layers: tuple[bool, ...]
    shared_width: int = 0
    ranks: int = 1
    tensor_ranks: int = 1

    def on_stage(self, parallelism: Parallelism, stage: int) -> int:
        """Return how many layers of pipeline stage `stage` (from 0) have experts.

        The stage has the layers that `stage_slice` returns.
        """
        return sum(self.layers[stage_slice(len(self.layers), parallelism, stage)])

    def rank_parameters(self, model: ModelShape) -> int:
        """Return how many parameters of a layer's routed experts are on one rank."""
        return self._matrices(model, self.width) * self.number // (self.ranks * self.tensor_ranks)

    def beyond_mlp(self, model: ModelShape, tensor_parallel_size: int) -> int:
        """Return the parameters of the router and the shared expert, minus those of a dense MLP.

        A layer changes by this number of parameters if it has experts in place of an MLP. All
        parameters are counted for one layer and one rank. The routed experts are not counted, so
        the result is negative for most models.
        """
        dense = self._matrices(model, model.ffn_width)
        if model.biases == "all":
            dense += model.ffn_width * (2 if model.gated_mlp else 1)
        split = self._matrices(model, self.shared_width) - dense
        return split // tensor_parallel_size + self.number * model.hidden_size

    def copies(self, ranks: int) -> int:
        """Return how many ranks of a pipeline stage have a copy of the same expert.

        ranks: the number of ranks of the stage.
        """
        return max(1, ranks // (self.ranks * self.tensor_ranks))

    def active_width(self) -> int:
        """Return the width of all experts that one token uses, including the shared expert."""
        return self.top_k * self.width + self.shared_width

    def _matrices(self, model: ModelShape, width: int) -> int:
        return (3 if model.gated_mlp else 2) * model.hidden_size * width


def stage_slice(num_layers: int, parallelism: Parallelism, stage: int) -> slice:
    """Return which layers of a model the forecast counts for pipeline stage `stage` (from 0).

    If the stages do not divide the layers evenly, each stage counts as many layers as the fullest.
    So the last stages also count layers of the stage before them.
    """
    size = -(-num_layers // parallelism.pipeline_parallel_size)
    begin = min(stage * size, num_layers - size)
    return slice(begin, begin + size)
