"""captum's and shap's side: gradients along lines, of a network in PyTorch on this machine's cores.

Peaks are of the process, above what it held before the call.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
from serve import serve

torch = importlib.import_module("torch")
kept = {}


def prepare(options, X, background, **layers):
    """layers: weight0, bias0, weight1, ... of dense layers, or kernel0, kernel1 and dense."""
    rows = {name: torch.as_tensor(np.asarray(a, np.float32)) for name, a in layers.items()}
    network = _Dense(rows) if "weight0" in rows else _Convolutional(rows)
    network.eval()
    kept.update(network=network, X=torch.as_tensor(X), background=torch.as_tensor(background))
    captum, shap = importlib.import_module("captum"), importlib.import_module("shap")
    told = (
        f"captum {captum.__version__}, shap {shap.__version__}, PyTorch {torch.__version__}, "
        f"{torch.get_num_threads()} threads"
    )
    return {"told": np.array(told)}


class _Dense(torch.nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.shift, self.scale = rows["shift"], rows["scale"]
        count = sum(name.startswith("weight") for name in rows)
        self.pairs = [(rows[f"weight{i}"], rows[f"bias{i}"]) for i in range(count)]

    def forward(self, rows):
        hidden = (rows - self.shift) / self.scale
        for weight, bias in self.pairs[:-1]:
            hidden = torch.relu(torch.addmm(bias, hidden, weight))
        weight, bias = self.pairs[-1]
        return torch.addmm(bias, hidden, weight)


class _Convolutional(torch.nn.Module):
    """Images [R, 28, 28, 1]; kernels as JAX has them, [height, width, in, out], two steps apart."""

    def __init__(self, rows):
        super().__init__()
        self.kernels = [rows[f"kernel{i}"].permute(3, 2, 0, 1).contiguous() for i in range(2)]
        self.dense = rows["dense"]

    def forward(self, rows):
        hidden = rows.permute(0, 3, 1, 2)
        for kernel in self.kernels:
            padded = torch.nn.functional.pad(hidden, (0, 1, 0, 1))
            hidden = torch.relu(torch.nn.functional.conv2d(padded, kernel, stride=2))
        return hidden.permute(0, 2, 3, 1).flatten(1) @ self.dense


def captum(options):
    """Integrated gradients from the first background row, by Gauss-Legendre as ours."""
    found = importlib.import_module("captum.attr").IntegratedGradients(kept["network"])
    X = kept["X"][: options["count"]]

    def run():
        return found.attribute(
            X,
            baselines=kept["background"][:1],
            target=0,
            n_steps=options["steps"],
            internal_batch_size=options["together"],
        )

    return _measured(run)


def shap(options):
    """Expected gradients by draws of a background row and a place."""
    module = importlib.import_module("shap")
    explainer = module.GradientExplainer(
        kept["network"], kept["background"], batch_size=options["together"] or 50
    )
    X = kept["X"][: options["count"]]

    def run():
        return explainer.shap_values(X, nsamples=options["steps"], rseed=0)

    return _measured(run)


def _measured(run):
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    values = run()
    values = values.detach().numpy() if hasattr(values, "detach") else np.asarray(values)
    return {"values": values, "peak": np.array(_status("VmHWM") - before)}


def _status(name):
    return float(re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024


if __name__ == "__main__":
    serve({"prepare": prepare, "captum": captum, "shap": shap})
