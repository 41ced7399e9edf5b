"""Device files: what loads, what is refused, and with which words."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import hexenv.device
from hexenv.device import CONFIDENCES, UNITS, device_names, load_device
from hexenv.errors import ConfigError

V79 = Path(hexenv.device.__file__).parent / "v79.toml"
DELETE = object()


def write(tmp_path: Path, changes: dict[str, Any]) -> Path:
    """A copy of the v79 file with some keys (``constants.beta.unit``) set to other values or deleted."""
    table = tomllib.loads(V79.read_text(encoding="utf-8"))
    for dotted, value in changes.items():
        *outer, last = dotted.split(".")
        place = table
        for key in outer:
            place = place[key]
        if value is DELETE:
            del place[last]
        else:
            place[last] = value
    path = tmp_path / "mine.toml"
    path.write_text("".join(f"{key} = {inline(value)}\n" for key, value in table.items()), encoding="utf-8")
    return path


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {inline(item)}" for key, item in value.items()) + " }"
    return json.dumps(value) if isinstance(value, str | bool) else repr(value)


def refusal(path: Path | str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_device(str(path))
    message = str(caught.value)
    assert str(path) in message
    return message


@pytest.mark.parametrize("name", device_names())
def test_built_in_device_gives_every_constant_with_source_and_range(name: str) -> None:
    device = load_device(name)
    assert device.name == name
    assert set(device.constants) == set(UNITS)
    for key, constant in device.constants.items():
        assert getattr(device, key) == constant.value
        assert constant.low <= constant.value <= constant.high
        assert constant.confidence in CONFIDENCES
        assert constant.source


@pytest.mark.parametrize("name", device_names())
def test_numbers_nobody_published_say_so_and_have_room(name: str) -> None:
    for key, constant in load_device(name).constants.items():
        if "not published" in constant.source:
            assert constant.confidence == "D", key
            assert constant.high > constant.low, key


def test_v75_uses_its_own_measurements_and_marks_the_rest() -> None:
    v75, v79 = load_device("v75"), load_device("v79")
    assert 65536 / v75.hmx_tile_us / 1e6 == pytest.approx(12.03, rel=0.01)
    assert v75.ddr_bytes_per_us == 60000
    assert v75.hvx_load_bytes_per_us == 26000
    for key, constant in v75.constants.items():
        if "carried over" in constant.source:
            assert constant.confidence == "D"
            assert constant.value == v79.constants[key].value


def test_names_of_built_in_devices() -> None:
    assert {"v73", "v75", "v79", "v81", "xdna2"} <= set(device_names())


@pytest.mark.parametrize("name", ["v73", "v81", "xdna2"])
def test_a_device_on_a_base_trusts_nothing_it_carries_over(name: str) -> None:
    device, base = load_device(name), load_device("v79")
    carried = {key for key, constant in device.constants.items() if "carried over from v79" in constant.source}
    assert carried
    for key in carried:
        assert device.constants[key].confidence == "D"
        assert device.constants[key].value == base.constants[key].value
    assert all(device.constants[key].source != base.constants[key].source for key in device.constants)


@pytest.mark.parametrize("name", ["v73", "v81", "xdna2"])
def test_every_device_plays_an_episode_of_the_default_scenario(name: str) -> None:
    env = gymnasium.make("hexenv/Hexagon-v0", device=name, horizon_us=5_000.0)
    _, info = env.reset(seed=0)
    steps, over = 0, False
    while not over:
        legal = np.flatnonzero(info["action_mask"])
        _, _, terminated, truncated, info = env.step(legal[-1])
        steps, over = steps + 1, terminated or truncated
    assert steps > 10


def test_a_path_works_as_well_as_a_name(tmp_path: Path) -> None:
    path = write(tmp_path, {"name": "mine", "pipeline": "serial"})
    device = load_device(str(path))
    assert device.name == "mine"
    assert device.pipeline == "serial"
    assert device.hmx_tile_us == load_device("v79").hmx_tile_us


def test_devices_compare_and_hash_by_value() -> None:
    assert load_device("v79") == load_device("v79")
    assert hash(load_device("v79")) == hash(load_device("v79"))
    assert load_device("v79") != load_device("v79").with_pipeline("serial")


def test_unknown_name_lists_the_known_ones() -> None:
    assert "v73, v75, v79, v81, xdna2" in refusal("v99")


def on_base(tmp_path: Path, text: str, name: str = "mine") -> Path:
    """A short device file: ``text`` after the keys every device has, then the constants."""
    head = f'name = "{name}"\npipeline = "overlapped"\n'
    path = tmp_path / f"{name}.toml"
    path.write_text(head + text, encoding="utf-8")
    return path


def test_a_file_of_its_own_may_build_on_any_built_in_device(tmp_path: Path) -> None:
    """A base may itself have a base; what neither gives comes from the first of the chain."""
    beta = '{ value = 0.7, unit = "ratio", confidence = "C", low = 0.6, high = 0.8, source = "my bench" }'
    device = load_device(str(on_base(tmp_path, f'base = "v81"\n[constants]\nbeta = {beta}\n')))
    v81 = load_device("v81")
    assert (device.beta, device.contexts, device.hmx_tile_us) == (0.7, v81.contexts, v81.hmx_tile_us)
    assert device.constants["beta"].confidence == "C"
    assert device.constants["contexts"].confidence == "D"
    assert device.constants["fork_join_us"].source.startswith("not measured, carried over from v81: not measured")


@pytest.mark.parametrize(
    ("base", "words"),
    [
        ('"v99"', ("base = 'v99'", "v73, v75, v79, v81, xdna2")),
        ("79", ("base = 79", "v73, v75, v79, v81, xdna2")),
        ('["v79"]', ("base = ['v79']", "v73, v75, v79, v81, xdna2")),
        ('"other.toml"', ("base = 'other.toml'", "v73, v75, v79, v81, xdna2")),
    ],
)
def test_a_bad_base_is_refused(tmp_path: Path, base: str, words: tuple[str, ...]) -> None:
    message = refusal(on_base(tmp_path, f"base = {base}\n[constants]\n"))
    for word in words:
        assert word in message


def test_a_file_of_its_own_may_have_the_name_of_its_base(tmp_path: Path) -> None:
    device = load_device(str(on_base(tmp_path, 'base = "v79"\n[constants]\n', name="v79")))
    assert device.contexts == load_device("v79").contexts


@pytest.mark.parametrize(("first", "second"), [("one", "v79"), ("two", "one")], ids=["itself", "loop"])
def test_a_loop_of_bases_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, second: str) -> None:
    monkeypatch.setattr(hexenv.device.device, "_FOLDER", tmp_path)
    for name, base in (("one", first), ("two", second), ("three", "two")):
        on_base(tmp_path, f'base = "{base}"\n[constants]\n', name=name)
    with pytest.raises(ConfigError, match=r"base = 'one'; allowed, without a loop: "):
        load_device("one")


def test_without_a_base_every_missing_constant_is_named(tmp_path: Path) -> None:
    message = refusal(on_base(tmp_path, "[constants]\n"))
    assert "missing constant" in message
    assert all(key in message for key in UNITS)


def test_missing_file(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path / "none.toml")


def test_bad_toml(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("name = [", encoding="utf-8")
    assert "not valid TOML" in refusal(path)


def test_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(b"\xff\xfe\x00")
    assert "not valid TOML" in refusal(path)


TILE = "constants.hmx_tile_us"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({TILE: DELETE}, ("missing constant", "hmx_tile_us")),
        ({"constants.hmx_tyle_us": 1}, ("unknown constant 'hmx_tyle_us'", "allowed", "hmx_tile_us")),
        ({"name": DELETE}, ("'name' is missing", "name, pipeline, constants")),
        ({"colour": 1}, ("unknown key 'colour'", "name, pipeline, constants")),
        ({"name": 79}, ("name = 79", "allowed")),
        ({"pipeline": "both"}, ("pipeline = 'both'", "overlapped, serial")),
        ({"constants": 3}, ("constants = 3", "expected")),
        ({TILE: 1}, ("hmx_tile_us = 1", "expected a table", "confidence")),
        ({f"{TILE}.value": DELETE}, ("hmx_tile_us", "'value' is missing")),
        ({f"{TILE}.source": DELETE}, ("hmx_tile_us", "'source' is missing")),
        ({f"{TILE}.source": " "}, ("hmx_tile_us", "source = ' '")),
        ({f"{TILE}.source": 3}, ("hmx_tile_us", "source = 3")),
        ({f"{TILE}.typical": 1}, ("hmx_tile_us", "unknown field 'typical'", "confidence")),
        ({f"{TILE}.unit": "ms"}, ("hmx_tile_us", "unit = 'ms'", "'us'")),
        ({f"{TILE}.confidence": "E"}, ("hmx_tile_us", "confidence = 'E'", "A, B, C, D")),
        ({f"{TILE}.low": 0.00386999}, ("hmx_tile_us", "value = 0.003864", "0.00386999")),
        ({f"{TILE}.high": 0.0038}, ("hmx_tile_us", "value = 0.003864", "0.0038")),
        ({f"{TILE}.low": 0.1}, ("hmx_tile_us", "low = 0.1", "high = 0.00387")),
        ({f"{TILE}.value": "fast"}, ("hmx_tile_us", "value = 'fast'", "finite number")),
        ({f"{TILE}.value": True}, ("hmx_tile_us", "value = True", "finite number")),
        ({f"{TILE}.high": float("inf")}, ("hmx_tile_us", "high = inf", "finite number")),
        ({f"{TILE}.low": -1.0}, ("hmx_tile_us", "low = -1.0", "0 or more")),
        ({"constants.vtcm_bytes.value": 8388608.0}, ("vtcm_bytes", "8388608.0", "whole number")),
        ({"constants.ddr_bytes_per_us.low": 0}, ("ddr_bytes_per_us", "low = 0", "above 0")),
        ({"constants.contexts.value": 11, "constants.contexts.high": 11}, ("contexts", "= 11", "1 to 10")),
    ],
)
def test_a_wrong_file_is_refused_with_key_value_and_what_is_allowed(
    tmp_path: Path, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    message = refusal(write(tmp_path, changes))
    for word in words:
        assert word in message


def test_other_values_inside_the_range() -> None:
    device = load_device("v79")
    other = device.with_values(eta_shared=0.7, ddr_bytes_per_us=60000)
    assert (other.eta_shared, other.ddr_bytes_per_us) == (0.7, 60000)
    assert other.constants["eta_shared"].value == 0.7
    assert device.eta_shared != 0.7


def test_values_outside_the_range_or_unknown_are_refused() -> None:
    device = load_device("v79")
    with pytest.raises(ConfigError, match=r"eta_shared = 2 ratio; allowed: 0\.6 to 1"):
        device.with_values(eta_shared=2.0)
    with pytest.raises(ConfigError, match="unknown constant 'eta'"):
        device.with_values(eta=1.0)


def test_another_pipeline_generation() -> None:
    device = load_device("v79")
    assert device.pipeline == "overlapped"
    assert device.with_pipeline("serial").pipeline == "serial"
    with pytest.raises(ConfigError, match="overlapped, serial"):
        device.with_pipeline("both")
