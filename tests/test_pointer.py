"""The pointer: sentences are bags of words, and only a block lets them know each other."""

import pytest

torch = pytest.importorskip("torch")

from attncourse import tasks, train  # noqa: E402
from attncourse.models.pointer import Pointer  # noqa: E402


def fresh(**options):
    train.set_seed(0)
    return Pointer(len(tasks.REPORT_WORDS), 6, **options).eval()


def test_the_order_of_the_words_and_the_padding_change_nothing():
    words = tasks.short_reports(4, generator=0).words
    model = fresh()
    wider = torch.nn.functional.pad(words.flip(-1), (2, 3))
    torch.testing.assert_close(model(wider), model(words), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("num_layers", [0, 1])
def test_only_a_block_lets_sentences_know_each_other(num_layers):
    words = tasks.short_reports(4, generator=0).words
    other = words.clone()
    other[:, 3] = words.roll(1, dims=0)[:, 4]
    model = fresh(num_layers=num_layers)
    with torch.no_grad():
        change = (model(other) - model(words)).abs()
    assert change[:, 3].max() > 1e-3
    assert (change[:, :3].max() > 1e-3) == (num_layers == 1)


def test_a_sentence_knows_its_place():
    words, model = tasks.short_reports(4, generator=0).words, fresh(num_layers=0)
    with torch.no_grad():
        torch.testing.assert_close(model(words.flip(1)), model(words).flip(1))
        model.position.normal_()
        assert (model(words.flip(1)) - model(words).flip(1)).abs().max() > 1e-3


def test_it_learns():
    made = tasks.short_reports(2000, generator=1)

    def batch(generator):
        rows = torch.randint(2000, (64,), generator=generator)
        return made.words[rows], made.target[rows]

    model = fresh()
    train.fit(model, batch, steps=250, lr=3e-3, seed=0, progress=False, device="cpu")
    new = tasks.short_reports(300, generator=2)
    assert train.accuracy(model(new.words), new.target) > 0.95


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"n at most 6, got \(1, 7, 5\)"):
        fresh()(torch.zeros(1, 7, 5, dtype=torch.int64))
    vocabulary = len(tasks.REPORT_WORDS)
    with pytest.raises(ValueError, match=f"words must hold tokens 0 to {vocabulary - 1}, got"):
        fresh()(torch.full((1, 6, 5), vocabulary))
