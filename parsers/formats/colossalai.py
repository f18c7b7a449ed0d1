"""Parse ColossalAI's benchmarks: Chat's (sizes of models, throughput, peak memory), and examples.

    Actor: 118.68 M                                     and lines for its three other models
    Making experience throughput: 1.234 samples/sec, TFLOPS: 5.678          up to 0.2.8
    Learning throughput: 1.234 samples/sec, TFLOPS: 5.678
    Generate 512 samples, throughput: 9.87 samples/s, TFLOPS per GPU: 5.68  since 0.3.0
    Train 512 samples, throughput: 9.87 samples/s, TFLOPS per GPU: 5.68
    Overall throughput: 4.93 samples/s
    Peak CUDA mem: 12.34 GB
    Throughput: 12.75 samples/sec, TFLOPS per GPU by Megatron: 52.31, TFLOPS per GPU: 49.82
    Max CUDA memory usage: 40123.45 MB                  both from the examples of language models

These facts are from callbacks/performance_evaluator.py and the benchmark's scripts:

* Up to 0.2.8 the throughput is of one GPU; since 0.3.0 it is of all GPUs. TFLOPS are always
  of one GPU. The benchmark's README says "per GPU" for both.
* Times are means over the ranks, without the first episode. "Overall" is a number of
  samples divided by the time of whole episodes. The number is the smaller of two: the
  generated samples and the learned samples.
* M is 2**20. A size has two decimals, so 118.68 M means 124,445,000 parameters, with an
  error of at most 5,243.
* A GB is 2**30 bytes, and the peak is of the first rank's allocator.

The examples of language models time the steps after some warm-up steps. Their throughput is of all
GPUs, and a MB is 2**20 bytes. Of their two TFLOPS, the first is read.

In a record of a throughput, `phase` is the kind of work: make_experience, learn or overall.
These names are the same for old and new lines. In a record of a model's size, `phase` is
the model's name.
"""

import re
from collections.abc import Iterator

from parsers.fields import COUNT, NUMBER, NUMBER_ENDS, matches
from parsers.records import RunTotals
from parsers.scan.reader import LogFormat

# A torn number is recognized by its number of decimals, which is fixed.
_THOUSANDTHS = rf"[0-9]{{1,18}}\.[0-9]{{3}}{NUMBER_ENDS}"
_HUNDREDTHS = rf"[0-9]{{1,18}}\.[0-9]{{2}}{NUMBER_ENDS}"

_PER_GPU = re.compile(
    rf"(?P<phase>Making experience|Learning) throughput: (?P<samples>{_THOUSANDTHS}) samples/sec,"
    rf" TFLOPS: (?P<tflops>{_THOUSANDTHS})"
)
_GLOBAL = re.compile(
    rf"(?P<phase>Generate|Train) {COUNT} samples, throughput: (?P<samples>{_HUNDREDTHS}) samples/s,"
    rf" TFLOPS per GPU: (?P<tflops>{_HUNDREDTHS})"
)
_OVERALL = re.compile(rf"Overall throughput: (?P<samples>{_HUNDREDTHS}) samples/s(?![\w/])")
_PEAK = re.compile(rf"Peak CUDA mem: (?P<gib>{_HUNDREDTHS}) GB(?!\w)")
_EXAMPLE = re.compile(
    rf"Throughput: (?P<samples>{_HUNDREDTHS}) samples/sec, TFLOPS per GPU by Megatron: "
    rf"(?P<tflops>{_HUNDREDTHS})"
)
_EXAMPLE_PEAK = re.compile(rf"Max CUDA memory usage: (?P<mib>{_HUNDREDTHS}) MB(?!\w)")
_PHASES = {
    "Making experience": "make_experience",
    "Generate": "make_experience",
    "Learning": "learn",
    "Train": "learn",
}

_MODEL = re.compile(
    r"(?<!\w)(?P<model>Actor|Critic|Initial model|Reward model): "
    rf"(?P<number>{NUMBER}) (?P<unit>[KMB])(?!\w)"
)
_UNITS = {"K": 2**10, "M": 2**20, "B": 2**30}


def _parse_throughput(offset: int, line: str) -> Iterator[RunTotals]:
    for pattern, per_gpu in ((_PER_GPU, True), (_GLOBAL, False)):
        for match in matches(pattern, line):
            yield RunTotals(
                phase=_PHASES[match["phase"]],
                samples_per_second=float(match["samples"]),
                tflops_per_gpu=float(match["tflops"]),
                per_gpu=per_gpu,
                offset=offset,
            )
    for match in matches(_OVERALL, line):
        yield RunTotals(phase="overall", samples_per_second=float(match["samples"]), offset=offset)
    for match in matches(_PEAK, line):
        yield RunTotals(max_memory_allocated_gib=float(match["gib"]), offset=offset)


def _parse_example(offset: int, line: str) -> Iterator[RunTotals]:
    for match in matches(_EXAMPLE, line):
        yield RunTotals(
            samples_per_second=float(match["samples"]),
            tflops_per_gpu=float(match["tflops"]),
            offset=offset,
        )
    for match in matches(_EXAMPLE_PEAK, line):
        yield RunTotals(max_memory_allocated_gib=float(match["mib"]) / 1024, offset=offset)


def _parse_models(offset: int, text: str) -> Iterator[RunTotals]:
    seen = set()
    for match in _MODEL.finditer(text):
        if match["model"] in seen:
            break  # the next report's
        seen.add(match["model"])
        size = float(match["number"]) * _UNITS[match["unit"]]
        if 0 < size < 2**60:
            phase = match["model"].lower().replace(" ", "_")
            yield RunTotals(phase=phase, parameters=round(size), offset=offset)


COLOSSALAI_THROUGHPUT = LogFormat(
    name="ColossalAI Chat, performance",
    anchors=(b" throughput: ", b"Peak CUDA mem: "),
    parse=_parse_throughput,
    report=re.compile(
        r"(?:Making experience|Learning|Overall) throughput: [0-9]"
        r"|(?:Generate|Train) [0-9]+ samples, throughput: [0-9]|Peak CUDA mem: [0-9]"
    ),
)

COLOSSALAI_EXAMPLES = LogFormat(
    name="ColossalAI examples",
    anchors=(b" TFLOPS per GPU by Megatron: ", b"Max CUDA memory usage: "),
    parse=_parse_example,
    report=re.compile(r"TFLOPS per GPU by Megatron: [0-9]"),
)

# Each of the four models has a line, the actor first.
COLOSSALAI_MODELS = LogFormat(
    name="ColossalAI Chat, sizes of models",
    anchors=(b"Actor: ",),
    parse=_parse_models,
    following=3,
    report=re.compile(r"Actor: [0-9.]+ [KMB]\b"),
)
