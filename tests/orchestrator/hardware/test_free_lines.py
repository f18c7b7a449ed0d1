"""Options of sbatch and srun that a cluster profile or a campaign adds to teralog's own."""

from pathlib import Path

import pytest

from orchestrator.hardware import free_lines
from orchestrator.hardware.free_lines import free_line_problem, together

GOOD = [
    ("sbatch", "--contiguous"),
    ("sbatch", "--core-spec=2"),
    ("sbatch", "--wckey=a b\"c'd\\e#f;$(g)"),
    ("sbatch", "--get-user-env"),
    ("sbatch", "--get-user-env=10L"),
    ("sbatch", "--segment=4"),
    ("sbatch", "--container-image=a#b:c"),
    ("srun", "--cpu-bind=cores"),
    ("srun", "--mpi=pmix"),
    ("srun", "--unbuffered"),
    ("srun", "--container-mounts=/a:/a"),
]
BAD = [
    ("sbatch", "", "write it as --name=value, or --name"),
    ("sbatch", "contiguous", "write it as --name=value, or --name"),
    ("sbatch", "-C x", "write it as --name=value, or --name"),
    ("sbatch", "--core-spec 2", "write it as --core-spec=2"),
    ("sbatch", "--core-spec", "needs a value; write it as --core-spec=VALUE"),
    ("sbatch", "--core-spec=", "needs a value; write it as --core-spec=VALUE"),
    ("sbatch", "--contiguous=yes", "takes no value; write it as --contiguous"),
    ("sbatch", "--wckey=a\n#SBATCH --uid=0", "contains a line break or a control character"),
    ("sbatch", "--cor-spec=2", "on this machine does not list it; did you mean 'core-spec'?"),
    ("sbatch", "--cpu-bind=cores", "is not an option of sbatch in Slurm"),
    ("sbatch", "--nodes=3", "use the key nodes"),
    ("sbatch", "--mail-user=x", "use the key mail_user"),
    ("sbatch", "--mem=3G", "use the key memory"),
    ("sbatch", "--time=3", "use the key time_limit"),
    ("sbatch", "--array=1-3", "use the key throttle"),
    ("sbatch", "--hold", "use `teralog submit --hold`"),
    ("sbatch", "--output=x", "is not allowed: teralog sets it"),
    ("sbatch", "--export=NONE", "is not allowed: teralog sets it"),
    ("srun", "--ntasks=3", "use the key gpus_per_node; teralog sets this option from it"),
    ("srun", "--partition=x", "is an option of the job, not of its steps"),
    ("srun", "--label", "is not allowed: teralog sets it"),
    ("srun", "--wrap=x", "is not an option of srun in Slurm"),
]


@pytest.mark.parametrize(("command", "line"), GOOD)
def test_options_of_slurm_and_of_pyxis_are_taken(command: str, line: str) -> None:
    """Options of Slurm and of its plug-in pyxis are accepted with any value."""
    assert free_line_problem(command, line) is None


@pytest.mark.parametrize(("command", "line", "message"), BAD)
def test_refused_options_get_a_message_with_what_to_write(
    command: str, line: str, message: str
) -> None:
    """An option that is invalid, or that teralog sets itself, is refused with a message.

    The message contains what to write instead, if there is anything.
    """
    assert message in (free_line_problem(command, line) or "")


def test_an_option_of_a_plug_in_is_known_where_sbatch_lists_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plug-in's option that `sbatch --help` lists is accepted; a misspelling of it is refused."""
    (tmp_path / "sbatch").write_text(
        "#!/bin/sh\necho '      --our-mount=path  a plug-in of ours'\n"
    )
    (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    free_lines._site_options.cache_clear()
    assert free_line_problem("sbatch", "--our-mount=/x") is None
    assert free_line_problem("sbatch", "--our-mont=/x") is not None
    free_lines._site_options.cache_clear()


def test_a_run_overrules_its_profile() -> None:
    """An option of the run replaces the same option of the profile; the others stay."""
    assert together(["--a=1", "--b"], ["--a=2", "--c"]) == ["--b", "--a=2", "--c"]
    assert together(None, ["--a=2"]) == ["--a=2"]
