"""Vision jobs: true layer lists, and frames that keep their order."""

from importlib.resources import files

import pytest

from hexenv.kernels import Conv2d, DepthwiseConv2d, MatMul, Stencil
from hexenv.workload import build, scenarios, vision
from hexenv.workload.dependencies import ordered, state_links


def macs(graph):
    total = 0
    for node in graph.nodes:
        op = node.operator
        if isinstance(op, Conv2d):
            total += op.height * op.width * op.in_channels * op.out_channels * op.kernel_h * op.kernel_w
        elif isinstance(op, DepthwiseConv2d):
            total += op.height * op.width * op.channels * op.kernel_h * op.kernel_w
        elif isinstance(op, MatMul):
            total += op.m * op.n * op.k
    return total


def test_classifier_is_mobilenet_v2():
    """MobileNetV2 1.0 at 224: 52 convolutions, 300.8 M multiply-accumulates with its 1.28 M of the last layer."""
    graph = vision.classifier(224)
    convolutions = [node for node in graph.nodes if isinstance(node.operator, Conv2d | DepthwiseConv2d)]
    assert len(convolutions) == 52
    assert macs(graph) == 300_774_272


def test_detector_heads_sit_on_two_scales():
    heads = {n.name: n.operator for n in vision.detector(320).nodes if n.name.startswith(("boxes", "classes"))}
    sizes = {(op.height, op.width) for op in heads.values()}
    assert sizes == {(20, 20), (10, 10)}
    assert heads["boxes_16"].in_channels == 576  # the expanded map of the first stride-32 block, as in SSD-Lite
    assert heads["classes_32"].in_channels == 1280


@pytest.mark.parametrize("name", vision.PIPELINES)
def test_names_are_unique_and_buffers_written_once(name):
    graph = vision.PIPELINES[name]()
    assert len({node.name for node in graph.nodes}) == len(graph.nodes)
    written = [b for node in graph.nodes for b in node.writes]
    assert len(set(written)) == len(written)


@pytest.mark.parametrize("name", ["preview", "raw_preview", "features"])
def test_denoise_follows_the_previous_frame(name):
    graph = vision.PIPELINES[name]()
    before = ordered(graph.nodes, 8)
    names = [node.name for node in graph.nodes]
    links = state_links(graph, before, graph, before)
    linked = {names[i]: {names[j] for j in stages} for i, stages in enumerate(links) if stages}
    assert set(linked) == {"temporal_blend"}
    readers = {node.name for node in graph.nodes if "previous_frame" in node.reads} - {"temporal_blend"}
    assert linked["temporal_blend"] == readers


def test_raw_preview_is_the_camera_pipe_before_a_preview():
    raw, plain = vision.raw_preview(480, 640), vision.preview(480, 640)
    assert raw.nodes[0].operator == Stencil("camera_pipe", 480, 640)
    assert [(node.name, node.operator) for node in raw.nodes[1:]] == [(n.name, n.operator) for n in plain.nodes]
    assert raw.nodes[0].writes[0] in raw.nodes[1].reads


def test_a_scenario_can_run_raw_preview(tmp_path):
    text = (files(scenarios) / "camera_decode.toml").read_text(encoding="utf-8")
    path = tmp_path / "raw.toml"
    path.write_text(text.replace('"vision:preview"', '"vision:raw_preview"'), encoding="utf-8")
    tables = build(str(path))
    assert any(name.startswith("camera_pipe") for name in tables.op_names)
