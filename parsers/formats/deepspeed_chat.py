"""Parse DeepSpeed-Chat's reports of its third step, RLHF: one for each whole iteration.

    epoch: 0|step: 42|ppo_ep: 1|act_loss: 0.1221923828125|cri_loss: 0.073486328125|unsuper_loss: 0.0
    |E2E latency=3.72s |Gather latency=0.00s (0.00%) |Generate time=2.43s (65.28%) |Training
        time=1.06s (28.45%) |Others=0.23 (6.27%)|CurSamplesPerSec=17.18 |AvgSamplesPerSec=16.41

    Epoch: 0 | Step: 42 | PPO Epoch: 1 | Actor Loss: 0.12 | Critic Loss: 0.07 | Unsupervised Loss: 0
    End-to-End => Latency: 3.72s, TFLOPs: 25.80, Samples/sec: 17.20, Time/seq 0.06s, Batch Size: 64,
        Total Seq. Length: 512

The example shows two pairs of lines; a line that is indented further continues the line
above it. In each pair, the line with the losses comes first. The second pair is the form
since May 2023. The source is applications/DeepSpeed-Chat of DeepSpeedExamples. A latency
includes generating the answers and training on them, for all models. Samples per second are
over all ranks.

Each engine, e.g. the actor's, also has a throughput timer. It measures only the training of
that engine, so its rate is several times as high. Steps count from 0 in each epoch. Only
the first epoch is read, because no line contains the number of steps of an epoch.
"""

import re
from collections.abc import Iterator

from parsers.fields import COUNT, NUMBER, finite, matches, parse_number
from parsers.records import Step
from parsers.scan.reader import LogFormat

_LOSS = re.compile(
    rf"epoch: (?P<epoch>{COUNT}) ?\| ?step: (?P<step>{COUNT}) ?\| ?ppo(?:_ep| epoch): {COUNT} ?\| ?"
    rf"act(?:or)?[_ ]loss: (?P<loss>{NUMBER})(?= ?\|)",
    re.IGNORECASE,
)
_END_TO_END = (
    re.compile(
        rf"\|E2E latency=(?P<seconds>{NUMBER})s \|.{{0,400}}"
        rf"\|CurSamplesPerSec=(?P<rate>{NUMBER}) "
        r"\|AvgSamplesPerSec=(?P<running>[0-9]+\.[0-9]{2})(?!\S)"
    ),
    re.compile(
        rf"End-to-End => Latency: (?P<seconds>{NUMBER})s, TFLOPs: (?P<tflops>{NUMBER}), "
        rf"Samples/sec: (?P<rate>{NUMBER}), Time/seq {NUMBER}s, Batch Size: (?P<batch>{COUNT}), "
    ),
)


def _parse(offset: int, text: str) -> Iterator[Step]:
    first, *following = text.split("\n")
    loss = next(matches(_LOSS, first), None)
    if loss is None or int(loss["epoch"]):
        return
    for line in following:
        if _LOSS.search(line):
            break
        for pattern in _END_TO_END:
            if match := pattern.search(line):
                values = match.groupdict()
                yield Step(
                    iteration=int(loss["step"]),
                    step_seconds=finite(values["seconds"]),
                    log_interval=1,
                    samples_per_second=finite(values["rate"]),
                    running_samples_per_second=finite(values.get("running")),
                    global_batch_size=int(values["batch"]) if "batch" in values else None,
                    reported_tflops_per_gpu=finite(values.get("tflops")),
                    loss=parse_number(loss["loss"]),
                    end_to_end=True,
                    offset=offset,
                )
                return
    # The program prints the time as the next iteration begins, so the last one has none.
    yield Step(iteration=int(loss["step"]), loss=parse_number(loss["loss"]), offset=offset)


DEEPSPEED_CHAT = LogFormat(
    name="DeepSpeed-Chat, end to end",
    anchors=(b"|ppo_ep: ", b" PPO Epoch: "),
    parse=_parse,
    following=12,
    report=re.compile(r"(?:^|[^\w])[Ee]poch: 0 ?\| ?[Ss]tep: [0-9]+ ?\|"),
    ordered=False,
)
