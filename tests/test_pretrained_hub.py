"""Models by name: from a hub that answers, breaks off, or cannot be reached."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("huggingface_hub")

import tiny_gpt2  # noqa: E402
from local_hub import COMMIT, MODEL, LocalHub  # noqa: E402

from attncourse.pretrained import hub, load  # noqa: E402

SCORE = """
import sys, torch
from attncourse.pretrained import load
name, revision = sys.argv[1:]
model, _ = load(name, revision=revision or None)
print(model(torch.tensor([[1, 2, 3]])).sum().item())
"""


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "model"
    place.mkdir()
    return tiny_gpt2.write(place)


@pytest.fixture
def served(folder):
    """Serve the folder, with files in it that nobody should ask for."""
    for name in ("pytorch_model.bin", "modeling_x.py", "README.md"):
        (folder / name).write_text("not asked for")
    with LocalHub(folder) as local_hub:
        yield local_hub


def score(local_hub, name=MODEL, revision="", **variables):
    """Load a model with the hub's own client, in a process that knows no other hub."""
    home = str(local_hub.folder.parent / "home")
    ours = {"HF_ENDPOINT": local_hub.address, "HF_HOME": home, "HF_HUB_DISABLE_TELEMETRY": "1"}
    return subprocess.run(
        [sys.executable, "-c", SCORE, name, revision],
        env={**os.environ, **ours, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_model_is_fetched_once_and_found_later(served):
    expected = str(load(served.folder)[0](torch.tensor([[1, 2, 3]])).sum().item())
    first = score(served, revision="v1")
    assert first.stdout.strip() == expected, first.stderr
    assert "Fetching 2 files" in first.stderr, "progress is shown"
    files = {path.rpartition("/")[2] for path in served.asked if "/resolve/" in path}
    assert files == {"config.json", "model.safetensors"}
    assert f"GET api/models/{MODEL}/revision/v1" in served.asked
    assert all(COMMIT in path for path in served.asked if "/resolve/" in path), "pinned"
    served.asked.clear()
    again = score(served, revision="v1", HF_HUB_OFFLINE="1")
    assert (again.stdout.strip(), served.asked) == (expected, [])


def test_a_download_that_breaks_off_leaves_nothing_behind_that_is_used(served):
    served.breaks_off = True
    broken = score(served)
    assert broken.returncode
    assert f"ConnectionError: the hub did not send {MODEL!r} to its end" in broken.stderr
    served.breaks_off = False
    whole = score(served)
    assert whole.returncode == 0, whole.stderr


def test_what_the_hub_does_not_have_is_named(served):
    for name, revision, named in ((MODEL, "v7", " at revision 'v7'"), ("someone/other", "", "")):
        refused = score(served, name, revision)
        assert f"ValueError: the hub has no model {name!r}{named} that is open" in refused.stderr


def test_a_hub_that_is_down_is_said_plainly(served):
    served.__exit__()
    refused = score(served)
    assert "ConnectionError" in refused.stderr
    assert "was never downloaded, and the hub cannot be reached" in refused.stderr


@pytest.fixture
def no_network(tmp_path, monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return huggingface_hub


@pytest.mark.parametrize("name", ["gpt2", "HuggingFaceTB/SmolLM2-135M"])
def test_no_network_is_said_plainly(no_network, name):
    with pytest.raises(ConnectionError, match="never downloaded, and the hub cannot be reached"):
        load(name)


@pytest.mark.parametrize("name", ["minlm", "MiniLM", "smollm", "SmolLM2"])
def test_a_slip_of_the_pen_gets_a_hint(no_network, name):
    wanted = "minilm" if name.lower().startswith("mi") else "smollm2"
    with pytest.raises(ConnectionError, match=f"Did you mean '{wanted}'\\?$"):
        load(name)


def test_a_hint_is_given_only_where_it_fits(no_network):
    with pytest.raises(ConnectionError, match=r"'smollm2'\.$"):
        load("gpt2")


@pytest.mark.parametrize("name", ["a--b", "-x", "a" * 100])
def test_the_hubs_own_rule_for_names_is_passed_on(no_network, name):
    with pytest.raises(ValueError, match=f"'{name}' cannot be a name on the hub: "):
        load(name)


def test_a_name_that_cannot_be_one_is_refused_before_the_hub_is_asked(monkeypatch):
    with pytest.raises(ValueError, match="neither a folder, nor a file, nor a name"):
        load("no/such/place")


def test_the_hub_is_asked_for_data_only(folder, no_network, monkeypatch):
    asked = {}

    def download(name, **given):
        asked.update(given, name=name, hidden=no_network.utils.are_progress_bars_disabled())
        return str(folder)

    monkeypatch.setattr(no_network, "snapshot_download", download)
    load("someone/model", revision="abc123", progress=False)
    assert (asked["name"], asked["revision"], asked["hidden"]) == ("someone/model", "abc123", True)
    assert not no_network.utils.are_progress_bars_disabled(), "left as it was"
    wanted = asked["allow_patterns"]
    for name in ("pytorch_model.bin", "model.pt", "tf_model.h5", "modeling_x.py", "model.pkl"):
        assert not any(Path(name).match(pattern) for pattern in wanted)
    assert any(Path("model-00001-of-00002.safetensors").match(pattern) for pattern in wanted)
    load("someone/model")
    assert asked["hidden"] is False

    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="'someone/model' has no safetensors file"):
        load("someone/model")


@pytest.mark.parametrize("problem", [ConnectionError, ConnectionResetError])
def test_a_connection_that_fails_is_said_plainly(no_network, monkeypatch, problem):
    def refuse(*_, **__):
        raise problem("no route")

    monkeypatch.setattr(no_network, "snapshot_download", refuse)
    with pytest.raises(ConnectionError, match="never downloaded, and the hub cannot be reached"):
        hub.fetch("a/b")
