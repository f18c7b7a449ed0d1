"""Convert time limits of campaign files and of Slurm to seconds, and seconds to Slurm's form."""

import re

# Slurm's own forms: M:S, H:M:S, D-H, D-H:M and D-H:M:S.
_CLOCK = re.compile(r"(?:(?P<hours>[0-9]{1,6}):)?(?P<minutes>[0-9]{1,6}):(?P<seconds>[0-9]{1,6})")
_DAYS = re.compile(
    r"(?P<days>[0-9]{1,6})-(?P<hours>[0-9]{1,6})"
    r"(?::(?P<minutes>[0-9]{1,6})(?::(?P<seconds>[0-9]{1,6}))?)?",
)
# The largest minutes and seconds after a larger unit.
_MOST = 59
_HOW_TO_WRITE_IT = "write minutes (30) or H:MM:SS (1:30:00)"


def time_limit_seconds(value: int | str) -> int:
    """Convert a time limit to seconds: minutes as a number, or text in Slurm's form.

    Slurm's forms are M:S, H:M:S, D-H, D-H:M and D-H:M:S, with at most 59 after a colon. Raises
    ValueError if the value is in another form, or zero.
    """
    if isinstance(value, int):
        seconds = 60 * value
    else:
        match = _CLOCK.fullmatch(value) or _DAYS.fullmatch(value)
        if match is None:
            raise ValueError(f"{value!r} is not a time limit; {_HOW_TO_WRITE_IT}")
        parts = {unit: int(count or 0) for unit, count in match.groupdict().items()}
        for unit in ("minutes", "seconds"):
            # Slurm accepts e.g. 9:99, too, but a user who writes this means something else.
            if parts[unit] > _MOST and value[match.start(unit) - 1 : match.start(unit)] == ":":
                raise ValueError(
                    f"{value!r} has {parts[unit]} {unit}, and the maximum is {_MOST}; "
                    f"{_HOW_TO_WRITE_IT}"
                )
        hours = 24 * parts.get("days", 0) + parts["hours"]
        seconds = (60 * hours + parts["minutes"]) * 60 + parts["seconds"]
    if seconds <= 0:
        raise ValueError(f"{value!r} is not above zero; {_HOW_TO_WRITE_IT}")
    return seconds


def slurm_time(seconds: int) -> str:
    """Format a time for Slurm: H:MM:SS."""
    minutes, rest = divmod(seconds, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
