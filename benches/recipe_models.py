"""The models of `recipes.py`, with random weights, and their training step in bfloat16."""

import copy

import masked_autoencoder
import torch
from torch import nn
from torch.nn import functional
from train_sides import CLASSES, model_of

# Number of prototypes of the head of DINO, as in its recipe for ViT-S/16.
PROTOTYPES = 65536


class Step:
    """A training step of a recipe in bfloat16, in the order of memory in which its model runs fastest."""

    def __init__(self, recipe, device, compiled):
        self.recipe, self.device = recipe, torch.device(device)
        self.network = recipe.network().to(self.device)
        if recipe.memory_format:
            self.network = self.network.to(memory_format=recipe.memory_format)
        self.called = torch.compile(self.network) if compiled else self.network
        trained = [values for values in self.network.parameters() if values.requires_grad]
        self.optimizer = torch.optim.SGD(trained, lr=1e-3, momentum=0.9, fused=self.device.type == "cuda")

    def __call__(self, *parts):
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            loss = self.recipe.loss(self.called, *parts)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if isinstance(self.network, Dino):
            self.network.follow()
        return loss.detach()


class Backbone(nn.Module):
    """ViT-S/16 for pictures of any size. Its places are interpolated, as in DINO."""

    def __init__(self):
        super().__init__()
        self.vit, _ = model_of("vit_s_16")
        self.vit.heads = nn.Identity()

    def forward(self, pictures):
        encoder, tiles = self.vit.encoder, self.vit.conv_proj(pictures)
        of_class, places = encoder.pos_embedding.split([1, encoder.pos_embedding.shape[1] - 1], 1)
        side = round(places.shape[1] ** 0.5)
        places = places.reshape(1, side, side, -1).permute(0, 3, 1, 2)
        if tiles.shape[2:] != places.shape[2:]:
            places = functional.interpolate(places, tiles.shape[2:], mode="bicubic")
        first = (self.vit.class_token + of_class).expand(len(pictures), -1, -1)
        tokens = torch.cat([first, (tiles + places).flatten(2).transpose(1, 2)], 1)
        return encoder.ln(encoder.layers(tokens))[:, 0]


class Head(nn.Module):
    """The head of DINO: three layers, and the similarity with each prototype."""

    def __init__(self, prototypes, width=384):
        super().__init__()
        wide = 2048
        self.layers = nn.Sequential(
            nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, wide), nn.GELU(), nn.Linear(wide, 256)
        )
        self.prototypes = nn.Linear(256, prototypes, bias=False)

    def forward(self, features):
        return self.prototypes(functional.normalize(self.layers(features), dim=1))


class Dino(nn.Module):
    """DINO: a student sees all crops, and a teacher, its moving average, sees the two large ones."""

    def __init__(self, prototypes=PROTOTYPES):
        super().__init__()
        self.student = nn.Sequential(Backbone(), Head(prototypes))
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.register_buffer("centre", torch.zeros(prototypes))

    def forward(self, first, second, *small):
        """Return the mean cross-entropy of all pairs of a large crop of the teacher and another crop of the student."""
        rows, large = len(first), torch.cat([first, second])
        seen = torch.cat([self.student(large), self.student(torch.cat(small))]).float()
        seen = functional.log_softmax(seen / 0.1, 1).unflatten(0, (-1, rows))
        with torch.no_grad():
            goal = self.teacher(large).float()
            mean = goal.mean(0)
            goal = functional.softmax((goal - self.centre) / 0.04, 1).unflatten(0, (2, rows))
            self.centre.lerp_(mean, 0.1)
        same = (goal * seen[:2]).sum()
        return (same - (goal.sum(0) * seen.sum(0)).sum()) / (rows * 2 * (len(seen) - 1))

    @torch.no_grad()
    def follow(self):
        """Move the teacher towards the student."""
        torch._foreach_lerp_(list(self.teacher.parameters()), list(self.student.parameters()), 1 - 0.996)


class Masked(masked_autoencoder.Autoencoder):
    """The autoencoder of the example in the size of ViT-S/16: its encoder sees a quarter of the tiles."""

    def __init__(self, size):
        # The example reads the sides of its tiles and the width of its layers from these names.
        masked_autoencoder.TILE, masked_autoencoder.WIDTH = 16, 384
        super().__init__(size)
        self.encoder, self.decoder = layers(12), layers(4)


def layers(count):
    """Return layers of a transformer as in ViT-S."""
    layer = nn.TransformerEncoderLayer(384, 6, 1536, 0.0, "gelu", batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, count, enable_nested_tensor=False)


def fcn():
    from torchvision.models.segmentation import fcn_resnet50

    return fcn_resnet50(weights=None, weights_backbone=None, num_classes=21)


def fcos(size):
    """Return FCOS for pictures of one size. Its own transform then only normalises them."""
    from torchvision.models.detection import fcos_resnet50_fpn

    return fcos_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=21, min_size=size, max_size=size
    )


def r3d():
    from torchvision.models.video import r3d_18

    return r3d_18(weights=None, num_classes=CLASSES)


def targets(device, boxes, classes):
    """Return the boxes and classes of the rows in the form of torchvision's detectors. Sides of boxes are at least a
    pixel long, because the detectors refuse boxes without an area.
    """
    counts = [len(row) for row in boxes]
    boxes, classes = (torch.cat([torch.as_tensor(row) for row in rows]).to(device) for rows in (boxes, classes))
    boxes = torch.cat([boxes[:, :2], torch.maximum(boxes[:, 2:], boxes[:, :2] + 1)], 1)
    rows = zip(boxes.split(counts), classes.long().split(counts), strict=True)
    return [{"boxes": box, "labels": kind} for box, kind in rows]
