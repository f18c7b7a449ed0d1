"""Parse the iteration lines of Megatron-LM before its version 1.0, of 2019 and early 2020.

     iteration      100/  320000 | elapsed time per iteration (ms): 535.1 | learning rate
         1.500E-06 | lm loss 9.876543E+00 | loss scale 262144.0 |
     iteration      100/     300 | elapsed time per iteration (ms): 1080.9 | learning rate 5.000E-06
         | total loss 5.623437E+00 | loss 5.623437E+00 | loss scale 32768.0 |speed 222.03 …

Only the time has a colon after its name. The time is the mean over the iterations since the line
before. BERT has a second loss, which is not read. SwissArmyTransformer and FlagAI, which print the
same line, have other names for the loss.
"""

from dataclasses import replace

from parsers.formats.declared.declaration import (
    ITERATION,
    ITERATIONS,
    MILLISECONDS,
    Declaration,
    Field,
    line_format,
)

_END = r"(?= *\|)"

# Each line is read alone, because it also contains the anchor of later versions.
MEGATRON_2019 = replace(
    line_format(
        Declaration(
            name="Megatron 2019",
            anchors=(b" | learning rate ",),
            head=rf"(?<!\w)iteration +{ITERATION}/ *{ITERATIONS} \| elapsed time per ",
            fields=(
                Field(
                    "step_seconds",
                    r"\| elapsed time per iteration \(ms\): ",
                    _END,
                    scale=MILLISECONDS,
                    needed=True,
                ),
                Field("learning_rate", r"\| learning rate ", _END, needed=True),
                Field("loss", r"\| (?:(?:lm|total) )?loss ", _END),
                Field("loss_scale", r"\| loss scale ", _END),
            ),
            whole=r"\| learning rate [-+.0-9E]+ \|",
        )
    ),
    parse_lines=None,
)
