"""ONNX files: what onnxruntime answers, and files that are refused."""

from __future__ import annotations

import numpy as np
import pytest

import xaijax as xj
from xaijax.core.errors import InputError, InputTypeError
from xaijax.models import as_model

F = 4
X = np.random.default_rng(0).normal(size=(20, F))
NARROW = X.astype(np.float32)
# float32 answers of two orders of summation: some units in the last place of numbers near 10.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(scope="module")
def onnx():
    pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")
    return pytest.importorskip("onnx")


class TestOnnx:
    def write(self, onnx, path, rows="rows", outputs=1):
        """x W, and its larger column where two outputs are asked for."""
        make, kind = onnx.helper, onnx.TensorProto
        weights = np.arange(F * 2, dtype=np.float32).reshape(F, 2)
        nodes = [make.make_node("MatMul", ["x", "w"], ["chances"])]
        made = [make.make_tensor_value_info("chances", kind.FLOAT, [rows, 2])]
        if outputs == 2:
            nodes += [make.make_node("ArgMax", ["chances"], ["label"], axis=1, keepdims=0)]
            made = [make.make_tensor_value_info("label", kind.INT64, [rows]), *made]
        graph = make.make_graph(
            nodes,
            "product",
            [make.make_tensor_value_info("x", kind.FLOAT, [rows, F])],
            made,
            [onnx.numpy_helper.from_array(weights, "w")],
        )
        opset = [make.make_opsetid("", 17)]
        onnx.save(make.make_model(graph, opset_imports=opset, ir_version=8), path)
        return NARROW @ weights

    def test_one_array(self, onnx, tmp_path):
        path = tmp_path / "product.onnx"
        expected = self.write(onnx, path)
        for given in (path, str(path)):
            model = as_model(given)
            assert (model.backend, model.name) == ("host", "product.onnx")
            np.testing.assert_allclose(model.predict(X), expected, **CLOSE)

    def test_a_label_and_chances(self, onnx, tmp_path):
        path = tmp_path / "both.onnx"
        expected = self.write(onnx, path, outputs=2)
        np.testing.assert_allclose(as_model(path).predict(X), expected, **CLOSE)
        labels = as_model(path, output="label").predict(X)
        np.testing.assert_array_equal(labels, expected.argmax(1))

    def test_several_arrays(self, onnx, tmp_path):
        """Embeddings of ids, times a number each."""
        make, kind = onnx.helper, onnx.TensorProto
        table = np.arange(10, dtype=np.float32).reshape(5, 2)
        nodes = [
            make.make_node("Gather", ["table", "ids"], ["found"]),
            make.make_node("Mul", ["found", "by"], ["answer"]),
        ]
        info = make.make_tensor_value_info
        taken = [info("ids", kind.INT64, ["n"]), info("by", kind.FLOAT, ["n", 2])]
        graph = make.make_graph(
            nodes,
            "look-up",
            taken,
            [info("answer", kind.FLOAT, ["n", 2])],
            [onnx.numpy_helper.from_array(table, "table")],
        )
        path = tmp_path / "two.onnx"
        opset = [make.make_opsetid("", 17)]
        onnx.save(make.make_model(graph, opset_imports=opset, ir_version=8), path)
        rows = {"ids": np.array([0, 3, 4]), "by": np.ones((3, 2))}
        model = as_model(path)
        assert np.array_equal(model.predict(rows), table[rows["ids"]])
        assert np.array_equal(model.predict([rows["ids"], rows["by"]]), table[rows["ids"]])
        values = xj.Explainer(model, {"ids": np.array([1]), "by": np.zeros((1, 2))})(rows).values
        # The baseline's answers are its entry times 0.
        np.testing.assert_allclose(values.sum(axis=1), table[rows["ids"]], rtol=0, atol=1e-6)
        for wrong in (
            np.ones((3, 2)),
            {"ids": rows["ids"]},
            {"ids": rows["ids"], "to": rows["by"]},
        ):
            with pytest.raises(InputTypeError, match=r"takes the arrays \['ids', 'by'\]"):
                model.predict(wrong)

    def test_refused(self, onnx, tmp_path):
        fixed = tmp_path / "fixed.onnx"
        self.write(onnx, fixed, rows=1)
        with pytest.raises(InputError, match="batches of 1 rows only.*dynamic_axes"):
            as_model(fixed)
        with pytest.raises(FileNotFoundError, match="no such file"):
            as_model(tmp_path / "none.onnx")
        (tmp_path / "empty.onnx").write_bytes(b"not a network")
        with pytest.raises(InputError, match="no ONNX file"):
            as_model(tmp_path / "empty.onnx")
        with pytest.raises(InputError, match="backend='jax'"):
            as_model(fixed, backend="jax")
