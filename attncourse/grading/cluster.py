"""Grade on a dask cluster: one on this machine, or any other.

The one idea: dask only carries jobs to places. Each is still graded by `grade` in a sandbox with
its own deadline, and a job whose worker dies is carried to another one.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from attncourse.grading.bounds import bounded_memory
from attncourse.grading.grade import Job, grade
from attncourse.grading.jobs import Outcome, job_from_text, job_to_text
from attncourse.grading.packing import exercise_files, pack, unpack

__all__ = ["on_dask"]

AHEAD = 4  # jobs on their way per worker: enough to keep it busy, few enough for our memory
TRIES = 5  # workers that may die under a job before it is given up


def grade_there(text: str, exercise: bytes) -> str:
    """Grade a job where dask has sent it.

    Parameters
    ----------
    text : str
        The job, see `job_to_text`.
    exercise : bytes
        Zip of the exercise: the machines share no folder.

    Returns
    -------
    str
        The result as JSON.
    """
    job = job_from_text(text)
    settings = replace(job.settings, exercise=str(unpack(exercise)))
    with bounded_memory():
        return json.dumps(grade(replace(job, settings=settings)))


def _connect(stack: contextlib.ExitStack, workers: int, address: str) -> Any:
    """Return a client of the cluster at an address, or of a new one here."""
    from distributed import Client, LocalCluster

    # Workers are started with the current folder on their import path unless told otherwise, and
    # that folder may hold hostile downloads.
    os.environ["PYTHONSAFEPATH"] = "1"
    if address:
        return stack.enter_context(Client(address, timeout="30s"))
    cluster = stack.enter_context(
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,  # a worker grades one submission at a time
            dashboard_address=None,
            memory_limit=0,
        )
    )
    return stack.enter_context(Client(cluster))


def on_dask(jobs: Iterator[Job], workers: int, address: str = "") -> Iterator[Outcome]:
    """Grade jobs on a cluster.

    Parameters
    ----------
    jobs : iterator of Job
        Taken as places become free.
    workers : int
        Size of the cluster that is started if there is no address.
    address : str
        Of a scheduler.

    Yields
    ------
    Outcome
        In the order in which they end.

    Raises
    ------
    ImportError
        If dask is not installed.
    OSError
        If nobody answers at the address.
    """
    first = next(jobs, None)
    if first is None:
        return
    with contextlib.ExitStack() as stack:
        client = _connect(stack, workers, address)
        bundle = client.scatter(
            pack(exercise_files(first.settings.exercise)), broadcast=True, hash=False
        )
        yield from _carry(client, first, jobs, bundle)


def _carry(client: Any, first: Job, jobs: Iterator[Job], bundle: Any) -> Iterator[Outcome]:
    """Send jobs and take results, a bounded number at a time."""
    from distributed import as_completed

    waiting: dict[Any, Job] = {}

    def send(job: Job) -> Any:
        """Send one job."""
        text = job_to_text(job)
        future = client.submit(grade_there, text, bundle, pure=False, retries=TRIES)
        waiting[future.key] = job
        return future

    places = max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
    done = as_completed([send(first), *map(send, islice(jobs, AHEAD * places - 1))])
    for future in done:
        job = waiting.pop(future.key)
        try:
            outcome = Outcome(job, json.loads(future.result()))
        except Exception as error:
            outcome = Outcome(job, None, f"the cluster failed: {type(error).__name__}: {error}")
        yield outcome
        for another in islice(jobs, 1):
            done.add(send(another))
