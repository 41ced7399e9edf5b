"""ONNX files become graphs: real models that ship in a package, small hand-made ones, and every bad file."""

import builtins
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from hexenv.device import load_device
from hexenv.errors import EXIT_CODE, ConfigError
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
    Scan,
    Softmax,
)
from hexenv.workload import build
from hexenv.workload.__main__ import main
from hexenv.workload.onnx_compound import COMPOUND
from hexenv.workload.onnx_import import import_onnx
from hexenv.workload.onnx_operators import FREE, MAPPING
from hexenv.workload.onnx_report import onnx_report, outcomes
from hexenv.workload.onnx_shapes import Inputs
from hexenv.workload.prediction import operator_us

F = TensorProto.FLOAT
V79 = load_device("v79")


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
    (node,) = import_onnx(path, Inputs()).graph.nodes
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
    imported = import_onnx(path, Inputs(shapes=(("x", shape),)))
    report = imported.report
    assert report.unmapped == ()
    assert report.macs == pytest.approx(macs, rel=0.03)
    assert sum(n for (kind, _), n in report.mapped.items() if kind == "Conv") == convolutions
    nodes = len(onnx.load(path, load_external_data=False).graph.node)
    assert sum(report.mapped.values()) + sum(report.merged.values()) + sum(report.free.values()) == nodes
    assert len(imported.graph.nodes) == sum(report.mapped.values())
    assert str(path) in str(report)


def test_buffers_join_producers_and_consumers():
    graph = import_onnx(packaged("PP-OCRv6_det_small.onnx"), Inputs(shapes=(("x", (1, 3, 320, 320)),))).graph
    written = {"x"}
    for node in graph.nodes:
        assert set(node.reads) <= written, node.name
        written.update(node.writes)


def test_free_axes_need_a_shape():
    with pytest.raises(ConfigError, match=r"PP-OCRv6_det_small\.onnx: shapes\.x = missing, allowed: a full shape"):
        import_onnx(packaged("PP-OCRv6_det_small.onnx"), Inputs())


@pytest.mark.parametrize("shape", [(1, 4, 8, 8), (1, 3, 8), (1, 3, 8, 8, 1)])
def test_shapes_must_fit(save, shape):
    path = save([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 3, "h", "w")})
    with pytest.raises(ConfigError, match=r"model\.onnx: shapes\.x = \[.*\], allowed: a full shape that fits"):
        import_onnx(path, Inputs(shapes=(("x", shape),)))
    with pytest.raises(ConfigError, match=r"shapes\.image: no such input, allowed: x"):
        import_onnx(path, Inputs(shapes=(("image", (1, 3, 8, 8)),)))


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
    (node,) = import_onnx(path, Inputs()).graph.nodes
    assert node.operator == Resize(20, 30, 8, 2)


def test_two_streams_and_their_sum(save):
    assert one(save, "Add", None, inputs={"a": (4, 8), "b": (4, 8)}) == Elementwise("add", 32, 2)
    assert one(save, "Add", None, inputs={"a": (4, 8), "b": (4, 1)}) == Elementwise("scale", 32, 2)


CONV = helper.make_node("Conv", ["x", "w"], ["c"], name="conv")
CONV_WEIGHTS = {"w": (8, 8, 1, 1), "k": (1, 8, 1, 1), "b": (8,)}


def merged_and_mapped(save, *nodes, outputs=("y",)):
    report = import_onnx(save([CONV, *nodes], {"x": (1, 8, 4, 4)}, outputs, CONV_WEIGHTS), Inputs()).report
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


@pytest.mark.parametrize(("gate", "kind"), [("Sigmoid", "silu"), ("HardSigmoid", "hardswish")])
def test_an_activation_that_gates_its_input_is_one_operator(save, gate, kind):
    nodes = [helper.make_node(gate, ["x"], ["g"]), helper.make_node("Mul", ["x", "g"], ["y"])]
    imported = import_onnx(save(nodes, {"x": (2, 8)}), Inputs())
    assert [node.operator for node in imported.graph.nodes] == [half(kind, 16)]
    assert imported.graph.nodes[0].reads == ("x",)
    assert imported.report.merged == {gate: 1}


@pytest.mark.parametrize("other", ["z", "g"])
def test_other_products_of_an_activation_stay(save, other):
    nodes = [helper.make_node("Sigmoid", ["x"], ["g"]), helper.make_node("Mul", ["g", other], ["y"])]
    imported = import_onnx(save(nodes, {"x": (2, 8), "z": (2, 8)}), Inputs())
    assert [node.operator.kind for node in imported.graph.nodes] == ["sigmoid", "mul"]


SCALARS = {"r": (1,), "one": (1,), "half": (1,)}
GELU = [
    helper.make_node("Div", ["x", "r"], ["d"]),
    helper.make_node("Erf", ["d"], ["e"]),
    helper.make_node("Add", ["e", "one"], ["a"]),
]


@pytest.mark.parametrize(
    "factors",
    [
        [("x", "a", "m"), ("m", "half", "y")],
        [("a", "half", "m"), ("x", "m", "y")],
        [("x", "half", "h"), ("h", "a", "y")],
    ],
)
def test_a_gelu_written_out_is_one_operator(save, factors):
    nodes = [*GELU, *(helper.make_node("Mul", [left, right], [result]) for left, right, result in factors)]
    report = import_onnx(save(nodes, {"x": (2, 8)}, weights=SCALARS), Inputs()).report
    assert report.mapped == {("Mul", "Elementwise"): 1}
    assert report.merged == {"Div": 1, "Erf": 1, "Add": 1, "Mul": 1}
    (node,) = import_onnx(save(nodes, {"x": (2, 8)}, weights=SCALARS), Inputs()).graph.nodes
    assert (node.operator, node.reads, node.writes) == (half("gelu", 16), ("x",), ("y",))


@pytest.mark.parametrize("outputs", [("y", "e"), ("y", "d"), ("y", "a")])
def test_a_gelu_with_results_for_others_is_none(save, outputs):
    nodes = [*GELU, helper.make_node("Mul", ["x", "a"], ["y"])]
    graph = import_onnx(save(nodes, {"x": (2, 8)}, outputs, SCALARS), Inputs()).graph
    assert len(graph.nodes) == 4


def test_an_error_function_of_something_else_is_none(save):
    nodes = [*GELU, helper.make_node("Mul", ["z", "a"], ["y"])]
    graph = import_onnx(save(nodes, {"x": (2, 8), "z": (2, 8)}, weights=SCALARS), Inputs()).graph
    assert [node.operator.kind for node in graph.nodes] == ["scale", "erf", "scale", "mul"]


def layer_norm(square):
    return [
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[-1]),
        helper.make_node("Sub", ["x", "m"], ["s"]),
        helper.make_node(square, ["s", "s" if square == "Mul" else "two"], ["q"]),
        helper.make_node("ReduceMean", ["q"], ["v"], axes=[-1]),
        helper.make_node("Add", ["v", "eps"], ["p"]),
        helper.make_node("Sqrt", ["p"], ["t"]),
        helper.make_node("Div", ["s", "t"], ["n"]),
        helper.make_node("Mul", ["n", "w"], ["g"]),
        helper.make_node("Add", ["g", "b"], ["y"]),
    ]


NORM_WEIGHTS = {"two": np.array(2.0, np.float32), "eps": (1,), "w": (64,), "b": (64,)}


@pytest.mark.parametrize("square", ["Pow", "Mul"])
def test_a_layer_norm_written_out_is_one_operator(save, square):
    imported = import_onnx(save(layer_norm(square), {"x": (4, 10, 64)}, weights=NORM_WEIGHTS), Inputs())
    assert [node.operator for node in imported.graph.nodes] == [LayerNorm(40, 64)]
    assert sum(imported.report.merged.values()) == 8


@pytest.mark.parametrize("seen", ["m", "s", "q", "t"])
def test_a_layer_norm_with_results_for_others_is_none(save, seen):
    path = save(layer_norm("Pow"), {"x": (4, 10, 64)}, ("y", seen), NORM_WEIGHTS)
    assert not any(isinstance(node.operator, LayerNorm) for node in import_onnx(path, Inputs()).graph.nodes)


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
    imported = import_onnx(save(nodes, {"x": (6, 2, 3)}, weights=weights), Inputs())
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
        import_onnx(path, Inputs())
    text = str(error.value)
    assert text.startswith(f"{path}: no mapping for NonZero where (unknown operator); Cast y (")
    assert "MyOp mine (unknown operator)" in text
    assert "allow_unmapped = true" in text


def test_unmapped_operators_can_be_left_out(save):
    imported = import_onnx(save(UNKNOWN, {"x": (4, 4)}, ("y", "m")), Inputs(), allow_unmapped=True)
    assert [kind for kind, _, _ in imported.report.unmapped] == ["NonZero", "Cast", "MyOp"]
    assert [node.operator for node in imported.graph.nodes] == [Elementwise("relu", 16, 2)]


def test_model_without_work_is_refused(save):
    path = save([helper.make_node("Identity", ["x"], ["y"])], {"x": (4,)})
    with pytest.raises(ConfigError, match=r"model\.onnx: no operator with work"):
        import_onnx(path, Inputs())


def mapped(save, op, inputs, weights=None, opset=20, domain="", outputs=("y",), **attributes):
    """The operators that one node becomes, in order, and how the report names them."""
    names = [*inputs, *(weights or {})]
    node = helper.make_node(op, names, list(outputs), domain=domain, **attributes)
    imported = import_onnx(save([node], inputs, outputs, weights, opset), Inputs())
    return [node.operator for node in imported.graph.nodes]


def half(kind, elements):
    return Elementwise(kind, elements, 2)


@pytest.mark.parametrize(("directions", "direction"), [(1, "forward"), (2, "bidirectional")])
def test_recurrent_layers_project_all_steps_at_once(save, directions, direction):
    weights = {"w": (directions, 256, 40), "r": (directions, 256, 64)}
    operators = mapped(save, "LSTM", {"x": (10, 2, 40)}, weights, hidden_size=64, direction=direction)
    elements = 10 * 2 * 64 * directions
    assert operators == [
        MatMul("f16", 256 * directions, 20, 40),
        MatMul("f16", 256, 2, 64, batch=10 * directions),
        half("sigmoid", 3 * elements),
        half("tanh", elements),
        half("mul", elements),
    ]


def test_chains_of_one_node_follow_one_another(save):
    weights = {"w": (1, 192, 8), "r": (1, 192, 64)}
    nodes = [
        helper.make_node("GRU", ["x", "w", "r"], ["g"], hidden_size=64),
        helper.make_node("Relu", ["g"], ["y"]),
    ]
    imported = import_onnx(save(nodes, {"x": (5, 1, 8)}, weights=weights), Inputs())
    reads = [node.reads for node in imported.graph.nodes]
    writes = [node.writes for node in imported.graph.nodes]
    assert reads == [("x",), *writes[:-1]]
    assert imported.report.origins == ("GRU",) * 5 + ("Relu",)
    assert imported.report.mapped == {("GRU", "MatMul, Elementwise"): 1, ("Relu", "Elementwise"): 1}


@pytest.mark.parametrize(
    ("equation", "left", "right", "expected"),
    [
        ("bhid,bhjd->bhij", (2, 3, 10, 16), (2, 3, 20, 16), MatMul("f16", 20, 10, 16, batch=6)),
        ("bij, bjk -> bik", (2, 10, 16), (2, 16, 5), MatMul("f16", 5, 10, 16, batch=2)),
        ("ij,jk->ik", (10, 16), (16, 5), MatMul("f16", 5, 10, 16)),
    ],
)
def test_einsum(save, equation, left, right, expected):
    assert mapped(save, "Einsum", {"a": left, "b": right}, equation=equation) == [expected]


def test_einsum_of_one_tensor_is_refused(save):
    with pytest.raises(ConfigError, match=r"Einsum y \(equation 'ii->i', allowed: two tensors"):
        mapped(save, "Einsum", {"a": (4, 4)}, equation="ii->i")


@pytest.mark.parametrize(
    ("op", "inputs", "weights", "attributes", "expected"),
    [
        ("TopK", {"x": (1, 300)}, {"k": np.array([5])}, {}, [Copy(300, 4, "argsort")] * 3),
        ("CumSum", {"x": (4, 100)}, {"a": np.array(1)}, {}, [Scan(4, 100)]),
        ("LRN", {"x": (1, 8, 4, 4)}, None, {"size": 5}, None),
        ("Pow", {"x": (4, 4)}, {"e": np.array(1.7, np.float32)}, {}, [half("softplus", 16)]),
        ("Sum", {"a": (4, 4), "b": (4, 4), "c": (4, 4)}, None, {}, [half("add", 32)]),
        ("GatherElements", {"x": (4, 4)}, {"i": np.zeros((2, 4), np.int64)}, {}, [Copy(8, 2, "gather")]),
        ("ScatterND", {"x": (4, 4)}, {"i": np.zeros((1, 1), np.int64), "u": (1, 4)}, {}, [Copy(16, 2, "scatter")]),
        ("GridSample", {"x": (1, 3, 8, 8)}, {"g": (1, 4, 4, 2)}, {}, [Copy(192, 2, "gather"), half("hardswish", 48)]),
        ("Mish", {"x": (4, 4)}, None, {}, [half("softplus", 16)]),
        ("Sin", {"x": (4, 4)}, None, {}, [half("exp", 16)]),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_more_operators(save, op, inputs, weights, attributes, expected):
    operators = mapped(save, op, inputs, weights, **attributes)
    assert operators == expected if expected else len(operators) == 4


def test_depthwise_transposed_convolutions(save):
    weights = {"w": (8, 1, 4, 4)}
    operators = mapped(save, "ConvTranspose", {"x": (1, 8, 10, 10)}, weights, strides=[2, 2], pads=[1] * 4, group=8)
    assert operators == [DepthwiseConv2d(20, 20, 8, 2, 2, 1, 1)]


@given(
    op=st.sampled_from(sorted({*MAPPING, *COMPOUND, *FREE})),
    shapes=st.lists(st.lists(st.integers(0, 8), max_size=5).map(tuple), min_size=1, max_size=4),
    constants=st.integers(0, 3),
    axis=st.none() | st.integers(-5, 5),
    hidden=st.none() | st.integers(0, 8),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_node_is_costed_or_refused(save, op, shapes, constants, axis, hidden):
    inputs = {f"i{k}": shape for k, shape in enumerate(shapes)}
    weights = {name: inputs.pop(name) for name in list(inputs)[len(inputs) - constants :] if len(inputs) > 1}
    attributes = {"axis": axis, "hidden_size": hidden}
    try:
        operators = mapped(save, op, inputs, weights, **{k: v for k, v in attributes.items() if v is not None})
    except ConfigError:
        return
    assert all(0 < operator_us(operator, V79) < np.inf for operator in operators)


def test_integer_products_count_as_f16(save):
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("ConvInteger", ["q", "w", "z"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=F),
        helper.make_node("Add", ["f", "b"], ["y"]),
    ]
    weights = {"w": np.ones((8, 4, 1, 1), np.uint8), "b": (1, 8, 1, 1)}
    imported = import_onnx(save(nodes, {"x": (1, 4, 6, 6)}, weights=weights), Inputs())
    assert imported.graph.nodes[-1].operator == Conv2d(6, 6, 4, 8, 1, 1, 1, 1)
    assert imported.report.merged == {"Cast": 1, "Add": 1}


@pytest.mark.parametrize(
    ("op", "inputs", "weights", "attributes", "expected"),
    [
        ("FastGelu", {"x": (4, 4)}, None, {}, [half("gelu", 16)]),
        ("SkipLayerNormalization", {"x": (2, 4, 64), "s": (2, 4, 64)}, {"w": (64,)}, {}, None),
        ("FusedConv", {"x": (1, 4, 6, 6)}, {"w": (8, 4, 1, 1)}, {}, [Conv2d(6, 6, 4, 8, 1, 1, 1, 1)]),
        ("MatMulNBits", {"x": (2, 64)}, {"w": (32, 2, 16), "s": (64,)}, {"K": 64, "N": 32, "bits": 4}, None),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_operators_of_onnx_runtime(save, op, inputs, weights, attributes, expected):
    operators = mapped(save, op, inputs, weights, domain="com.microsoft", **attributes)
    others = {
        "SkipLayerNormalization": [half("add", 512), LayerNorm(8, 64)],
        "MatMulNBits": [MatMul("q4_0", 32, 2, 64)],
    }
    assert operators == (expected or others[op])


def branching(condition):
    """An If on ``sr == 16000`` whose branches work on the outer tensor ``r`` under the same inner names."""

    def branch(op, name):
        nodes = [helper.make_node("Add", ["r", "k"], ["a"]), helper.make_node(op, ["a"], ["out"])]
        weights = [numpy_helper.from_array(np.ones(4, np.float32), "k")]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info("out", F, None)], weights)

    return [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Equal", condition, ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("Exp", "t"), else_branch=branch("Neg", "e")),
    ]


@pytest.mark.parametrize(("rate", "kind"), [(16000, "exp"), (8000, "neg")])
def test_a_known_condition_takes_its_branch(save, rate, kind):
    path = save(branching(["sr", "rate"]), {"x": (2, 4), "sr": ()}, weights={"rate": np.array(16000, np.float32)})
    imported = import_onnx(path, Inputs(values=(("sr", rate),)))
    assert [node.operator.kind for node in imported.graph.nodes] == ["relu", "scale", kind]
    assert imported.graph.nodes[1].reads == imported.graph.nodes[0].writes


def test_two_branches_do_not_share_names(save):
    first, second = branching(["sr", "rate"]), branching(["sr", "rate"])[2]
    second.output[0] = "z"
    weights = {"rate": np.array(16000, np.float32)}
    path = save([*first, second], {"x": (2, 4), "sr": ()}, ("y", "z"), weights)
    imported = import_onnx(path, Inputs(values=(("sr", 16000),)))
    assert [node.operator.kind for node in imported.graph.nodes] == ["relu", "scale", "exp", "scale", "exp"]


def test_an_open_condition_is_refused(save):
    path = save(branching(["sr", "rate"]), {"x": (2, 4), "sr": ()}, weights={"rate": np.array(16000, np.float32)})
    with pytest.raises(ConfigError, match=r"If y \(which way it goes depends on the input, allowed: .* values"):
        import_onnx(path, Inputs())


AXES = {"x": ("batch", 3, "height", 8), "m": ("batch", "?", 8)}


def two_inputs(save):
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Relu", ["m"], ["z"])]
    inputs = {name: tuple(None if axis == "?" else axis for axis in axes) for name, axes in AXES.items()}
    return save(nodes, inputs, ("y", "z"))


def test_axes_and_batch_fill_free_axes(save):
    path = two_inputs(save)
    inputs = Inputs(axes=(("height", 4),), batch=2, shapes=(("m", (2, 5, 8)),))
    assert [node.operator.elements for node in import_onnx(path, inputs).graph.nodes] == [192, 80]
    by_name = Inputs(axes=(("height", 4), ("batch", 2)), shapes=(("m", (3, 5, 8)),))
    assert [node.operator.elements for node in import_onnx(path, by_name).graph.nodes] == [192, 120]


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (Inputs(batch=2), r"shapes\.x = missing, allowed: .* fits \['batch', 3, 'height', 8\], or sizes of its free"),
        (Inputs(axes=(("width", 2),)), r"axes\.width: no such free axis, allowed: batch, height"),
        (Inputs(values=(("k", 2.0),)), r"values\.k: no such input, allowed: x, m"),
        (Inputs(axes=(("height", 4),), batch=2, shapes=(("m", (2, 5, 8)),), values=(("m", 1.0),)), r"values\.m = 1, "),
    ],
)
def test_inputs_that_do_not_fit(save, inputs, words):
    with pytest.raises(ConfigError, match=rf"model\.onnx: {words}"):
        import_onnx(two_inputs(save), inputs)


def test_a_batch_needs_a_free_first_axis(save):
    path = save([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 8)})
    with pytest.raises(ConfigError, match=r"batch = 2, allowed: none, since no input's first axis is free: x \[1, 8\]"):
        import_onnx(path, Inputs(batch=2))


def test_report_shows_shares_of_the_time(save):
    nodes = [
        CONV,
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Exp", ["r"], ["e"]),
        helper.make_node("NonZero", ["e"], ["n"]),
        helper.make_node("MyOp", ["e"], ["m"], domain="custom"),
        helper.make_node("Identity", ["e"], ["y"]),
    ]
    path = save(nodes, {"x": (1, 8, 4, 4)}, ("y", "m", "n"), CONV_WEIGHTS)
    imported = import_onnx(path, Inputs(), allow_unmapped=True)
    table = outcomes(imported, V79).set_index("type")
    assert table["outcome"].to_dict() == {
        **dict.fromkeys(("Conv", "Exp"), "mapped"),
        "Relu": "merged",
        **dict.fromkeys(("NonZero", "MyOp"), "left out"),
        "Identity": "free",
    }
    assert table.loc[["Conv", "Exp"], "percent"].sum() == pytest.approx(100.0)
    assert 1e3 * table.loc["Relu", "ms"] == pytest.approx(operator_us(half("relu", 128), V79))
    assert np.isnan(table.loc["MyOp", "ms"])
    text = onnx_report(imported, V79)
    assert "2 nodes mapped to 2 operators, 1 merged, 1 free, 2 left out" in text
    assert "left out: MyOp m: unknown operator" in text


def test_command_shows_a_model(capsys):
    path = str(packaged("PP-OCRv6_rec_small.onnx"))
    assert main(["--onnx", path, "--batch", "1", "--axis", "DynamicDimension.1=160"]) == 0
    shown = capsys.readouterr().out
    assert "multiply-accumulates" in shown
    assert "57 " in next(line for line in shown.splitlines() if " Conv " in line)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--axis", "h"], "'h', allowed: NAME=VALUE"),
        (["--axis", "h=1,2"], "'h=1,2', allowed: NAME=N"),
        (["--shape", "x=1,0"], "'x=1,0', allowed: NAME=N,N"),
        (["--value", "x=y"], "'x=y', allowed: NAME=X with a number"),
    ],
)
def test_command_refuses_options_at_once(capsys, options, words):
    with pytest.raises(SystemExit) as stop:
        main(["--onnx", "none.onnx", *options])
    assert stop.value.code == EXIT_CODE
    assert words in capsys.readouterr().err


def test_command_refuses_a_batch_of_none(refusal):
    assert "--batch = 0" in refusal(main, ["--onnx", "none.onnx", "--batch", "0"])


def test_missing_file(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.onnx: cannot be read"):
        import_onnx(tmp_path / "none.onnx", Inputs())


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_files(tmp_path, part):
    whole = packaged("ch_ppocr_mobile_v2.0_cls_mobile.onnx").read_bytes()
    path = tmp_path / "cut.onnx"
    path.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(ConfigError, match=r"cut\.onnx: truncated or not an ONNX file"):
        import_onnx(path, Inputs(shapes=(("x", (1, 3, 48, 192)),)))


@pytest.mark.parametrize("content", [b"hello world, this is text", b"\x89PNG\r\n\x1a\n", b"\x00" * 64])
def test_other_files_are_not_models(tmp_path, content):
    path = tmp_path / "other.onnx"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"other\.onnx: truncated or not an ONNX file"):
        import_onnx(path, Inputs())


def test_node_that_reads_nothing_known_is_listed(save):
    nodes = [
        helper.make_node("Relu", ["nobody"], ["y"], name="lost"),
        helper.make_node("Shape", [], ["s"], name="bare"),
    ]
    with pytest.raises(ConfigError, match=r"model\.onnx: no mapping for Relu lost \(output shape is unknown\)"):
        import_onnx(save(nodes, {"x": (4,)}), Inputs())


def test_missing_package_says_what_to_install(monkeypatch, tmp_path):
    real = builtins.__import__

    def without_onnx(name, *args, **kwargs):
        if name.split(".")[0] == "onnx":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_onnx)
    with pytest.raises(ConfigError, match=r"pip install 'hexenv\[onnx\]'"):
        import_onnx(tmp_path / "any.onnx", Inputs())


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


def test_scenario_sets_axes_batch_and_values(save, write):
    save(branching(["sr", "rate"]), {"x": ("n", "w"), "sr": ()}, weights={"rate": np.array(16000, np.float32)})
    vision = 'model = "vision:preview"\nheight = 480\nwidth = 640\n'
    job = 'model = "onnx:model.onnx"\nbatch = 2\naxes = { w = 4 }\nvalues = { sr = 16000 }\n'
    assert build(write((vision, job))).op_names[:3] == ("relu 8", "scale 8", "exp 8")
    for wrong, words in (
        ("batch = 0", r"jobs\[0\]\.batch = 0, allowed: an integer at least 1"),
        ("axes = { w = 0.5 }", r"jobs\[0\]\.axes\.w = 0\.5, allowed: an integer"),
        ("values = { sr = true }", r"jobs\[0\]\.values\.sr = True, allowed: a number"),
    ):
        with pytest.raises(ConfigError, match=words):
            build(write((vision, f'model = "onnx:model.onnx"\n{wrong}\n')))


def test_real_model_as_a_stream(write):
    vision = 'model = "vision:preview"\nheight = 480\nwidth = 640\n'
    model = packaged("PP-OCRv6_det_small.onnx").as_posix()
    tables = build(write((vision, f'model = "onnx:{model}"\nshapes = {{ x = [1, 3, 320, 320] }}\n')))
    versions = (tables.ops["variant"] >= 0).any(axis=2).sum(axis=1)
    stages = tables.stages[: tables.templates["n_stages"][0]]
    assert len(stages) >= 150
    assert (versions[stages["op"]] >= 2).mean() > 0.2
