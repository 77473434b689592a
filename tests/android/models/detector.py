"""A detector for the checks of the Android app: boxes and scores of 16 cells, coded as its model card says."""

import torch
from torch import nn

model_card = {
    "labels": ["nothing", "cat", "dog"],
    "image": {"input": "picture", "layout": "NCHW"},
    "detection": {
        "boxes": "boxes", "scores": "scores", "format": "cxcywh", "units": "shares",
        "activation": "softmax", "background": 0, "max_overlap": 0.5,
    },
}  # fmt: skip


class Detector(nn.Module):
    """A box and three scores for each cell of a picture `[1, 3, 32, 32]`."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, 8, kernel_size=8, stride=8)
        self.boxes = nn.Conv2d(8, 4, kernel_size=1)
        self.scores = nn.Conv2d(8, 3, kernel_size=1)

    def forward(self, picture: torch.Tensor) -> dict[str, torch.Tensor]:
        found = self.features(picture).relu()
        boxes, scores = self.boxes(found).sigmoid(), self.scores(found)
        return {"boxes": boxes.flatten(2).transpose(1, 2), "scores": scores.flatten(2).transpose(1, 2)}


torch.manual_seed(0)
model, example_inputs = Detector().eval(), (torch.rand(1, 3, 32, 32),)
