"""Pictures for vision transformers: the pixels of transformers, or an error that names why not."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

from attncourse.pretrained.picture_settings import HARMLESS, ONLY  # noqa: E402
from attncourse.pretrained.pictures import PictureReader  # noqa: E402

SIDE = 32
VIT = {"image_processor_type": "ViTImageProcessor", "size": {"height": SIDE, "width": SIDE}}
DEIT = {"image_processor_type": "DeiTImageProcessor", "size": {"height": 40, "width": 36}}
DEIT |= {"crop_size": {"height": SIDE, "width": SIDE}}
RNG = np.random.default_rng(0)
SMOOTH = np.kron(RNG.integers(0, 256, (6, 8, 3)), np.ones((16, 16, 1))).astype(np.uint8)
PICTURES = {"wide": SMOOTH, "high": SMOOTH.transpose(1, 0, 2), "noise": SMOOTH[:50, :33] ^ 255}
PICTURES["noise"] = RNG.integers(0, 256, (45, 61, 3), dtype=np.uint8)


def reader(folder, settings, image_size=SIDE):
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return PictureReader.from_folder(folder, image_size)


HONOURED = {
    "vit": VIT,
    "deit": DEIT,
    "mean and std": {**VIT, "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4]},
    "one mean for all": {**VIT, "image_mean": 0.4, "image_std": 0.2},
    "bicubic": {**VIT, "resample": 3},
    "bilinear deit": {**DEIT, "resample": 2},
    "not normalised": {**VIT, "do_normalize": False},
    "not rescaled": {**VIT, "do_rescale": False, "image_mean": [120.0, 90.0, 60.0]},
    "neither": {**DEIT, "do_rescale": False, "do_normalize": False},
    "another factor": {**VIT, "rescale_factor": 1 / 127.5},
    "not cropped": {**DEIT, "do_center_crop": False, "size": {"height": SIDE, "width": SIDE}},
    "shortest edge": {**DEIT, "size": {"shortest_edge": 40}},
    "shortest edge, no crop": {**VIT, "size": {"shortest_edge": SIDE}, "do_center_crop": True},
    "crop larger than the picture": {**DEIT, "size": {"height": 25, "width": 30}},
    "crop larger on one side": {**DEIT, "size": {"height": 27, "width": 50}},
    "not resized, cropped": {**DEIT, "do_resize": False},
    "numbers for sizes": {**DEIT, "size": 40, "crop_size": SIDE},
    "the old name": {"feature_extractor_type": "ViTFeatureExtractor", "size": SIDE},
}
HONOURED["shortest edge, no crop"]["crop_size"] = {"height": SIDE, "width": SIDE}


@pytest.mark.parametrize("kind", HONOURED)
@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
def test_settings_are_honoured_as_transformers_does(tmp_path, kind, picture):
    transformers = pytest.importorskip("transformers")
    ours = reader(tmp_path, HONOURED[kind])
    theirs = transformers.AutoImageProcessor.from_pretrained(tmp_path, use_fast=False)
    for given in (picture, Image.fromarray(picture)):
        expected = theirs(given, return_tensors="pt")["pixel_values"].double()
        got = ours.encode(given).double()
        assert got.shape == expected.shape == (1, 3, SIDE, SIDE)
        # both libraries round to grey levels on the way; few pixels come out otherwise
        level = ours.scale / min(ours.std)
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=5 * level)
        assert (got - expected).abs().mean() < 0.12 * level


@pytest.mark.parametrize("kind", ["ViTImageProcessor", "DeiTImageProcessor"])
def test_what_a_class_does_where_its_file_says_nothing(tmp_path, kind):
    transformers = pytest.importorskip("transformers")
    ours = reader(tmp_path, {"image_processor_type": kind}, 224)
    theirs = transformers.AutoImageProcessor.from_pretrained(tmp_path, use_fast=False)
    expected = theirs(PICTURES["noise"], return_tensors="pt")["pixel_values"]
    got = ours.encode(PICTURES["noise"])
    torch.testing.assert_close(got, expected, rtol=0, atol=1.01 * ours.scale / 0.5)


def test_without_a_file_pictures_are_vits(tmp_path):
    usual = PictureReader.from_folder(tmp_path, SIDE).encode(SMOOTH)
    torch.testing.assert_close(usual, reader(tmp_path, VIT).encode(SMOOTH))
    assert PictureReader.from_folder(tmp_path, SIDE, 1).mean == (0.5,)


def test_harmless_settings_change_nothing(tmp_path):
    harmless = {name: "x" for names in HARMLESS.values() for name in names}
    ours = reader(tmp_path, {**VIT, **harmless, **ONLY}).encode(SMOOTH)
    assert torch.equal(ours, reader(tmp_path, VIT).encode(SMOOTH))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resample": 1}, "resamples with number 1"),
        ({"resample": [2]}, r"resamples with number \[2\]"),
        ({"resample": "2"}, "resamples with number '2'"),
        ({"do_pad": True}, "do_pad = 'True'; only False is known"),
        ({"do_flip_channel_order": True}, "do_flip_channel_order = 'True'"),
        ({"crop_pct": 0.9}, "crop_pct = '0.9'; nothing is known of it"),
        ({"image_processor_type": "CLIPImageProcessor"}, "is for a 'CLIPImageProcessor'; known"),
        ({"size": {"shortest_edge": 32, "longest_edge": 64}}, "known are a number, height and wid"),
        ({"size": {"max_height": 32, "max_width": 32}}, "size = {'max_height'"),
        ({"do_center_crop": True, "crop_size": {"shortest_edge": 32}}, "crop_size = .* are needed"),
    ],
    ids=str,
)
def test_a_setting_that_we_do_not_honour_is_refused(tmp_path, settings, message):
    with pytest.raises(NotImplementedError, match=message):
        reader(tmp_path, settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"size": {"height": 24, "width": 24}},
            "pictures of 24 × 24 pixels, the model reads 32",
        ),
        ({**DEIT, "crop_size": 30}, "makes pictures of 30 × 30 pixels"),
        ({"size": 0}, "must give size in pixels, got 0"),
        ({"size": "32"}, "must give size in pixels, got '32'"),
        ({"do_normalize": "no"}, "must give do_normalize as true or false, got 'no'"),
        ({"image_mean": [0.5, 0.5]}, r"must give image_mean as 3 numbers, got \[0.5, 0.5\]"),
        ({"image_std": [0.5, 0, 0.5]}, "must give image_std as 3 numbers, other than 0"),
        ({"image_mean": [0.5, "0.5", 0.5]}, "must give image_mean as a number, got '0.5'"),
        ({"rescale_factor": "1/255"}, "must give rescale_factor as a number, got '1/255'"),
    ],
    ids=str,
)
def test_a_setting_of_another_kind_is_named(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        reader(tmp_path, settings)


def test_a_picture_that_keeps_its_size_must_have_the_models(tmp_path):
    ours = reader(tmp_path, {**VIT, "do_resize": False})
    assert ours.encode(SMOOTH[:SIDE, :SIDE]).shape == (1, 3, SIDE, SIDE)
    with pytest.raises(ValueError, match="has 96 × 128 pixels after its settings, the model reads"):
        ours.encode(SMOOTH)
    with pytest.raises(ValueError, match="has 32 × 42 pixels after its settings"):
        reader(tmp_path, {**VIT, "size": {"shortest_edge": SIDE}}).encode(SMOOTH)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "RGBA", "CMYK", "I;16", "F", "P"])
def test_other_kinds_of_picture_say_what_to_do_or_are_converted(tmp_path, mode):
    kind = np.uint16 if mode == "I;16" else np.uint8
    picture = (
        Image.fromarray(SMOOTH[..., 0].astype(kind))
        if mode == "I;16"
        else Image.fromarray(SMOOTH).convert(mode)
    )
    plain = reader(tmp_path, VIT)
    for given in (picture, np.asarray(picture)):
        with pytest.raises(ValueError, match=r'width, 3\), got .*\.convert\("RGB"\)'):
            plain.encode(given)
    converted = reader(tmp_path, {**VIT, "do_convert_rgb": True}).encode(picture)
    assert torch.equal(converted, plain.encode(picture.convert("RGB")))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_how_the_camera_was_held_counts(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(SMOOTH).save(tmp_path / "held.png", exif=exif)
    turned = [SMOOTH, SMOOTH[:, ::-1], SMOOTH[::-1, ::-1], SMOOTH[::-1]]
    turned += [t.transpose(1, 0, 2) for t in (SMOOTH, SMOOTH[::-1], SMOOTH[::-1, ::-1])]
    turned += [SMOOTH[:, ::-1].transpose(1, 0, 2)]
    ours = reader(tmp_path, VIT)
    got = ours.encode(Image.open(tmp_path / "held.png"))
    assert torch.equal(got, ours.encode(turned[orientation - 1].copy()))


@pytest.mark.parametrize("shape", [(0, 0, 3), (0, 5, 3), (5, 0, 3)])
def test_a_picture_without_pixels_is_named(shape):
    with pytest.raises(ValueError, match="picture must have pixels, got none: shape"):
        PictureReader(8).encode(np.zeros(shape, np.uint8))


def test_a_picture_that_is_none_is_named():
    with pytest.raises(ValueError, match=r"uint8 of shape \(height, width, 3\), got float64"):
        PictureReader(8).encode(np.zeros((4, 4, 3)))
