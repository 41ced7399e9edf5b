"""ONNX files become graphs: real models that ship in a package, small hand-made ones, and every bad file."""

import builtins
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hexenv.errors import ConfigError
from hexenv.kernels import (
    Conv2d,
    Copy,
    DepthwiseConv2d,
    Elementwise,
    L2Norm,
    LayerNorm,
    MatMul,
    Pool,
    Reduce,
    Resize,
    Softmax,
)
from hexenv.workload import build
from hexenv.workload.onnx_import import import_onnx

F = TensorProto.FLOAT


def packaged(name):
    """A model inside the package rapidocr, found without importing it."""
    spec = find_spec("rapidocr")
    assert spec is not None, "the test extra installs rapidocr"
    return Path(spec.submodule_search_locations[0]) / "models" / name


@pytest.fixture
def save(tmp_path):
    """Writes a model from its nodes; ``weights`` maps names to shapes or arrays. Returns the path."""

    def save_model(nodes, inputs, outputs=("y",), weights=None, opset=17):
        values = {
            name: v if isinstance(v, np.ndarray) else np.ones(v, np.float32) for name, v in (weights or {}).items()
        }
        graph = helper.make_graph(
            nodes,
            "test",
            [helper.make_tensor_value_info(name, F, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(name, F, None) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in values.items()],
        )
        path = tmp_path / "model.onnx"
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]),
            path,
        )
        return path

    return save_model


def one(save, op, shape, weights=None, opset=17, inputs=None, **attributes):
    """The only operator of a model with one node that reads ``x`` and the weights."""
    names = [*(inputs or {"x": shape}), *(weights or {})]
    path = save([helper.make_node(op, names, ["y"], **attributes)], inputs or {"x": shape}, ("y",), weights, opset)
    (node,) = import_onnx(path, {}).graph.nodes
    return node.operator


@pytest.mark.parametrize(
    ("name", "shape", "macs", "convolutions"),
    [
        ("PP-OCRv6_det_small.onnx", (1, 3, 320, 320), 1_083_000_000, 83),
        ("PP-OCRv6_rec_small.onnx", (1, 3, 48, 320), 1_092_000_000, 57),
        ("ch_ppocr_mobile_v2.0_cls_mobile.onnx", (1, 3, 48, 192), 16_000_000, 53),
    ],
)
def test_real_models_are_mapped_whole(name, shape, macs, convolutions):
    path = packaged(name)
    imported = import_onnx(path, {"x": shape})
    report = imported.report
    assert report.unmapped == ()
    assert report.macs == pytest.approx(macs, rel=0.03)
    assert sum(n for (kind, _), n in report.mapped.items() if kind == "Conv") == convolutions
    nodes = len(onnx.load(path, load_external_data=False).graph.node)
    assert sum(report.mapped.values()) + sum(report.merged.values()) + sum(report.free.values()) == nodes
    assert len(imported.graph.nodes) == sum(report.mapped.values())
    assert str(path) in str(report)


def test_buffers_join_producers_and_consumers():
    graph = import_onnx(packaged("PP-OCRv6_det_small.onnx"), {"x": (1, 3, 320, 320)}).graph
    written = {"x"}
    for node in graph.nodes:
        assert set(node.reads) <= written, node.name
        written.update(node.writes)


def test_free_axes_need_a_shape():
    with pytest.raises(ConfigError, match=r"PP-OCRv6_det_small\.onnx: shapes\.x = missing, allowed: a full shape"):
        import_onnx(packaged("PP-OCRv6_det_small.onnx"), {})


@pytest.mark.parametrize("shape", [(1, 4, 8, 8), (1, 3, 8), (1, 3, 8, 8, 1)])
def test_shapes_must_fit(save, shape):
    path = save([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 3, "h", "w")})
    with pytest.raises(ConfigError, match=r"model\.onnx: shapes\.x = \[.*\], allowed: a full shape that fits"):
        import_onnx(path, {"x": shape})
    with pytest.raises(ConfigError, match=r"shapes\.image: no such input, allowed: x"):
        import_onnx(path, {"image": (1, 3, 8, 8)})


def test_convolutions(save):
    w = {"w": (16, 8, 3, 5)}
    assert one(save, "Conv", (1, 8, 20, 30), w, strides=[2, 1], pads=[1, 2, 1, 2]) == Conv2d(10, 30, 8, 16, 3, 5, 2, 1)
    depthwise = one(save, "Conv", (2, 8, 20, 30), {"w": (16, 1, 3, 3)}, group=8, pads=[1, 1, 1, 1])
    assert depthwise == DepthwiseConv2d(40, 30, 16, 3, 3, 1, 1)
    grouped = one(save, "Conv", (1, 8, 20, 30), {"w": (16, 4, 1, 1)}, group=2)
    assert grouped == Conv2d(20, 30, 4, 16, 1, 1, 1, 1)
    assert one(save, "Conv", (1, 8, 100), {"w": (16, 8, 5)}, pads=[2, 2]) == Conv2d(1, 100, 8, 16, 1, 5, 1, 1)
    transposed = one(save, "ConvTranspose", (1, 8, 20, 30), {"w": (8, 16, 2, 2)}, strides=[2, 2])
    assert transposed == Conv2d(20, 30, 8, 64, 1, 1, 1, 1)


def test_matrix_products(save):
    assert one(save, "MatMul", (4, 10, 64), {"w": (64, 32)}) == MatMul("f16", 32, 40, 64)
    assert one(save, "Gemm", (10, 64), {"w": (32, 64)}, transB=1) == MatMul("f16", 32, 10, 64)
    both = one(save, "MatMul", None, inputs={"a": (4, 10, 64), "b": (4, 64, 20)})
    assert both == MatMul("f16", 20, 10, 64, batch=4)


@pytest.mark.parametrize(
    ("op", "shape", "weights", "attributes", "expected"),
    [
        (
            "MaxPool",
            (1, 8, 20, 20),
            None,
            {"kernel_shape": [2, 2], "strides": [2, 2]},
            Pool("max", 10, 10, 8, 2, 2, 2, 2, 2),
        ),
        ("GlobalAveragePool", (1, 8, 20, 20), None, {}, Reduce(8, 400)),
        ("Softmax", (4, 5, 100), None, {"axis": -1}, Softmax(20, 100)),
        ("LayerNormalization", (4, 5, 64), {"w": (64,)}, {"axis": -1}, LayerNorm(20, 64)),
        ("LpNormalization", (4, 5, 64), None, {"axis": -1}, L2Norm(20, 64)),
        ("InstanceNormalization", (1, 8, 20, 20), {"w": (8,), "b": (8,)}, {}, LayerNorm(8, 400)),
        ("Transpose", (2, 3, 4), None, {"perm": [2, 0, 1]}, Copy(24, 2)),
        ("Pad", (1, 1, 4, 4), {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1])}, {}, Copy(36, 2)),
        ("Mul", (1, 8, 4, 4), {"w": (1, 8, 1, 1)}, {}, Elementwise("scale", 128, 2)),
        ("Sigmoid", (1, 8, 4, 4), None, {}, Elementwise("sigmoid", 128, 2)),
        ("HardSwish", (1, 8, 4, 4), None, {}, Elementwise("hardswish", 128, 2)),
        ("Pow", (4, 4), {"e": np.array(2.0, np.float32)}, {}, Elementwise("sqr", 16, 2)),
        ("BatchNormalization", (1, 8, 4, 4), dict.fromkeys("abcd", (8,)), {}, Elementwise("clip", 128, 2)),
        ("DepthToSpace", (1, 8, 4, 4), None, {"blocksize": 2}, Copy(128, 2)),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_other_operators(save, op, shape, weights, attributes, expected):
    assert one(save, op, shape, weights, **attributes) == expected


def test_softmax_flattened_before_opset_13(save):
    assert one(save, "Softmax", (4, 5, 100), opset=11) == Softmax(4, 500)


def test_resize(save):
    nodes = [helper.make_node("Resize", ["x", "", "s"], ["y"])]
    path = save(nodes, {"x": (1, 8, 10, 10)}, weights={"s": np.array([1, 1, 2, 3], np.float32)})
    (node,) = import_onnx(path, {}).graph.nodes
    assert node.operator == Resize(20, 30, 8, 2)


def test_two_streams_and_their_sum(save):
    assert one(save, "Add", None, inputs={"a": (4, 8), "b": (4, 8)}) == Elementwise("add", 32, 2)
    assert one(save, "Add", None, inputs={"a": (4, 8), "b": (4, 1)}) == Elementwise("scale", 32, 2)


CONV = helper.make_node("Conv", ["x", "w"], ["c"], name="conv")
CONV_WEIGHTS = {"w": (8, 8, 1, 1), "k": (1, 8, 1, 1), "b": (8,)}


def merged_and_mapped(save, *nodes, outputs=("y",)):
    report = import_onnx(save([CONV, *nodes], {"x": (1, 8, 4, 4)}, outputs, CONV_WEIGHTS), {}).report
    return dict(report.merged), {kind for kind, _ in report.mapped}


def test_scale_bias_and_activation_merge_into_the_convolution(save):
    nodes = [
        helper.make_node("BatchNormalization", ["c", "b", "b", "b", "b"], ["n"]),
        helper.make_node("Mul", ["n", "k"], ["m"]),
        helper.make_node("Relu", ["m"], ["y"]),
    ]
    assert merged_and_mapped(save, *nodes) == ({"BatchNormalization": 1, "Mul": 1, "Relu": 1}, {"Conv"})


def test_nothing_merges_behind_an_activation(save):
    nodes = [helper.make_node("Relu", ["c"], ["r"]), helper.make_node("Add", ["r", "k"], ["y"])]
    assert merged_and_mapped(save, *nodes) == ({"Relu": 1}, {"Conv", "Add"})


def test_results_with_other_readers_do_not_merge(save):
    nodes = [helper.make_node("Add", ["c", "k"], ["a"]), helper.make_node("Mul", ["a", "c"], ["y"])]
    assert merged_and_mapped(save, *nodes) == ({}, {"Conv", "Add", "Mul"})
    assert merged_and_mapped(save, helper.make_node("Relu", ["c"], ["y"]), outputs=("y", "c"))[0] == {}


def test_division_by_the_result_does_not_merge(save):
    assert merged_and_mapped(save, helper.make_node("Div", ["k", "c"], ["y"])) == ({}, {"Conv", "Div"})


def test_computed_shapes_and_reshapes_are_free(save):
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "i"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["target"], axis=0),
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Reshape", ["r", "target"], ["flat"]),
        helper.make_node("Transpose", ["flat"], ["still"], perm=[1, 0, 2]),
        helper.make_node("Neg", ["still"], ["y"]),
    ]
    weights = {"i": np.array([0]), "rest": np.array([1, -1])}
    imported = import_onnx(save(nodes, {"x": (6, 2, 3)}, weights=weights), {})
    free = {"Shape": 1, "Gather": 1, "Concat": 1, "Reshape": 1, "Transpose": 1}
    assert imported.report.free == free
    relu, neg = imported.graph.nodes
    assert neg.reads == relu.writes


UNKNOWN = [
    helper.make_node("Relu", ["x"], ["r"]),
    helper.make_node("NonZero", ["r"], ["z"], name="where"),
    helper.make_node("Cast", ["z"], ["y"], to=F),
    helper.make_node("MyOp", ["r"], ["m"], name="mine", domain="custom"),
]


def test_operators_without_mapping_are_listed_together(save):
    path = save(UNKNOWN, {"x": (4, 4)}, ("y", "m"))
    with pytest.raises(ConfigError) as error:
        import_onnx(path, {})
    text = str(error.value)
    assert text.startswith(f"{path}: no mapping for NonZero where (unknown operator); Cast y (")
    assert "MyOp mine (unknown operator)" in text
    assert "allow_unmapped = true" in text


def test_unmapped_operators_can_be_left_out(save):
    imported = import_onnx(save(UNKNOWN, {"x": (4, 4)}, ("y", "m")), {}, allow_unmapped=True)
    assert [kind for kind, _, _ in imported.report.unmapped] == ["NonZero", "Cast", "MyOp"]
    assert [node.operator for node in imported.graph.nodes] == [Elementwise("relu", 16, 2)]


def test_model_without_work_is_refused(save):
    path = save([helper.make_node("Identity", ["x"], ["y"])], {"x": (4,)})
    with pytest.raises(ConfigError, match=r"model\.onnx: no operator with work"):
        import_onnx(path, {})


def test_missing_file(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.onnx: cannot be read"):
        import_onnx(tmp_path / "none.onnx", {})


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_files(tmp_path, part):
    whole = packaged("ch_ppocr_mobile_v2.0_cls_mobile.onnx").read_bytes()
    path = tmp_path / "cut.onnx"
    path.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(ConfigError, match=r"cut\.onnx: truncated or not an ONNX file"):
        import_onnx(path, {"x": (1, 3, 48, 192)})


@pytest.mark.parametrize("content", [b"hello world, this is text", b"\x89PNG\r\n\x1a\n", b"\x00" * 64])
def test_other_files_are_not_models(tmp_path, content):
    path = tmp_path / "other.onnx"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"other\.onnx: truncated or not an ONNX file"):
        import_onnx(path, {})


def test_node_that_reads_nothing_known_is_listed(save):
    nodes = [
        helper.make_node("Relu", ["nobody"], ["y"], name="lost"),
        helper.make_node("Shape", [], ["s"], name="bare"),
    ]
    with pytest.raises(ConfigError, match=r"model\.onnx: no mapping for Relu lost \(output shape is unknown\)"):
        import_onnx(save(nodes, {"x": (4,)}), {})


def test_missing_package_says_what_to_install(monkeypatch, tmp_path):
    real = builtins.__import__

    def without_onnx(name, *args, **kwargs):
        if name.split(".")[0] == "onnx":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_onnx)
    with pytest.raises(ConfigError, match=r"pip install 'hexenv\[onnx\]'"):
        import_onnx(tmp_path / "any.onnx", {})


def test_scenario_runs_a_file_beside_it(save, write):
    save([CONV, helper.make_node("Relu", ["c"], ["y"])], {"x": (1, 8, "h", "w")}, weights={"w": (8, 8, 1, 1)})
    vision = 'model = "vision:preview"\nheight = 480\nwidth = 640\n'
    tables = build(write((vision, 'model = "onnx:model.onnx"\nshapes = { x = [1, 8, 64, 48] }\n')))
    assert tables.template_names[0] == "model"
    assert tables.stage_names[0] == "c"
    with pytest.raises(ConfigError, match=r"gone\.onnx: cannot be read"):
        build(write((vision, 'model = "onnx:gone.onnx"\n')))
    with pytest.raises(ConfigError, match=r"jobs\[0\]\.shapes\.x = \[1, 0\], allowed: an array of integers"):
        build(write((vision, 'model = "onnx:model.onnx"\nshapes = { x = [1, 0] }\n')))


def test_real_model_as_a_stream(write):
    vision = 'model = "vision:preview"\nheight = 480\nwidth = 640\n'
    model = packaged("PP-OCRv6_det_small.onnx").as_posix()
    tables = build(write((vision, f'model = "onnx:{model}"\nshapes = {{ x = [1, 3, 320, 320] }}\n')))
    versions = (tables.ops["variant"] >= 0).any(axis=2).sum(axis=1)
    stages = tables.stages[: tables.templates["n_stages"][0]]
    assert len(stages) >= 200
    assert (versions[stages["op"]] >= 2).mean() > 0.2
