"""Training on two processes: the gradients of one process, and a killed rank that costs little."""

import errno
import json
import re
import subprocess
import sys
import threading
import time

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

import psutil  # noqa: E402
import torch.distributed as dist  # noqa: E402

from attncourse import train  # noqa: E402
from attncourse.models.gpt import GPT, GPTConfig  # noqa: E402
from attncourse.parallel import checkpoint, start, training  # noqa: E402
from attncourse.text import corpus  # noqa: E402

MODULE = "attncourse.parallel.data_parallel"
# Generous: a loaded machine is slow, and only a hang should reach it.
PATIENCE = 240


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Train with both strategies on two ranks, with a batch that does not divide, once."""
    path = tmp_path_factory.mktemp("training") / "reports.json"
    sizes = ["--batch", "5", "--seq-len", "24", "--steps", "6", "--dtype", "float64"]
    arguments = ["--strategy", "ddp", "fsdp", "--check", *sizes, "--json", str(path)]
    start.torchrun(MODULE, *arguments, processes=2, timeout=PATIENCE)
    return {report["strategy"]: report for report in json.loads(path.read_text())}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", training.STRATEGIES)
def test_gradients_and_losses_are_those_of_one_process(reports, strategy):
    report = reports[strategy]
    assert len(report["grad_errors"]) == 6
    assert 0 < max(report["grad_errors"]) < 1e-12
    assert report["losses"] == pytest.approx(report["alone"], abs=1e-12)
    assert report["losses"][-1] < report["losses"][0]


@pytest.mark.slow
def test_fsdp_keeps_half_of_the_parameters(reports):
    whole = reports["ddp"]["parameters"]
    assert reports["ddp"]["own_parameters"] == whole
    assert reports["fsdp"]["own_parameters"] == pytest.approx(whole / 2, rel=0.01)


@pytest.mark.slow
def test_ddp_sends_each_gradient_once_between_two_ranks(reports):
    # averaging over W ranks sends 2 (W - 1) / W of the gradients from each
    sent, numbers = reports["ddp"]["sent_a_step"], reports["ddp"]["parameters"]
    if sent is None:
        pytest.skip("this system does not count the bytes of a socket")
    assert 8 * numbers <= sent < 8 * numbers + 20_000


STEPS, EVERY = 120, 20


def kill_a_rank(command, after):
    """Start the command, kill rank 1 when rank 0 has said `after`; return all that was said."""
    running = subprocess.Popen(
        command,
        env=start.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    watchdog = threading.Timer(PATIENCE, running.terminate)  # it ends its processes first
    watchdog.start()
    said, killed = [], False
    try:
        for line in running.stdout:
            said.append(line)
            if line.startswith(after) and not killed:
                ids = re.search(r"processes \[\d+, (\d+)\]", "".join(said))
                psutil.Process(int(ids.group(1))).kill()
                killed = True
        running.wait()
    finally:
        watchdog.cancel()
        start.end(running)
    assert killed, said
    assert running.returncode == 0, said
    return said


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Kill a rank in the middle of a training that torchrun starts anew, once."""
    folder = tmp_path_factory.mktemp("killed")
    sizes = ["--batch", "4", "--seq-len", "16", "--dtype", "float64"]
    times = ["--every", str(EVERY), "--steps", str(STEPS)]
    where = ["--checkpoint", str(folder), "--json", str(folder / "report.json")]
    command = start.command(MODULE, *sizes, *times, *where, processes=2, max_restarts=1)
    said = kill_a_rank(command, after="step 40/")
    return folder, said, json.loads((folder / "report.json").read_text())[0]


@pytest.mark.slow
def test_a_killed_rank_costs_one_interval_at_most(killed):
    _, said, report = killed
    starts = [place for place, line in enumerate(said) if line.startswith("ddp:")]
    assert len(starts) == 2
    reached = int(re.match(r"step (\d+)/", said[starts[1] - 1]).group(1))
    # What was said last may not have been saved yet; what was said before it has been.
    assert report["resumed_at"] in (reached - EVERY, reached)
    assert f"step {report['resumed_at']}\n" in said[starts[1]]


@pytest.mark.slow
def test_the_interrupted_training_is_the_uninterrupted_one(killed):
    report = killed[2]
    text = corpus.python_docs()
    make_batch = text.batches(4, 16)
    train.set_seed(0)
    model = GPT(GPTConfig(len(text), 16, 64, 2, 4, num_kv_heads=2)).double()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses = []
    for step in range(1, STEPS + 1):
        inputs, target = make_batch(torch.Generator().manual_seed(step))
        loss = train.cross_entropy(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert report["losses"] == pytest.approx(losses, rel=1e-8)


@pytest.mark.slow
def test_finished_checkpoints_remain_and_no_process(killed):
    folder = killed[0]
    names = sorted(path.name for path in (folder / "ddp").iterdir())
    assert names == ["step-00000100", "step-00000120"]
    assert left_over(str(folder)) == []


def test_a_half_written_checkpoint_does_not_count(tmp_path):
    assert checkpoint.latest(tmp_path / "nothing") is None
    (tmp_path / "step-00000020").mkdir()
    (tmp_path / "step-00000030.partial").mkdir()
    assert checkpoint.latest(tmp_path).name == "step-00000020"


@pytest.fixture
def alone(tmp_path):
    """Be a process group of one, with a model whose checkpoint is saved twice."""
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    model = torch.nn.Linear(300, 300)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(300)).sum().backward()
    optimizer.step()
    for step in (10, 20):
        checkpoint.save(tmp_path, step, model, optimizer, {"lr": 0.1})
    yield tmp_path, model, optimizer
    dist.destroy_process_group()


def test_a_spoilt_checkpoint_is_named_and_the_one_before_can_be_read(alone):
    folder, model, optimizer = alone
    newest = checkpoint.latest(folder)
    assert checkpoint.facts_of(newest) == {"step": 20, "lr": 0.1}
    for part in newest.glob("*.distcp"):
        part.write_bytes(part.read_bytes()[:1000])
    with pytest.raises(OSError, match=r"step-00000020 cannot be read; remove it .*\(rank 0: \w"):
        checkpoint.restore(newest, model, optimizer)
    wanted = model.weight.detach().clone()
    torch.nn.init.zeros_(model.weight)
    checkpoint.restore(folder / "step-00000010", model, optimizer)
    assert torch.equal(model.weight, wanted)
    (newest / "facts.json").write_text("{")
    with pytest.raises(OSError, match="step-00000020 cannot be read"):
        checkpoint.facts_of(newest)


def test_a_checkpoint_of_other_sizes_is_refused(alone):
    folder, _, _ = alone
    other = torch.nn.Linear(301, 300)
    optimizer = torch.optim.AdamW(other.parameters())
    with pytest.raises(OSError, match="step-00000020 cannot be read"):
        checkpoint.restore(checkpoint.latest(folder), other, optimizer)


def test_a_disk_that_fills_up_leaves_the_one_before(alone, monkeypatch):
    folder, model, optimizer = alone

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match=r"30 cannot be written.*No space left on device"):
        checkpoint.save(folder, 30, model, optimizer, {})
    monkeypatch.undo()
    assert checkpoint.latest(folder).name == "step-00000020"
    checkpoint.save(folder, 40, model, optimizer, {})
    names = sorted(path.name for path in folder.glob("step-*"))
    assert names == ["step-00000020", "step-00000040"], "what was left half written is gone"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_no_process_outlives_torchrun(tmp_path):
    where = ["--checkpoint", str(tmp_path), "--steps", "1000000", "--every", "5"]
    command = start.command(MODULE, "--batch", "4", "--seq-len", "16", *where, processes=2)
    running = subprocess.Popen(
        command,
        env=start.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    watchdog = threading.Timer(PATIENCE, running.kill)
    watchdog.start()
    try:
        assert running.stdout.readline().startswith("ddp: 2 ranks")
        running.kill()
        running.communicate(timeout=PATIENCE)
        assert left_over(str(tmp_path)) == []
    finally:
        watchdog.cancel()
        for process in left_over(str(tmp_path), patience=0):
            psutil.Process(process).kill()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: training.own_rows(3, 0, 4), "4 ranks, but a batch of 3"),
        (lambda: training.wrap(None, "pipeline"), "wanted one of"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def left_over(text, patience=10):
    """List the processes that still carry this text, after a moment to disappear."""
    until = time.monotonic() + patience
    while True:
        found = [
            process.pid
            for process in psutil.process_iter(["cmdline"])
            if any(text in word for word in process.info["cmdline"] or [])
        ]
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.1)
