"""Who a process is: what the caller says, else what the launcher put into the environment."""

import pytest

from lastcall.client.identity import Identity, identify

TORCHRUN = {
    "RANK": "12",
    "LOCAL_RANK": "4",
    "WORLD_SIZE": "64",
    "TORCHELASTIC_RUN_ID": "llama",
}
SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "8",
}


@pytest.mark.parametrize(
    ("environ", "identity"),
    [
        ({}, Identity()),
        (TORCHRUN, Identity("llama", 12, 4, 64)),
        (SLURM, Identity("4711", 3, 1, 8)),
        (SLURM | TORCHRUN, Identity("4711", 12, 4, 64)),
        (SLURM | {"LASTCALL_JOB": "named"}, Identity("named", 3, 1, 8)),
        ({"TORCHELASTIC_RUN_ID": "none"}, Identity()),
        ({"RANK": "", "SLURM_PROCID": "2"}, Identity(rank=2)),
        ({"RANK": "-1", "LOCAL_RANK": "one", "WORLD_SIZE": "9" * 5000}, Identity()),
    ],
)
def test_the_environment_says_who_a_process_is(environ, identity):
    assert identify(environ) == identity


def test_the_caller_has_the_last_word():
    identity = identify(SLURM | TORCHRUN, job="mine", rank=0, local_rank=0, world_size=1)

    assert identity == Identity("mine", 0, 0, 1)
