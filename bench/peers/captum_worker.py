"""captum's side: ShapleyValueSampling of a network in PyTorch, on the GPU where ours has one.

The network and the rows stay on the device between calls, so that only the work is timed.
"""

from __future__ import annotations

import importlib

import numpy as np
from serve import serve

captum, torch = importlib.import_module("captum"), importlib.import_module("torch")
kept = {}


def prepare(options, X, background, shift, scale, **layers):
    """layers: weight0, bias0, weight1, ... of a network with ReLU between its layers."""
    # "highest": full float32 products; "high": TF32, where the device has it.
    torch.set_float32_matmul_precision("high" if options["precision"] == "tf32" else "highest")
    device = options["device"]  # one that PyTorch does not see is an error here

    def there(array):
        return torch.as_tensor(np.asarray(array, np.float32), device=device)

    shift, scale = there(shift), there(scale)
    pairs = [
        (there(layers[f"weight{i}"]), there(layers[f"bias{i}"])) for i in range(len(layers) // 2)
    ]

    def forward(rows):
        hidden = (rows - shift) / scale
        for weight, bias in pairs[:-1]:
            hidden = torch.relu(torch.addmm(bias, hidden, weight))
        weight, bias = pairs[-1]
        return torch.addmm(bias, hidden, weight)[:, 0]

    sampling = importlib.import_module("captum.attr").ShapleyValueSampling(forward)
    kept.update(X=there(X), background=there(background), sampling=sampling)
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    told = f"captum {captum.__version__}, PyTorch {torch.__version__} on {name}"
    return {"told": np.array(told)}


def explain(options):
    torch.manual_seed(options["seed"])
    values = kept["sampling"].attribute(
        kept["X"][: options["count"]],
        baselines=kept["background"],
        n_samples=options["orders"],
        perturbations_per_eval=options["at_once"],
    )
    return {"values": values.cpu().numpy()}  # waits for the device


if __name__ == "__main__":
    serve({"prepare": prepare, "explain": explain})
