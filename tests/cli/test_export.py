"""`sonline export`: the ONNX model predicts as the model file does."""

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX is an extra")


@pytest.mark.parametrize("suffix", [".csv", ".svm"])
def test_export(sonline, tmp_path, suffix):
    X = np.random.default_rng(0).integers(1, 9, size=(60, 3)) / 4
    y = (X[:, 0] > X[:, 1]).astype(int)
    if suffix == ".csv":
        head = "b,a,c,label"
        rows = [f"{','.join(map(str, x))},{label}" for x, label in zip(X, y, strict=True)]
    else:
        head = "# rows"
        rows = [f"{label} 0:{x[0]} 1:{x[1]} 2:{x[2]}" for x, label in zip(X, y, strict=True)]
    data = tmp_path / f"data{suffix}"
    data.write_text("\n".join([head, *rows, ""]))
    sonline("train", data, "-o", "m.son", "-q")
    said = sonline("export", "m.son", "-o", "m.onnx").stdout
    assert said == f"m.onnx: X has {'the columns a, b, c' if suffix == '.csv' else '3 columns'}\n"
    wanted = sonline("predict", data, "-m", "m.son", "--as", "raw", "-q").stdout.split()
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    X = X[:, [1, 0, 2]] if suffix == ".csv" else X
    (scores,) = session.run(["scores"], {"X": X.astype(np.float32)})
    np.testing.assert_allclose(scores[:, 1], [float(word) for word in wanted], atol=1e-4)


def test_what_cannot_be_exported(sonline, tmp_path):
    (tmp_path / "a.csv").write_text("plan,label\n" + "free,1\npaid,0\n" * 20)
    sonline("train", "a.csv", "-o", "m.son", "-q")
    assert "is not a column of X" in sonline("export", "m.son", "-o", "m.onnx", code=3).stderr
    assert "must end in .onnx" in sonline("export", "m.son", "-o", "m.son", code=2).stderr
    assert not (tmp_path / "m.onnx").exists()
